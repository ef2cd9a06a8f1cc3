//! STUB: replaced by its owner.

use serde_json::Value;

use super::{BadRequest, Criteria, Evaluation, Field, Request, Scorecard};
use crate::judge::{Answer, Fault, Limits, Nonce, Question};

/// The payload's fields.
pub const FIELDS: &[Field] = &[
    Field::text("id"),
    Field::text("generated_kql"),
    Field::text("expected_kql"),
];

/// One case.
#[derive(Debug, Clone, PartialEq)]
pub struct QueryCase {
    /// Its name.
    pub id: Option<String>,
    /// The judge or model asked for.
    pub model: Option<String>,
}

impl QueryCase {
    /// Reads a payload.
    pub fn read(payload: &Value) -> Result<Self, Vec<Fault>> {
        let _ = payload;
        Ok(Self {
            id: None,
            model: None,
        })
    }

    /// Whether a judge has a part in it.
    pub fn needs_judge(&self) -> bool {
        false
    }
}

impl Request for QueryCase {
    fn questions(&self, _: &Criteria, _: &Limits, _: &Nonce) -> Result<Vec<Question>, BadRequest> {
        Ok(Vec::new())
    }

    fn score(&self, _: &Criteria, _: &[Answer]) -> Scorecard {
        Scorecard::Evaluated(Box::new(Evaluation {
            total: None,
            passed: None,
            threshold: None,
            components: Vec::new(),
            result: Value::Null,
            error: None,
            judged_by: None,
        }))
    }
}
