//! Types of `/api/v1/workers`.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::text_enum;

text_enum! {
    pub enum WorkerState {
        /// Claims jobs.
        Running = "running",
        /// Finishes its active jobs.
        Draining = "draining",
        Stopped = "stopped",
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Worker {
    /// Unique per start.
    pub worker_id: Uuid,
    /// Host and process.
    pub name: String,
    pub version: String,
    pub started_at: DateTime<Utc>,
    pub heartbeat_at: DateTime<Utc>,
    /// Number of active jobs.
    pub in_hand: i32,
    pub state: WorkerState,
    /// Whether its heartbeat is recent and it hasn't stopped.
    pub alive: bool,
    /// Judges that it can call: names, or `entry:*` for an entry with any model. Null if not reported.
    pub judges: Option<Vec<String>>,
}

/// Workers with a heartbeat in the last 24 h, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Workers {
    pub items: Vec<Worker>,
    /// Always null: a single page.
    pub next_cursor: Option<String>,
}
