//! STUB: replaced by its owner.

use serde_json::Value;

use super::{BadRequest, Criteria, Evaluation, Field, Request, Scorecard};
use crate::judge::{Answer, Fault, Limits, Nonce, Question};

/// The payload's fields.
pub const FIELDS: &[Field] = &[Field::text("test_id"), Field::text("question")];

/// One case.
#[derive(Debug, Clone, PartialEq)]
pub struct QasCase {
    /// Its name.
    pub test_id: Option<String>,
}

impl QasCase {
    /// Reads a payload.
    pub fn read(payload: &Value) -> Result<Self, Vec<Fault>> {
        let _ = payload;
        Ok(Self { test_id: None })
    }

    /// Whether a judge has a part in it.
    pub fn needs_judge(&self) -> bool {
        false
    }
}

impl Request for QasCase {
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
