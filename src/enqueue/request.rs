//! Request to score a session, and its result.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::job::{Job, JobId, JobOptions};
use crate::wire::SessionStatus;

/// Id of the job that a request may create.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewId {
    Any,
    Reserved(JobId),
    /// This id. If an earlier attempt of the same request used it, its job is returned.
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

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScoreSession {
    pub session_id: Uuid,
    /// `None`: the current criteria.
    pub criteria_hash: Option<String>,
    pub options: JobOptions,
    pub new_id: NewId,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Enqueued {
    Scored(Uuid),
    Job(Box<Job>),
}

impl From<Job> for Enqueued {
    fn from(job: Job) -> Self {
        Self::Job(Box::new(job))
    }
}

/// Statuses in which ended sessions are scored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScorableStatus {
    Ended,
    Completed,
}

impl ScorableStatus {
    #[must_use]
    pub fn takes(self, status: SessionStatus) -> bool {
        match self {
            Self::Ended => status.is_terminal(),
            Self::Completed => status == SessionStatus::Completed,
        }
    }

    pub(super) fn statuses(self) -> Vec<SessionStatus> {
        let all = SessionStatus::ALL.iter().copied();
        all.filter(|status| self.takes(*status)).collect()
    }
}
