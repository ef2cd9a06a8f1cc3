//! Records of runs: outcome, fence, and the ticket for the commit.

use chrono::{DateTime, Utc};
use serde_json::Value;
use tokio::sync::oneshot;
use uuid::Uuid;

use crate::job::{Failure, JobId, JobState, Usage, Wait};
use crate::store::{Jobs, NewEvaluation, NewSessionScore, StoreError};

pub(in crate::store) const RECORDING: &str = "recording how runs ended";

/// Fence of a run, checked by compare-and-set on (job_id, claim_no, worker_id, state running).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fence {
    pub job_id: JobId,
    pub claim_no: i64,
    pub worker_id: Uuid,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Ending {
    /// A session's score. `result` is the job's result in the API.
    Scored {
        score: Box<NewSessionScore>,
        /// Stored on the job.
        result: Value,
    },
    Evaluated {
        score: Box<NewEvaluation>,
        /// Stored on the job.
        result: Value,
        /// Reason why the judge's part has no score: the job fails and keeps the computed part.
        failure: Option<Failure>,
    },
    /// Permanently. The last good score stays.
    Failed(Failure),
    Waiting {
        wait: Wait,
        /// Earliest time of the next claim.
        due_at: DateTime<Utc>,
    },
    /// Interrupted: the worker drained, or the lane was paused. Queued again, due at once.
    Requeued,
    /// Returned before it started: lane and losses are unchanged.
    NotStarted,
}

impl Ending {
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

#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    pub fence: Fence,
    pub ending: Ending,
    /// Judge retries over all runs.
    pub retries: i32,
    /// Usage of this run's calls, added to the row's. A cost of `None` with tokens makes the row's cost unknown permanently;
    /// without tokens it has no effect.
    pub usage: Usage,
    pub at: DateTime<Utc>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recorded {
    Applied,
    /// The fence failed: another worker has the job, or it was cancelled. No row was written.
    Stale,
}

/// Resolves when the record is committed or found stale.
pub struct RecordTicket {
    answer: oneshot::Receiver<Result<Recorded, StoreError>>,
}

pub(in crate::store) type Answer = oneshot::Sender<Result<Recorded, StoreError>>;

impl RecordTicket {
    /// Waits for the commit. The recorder retries while the database is unavailable; returns `Unavailable` only after `close`.
    ///
    /// # Errors
    /// `Unexpected` if the database rejects the record; the job is still `running` then.
    pub async fn committed(self) -> Result<Recorded, StoreError> {
        self.answer
            .await
            .unwrap_or_else(|_| Err(StoreError::closed(RECORDING)))
    }
}

pub(in crate::store) struct Recording {
    pub(in crate::store) record: Record,
    pub(in crate::store) done: Answer,
}

impl Jobs<'_> {
    /// Sends a record to the recorder, waiting for a place in its channel; returns a ticket for the commit.
    ///
    /// # Errors
    /// `Unavailable` after `close`.
    pub async fn record(self, record: Record) -> Result<RecordTicket, StoreError> {
        let (done, answer) = oneshot::channel();
        self.recorder
            .send(Recording { record, done })
            .await
            .map_err(|_| StoreError::closed(RECORDING))?;
        Ok(RecordTicket { answer })
    }
}
