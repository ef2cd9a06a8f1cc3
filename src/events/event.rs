//! Event, the same in Redis and on the wire. Webhooks are not built from these events; database triggers insert theirs.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::job::{FailureClass, Job, JobId, JobState, Kind, WaitReason, text_enum};

text_enum! {
    /// Type of an event.
    pub enum EventType {
        /// A job was accepted, or returned to the queue unfinished.
        JobQueued = "job.queued",
        /// A worker started a run.
        JobStarted = "job.started",
        /// A job waits: `reason` and `until` describe the wait.
        JobWaiting = "job.waiting",
        /// A job ended with a score.
        JobSucceeded = "job.succeeded",
        /// A job failed with `class`.
        JobFailed = "job.failed",
        /// A job was cancelled.
        JobCancelled = "job.cancelled",
        /// A failed job was requeued.
        JobRetried = "job.retried",
        /// No job of the judge starts on any worker because of `reason`. An open breaker is reported by the waiting jobs instead.
        JudgeClosed = "judge.closed",
        /// The judge's jobs may start again: a user resumed it, its hold expired, or a worker started with another key.
        JudgeOpened = "judge.opened",
        /// No job starts until the queue is resumed.
        QueuePaused = "queue.paused",
        /// Jobs may start again.
        QueueResumed = "queue.resumed",
        /// A batch was accepted: its items are stored.
        BatchCreated = "batch.created",
        /// No item of a batch starts until it is resumed.
        BatchPaused = "batch.paused",
        /// Items of a batch may start again.
        BatchResumed = "batch.resumed",
        /// All items of a batch have ended.
        BatchCompleted = "batch.completed",
        /// A batch was cancelled, with all its unfinished items.
        BatchCancelled = "batch.cancelled",
        /// Events were lost: the client should read its data again.
        Reset = "reset",
    }
}

/// Event about a job, batch, judge or the queue. Fields that don't apply are omitted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Event {
    #[serde(rename = "type")]
    pub event: EventType,
    /// Time of the event.
    pub at: DateTime<Utc>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Uuid>)]
    pub job_id: Option<JobId>,
    /// The batch, or the batch of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch_id: Option<Uuid>,
    /// Session scored by the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<Uuid>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
    /// New state of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<JobState>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge: Option<String>,
    /// Reason why a job waits or a judge is closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<WaitReason>,
    /// End of the wait or closure, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<DateTime<Utc>>,
    /// The new score.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score_id: Option<Uuid>,
    /// Total of the new score, 0-100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_score: Option<u8>,
    /// Whether the score was made by a simulated judge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulated: Option<bool>,
    /// Failure class of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<FailureClass>,
}

impl Event {
    pub fn new(event: EventType, at: DateTime<Utc>) -> Self {
        Self {
            event,
            at,
            job_id: None,
            batch_id: None,
            session_id: None,
            kind: None,
            state: None,
            judge: None,
            reason: None,
            until: None,
            score_id: None,
            total_score: None,
            simulated: None,
            class: None,
        }
    }

    pub fn of_job(event: EventType, job: &Job, state: JobState, at: DateTime<Utc>) -> Self {
        Self {
            job_id: Some(job.job_id),
            batch_id: job.batch.map(|place| place.batch_id),
            session_id: job.subject_id,
            kind: Some(job.kind),
            state: Some(state),
            judge: job.judge.clone(),
            ..Self::new(event, at)
        }
    }

    pub fn of_batch(event: EventType, batch_id: Uuid, kind: Kind, at: DateTime<Utc>) -> Self {
        Self {
            batch_id: Some(batch_id),
            kind: Some(kind),
            ..Self::new(event, at)
        }
    }

    pub fn of_judge(event: EventType, judge: impl Into<String>, at: DateTime<Utc>) -> Self {
        Self {
            judge: Some(judge.into()),
            ..Self::new(event, at)
        }
    }
}
