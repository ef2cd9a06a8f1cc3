//! Types of `/api/v1/queue`.

use serde::{Deserialize, Serialize};

use super::Hold;

/// Number of jobs per state. Each count stops at 10,000.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct QueueCounts {
    /// Not claimed.
    pub queued: i64,
    /// Claimed by a worker.
    pub running: i64,
    /// Met a closed judge or a long delay.
    pub waiting: i64,
    /// Ended with a score in the last 24 h.
    pub succeeded_24h: i64,
    /// Failed in the last 24 h.
    pub failed_24h: i64,
    /// Cancelled in the last 24 h.
    pub cancelled_24h: i64,
}

/// State of the queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Queue {
    /// Whether all judges are paused.
    pub paused: bool,
    /// Hold on the queue. Null if it isn't paused. Judges have separate holds.
    pub hold: Option<Hold>,
    pub counts: QueueCounts,
}
