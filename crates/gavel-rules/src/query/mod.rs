//! Kind `query`: compares a generated KQL or SQL query with an expected one, by four components of a quarter each.
//!
//! `payload` parses a case, `computed` compares columns, texts and rows without a judge, `grading` is the judge's component, and `result`
//! is the output for clients. Queries aren't executed: their columns and rows are in the payload. If the judge's component is missing or
//! a text can't be parsed, the total is null instead of a default.

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
/// Tolerance of the threshold, because sums of fractions are inexact.
const SLACK: f64 = 1e-9;
/// Sent to the judge if the case has no question.
const NO_PROMPT: &str = "(not recorded: judge by what the expected query asks for)";

#[derive(Debug, Clone)]
pub struct QueryCase {
    /// Name of the case, at most 255 characters.
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
    /// Computed once per case: large results take seconds, and both the question and the score need them.
    computed: OnceLock<Computed>,
}

#[derive(Debug, Clone)]
struct QueryAnswer {
    query: String,
    result: Arc<ResultSet>,
}

/// Columns and rows as received, and as a table for comparison.
#[derive(Debug, Clone)]
struct ResultSet {
    columns: Vec<String>,
    rows: Vec<Value>,
    table: Table,
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

impl QueryCase {
    /// Parses a payload.
    ///
    /// `generated_kql` and `expected_kql` are required, up to 64 KiB each. Rows are objects or lists, at most 10,000 of 500 columns per
    /// side.
    pub fn read(payload: &Value) -> Result<Self, Vec<Fault>> {
        payload::read(payload)
    }

    /// Computed with the case sensitivity of the first criteria, because a case is only scored under one.
    fn computed(&self, criteria: &Criteria) -> &Computed {
        let compare = || Computed::compare(self, criteria.case);
        self.computed.get_or_init(compare)
    }

    /// Returns the total; `None` if the texts can't be compared.
    fn total(computed: &Computed, graded: f64) -> Option<f64> {
        let semantic = computed.semantic_score?;
        let sum = computed.schema.score + semantic + computed.results_score + graded;
        Some(sum * COMPONENT_WEIGHT)
    }

    /// Whether the query executed and the total reaches the threshold, within [`SLACK`].
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
        // With several right answers, results are compared first to choose one.
        let right = if self.accepted.is_empty() {
            &self.expected
        } else {
            let computed = self.computed(criteria);
            if computed.settled.is_some() {
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
        let asked = || Grading::from_answer(answers.first());
        let grading = computed.settled.map_or_else(asked, Grading::Settled);
        let graded = grading.score();
        let total = graded.and_then(|graded| Self::total(computed, graded));
        let passed = total.map(|total| self.passes(total));
        let (judged_by, error) = match &grading {
            Grading::Asked(JudgeOpinion::Replied { by, .. }) => (Some(by.clone()), None),
            Grading::Asked(JudgeOpinion::Failed(error)) => (None, Some(error.clone())),
            Grading::Settled(_) | Grading::Asked(JudgeOpinion::NotRun) => (None, None),
        };
        let components = vec![
            ("schema_match", Some(computed.schema.score)),
            ("semantic_similarity", computed.semantic_score),
            ("results_match", Some(computed.results_score)),
            ("llm_grading", graded),
        ];
        let missing = components.iter().filter(|(_, score)| score.is_none());
        let score = QueryScore {
            total_score: total,
            is_successful: passed.unwrap_or(false),
            threshold: self.threshold,
            status: match total {
                Some(_) => QueryStatus::Complete,
                None => QueryStatus::Incomplete,
            },
            missing: missing.map(|(name, _)| *name).collect(),
            accepted: computed.accepted,
            components: result::components(self, computed, &grading),
            judge: judged_by.clone(),
        };
        Scorecard::Evaluated(Box::new(Evaluation {
            total,
            passed,
            threshold: Some(self.threshold),
            components,
            result: serde_json::to_value(&score).unwrap_or_default(),
            error,
            judged_by,
            alerts: Vec::new(),
        }))
    }

    /// Whether a judge may be needed: the generated query isn't the expected one, or there are several right answers. Choosing among these
    /// requires comparing results, so [`Scorable::questions`] decides.
    fn needs_judge(&self) -> bool {
        !self.accepted.is_empty() || self.settled(&self.expected).is_none()
    }

    fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }
}

#[cfg(test)]
mod tests;
