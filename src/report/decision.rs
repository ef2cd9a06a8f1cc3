//! What the gates of a run said, as reports show it. Decides nothing.

use serde::{Deserialize, Serialize};

/// Whether a judge was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Judging {
    #[default]
    Asked,
    /// None was (`--no-judge`): nothing passes.
    NotRun,
}

/// What a run came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GateDecision {
    Passed,
    Failed,
    /// Not known: something is missing, or simulated.
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

/// A decision with its reasons.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GateResult {
    pub decision: GateDecision,
    /// Why it didn't pass; empty if it did.
    pub reasons: Vec<String>,
}
