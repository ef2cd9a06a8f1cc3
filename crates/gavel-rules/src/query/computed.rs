//! Computes the three components that need no judge, against each right answer, and picks the answer with the best score.

use std::borrow::Cow;
use std::num::NonZeroUsize;
use std::sync::Arc;

use serde::Serialize;

use super::{Grammar, Ordered, QueryAnswer, QueryCase, ResultSet};
use crate::similarity::{Similarity, similarity};
use query_shape::sql::SqlError;
use query_shape::{QueryShape, SortKey, kql, sql};
use row_match::{Case, Comparison, SchemaMatch, Table, schema_match};

/// Number of expected rows that count for the component's score. Precision and F1 cover all rows.
const COMPARED_ROWS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(99);

/// Score of a column that has the expected values under another name, because the match may be a coincidence.
const OTHER_NAME: f64 = 0.9;

#[derive(Debug, Clone)]
pub(super) struct Computed {
    /// Index of the right answer in `accepted`; `None`: the expected query.
    pub(super) accepted: Option<usize>,
    /// Result of queries that need no judge.
    pub(super) settled: Option<Settled>,
    pub(super) schema: SchemaMatch,
    pub(super) semantic: Result<Similarity, Unread>,
    /// Score of the texts; `None` if one doesn't parse. 0.0 if, in addition, the query failed to execute.
    pub(super) semantic_score: Option<f64>,
    pub(super) results: Comparison,
    pub(super) ordered: bool,
    pub(super) by_values: Vec<ByValues>,
    /// Score of the rows; 0.0 if the query failed to execute.
    pub(super) results_score: f64,
}

/// Normalized names of a generated column that matched an expected one by values, under another name. `None`: unnamed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct ByValues {
    pub(super) expected: Option<String>,
    pub(super) generated: Option<String>,
}

impl ByValues {
    fn compare(expected: &Table, generated: &Table, columns: &[Option<usize>]) -> Vec<Self> {
        let called: Vec<Option<&str>> = generated.names().collect();
        let pairs = expected.names().zip(columns);
        pairs
            .filter_map(|(name, column)| Some((name, *called.get((*column)?)?)))
            .filter(|(expected, generated)| expected != generated)
            .map(|(expected, generated)| Self {
                expected: expected.map(str::to_owned),
                generated: generated.map(str::to_owned),
            })
            .collect()
    }

    fn is_named_otherwise(&self) -> bool {
        self.expected.is_some() && self.generated.is_some()
    }
}

/// Result of queries that need no judge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Settled {
    /// They differ only in white space and comments.
    Identical,
    /// The generated one is empty, or only comments.
    Nothing,
}

impl Settled {
    pub(super) fn score(self) -> f64 {
        match self {
            Self::Identical => 1.0,
            Self::Nothing => 0.0,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unread {
    pub(super) which: &'static str,
    pub(super) error: SqlError,
}

impl Computed {
    /// Compares with every right answer and returns the best result, the first among equals. Includes the judge's full mark for an
    /// identical query, because it is certain.
    pub(super) fn compare(case: &QueryCase, letters: Case) -> Self {
        let generated = shape(&case.generated.query, case.grammar);
        let mut compared = Compared {
            letters,
            known: Vec::new(),
        };
        let mut best = Self::against(case, &generated, None, &mut compared);
        for at in 0..case.accepted.len() {
            let other = Self::against(case, &generated, Some(at), &mut compared);
            // Prefer parsable answers, because the total of others is unknown.
            let rank = |one: &Self| (one.semantic_score.is_some(), one.certain());
            if rank(&other) > rank(&best) {
                best = other;
            }
        }
        best
    }

    fn against(
        case: &QueryCase,
        generated: &Result<QueryShape, SqlError>,
        accepted: Option<usize>,
        compared: &mut Compared,
    ) -> Self {
        let right = case.right(accepted);
        let expected = shape(&right.query, case.grammar);
        let is_sorted = expected.as_ref().is_ok_and(|shape| shape.sorted_at_top);
        let ordered = match case.ordered {
            Ordered::No => false,
            Ordered::Yes => true,
            Ordered::Auto => is_sorted,
        };
        let keys = expected.as_ref().ok().filter(|_| ordered);
        let keys = keys.map_or(&[][..], |shape| &shape.sort_keys);
        let options = row_match::Options {
            ordered,
            sorted_by: sort_columns(keys, &right.result.table).unwrap_or_default(),
            decimals: case.decimals,
            cap_expected: Some(COMPARED_ROWS),
        };
        let (expected_rows, generated_rows) = (&right.result, &case.generated.result);
        let results = compared.with(expected_rows, generated_rows, options);
        let columns = &results.columns;
        let by_values = ByValues::compare(&expected_rows.table, &generated_rows.table, columns);
        let others = by_values.iter().filter(|pair| pair.is_named_otherwise());
        let lost = others.count() as f64 * (1.0 - OTHER_NAME) / columns.len().max(1) as f64;
        let settled = case.settled(right);
        let semantic = semantic(&expected, generated, settled == Some(Settled::Identical));
        Self {
            accepted,
            settled,
            schema: schema_match(&expected_rows.columns, &generated_rows.columns),
            semantic_score: match &semantic {
                Ok(similarity) => Some(similarity.score),
                Err(_) if settled == Some(Settled::Nothing) => Some(0.0),
                Err(_) => case.generated_error.as_ref().map(|_| 0.0),
            },
            semantic,
            results_score: match case.generated_error {
                Some(_) => 0.0,
                None => results.score * (1.0 - lost),
            },
            results,
            ordered,
            by_values,
        }
    }

    fn certain(&self) -> f64 {
        let judged = self.settled.map_or(0.0, Settled::score);
        self.schema.score + self.semantic_score.unwrap_or(0.0) + self.results_score + judged
    }
}

/// Cache of comparisons, because comparing large results can last seconds. Right answers without a result share the result of the expected
/// query.
struct Compared {
    letters: Case,
    known: Vec<(Arc<ResultSet>, row_match::Options, Comparison)>,
}

impl Compared {
    fn with(
        &mut self,
        expected: &Arc<ResultSet>,
        generated: &ResultSet,
        options: row_match::Options,
    ) -> Comparison {
        let known = self
            .known
            .iter()
            .find(|(result, by, _)| Arc::ptr_eq(result, expected) && *by == options);
        if let Some((_, _, comparison)) = known {
            return comparison.clone();
        }
        let (right, given) = (expected.table(self.letters), generated.table(self.letters));
        let comparison = row_match::compare(&right, &given, &options);
        self.known
            .push((Arc::clone(expected), options, comparison.clone()));
        comparison
    }
}

/// Returns the columns that rows are sorted by; `None` if one is missing or its name is ambiguous.
fn sort_columns(keys: &[SortKey], table: &Table) -> Option<Vec<usize>> {
    let place = |key: &SortKey| match key {
        SortKey::Place(place) => (*place < table.names().len()).then_some(*place),
        SortKey::Name(name) => {
            let name = name.to_lowercase();
            let mut columns = table
                .names()
                .enumerate()
                .filter(|(_, of)| *of == Some(&name));
            columns
                .next()
                .filter(|_| columns.next().is_none())
                .map(|(place, _)| place)
        }
    };
    keys.iter().map(place).collect()
}

impl ResultSet {
    /// Returns the table to compare. Built again only for case-sensitive criteria, which are rare.
    fn table(&self, letters: Case) -> Cow<'_, Table> {
        let read = match letters {
            Case::Ignored => None,
            Case::Heeded => Table::in_case(&self.rows, Some(&self.columns), letters).ok(),
        };
        read.map_or(Cow::Borrowed(&self.table), Cow::Owned)
    }
}

impl QueryCase {
    pub(super) fn right(&self, accepted: Option<usize>) -> &QueryAnswer {
        accepted
            .and_then(|at| self.accepted.get(at))
            .unwrap_or(&self.expected)
    }

    /// Returns the result if no judge is needed.
    pub(super) fn settled(&self, right: &QueryAnswer) -> Option<Settled> {
        let (generated, right) = (&self.generated.query, &right.query);
        let is_identical = match self.grammar {
            Grammar::Kql => kql::are_identical(generated, right),
            Grammar::Sql(dialect) => sql::are_identical(generated, right, dialect),
        };
        let is_nothing = self.grammar.is_nothing(generated);
        (is_identical.then_some(Settled::Identical)).or(is_nothing.then_some(Settled::Nothing))
    }
}

impl Grammar {
    pub(super) fn is_nothing(self, query: &str) -> bool {
        match self {
            Self::Kql => kql::is_nothing(query),
            Self::Sql(dialect) => sql::is_nothing(query, dialect),
        }
    }
}

/// Compares two texts. Identical texts are equal even if they don't parse.
fn semantic(
    expected: &Result<QueryShape, SqlError>,
    generated: &Result<QueryShape, SqlError>,
    identical: bool,
) -> Result<Similarity, Unread> {
    let unread = |which, error: &SqlError| Unread {
        which,
        error: error.clone(),
    };
    match (expected, generated) {
        (Ok(expected), Ok(generated)) => Ok(similarity(expected, generated)),
        (Err(_), _) if identical => {
            let unknown = QueryShape::default();
            Ok(similarity(&unknown, &unknown))
        }
        (Err(error), _) => Err(unread("expected", error)),
        (Ok(_), Err(error)) => Err(unread("generated", error)),
    }
}

fn shape(query: &str, grammar: Grammar) -> Result<QueryShape, SqlError> {
    match grammar {
        _ if grammar.is_nothing(query) => Err(SqlError::Empty),
        Grammar::Kql => Ok(kql::shape(query)),
        Grammar::Sql(dialect) => {
            let shape = sql::parse(query, dialect)?;
            sql::known_tables(&shape)?;
            Ok(shape)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn shared_results_are_compared_once_per_order() {
        let payload = json!({
            "generated_kql": "T", "generated_results": [[2], [1]],
            "expected_kql": "U", "expected_results": [[1], [2]],
            "accepted": [{"kql": "V"}, {"kql": "W"}, {"kql": "V | sort by a"}, {"kql": "X", "results": [[1], [2]]}],
            "ordered": "auto",
        });
        let case = QueryCase::read(&payload).unwrap();
        let generated = shape(&case.generated.query, case.grammar);
        let mut compared = Compared {
            letters: Case::Ignored,
            known: Vec::new(),
        };
        let scores = [None, Some(0), Some(1), Some(2), Some(3)].map(|accepted| {
            Computed::against(&case, &generated, accepted, &mut compared).results_score
        });
        assert_eq!(scores, [1.0, 1.0, 1.0, 0.5, 1.0]);
        assert_eq!(
            compared.known.len(),
            3,
            "shared, shared and sorted, its own"
        );
    }
}
