use serde::Serialize;
use serde_json::Value;

use crate::{JudgeError, Reply};

/// Score of a case. Shares are between 0 and 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    /// The total; `None` if a component is missing (listed under `missing` in the result).
    pub total: Option<f64>,
    /// Whether the case passed; `None` without a total.
    pub passed: Option<bool>,
    /// Pass threshold of the total; `None` for `sql_metrics`, which has no threshold.
    pub threshold: Option<f64>,
    /// Components by name, in rule order; `None` if failed, absent or not run. The result has the reason.
    pub components: Vec<(&'static str, Option<f64>)>,
    /// Body specific to the kind: a job's `result` in the API.
    pub result: Value,
    pub error: Option<JudgeError>,
    /// The judge; `None` if no judge was needed or the judge failed.
    pub judged_by: Option<JudgedBy>,
    /// Alerts to log, without any text of the case.
    pub alerts: Vec<Alert>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Alert {
    Warning(String),
    Error(String),
}

/// Judge of a score.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct JudgedBy {
    /// Name of the provider entry in `llm_providers.yaml`.
    pub provider: String,
    /// Model as reported by the provider.
    pub model: String,
    /// Whether the judge was simulated.
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
    pub fn simulated(&self) -> bool {
        self.judged_by.as_ref().is_some_and(|by| by.simulated)
    }
}
