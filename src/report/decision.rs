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

/// Result of a run: by its gates, or without them by whether every scored item passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Passed,
    Failed,
    /// Unknown, because an item has no score or hasn't ended, was scored by a simulated judge that isn't allowed, or no judge was used. Has
    /// precedence over `Failed`.
    Incomplete,
    Nothing,
}

impl Verdict {
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
    pub decision: Verdict,
    /// Reasons why it didn't pass; empty if it did.
    pub reasons: Vec<String>,
}
