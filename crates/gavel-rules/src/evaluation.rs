//! What a case of any kind but `session` came to: one form for the store, the API and the reports.

use serde::Serialize;
use serde_json::Value;

use crate::{JudgeError, Reply};

/// A case's score. Shares are between 0 and 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    /// The total; `None`: incomplete, since a part of it is missing (`missing` in the result).
    pub total: Option<f64>,
    /// Whether it passed; `None` without a total.
    pub passed: Option<bool>,
    /// What the total is held against; `None` for `sql_metrics`, which has no threshold.
    pub threshold: Option<f64>,
    /// The components by name, in the order of the rules; `None`: failed, absent or not run (the result says which).
    pub components: Vec<(&'static str, Option<f64>)>,
    /// The kind's body, as its rules give it: what the API shows as a job's `result`.
    pub result: Value,
    /// Why the judge's part has no score.
    pub error: Option<JudgeError>,
    /// Who answered; `None` where no judge was needed or none answered.
    pub judged_by: Option<JudgedBy>,
    /// What goes into the log; none of the case's texts.
    pub alerts: Vec<Alert>,
}

/// Something that whoever runs the service should see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Alert {
    /// It costs something.
    Warning(String),
    /// It is dangerous.
    Error(String),
}

/// The judge that answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct JudgedBy {
    /// The provider entry's name in `llm_providers.yaml`.
    pub provider: String,
    /// The model as the provider reported it.
    pub model: String,
    /// Whether it was a simulated one.
    pub simulated: bool,
}

impl From<&Reply> for JudgedBy {
    fn from(reply: &Reply) -> Self {
        Self {
            provider: reply.provider.clone(),
            model: reply.model.clone(),
            simulated: reply.simulated,
        }
    }
}

impl Evaluation {
    /// Whether a simulated judge had a part in it.
    pub fn simulated(&self) -> bool {
        self.judged_by.as_ref().is_some_and(|by| by.simulated)
    }
}
