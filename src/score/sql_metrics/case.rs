//! STUB: replaced by its owner.

use serde_json::Value;

use crate::judge::{Answer, Fault, Limits, Nonce, Question};
use crate::score::{BadRequest, Criteria, Evaluation, Field, Request, Scorecard};

/// The payload's fields.
pub const FIELDS: &[Field] = &[Field::text("id"), Field::text("generated_sql")];

/// One case.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricsCase {
    /// Its name.
    pub id: Option<String>,
}

impl MetricsCase {
    /// Reads a payload.
    pub fn read(payload: &Value) -> Result<Self, Vec<Fault>> {
        let _ = payload;
        Ok(Self { id: None })
    }

    /// Whether a judge has a part in it.
    pub fn needs_judge(&self) -> bool {
        false
    }
}

impl Request for MetricsCase {
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
