//! The three computed components, against every right answer: which of them counts, and how far the generated one is from it.

use std::num::NonZeroUsize;

use super::{Answer, Grammar, Ordered, QueryCase};
use crate::score::rows::{self, Comparison, SchemaMatch, schema_match};
use crate::score::similarity::{Similarity, similarity};
use crate::score::tables::{QueryShape, kql, sql};

/// How many expected rows count for the component's score; precision and F1 are of all rows.
const COMPARED_ROWS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(99);

/// What can be said without a judge.
#[derive(Debug, Clone)]
pub(super) struct Computed {
    /// Which further right answer counts, from 0; `None`: the expected one.
    pub(super) accepted: Option<usize>,
    /// Whether the two queries are one but for white space and comments, so that no judge is needed.
    pub(super) identical: bool,
    /// The columns.
    pub(super) schema: SchemaMatch,
    /// The texts.
    pub(super) semantic: Similarity,
    /// The rows.
    pub(super) results: Comparison,
    /// Whether rows had to come in order.
    pub(super) ordered: bool,
    /// Of the rows, what counts: 0.0 where the query didn't execute.
    pub(super) results_score: f64,
}

impl Computed {
    /// Compares with every right answer and keeps the one that gives most, the first of equals. An identical query's full
    /// mark from the judge is certain, and counts here.
    pub(super) fn of(case: &QueryCase) -> Self {
        let generated = shape(&case.generated.query, case.grammar);
        let mut best = Self::against(case, &generated, None);
        for at in 0..case.accepted.len() {
            let other = Self::against(case, &generated, Some(at));
            if other.certain() > best.certain() {
                best = other;
            }
        }
        best
    }

    fn against(case: &QueryCase, generated: &QueryShape, accepted: Option<usize>) -> Self {
        let right = case.right(accepted);
        let expected = shape(&right.query, case.grammar);
        let ordered = match case.ordered {
            Ordered::No => false,
            Ordered::Yes => true,
            Ordered::Auto => expected.sorted_at_top,
        };
        let options = rows::Options {
            ordered,
            decimals: case.decimals,
            cap_expected: Some(COMPARED_ROWS),
        };
        let (expected_rows, generated_rows) = (&right.result, &case.generated.result);
        let results = rows::compare(&expected_rows.table, &generated_rows.table, &options);
        Self {
            accepted,
            identical: case.is_identical_to(right),
            schema: schema_match(&expected_rows.columns, &generated_rows.columns),
            semantic: similarity(&expected, generated),
            results_score: match case.generated_error {
                Some(_) => 0.0,
                None => results.score,
            },
            results,
            ordered,
        }
    }

    /// The sum of the components that need no judge.
    fn certain(&self) -> f64 {
        let judged = if self.identical { 1.0 } else { 0.0 };
        self.schema.score + self.semantic.score + self.results_score + judged
    }
}

impl QueryCase {
    /// The right answer of that place among those accepted; `None`: the expected one.
    pub(super) fn right(&self, accepted: Option<usize>) -> &Answer {
        accepted
            .and_then(|at| self.accepted.get(at))
            .unwrap_or(&self.expected)
    }

    /// Whether the generated query is this one but for white space and comments.
    pub(super) fn is_identical_to(&self, right: &Answer) -> bool {
        let (generated, right) = (&self.generated.query, &right.query);
        match self.grammar {
            Grammar::Kql => kql::are_identical(generated, right),
            Grammar::Sql(dialect) => sql::are_identical(generated, right, dialect),
        }
    }
}

fn shape(query: &str, grammar: Grammar) -> QueryShape {
    match grammar {
        Grammar::Kql => kql::shape(query),
        Grammar::Sql(dialect) => sql::shape(query, dialect),
    }
}
