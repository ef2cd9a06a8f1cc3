//! Runs: the items of a suite, answered by their agents where they are questions, scored, and written down one by one.
//!
//! ```text
//! suite ─▶ Plan (checked whole) ─▶ rows ─▶ Work ─┬─ a case ───────────────────────────┬─▶ Scorer ─▶ RunFolder
//!                                                └─ a question ─▶ Agents ─▶ its case ─┘
//! ```
//!
//! Knows no service: what scores a case is handed in as a [`Scorer`]. Holds no item longer than it is worked on.

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
pub use flow::{Again, Run, run, wanted};
pub use folder::RunFolder;
pub use plan::Plan;
pub use work::AgentQuestion;

#[derive(Debug, Clone, PartialEq)]
pub struct CaseToScore {
    /// Its place in the suite, from 0.
    pub item_no: u64,
    pub kind: Kind,
    pub id: Option<String>,
    pub payload: Value,
    /// How often it was tried before in this run: a second try is another request, not the first one again.
    pub attempt: u32,
}

impl CaseToScore {
    /// The judge that it asks for; empty: whoever the criteria name.
    pub fn model(&self) -> &str {
        let model = self.payload.get("model").and_then(Value::as_str);
        model.unwrap_or_default()
    }

    /// Its item before anything is known of its score: failed, for a reason that is still to be said.
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

/// What scores cases: the service, or what can be computed without one. Its futures stay on the thread that runs the run.
#[async_trait(?Send)]
pub trait Scorer: Send + Sync {
    /// Scores one case, however long that takes. A case that can't be scored is an item that says so.
    async fn score(&self, case: CaseToScore) -> Result<Item, Stopped>;
}

/// Why a run can't go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Stopped {
    pub fault: StopFault,
    pub message: String,
}

/// What stopped a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopFault {
    /// A setting or an argument is wrong: going on needs another one.
    Usage,
    /// Something is down: the run goes on with `--resume` once it is up.
    Down,
}

impl Stopped {
    pub fn down(message: impl Into<String>) -> Self {
        Self {
            fault: StopFault::Down,
            message: message.into(),
        }
    }

    pub fn usage(message: impl Into<String>) -> Self {
        Self {
            fault: StopFault::Usage,
            message: message.into(),
        }
    }
}

/// Why a run ended before its last item.
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
