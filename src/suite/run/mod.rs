//! Runs: gets answers to the questions of a suite, scores its items, and writes each result at once.
//!
//! ```text
//! suite ─▶ Plan (fully validated) ─▶ rows ─▶ Work ─┬─ a case ───────────────────────────┬─▶ Scorer ─▶ RunFolder
//!                                                  └─ a question ─▶ Agents ─▶ its case ─┘
//! ```
//!
//! The caller passes a [`Scorer`], so that runs don't depend on a service. Items stay in memory only while they are processed.

pub mod agents;
pub mod compare;
mod computed;
mod flow;
pub mod folder;
pub mod gate;
pub mod plan;
pub mod thresholds;
mod work;

use async_trait::async_trait;
use serde_json::Value;

use crate::job::{Kind, Usage};
use crate::report::{Item, ItemError, Outcome, ReportError};

pub use computed::Computed;
pub use flow::{Run, run, wanted};
pub use folder::RunFolder;
pub use plan::Plan;
pub use work::AgentQuestion;

#[derive(Debug, Clone, PartialEq)]
pub struct CaseToScore {
    /// Index in the suite, from 0.
    pub item_no: u64,
    pub kind: Kind,
    pub id: Option<String>,
    pub payload: Value,
    /// Previous attempts in this run. Each attempt is a separate request.
    pub attempt: u32,
}

impl CaseToScore {
    /// Returns the requested judge; empty: the judge of the criteria.
    pub fn model(&self) -> &str {
        let model = self.payload.get("model").and_then(Value::as_str);
        model.unwrap_or_default()
    }

    /// Returns a failed item for this case. The caller sets the reason.
    pub fn unscored(self) -> Item {
        Item {
            item_no: self.item_no,
            kind: self.kind,
            id: self.id,
            payload: self.payload,
            outcome: Outcome::Failed,
            total: None,
            passed: None,
            result: None,
            error: None,
            simulated: false,
            usage: Usage::default(),
            job_id: None,
        }
    }

    pub fn failed(self, class: &str, message: String) -> Item {
        Item {
            error: Some(ItemError {
                class: class.to_owned(),
                message,
            }),
            ..self.unscored()
        }
    }
}

/// Scores cases: the service, or the computed metrics only. Its futures stay on the thread of the run.
#[async_trait(?Send)]
pub trait Scorer: Send + Sync {
    /// Scores one case without a deadline. A case that can't be scored yields an item with an error.
    async fn score(&self, case: CaseToScore) -> Result<Item, Stopped>;
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Stopped {
    #[error("{0}")]
    Usage(String),
    /// A dependency is unavailable. The run can be continued with `--resume`.
    #[error("{0}")]
    Down(String),
}

#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("the suite has changed while it was run: {0}")]
    Suite(#[from] super::SuiteError),
    #[error("{0}")]
    Stopped(#[from] Stopped),
    #[error("{0}")]
    Folder(#[from] folder::FolderError),
    #[error("{0}")]
    Report(#[from] ReportError),
}
