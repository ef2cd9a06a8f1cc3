//! Recording a run's end: what is said of it, who may say so, and the ticket for the commit.

use chrono::{DateTime, Utc};
use serde_json::Value;
use tokio::sync::oneshot;
use uuid::Uuid;

use crate::job::{Failure, JobId, JobState, Usage, Wait};
use crate::store::{Jobs, NewEvaluation, NewSessionScore, StoreError};

pub(in crate::store) const ATTEMPTED: &str = "recording how runs ended";

/// Who may record a run's end: compare-and-set on (job_id, claim_no, worker_id, state running).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fence {
    pub job_id: JobId,
    /// The claim that this run holds.
    pub claim_no: i64,
    /// The worker that runs it.
    pub worker_id: Uuid,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Ending {
    /// With a session's score; `result` is the job's result as the API shows it.
    Scored {
        /// The score's rows.
        score: Box<NewSessionScore>,
        /// The body kept on the job.
        result: Value,
    },
    /// With what a case came to.
    Evaluated {
        /// The score's row.
        score: Box<NewEvaluation>,
        /// The body kept on the job.
        result: Value,
        /// Why the judge's part has no score: the job fails, and keeps what was computed.
        failure: Option<Failure>,
    },
    /// For good. The last good score stays.
    Failed(Failure),
    /// With a wait; due again at `due_at`.
    Waiting {
        wait: Wait,
        /// When it may be claimed.
        due_at: DateTime<Utc>,
    },
    /// Not finished: drained, or its lane was paused. Back to `queued`, due at once.
    Requeued,
    /// Claimed, and put back before anything of it ran: lane and losses stay as they were.
    NotStarted,
}

impl Ending {
    /// The state that it leaves the job in.
    pub(in crate::store) fn state(&self) -> JobState {
        match self {
            Self::Scored { .. } | Self::Evaluated { failure: None, .. } => JobState::Succeeded,
            Self::Failed(_)
            | Self::Evaluated {
                failure: Some(_), ..
            } => JobState::Failed,
            Self::Waiting { .. } => JobState::Waiting,
            Self::Requeued | Self::NotStarted => JobState::Queued,
        }
    }

    pub(in crate::store) fn score(&self) -> Option<&NewSessionScore> {
        match self {
            Self::Scored { score, .. } => Some(score),
            Self::Evaluated { .. }
            | Self::Failed(_)
            | Self::Waiting { .. }
            | Self::Requeued
            | Self::NotStarted => None,
        }
    }

    pub(super) fn evaluation(&self) -> Option<&NewEvaluation> {
        match self {
            Self::Evaluated { score, .. } => Some(score),
            Self::Scored { .. }
            | Self::Failed(_)
            | Self::Waiting { .. }
            | Self::Requeued
            | Self::NotStarted => None,
        }
    }

    pub(super) fn failure(&self) -> Option<&Failure> {
        match self {
            Self::Failed(failure) => Some(failure),
            Self::Evaluated { failure, .. } => failure.as_ref(),
            Self::Scored { .. } | Self::Waiting { .. } | Self::Requeued | Self::NotStarted => None,
        }
    }
}

/// One run's end, to be recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// Who says so.
    pub fence: Fence,
    pub ending: Ending,
    /// Judge retries spent over all runs.
    pub retries: i32,
    /// What this run's calls used; added to the row's. A cost of `None` beside tokens makes the row's cost unknown for good;
    /// without tokens it leaves the row's as it is.
    pub usage: Usage,
    /// When it ended.
    pub at: DateTime<Utc>,
}

/// What recording did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recorded {
    /// It is committed.
    Applied,
    /// The fence didn't hold: another worker has the job, or it was cancelled. Nothing was written.
    Stale,
}

/// Resolves when the record is committed (or found stale).
pub struct RecordTicket {
    answer: oneshot::Receiver<Result<Recorded, StoreError>>,
}

/// What a ticket waits for.
pub(in crate::store) type Answer = oneshot::Sender<Result<Recorded, StoreError>>;

impl RecordTicket {
    /// Waits for the commit. The recorder keeps trying while the database is away; `Unavailable` only after `close`.
    ///
    /// # Errors
    /// `Unexpected` for a record that the database refuses; the job is still `running` then.
    pub async fn committed(self) -> Result<Recorded, StoreError> {
        self.answer
            .await
            .unwrap_or_else(|_| Err(StoreError::closed(ATTEMPTED)))
    }
}

/// A record on its way into a group.
pub(in crate::store) struct Recording {
    pub(in crate::store) record: Record,
    pub(in crate::store) done: Answer,
}

impl Jobs<'_> {
    /// Hands a run's end to the recorder (waits for a place in its bounded channel) and answers a ticket for the commit.
    ///
    /// # Errors
    /// `Unavailable` after `close`.
    pub async fn record(self, record: Record) -> Result<RecordTicket, StoreError> {
        let (done, answer) = oneshot::channel();
        self.recorder
            .send(Recording { record, done })
            .await
            .map_err(|_| StoreError::closed(ATTEMPTED))?;
        Ok(RecordTicket { answer })
    }
}
