//! The nouns of the flow: a job and its row; what of them clients see too is the wire's. Nothing here does IO or knows a judge.

mod payload;

use std::fmt;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use gavel_wire::JobRequest;
pub(crate) use gavel_wire::text_enum;
pub use gavel_wire::{
    FailureClass, JobId, JobState, Kind, Priority, Purpose, UnknownText, Usage, WaitReason,
};
pub use payload::{Payload, SessionPayload};

/// The road a job takes through the queue: the judge that it needs, or one of two reserved names.
///
/// A closed gate (breaker open, paused, exhausted) stops its lane, and no other.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Lane(String);

impl Lane {
    /// The lane of jobs that need no judge.
    pub const NONE: &'static str = "none";
    /// The lane of jobs that were in hand when a worker died, twice in a row or more: a worker runs one of them at a time,
    /// and its death is then that one's.
    pub const SUSPECT: &'static str = "suspect";

    /// The lane of a judge by its name.
    pub fn of_judge(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// Any lane by its name, as a row or the queue has it.
    pub fn from_stored(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// The lane of jobs whose worker died more than once.
    pub fn suspect() -> Self {
        Self(Self::SUSPECT.to_owned())
    }

    /// Whether this is the lane `suspect`.
    pub fn is_suspect(&self) -> bool {
        self.0 == Self::SUSPECT
    }

    /// The lane's name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Where a job stands in a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchPlace {
    pub batch_id: Uuid,
    /// Its place among the batch's items, from 0.
    pub item_no: i64,
}

/// Whether an existing score and cached replies are skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Force {
    Yes,
    /// As the job says.
    AsIs,
}

impl Force {
    pub fn from_flag(is_forced: bool) -> Self {
        match is_forced {
            true => Self::Yes,
            false => Self::AsIs,
        }
    }
}

/// Who requested a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requester {
    /// The user that a trusted proxy names, else the token's name, else `api-client`.
    pub user: String,
    /// Name of the token that authenticated the request.
    pub authenticated_as: Option<String>,
}

impl From<String> for Requester {
    fn from(user: String) -> Self {
        Self {
            user,
            authenticated_as: None,
        }
    }
}

/// How a score is asked for, whatever is scored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobOptions {
    pub force: Force,
    pub triggered_by: Requester,
    pub priority: Priority,
}

impl JobOptions {
    pub fn new(triggered_by: impl Into<Requester>, priority: Priority) -> Self {
        Self {
            force: Force::AsIs,
            triggered_by: triggered_by.into(),
            priority,
        }
    }

    /// As a request has them.
    pub fn of_request(request: &JobRequest, triggered_by: Requester) -> Self {
        let priority = request.priority.unwrap_or(Priority::Interactive);
        Self {
            force: Force::from_flag(request.force_rescore),
            ..Self::new(triggered_by, priority)
        }
    }
}

/// What `enqueue` inserts; everything else on the row starts at its default.
#[derive(Debug, Clone, PartialEq)]
pub struct NewJob {
    pub job_id: JobId,
    pub kind: Kind,
    /// The session's id for [`Kind::Session`]; `None` where the payload is all there is.
    pub subject_id: Option<Uuid>,
    /// Why it is judged.
    pub purpose: Purpose,
    /// The kind's own payload.
    pub payload: Payload,
    /// The judge's name; `None` if no judge is needed.
    pub judge: Option<String>,
    pub priority: Priority,
    /// Criteria pinned at enqueue: 64 hex digits.
    pub criteria_hash: String,
    /// Whether an existing score and cached replies are skipped.
    pub force_rescore: bool,
    pub triggered_by: Requester,
    /// The batch that it is an item of.
    pub batch: Option<BatchPlace>,
    /// When it was asked.
    pub created_at: DateTime<Utc>,
}

impl NewJob {
    /// A job for the score of a payload that needs no judge, by criteria that the caller names.
    pub fn new(
        kind: Kind,
        payload: impl Into<Payload>,
        options: JobOptions,
        created_at: DateTime<Utc>,
    ) -> Self {
        Self {
            job_id: JobId::at(created_at),
            kind,
            subject_id: None,
            purpose: Purpose::Score,
            payload: payload.into(),
            judge: None,
            priority: options.priority,
            criteria_hash: String::new(),
            force_rescore: options.force == Force::Yes,
            triggered_by: options.triggered_by,
            batch: None,
            created_at,
        }
    }

    /// A job for a session's score, by criteria that the caller names.
    pub fn of_session(
        session_id: Uuid,
        judge: String,
        options: JobOptions,
        created_at: DateTime<Utc>,
    ) -> Self {
        let payload = SessionPayload {
            session_id,
            force_rescore: options.force == Force::Yes,
            may_be_precomputed: false,
        };
        let payload = serde_json::json!(payload);
        Self {
            subject_id: Some(session_id),
            judge: Some(judge),
            ..Self::new(Kind::Session, payload, options, created_at)
        }
    }

    /// The lane that the job starts in.
    pub fn lane(&self) -> Lane {
        Lane(self.judge.clone().unwrap_or_else(|| Lane::NONE.to_owned()))
    }
}

/// A wait with its reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    pub reason: WaitReason,
    /// When it is tried again; `None` where somebody must act first.
    pub until: Option<DateTime<Utc>>,
}

/// Why a job failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    pub class: FailureClass,
    /// What happened, in words, with no prompt, reply or key in it.
    pub message: String,
}

/// One row of `scoring_jobs`.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    pub job_id: JobId,
    pub kind: Kind,
    /// The session's id for [`Kind::Session`].
    pub subject_id: Option<Uuid>,
    /// Why it is judged.
    pub purpose: Purpose,
    /// The kind's own payload.
    pub payload: Payload,
    /// The judge's name; `None` if no judge is needed.
    pub judge: Option<String>,
    /// The lane it is in now: its judge's, or `suspect`.
    pub lane: Lane,
    pub priority: Priority,
    /// Where it stands.
    pub state: JobState,
    /// Rises on every claim, is never lowered: the fence against stale workers.
    pub claim_no: i64,
    /// Deaths of its worker while it was a suspect; not how often it was tried.
    pub attempts: i32,
    /// Worker deaths in a row with this job in hand; a run that ends in any other way sets it to 0.
    pub losses: i32,
    /// Judge calls spent beyond the first, up to `judge.max_retries`.
    pub retries: i32,
    /// Set while `waiting`: why, and until when.
    pub wait: Option<Wait>,
    /// When it may be claimed.
    pub due_at: DateTime<Utc>,
    /// When it first went to `waiting` in this run of waits; `max_wait` counts the time spent waiting from here.
    pub waiting_since: Option<DateTime<Utc>>,
    /// Who runs it.
    pub worker_id: Option<Uuid>,
    /// Set when `failed`.
    pub failure: Option<Failure>,
    /// Criteria pinned at enqueue.
    pub criteria_hash: String,
    /// Whether an existing score and cached replies are skipped.
    pub force_rescore: bool,
    pub triggered_by: Requester,
    /// The batch that it is an item of.
    pub batch: Option<BatchPlace>,
    /// Whether somebody asked for it by itself: then it runs though its batch is paused, and outlives a cancelled one.
    pub on_demand: bool,
    /// Whether that batch had a budget when a worker claimed this; `false` in any other reading.
    pub budgeted: bool,
    /// The kind's result, as the API shows it; of a failed job what was computed all the same, with `status: incomplete`.
    pub result: Option<Value>,
    /// Whether a simulated judge made the result.
    pub simulated: bool,
    /// What its judge calls used so far.
    pub usage: Usage,
    /// When it was asked.
    pub created_at: DateTime<Utc>,
    /// When it was last claimed.
    pub started_at: Option<DateTime<Utc>>,
    /// When it reached a terminal state.
    pub finished_at: Option<DateTime<Utc>>,
}

impl From<NewJob> for Job {
    /// The row that accepting it makes.
    fn from(new: NewJob) -> Self {
        let lane = new.lane();
        Self {
            job_id: new.job_id,
            kind: new.kind,
            subject_id: new.subject_id,
            purpose: new.purpose,
            payload: new.payload,
            judge: new.judge,
            lane,
            priority: new.priority,
            state: JobState::Queued,
            claim_no: 0,
            attempts: 0,
            losses: 0,
            retries: 0,
            wait: None,
            due_at: new.created_at,
            waiting_since: None,
            worker_id: None,
            failure: None,
            criteria_hash: new.criteria_hash,
            force_rescore: new.force_rescore,
            triggered_by: new.triggered_by,
            batch: new.batch,
            budgeted: false,
            on_demand: false,
            result: None,
            simulated: false,
            // Nothing was spent yet, which is known.
            usage: Usage {
                cost_usd: Some(0.0),
                ..Usage::default()
            },
            created_at: new.created_at,
            started_at: None,
            finished_at: None,
        }
    }
}
