//! At-least-once delivery of job ids. A queue contains ids only; the rows in the store are authoritative.
//!
//! A queue may lose all data without losing a job, because `rescue` pushes due ids again. A queue doesn't read rows, decide whether a job
//! may run, or retry.

pub mod backend;
pub mod redis;

use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use crate::job::{JobId, Lane, Priority};

/// Error of a queue call. The caller backs off and continues, because the store has the jobs.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    /// The server is unreachable or timed out.
    #[error("queue unreachable while {attempted}: {reason}")]
    Unreachable {
        attempted: &'static str,
        reason: String,
    },
    #[error("unexpected queue response while {attempted}: {reason}")]
    Unexpected {
        attempted: &'static str,
        reason: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Push {
    pub id: JobId,
    pub lane: Lane,
    pub priority: Priority,
    /// Time from which it may be claimed; `None`: at once.
    pub due_at: Option<DateTime<Utc>>,
}

impl From<Claimed> for Push {
    fn from(claimed: Claimed) -> Self {
        Self {
            id: claimed.id,
            lane: claimed.lane,
            priority: claimed.priority,
            due_at: None,
        }
    }
}

/// Id removed from the queue by a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    pub id: JobId,
    pub lane: Lane,
    pub priority: Priority,
}

/// Lanes with a common limit, served round-robin so that none starves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneShare {
    pub lanes: Vec<Lane>,
    pub max: usize,
    /// Whether their bulk ids may use slots reserved for interactive work.
    pub takes_kept: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimRequest {
    /// Lanes whose gate is open, in the order of service. Each lane is in one group.
    pub shares: Vec<LaneShare>,
    pub max: usize,
    /// Maximum bulk ids of the groups that may not use slots reserved for interactive work.
    pub max_bulk: usize,
}

impl ClaimRequest {
    /// Returns a claim from lanes without a limit.
    pub fn of_lanes(lanes: Vec<Lane>, max: usize) -> Self {
        let share = LaneShare {
            lanes,
            max,
            takes_kept: false,
        };
        Self {
            shares: vec![share],
            max,
            max_bulk: max,
        }
    }

    /// Subtracts claimed ids from the limits.
    pub fn take(&mut self, claimed: &[Claimed]) {
        for id in claimed {
            let mut shares = self.shares.iter_mut();
            let share = shares.find(|share| share.lanes.contains(&id.lane));
            let is_kept = share.as_ref().is_some_and(|share| share.takes_kept);
            if let Some(share) = share {
                share.max = share.max.saturating_sub(1);
            }
            self.max = self.max.saturating_sub(1);
            if id.priority == Priority::Bulk && !is_kept {
                self.max_bulk = self.max_bulk.saturating_sub(1);
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Depth {
    pub interactive: usize,
    pub bulk: usize,
    pub delayed: usize,
}

/// Hands out the ids of due jobs: a set of ready ids per lane and priority, and a set of delayed ids.
#[async_trait]
pub trait Queue: Send + Sync {
    /// Adds ids and wakes waiters in [`Queue::woken`]. Idempotent: ready and delayed ids are skipped, with these exceptions. An interactive
    /// push upgrades a ready bulk id. A ready id moves to its new lane, but not to a lower set. A delayed id pushed as due becomes ready.
    async fn push(&self, ids: &[Push]) -> Result<(), QueueError>;
    /// Like [`Queue::push`] with due ids, but new ids go to the front in the given order, because they have waited before.
    async fn push_first(&self, ids: &[Push]) -> Result<(), QueueError>;
    /// Removes and returns up to `claim.max` ids, after moving due ids to ready. Interactive ids go first, but every tenth id of a lane is
    /// bulk if there is one. First in, first out within a set. An id whose claimer dies before it claims the row is pushed again by `rescue`.
    async fn claim(&self, claim: &ClaimRequest) -> Result<Vec<Claimed>, QueueError>;
    /// Returns the number of ids that the queue itself holds.
    async fn depth(&self, lane: &Lane) -> Result<Depth, QueueError>;
    /// Whether a due row is found only after its id was pushed. Otherwise claims read the store.
    fn holds_ids(&self) -> bool;
    /// Drops ids that were read but not yet claimed, because rows that others have changed are among them. The next claim reads the store.
    async fn discard(&self) {}
    /// Returns when an id may have become ready, or after `at_most`. Wake-ups can be lost, so callers also poll.
    async fn woken(&self, at_most: Duration);
    /// Checks the connection, for `/readyz` and `doctor`.
    async fn ping(&self) -> Result<(), QueueError>;
}
