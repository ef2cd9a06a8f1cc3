//! One event: small, flat, the same in Redis and on the wire. Webhooks aren't made of these: triggers write theirs.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::job::{FailureClass, Job, JobId, JobState, Kind, WaitReason, text_enum};

text_enum! {
    /// What happened.
    pub enum EventType {
        /// A job was accepted, or goes back to the queue unfinished.
        JobQueued = "job.queued",
        /// A worker began a run.
        JobStarted = "job.started",
        /// A job waits: `reason` says for what, `until` how long.
        JobWaiting = "job.waiting",
        /// A job ended with a score.
        JobSucceeded = "job.succeeded",
        /// A job failed: `class` says how.
        JobFailed = "job.failed",
        /// A job was cancelled.
        JobCancelled = "job.cancelled",
        /// A failed job was queued again.
        JobRetried = "job.retried",
        /// No job of the judge starts any more, on any worker: `reason` says why. A breaker is told by the jobs that
        /// wait for it.
        JudgeClosed = "judge.closed",
        /// The judge's jobs may start again: somebody resumed it, its time was over, or a worker started with another key.
        JudgeOpened = "judge.opened",
        /// No job starts any more.
        QueuePaused = "queue.paused",
        /// Jobs may start again.
        QueueResumed = "queue.resumed",
        /// A batch was accepted: its items are stored.
        BatchCreated = "batch.created",
        /// No item of a batch starts any more.
        BatchPaused = "batch.paused",
        /// Items of a batch may start again.
        BatchResumed = "batch.resumed",
        /// Each item of a batch has ended.
        BatchCompleted = "batch.completed",
        /// A batch was cancelled, with all its items that hadn't ended.
        BatchCancelled = "batch.cancelled",
        /// Events were lost: read again what you show.
        Reset = "reset",
    }
}

/// What happened to whom. Fields that don't apply are left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Event {
    #[serde(rename = "type")]
    pub event: EventType,
    /// When.
    pub at: DateTime<Utc>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Uuid>)]
    pub job_id: Option<JobId>,
    /// The batch, or the one that the job is an item of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch_id: Option<Uuid>,
    /// The session that the job scores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<Uuid>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
    /// The job's state from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<JobState>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge: Option<String>,
    /// Why a job waits, or a judge is closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<WaitReason>,
    /// Until when, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<DateTime<Utc>>,
    /// The new score.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score_id: Option<Uuid>,
    /// Its total, 0-100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_score: Option<u8>,
    /// Whether a simulated judge made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulated: Option<bool>,
    /// How the job failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<FailureClass>,
}

impl Event {
    /// An event about nobody yet.
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

    /// An event about a job, which is in `state` from now on.
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

    /// An event about a batch.
    pub fn of_batch(event: EventType, batch_id: Uuid, kind: Kind, at: DateTime<Utc>) -> Self {
        Self {
            batch_id: Some(batch_id),
            kind: Some(kind),
            ..Self::new(event, at)
        }
    }

    /// An event about a judge.
    pub fn of_judge(event: EventType, judge: impl Into<String>, at: DateTime<Utc>) -> Self {
        Self {
            judge: Some(judge.into()),
            ..Self::new(event, at)
        }
    }
}
