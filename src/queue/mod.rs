//! At-least-once delivery of job ids. A queue holds ids only: the row in the store is the truth, the queue is a hint.
//!
//! Losing every byte of a queue loses no job: `rescue` pushes again whatever the store says is due. A queue never reads
//! a row, never decides whether a job may run, and never retries.

pub mod backend;
pub mod memory;
pub mod redis;

use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::job::{JobId, Lane, Priority};

/// Why a queue could not do what was asked. The caller backs off and goes on: the store holds the truth.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    /// The server can't be reached, or didn't answer in time.
    #[error("queue unreachable while {attempted}: {reason}")]
    Unreachable {
        attempted: &'static str,
        /// The client's words.
        reason: String,
    },
    /// The server answered with something that makes no sense to us.
    #[error("queue answered unexpectedly while {attempted}: {reason}")]
    Unexpected {
        attempted: &'static str,
        /// What it said.
        reason: String,
    },
}

/// An id on its way into the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Push {
    pub id: JobId,
    pub lane: Lane,
    /// Its set within the lane.
    pub priority: Priority,
    /// When it may be claimed; `None` for at once.
    pub due_at: Option<DateTime<Utc>>,
}

/// An id that a claim handed out, under a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    pub id: JobId,
    pub lane: Lane,
    /// The set it was in.
    pub priority: Priority,
}

/// Lanes that share a bound. They are served in turn, so that none starves another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneShare {
    pub lanes: Vec<Lane>,
    /// At most this many ids of them.
    pub max: usize,
    /// Whether their bulk ids may have what is kept for interactive work.
    pub takes_kept: bool,
}

/// How many ids to claim, and from where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimRequest {
    /// Lanes whose gate is open, in the order to serve them; each lane is in one share.
    pub shares: Vec<LaneShare>,
    /// At most this many ids in all.
    pub max: usize,
    /// At most this many of them from bulk sets of shares that don't take what is kept for interactive work.
    pub max_bulk: usize,
}

impl ClaimRequest {
    /// Of lanes without a bound of their own.
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

    /// What is left of it after these ids.
    fn take(&mut self, claimed: &[Claimed]) {
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

/// What lies in one lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Depth {
    /// Ready, interactive.
    pub interactive: usize,
    /// Ready, bulk.
    pub bulk: usize,
    /// Not yet due.
    pub delayed: usize,
}

/// At-least-once delivery of ids: a set of ready ids per lane and priority, a set of delayed ids, and leases.
///
/// `owner` is a token that is unique to one start of one worker. An id that is leased is handed to nobody else until the
/// lease ends: by `ack`, `release`, `later`, or its expiry.
#[async_trait]
pub trait Queue: Send + Sync {
    /// Adds ids. Idempotent: an id that is ready, delayed or leased is skipped, but an interactive push moves a ready
    /// bulk id over, a ready id whose lane has changed moves there (never to a lower set), a delayed id that is pushed as
    /// due becomes ready, and an expired lease counts as none. Wakes whoever waits in [`Queue::woken`].
    async fn push(&self, ids: &[Push]) -> Result<(), QueueError>;
    /// As [`Queue::push`] with ids that are due, and new ones go to the front, the first id first: they have waited already.
    async fn push_first(&self, ids: &[Push]) -> Result<(), QueueError>;
    /// Takes up to `claim.max` ids under a lease: delayed ids that are due and expired leases become ready first.
    /// Interactive ids go first, but every tenth id of a lane comes from bulk if there is any. First in, first out within a set.
    async fn claim(&self, owner: Uuid, claim: &ClaimRequest) -> Result<Vec<Claimed>, QueueError>;
    /// Ends leases: the ids leave the queue. Ids that this owner doesn't hold are ignored.
    async fn ack(&self, owner: Uuid, ids: &[JobId]) -> Result<(), QueueError>;
    /// Ends leases: the ids are ready again at once, in front.
    async fn release(&self, owner: Uuid, ids: &[Claimed]) -> Result<(), QueueError>;
    /// Ends a lease: the id is delayed until `when`, then ready in the lane and set given.
    async fn later(&self, owner: Uuid, push: &Push, when: DateTime<Utc>) -> Result<(), QueueError>;
    /// Extends the leases that this owner holds among `ids`; answers those that it holds no longer.
    async fn renew(&self, owner: Uuid, ids: &[JobId]) -> Result<Vec<JobId>, QueueError>;
    /// Takes ids out of the queue wherever they are (cancelled jobs).
    async fn remove(&self, ids: &[JobId]) -> Result<(), QueueError>;
    /// What lies in a lane.
    async fn depth(&self, lane: &Lane) -> Result<Depth, QueueError>;
    /// Returns when something may have become ready, or after `at_most`. A hint: a poll is the guarantee.
    async fn woken(&self, at_most: Duration);
    /// Whether the queue answers; for `/readyz` and `doctor`.
    async fn ping(&self) -> Result<(), QueueError>;
    /// How long a lease lasts.
    fn lease(&self) -> Duration;
}
