//! Workers, as `/api/v1/workers` lists them.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::text_enum;

text_enum! {
    /// What a worker does.
    pub enum WorkerState {
        /// Takes work.
        Running = "running",
        /// Finishes what it has.
        Draining = "draining",
        /// Left in good order.
        Stopped = "stopped",
    }
}

/// One worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Worker {
    /// Unique per start.
    pub worker_id: Uuid,
    /// Host and process.
    pub name: String,
    pub version: String,
    pub started_at: DateTime<Utc>,
    /// When its last heartbeat arrived.
    pub heartbeat_at: DateTime<Utc>,
    /// Jobs in hand.
    pub in_hand: i32,
    pub state: WorkerState,
    /// Whether it was heard within its time, and hasn't stopped.
    pub alive: bool,
    /// The judges that it can ask by its settings: names, and `entry:*` for an entry that takes any model; null if it didn't say.
    pub judges: Option<Vec<String>>,
}

/// Workers heard in the last 24 h, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Workers {
    pub items: Vec<Worker>,
    /// Always null: there is one page.
    pub next_cursor: Option<String>,
}
