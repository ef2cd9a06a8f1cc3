//! Kind `query`: a generated KQL or SQL query against an expected one, by four components of a quarter each.
//!
//! `payload` reads a case, `computed` compares columns, texts and rows without a judge, `grading` is the judge's part, and
//! `result` is what clients see of it all. A query is never run here: its columns and rows come with the payload. Where the
//! judge's part is missing, or a text can't be read, there is no total: never a neutral number in its place.

mod about;
mod computed;
mod grading;
mod payload;
mod result;

use std::sync::{Arc, OnceLock};

use serde_json::Value;

use super::criteria::{EXPECTED_QUERY, GENERATED_QUERY, QUESTION};
use super::opinion::JudgeOpinion;
use super::prompt::{Evidence, question};
use super::{Criteria, Evaluation, Scorable, Scorecard, Unscorable};
use crate::{Fault, JudgeAnswer, Limits, Nonce, Question};
use computed::Computed;
use grading::{FORM, Grading};
use query_shape::sql::Dialect;
use row_match::Table;

pub use about::ABOUT;
pub use payload::FIELDS;
pub use result::{ComponentError, QueryComponent, QueryComponents, QueryScore, QueryStatus};

const COMPONENT_WEIGHT: f64 = 0.25;
/// How far below the threshold a total may lie: sums of fractions are not exact.
const SLACK: f64 = 1e-9;
/// What the judge reads in place of a question that the case doesn't hold.
const NO_PROMPT: &str = "(not recorded: judge by what the expected query asks for)";

/// One case: a generated query, the one that is right, and what both gave.
#[derive(Debug, Clone, PartialEq)]
pub struct QueryCase {
    /// The case's own name, at most 255 characters.
    pub id: Option<String>,
    pub model: Option<String>,
    prompt: Option<String>,
    generated: QueryAnswer,
    generated_error: Option<String>,
    expected: QueryAnswer,
    accepted: Vec<QueryAnswer>,
    ordered: Ordered,
    decimals: Option<u8>,
    grammar: Grammar,
    threshold: f64,
    computed: Once,
}

#[derive(Debug, Clone, PartialEq)]
struct QueryAnswer {
    query: String,
    result: Arc<ResultSet>,
}

/// Columns and rows as they came, and as they are compared.
#[derive(Debug, Clone)]
struct ResultSet {
    columns: Vec<String>,
    rows: Vec<Value>,
    table: Table,
}

/// The table follows from the rest.
impl PartialEq for ResultSet {
    fn eq(&self, other: &Self) -> bool {
        self.columns == other.columns && self.rows == other.rows
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ordered {
    No,
    Yes,
    Auto,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Grammar {
    Kql,
    Sql(Dialect),
}

/// What was computed, once for each case: large results take seconds, and both the question and the score need it.
///
/// It follows from the other fields and says nothing of its own: it equals any other.
#[derive(Debug, Clone, Default)]
struct Once(OnceLock<Computed>);

impl PartialEq for Once {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl QueryCase {
    /// Reads a payload.
    ///
    /// `generated_kql` and `expected_kql` are required, texts of at most 64 KiB. Rows are objects or lists, at most 10,000 of 500
    /// columns a side.
    pub fn read(payload: &Value) -> Result<Self, Vec<Fault>> {
        payload::read(payload)
    }

    /// A case is scored by one criteria: what they say of letters holds for all that is computed of it.
    fn computed(&self, criteria: &Criteria) -> &Computed {
        let compare = || Computed::compare(self, criteria.case);
        self.computed.0.get_or_init(compare)
    }

    /// The total with that grade; `None`: the texts can't be compared.
    fn total(computed: &Computed, graded: f64) -> Option<f64> {
        let semantic = computed.semantic_score?;
        let sum = computed.schema.score + semantic + computed.results_score + graded;
        Some(sum * COMPONENT_WEIGHT)
    }

    /// Whether a total passes: the query executed, and the total reaches the threshold but for what sums of fractions lose.
    fn passes(&self, total: f64) -> bool {
        self.generated_error.is_none() && total >= self.threshold - SLACK
    }
}

impl Scorable for QueryCase {
    fn questions(
        &self,
        criteria: &Criteria,
        limits: &Limits,
        nonce: &Nonce,
    ) -> Result<Vec<Question>, Unscorable> {
        if !self.needs_judge() {
            return Ok(Vec::new());
        }
        // Only a choice among right answers takes comparing before asking.
        let right = if self.accepted.is_empty() {
            &self.expected
        } else {
            let computed = self.computed(criteria);
            if computed.identical {
                return Ok(Vec::new());
            }
            self.right(computed.accepted)
        };
        let (expected_name, generated_name) = match self.grammar {
            Grammar::Kql => ("expected_kql", "generated_kql"),
            Grammar::Sql(_) => ("expected_sql", "generated_sql"),
        };
        let prompt = self.prompt.as_deref().unwrap_or(NO_PROMPT);
        let evidence = [
            Evidence::new(QUESTION, "question", prompt),
            Evidence::new(EXPECTED_QUERY, expected_name, &right.query),
            Evidence::new(GENERATED_QUERY, generated_name, &self.generated.query),
        ];
        let asked = (limits, nonce);
        question(&FORM, criteria, &criteria.prompt, &evidence, asked).map(|one| vec![one])
    }

    fn score(&self, criteria: &Criteria, answers: &[JudgeAnswer]) -> Scorecard {
        let computed = self.computed(criteria);
        let grading = if computed.identical {
            Grading::Identical
        } else {
            Grading::from_answer(answers.first())
        };
        let graded = grading.score();
        let total = graded.and_then(|graded| Self::total(computed, graded));
        let passed = total.map(|total| self.passes(total));
        let (judged_by, error) = match &grading {
            Grading::Asked(JudgeOpinion::Replied { by, .. }) => (Some(by.clone()), None),
            Grading::Asked(JudgeOpinion::Failed(error)) => (None, Some(error.clone())),
            Grading::Identical | Grading::Asked(JudgeOpinion::NotRun) => (None, None),
        };
        let score = QueryScore {
            total_score: total,
            is_successful: passed.unwrap_or(false),
            threshold: self.threshold,
            status: match total {
                Some(_) => QueryStatus::Complete,
                None => QueryStatus::Incomplete,
            },
            missing: [
                ("semantic_similarity", computed.semantic_score),
                ("llm_grading", graded),
            ]
            .into_iter()
            .filter_map(|(name, score)| score.is_none().then_some(name))
            .collect(),
            accepted: computed.accepted,
            components: result::components(self, computed, &grading),
            judge: judged_by.clone(),
        };
        Scorecard::Evaluated(Box::new(Evaluation {
            total,
            passed,
            threshold: Some(self.threshold),
            components: vec![
                ("schema_match", Some(computed.schema.score)),
                ("semantic_similarity", computed.semantic_score),
                ("results_match", Some(computed.results_score)),
                ("llm_grading", graded),
            ],
            result: serde_json::to_value(&score).unwrap_or_default(),
            error,
            judged_by,
            alerts: Vec::new(),
        }))
    }

    /// Whether a judge may have a part in it: the generated query isn't the expected one, or there are other right answers to
    /// choose from, which takes comparing the results. Then [`Scorable::questions`] says whether one is asked.
    fn needs_judge(&self) -> bool {
        !self.accepted.is_empty() || !self.is_identical_to(&self.expected)
    }

    fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }
}

#[cfg(test)]
mod tests;
