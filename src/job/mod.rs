//! Jobs and their rows. Types that clients see as well are in the wire crate. No I/O.

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

/// Lane of a job in the queue: the name of its judge, or one of two reserved names.
///
/// A closed gate (breaker open, paused, exhausted) stops only its own lane.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Lane(String);

/// From the name stored in a row or the queue.
impl From<String> for Lane {
    fn from(name: String) -> Self {
        Self(name)
    }
}

impl Lane {
    /// Lane of jobs without a judge.
    pub const NONE: &'static str = "none";
    /// Lane of jobs that were active in two or more worker deaths in a row. A worker runs one of them at a time, so that its death can be
    /// attributed to the job.
    pub const SUSPECT: &'static str = "suspect";

    pub fn of_judge(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    pub fn suspect() -> Self {
        Self(Self::SUSPECT.to_owned())
    }

    pub fn is_suspect(&self) -> bool {
        self.0 == Self::SUSPECT
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchPlace {
    pub batch_id: Uuid,
    /// Index among the batch's items, from 0.
    pub item_no: i64,
}

/// Whether existing scores and cached replies are skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Force {
    Yes,
    /// As set in the job.
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
    /// The user that a trusted proxy names, otherwise the token's name, otherwise `api-client`.
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

    pub fn of_request(request: &JobRequest, triggered_by: Requester) -> Self {
        let priority = request.priority.unwrap_or(Priority::Interactive);
        Self {
            force: Force::from_flag(request.force_rescore),
            ..Self::new(triggered_by, priority)
        }
    }
}

/// Row inserted by `enqueue`; other columns have their defaults.
#[derive(Debug, Clone, PartialEq)]
pub struct NewJob {
    pub job_id: JobId,
    pub kind: Kind,
    /// Session id for [`Kind::Session`], otherwise `None`.
    pub subject_id: Option<Uuid>,
    pub purpose: Purpose,
    pub payload: Payload,
    /// `None` if no judge is needed.
    pub judge: Option<String>,
    pub priority: Priority,
    /// Criteria pinned at enqueue: 64 hex digits.
    pub criteria_hash: String,
    /// Whether existing scores and cached replies are skipped.
    pub force_rescore: bool,
    pub triggered_by: Requester,
    pub batch: Option<BatchPlace>,
    pub created_at: DateTime<Utc>,
}

impl NewJob {
    /// Returns a job without a judge for a payload.
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

    pub fn lane(&self) -> Lane {
        Lane(self.judge.clone().unwrap_or_else(|| Lane::NONE.to_owned()))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    pub reason: WaitReason,
    /// Time of the next attempt; `None` if an operator must act first.
    pub until: Option<DateTime<Utc>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    pub class: FailureClass,
    /// Description without prompts, replies and keys.
    pub message: String,
}

/// Row of `scoring_jobs`.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    pub job_id: JobId,
    pub kind: Kind,
    pub subject_id: Option<Uuid>,
    pub purpose: Purpose,
    pub payload: Payload,
    /// `None` if no judge is needed.
    pub judge: Option<String>,
    /// Current lane: its judge's, or `suspect`.
    pub lane: Lane,
    pub priority: Priority,
    pub state: JobState,
    /// Incremented by every claim: the fence against stale workers.
    pub claim_no: i64,
    /// Worker deaths while the job was a suspect; not a count of attempts.
    pub attempts: i32,
    /// Worker deaths in a row while the job was active. Reset to 0 by any other end of a run.
    pub losses: i32,
    /// Judge calls beyond the first, up to `judge.max_retries`.
    pub retries: i32,
    /// Set while `waiting`.
    pub wait: Option<Wait>,
    /// Time from which it may be claimed.
    pub due_at: DateTime<Utc>,
    /// Start of the current series of waits; `max_wait` counts the time in `waiting` since then.
    pub waiting_since: Option<DateTime<Utc>>,
    pub worker_id: Option<Uuid>,
    /// Set when `failed`.
    pub failure: Option<Failure>,
    pub criteria_hash: String,
    pub force_rescore: bool,
    pub triggered_by: Requester,
    pub batch: Option<BatchPlace>,
    /// Whether it was also requested individually. If so, it runs while its batch is paused and isn't cancelled with it.
    pub on_demand: bool,
    /// Whether its batch had a budget at the time of the claim; `false` if the row was read in another way.
    pub budgeted: bool,
    /// Result as shown by the API. A failed job may have its computed metrics, with `status: incomplete`.
    pub result: Option<Value>,
    /// Whether the result was made by a simulated judge.
    pub simulated: bool,
    pub usage: Usage,
    pub created_at: DateTime<Utc>,
    pub started_at: Option<DateTime<Utc>>,
    pub finished_at: Option<DateTime<Utc>>,
}

impl From<NewJob> for Job {
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
            // The cost so far is known to be zero.
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
