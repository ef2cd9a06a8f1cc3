//! `scoring_jobs`: accept, claim, record, rescue. (Skeleton.)

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::Value;
use uuid::Uuid;

use super::{Cursor, NewSessionScore, Page, Store, StoreError};
use crate::job::{Failure, Job, JobId, JobState, Kind, Lane, NewJob, Priority, Usage, Wait};

/// What accepting did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Accepted {
    /// The row is committed.
    New,
    /// Another job is active for this subject; nothing was inserted.
    Active(JobId),
}

/// Who may record a run's end: compare-and-set on (job_id, claim_no, worker_id, state running).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fence {
    /// The job.
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
    /// For good. The last good score stays.
    Failed(Failure),
    /// With a wait; due again at `due_at`.
    Waiting {
        /// Why and until when.
        wait: Wait,
        /// When it may be claimed.
        due_at: DateTime<Utc>,
    },
    /// Not finished: drained, or its lane was paused. Back to `queued`, due at once.
    Requeued,
}

/// One run's end, to be recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// Who says so.
    pub fence: Fence,
    /// How it ended.
    pub ending: Ending,
    /// Judge retries spent over all runs.
    pub retries: i32,
    /// What this run's calls used; added to the row's.
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
    _todo: (),
}

impl RecordTicket {
    /// Waits for the commit. The recorder keeps trying while the database is away; `Unavailable` only after `close`.
    pub async fn committed(self) -> Result<Recorded, StoreError> {
        unimplemented!()
    }
}

/// A row that is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueJob {
    /// The job.
    pub job_id: JobId,
    /// Its lane.
    pub lane: Lane,
    /// Its set.
    pub priority: Priority,
    /// Since when.
    pub due_at: DateTime<Utc>,
}

/// What a look for lost jobs did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rescued {
    /// Back to `queued`; to be pushed.
    pub requeued: Vec<DueJob>,
    /// Failed as `poison`.
    pub poisoned: Vec<JobId>,
}

/// Which jobs; every field narrows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobFilter {
    /// By state.
    pub state: Option<JobState>,
    /// By kind.
    pub kind: Option<Kind>,
    /// By subject.
    pub subject_id: Option<Uuid>,
    /// By judge.
    pub judge: Option<String>,
}

/// How many jobs of each state (terminal ones: in the last 24 h). Counts above 10,000 read 10,000.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JobCounts {
    /// Due or not yet due.
    pub queued: i64,
    /// In a worker's hand.
    pub running: i64,
    /// Waiting with a reason.
    pub waiting: i64,
    /// Ended well in the last 24 h.
    pub succeeded: i64,
    /// Failed in the last 24 h.
    pub failed: i64,
    /// Cancelled in the last 24 h.
    pub cancelled: i64,
}

impl Store {
    /// Inserts a job; returns when the row is committed. Grouped: what gathers while a commit runs goes into the next one.
    pub async fn accept(&self, _job: NewJob) -> Result<Accepted, StoreError> {
        unimplemented!()
    }
    /// Reads one job.
    pub async fn job(&self, _id: JobId) -> Result<Option<Job>, StoreError> {
        unimplemented!()
    }
    /// Lists jobs, newest first. `limit` 1-500.
    pub async fn jobs(
        &self,
        _filter: &JobFilter,
        _after: Option<&Cursor>,
        _limit: u32,
    ) -> Result<Page<Job>, StoreError> {
        unimplemented!()
    }
    /// How many jobs of each state.
    pub async fn job_counts(&self, _now: DateTime<Utc>) -> Result<JobCounts, StoreError> {
        unimplemented!()
    }
    /// Where a queued job stands in its lane, 1 = next; counts to 10,000, `None` if it isn't queued.
    pub async fn position(&self, _job: &Job) -> Result<Option<i64>, StoreError> {
        unimplemented!()
    }
    /// Raises a queued or waiting job to interactive, and sets `force_rescore` if `force`. `None`: it is neither now.
    pub async fn raise(&self, _id: JobId, _force: Force) -> Result<Option<Job>, StoreError> {
        unimplemented!()
    }
    /// Cancels an active job. `None`: no such job; else the job as it is now (unchanged if it had ended).
    pub async fn cancel(&self, _id: JobId, _now: DateTime<Utc>) -> Result<Option<Job>, StoreError> {
        unimplemented!()
    }
    /// failed -> queued with counters reset. `Active`: another job is active for its subject.
    /// The outer `None`: no such job, or it isn't `failed`.
    pub async fn retry(
        &self,
        _id: JobId,
        _now: DateTime<Utc>,
    ) -> Result<Option<Accepted>, StoreError> {
        unimplemented!()
    }
    /// Claims what may be claimed of `ids` (queued or waiting, due) in one statement; the rest is left out.
    pub async fn claim(
        &self,
        _ids: &[JobId],
        _worker_id: Uuid,
        _now: DateTime<Utc>,
    ) -> Result<Vec<Job>, StoreError> {
        unimplemented!()
    }
    /// Hands a run's end to the recorder (waits for a place in its bounded channel) and answers a ticket for the commit.
    pub async fn record(&self, _record: Record) -> Result<RecordTicket, StoreError> {
        unimplemented!()
    }
    /// Takes running jobs of workers whose heartbeat is older than `stale_after` (by the database's clock), or that are
    /// not registered at all, in slices of 500: losses + 1; from the second loss in a row on into the lane `suspect`; a
    /// job lost in that lane gets attempts + 1, and at `max_attempts` fails as `poison`.
    pub async fn rescue_lost(
        &self,
        _stale_after: Duration,
        _max_attempts: i32,
        _now: DateTime<Utc>,
    ) -> Result<Rescued, StoreError> {
        unimplemented!()
    }
    /// Rows of one lane and set that are queued or waiting and due before `before`, in (due_at, job_id) order after `after`.
    pub async fn due(
        &self,
        _lane: &Lane,
        _priority: Priority,
        _before: DateTime<Utc>,
        _after: Option<(DateTime<Utc>, JobId)>,
        _limit: u32,
    ) -> Result<Vec<DueJob>, StoreError> {
        unimplemented!()
    }
    /// The lanes in which unfinished jobs lie.
    pub async fn lanes(&self) -> Result<Vec<Lane>, StoreError> {
        unimplemented!()
    }
    /// Fails jobs that have been `waiting` since before `since` as `wait_expired`, but those in lanes `except`.
    pub async fn expire_waits(
        &self,
        _since: DateTime<Utc>,
        _except: &[Lane],
        _now: DateTime<Utc>,
    ) -> Result<Vec<JobId>, StoreError> {
        unimplemented!()
    }
}

/// Whether an existing score and cached replies are passed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Force {
    /// They are.
    Yes,
    /// As the job says.
    AsIs,
}
