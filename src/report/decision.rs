//! Gate results of a run for reports.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Judging {
    #[default]
    Asked,
    /// `--no-judge`: no gate passes.
    NotRun,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GateDecision {
    Passed,
    Failed,
    /// Unknown, because scores are missing or simulated.
    Incomplete,
    Nothing,
}

impl GateDecision {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Passed => "PASSED",
            Self::Failed => "FAILED",
            Self::Incomplete => "INCOMPLETE",
            Self::Nothing => "NOTHING TO RUN",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GateResult {
    pub decision: GateDecision,
    /// Reasons why it didn't pass; empty if it did.
    pub reasons: Vec<String>,
}
