//! A request to score a session, and what comes of it.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::job::{Job, JobId, JobOptions};
use crate::wire::SessionStatus;

/// The id of the job that a request may make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewId {
    Any,
    Reserved(JobId),
    /// This one, which an earlier try of the same request may have used: then that job is the answer.
    Repeated(JobId),
}

impl NewId {
    pub(super) fn id(self, now: DateTime<Utc>) -> JobId {
        match self {
            Self::Any => JobId::at(now),
            Self::Reserved(id) | Self::Repeated(id) => id,
        }
    }
}

/// A request to score a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScoreSession {
    pub session_id: Uuid,
    /// The criteria asked for; `None`: the current ones.
    pub criteria_hash: Option<String>,
    pub options: JobOptions,
    /// What a new job is called.
    pub new_id: NewId,
}

/// What came of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Enqueued {
    /// A score exists and is what was asked for: its id.
    Scored(Uuid),
    /// A job is active, new or older.
    Job(Box<Job>),
}

impl From<Job> for Enqueued {
    fn from(job: Job) -> Self {
        Self::Job(Box::new(job))
    }
}

/// Which ended sessions are scored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScorableStatus {
    Ended,
    /// Those that ended `completed`.
    Completed,
}

impl ScorableStatus {
    /// Whether a session in this status is scored.
    #[must_use]
    pub fn takes(self, status: SessionStatus) -> bool {
        match self {
            Self::Ended => status.is_terminal(),
            Self::Completed => status == SessionStatus::Completed,
        }
    }

    /// Those in which a session is scored.
    pub(super) fn statuses(self) -> Vec<SessionStatus> {
        let all = SessionStatus::ALL.iter().copied();
        all.filter(|status| self.takes(*status)).collect()
    }
}
