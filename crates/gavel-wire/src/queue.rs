//! Types of `/api/v1/queue`.

use serde::{Deserialize, Serialize};

use super::Hold;

/// Number of jobs per state. Each count stops at 10,000.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct QueueCounts {
    pub queued: i64,
    pub running: i64,
    /// Met a closed judge or a long delay.
    pub waiting: i64,
    pub succeeded_24h: i64,
    pub failed_24h: i64,
    pub cancelled_24h: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Queue {
    /// Whether all judges are paused.
    pub paused: bool,
    /// Hold on the queue. Null if it isn't paused. Judges have separate holds.
    pub hold: Option<Hold>,
    pub counts: QueueCounts,
}
