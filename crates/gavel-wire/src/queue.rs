//! The queue as a whole, as `/api/v1/queue` tells of it.

use serde::{Deserialize, Serialize};

use super::Hold;

/// How many jobs there are of each state; each count stops at 10,000.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct QueueCounts {
    /// Stored, and in no worker's hand yet.
    pub queued: i64,
    /// In a worker's hand.
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

/// How many jobs there are, and whether any starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Queue {
    /// Whether no job starts, whatever its judge.
    pub paused: bool,
    /// What pauses it; null if it isn't paused. Judges have holds of their own.
    pub hold: Option<Hold>,
    /// What is in it, and what came of it.
    pub counts: QueueCounts,
}
