//! `alert_sessions`: what agents did, as it came in. (Skeleton.)

use chrono::{DateTime, Utc};
use serde_json::Value;
use uuid::Uuid;

use super::{Cursor, Page, Store, StoreError};
use crate::job::{Job, text_enum};
use crate::score::session::{Message, Rating};

text_enum! {
    /// Where an agent's session stands, as TARSy names it.
    pub enum SessionStatus {
        /// Not begun.
        Pending = "pending",
        /// Under way.
        InProgress = "in_progress",
        /// Halted.
        Paused = "paused",
        /// Being cancelled (Go's spelling).
        Canceling = "canceling",
        /// Being cancelled (Python's spelling).
        Cancelling = "cancelling",
        /// Ended well.
        Completed = "completed",
        /// Ended with an error.
        Failed = "failed",
        /// Ended by somebody.
        Cancelled = "cancelled",
        /// Ended by the clock.
        TimedOut = "timed_out",
    }
}

impl SessionStatus {
    /// Whether the session has ended; only such sessions are scored.
    pub fn is_terminal(self) -> bool {
        match self {
            Self::Completed | Self::Failed | Self::Cancelled | Self::TimedOut => true,
            Self::Pending
            | Self::InProgress
            | Self::Paused
            | Self::Canceling
            | Self::Cancelling => false,
        }
    }
}

/// One session, whole.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionRecord {
    /// The session's id.
    pub session_id: Uuid,
    /// Where it came from: `api`, `file`, `demo`.
    pub source: String,
    /// Where it stands.
    pub status: SessionStatus,
    /// What kind of alert it was.
    pub alert_type: Option<String>,
    /// The agent's name.
    pub agent: Option<String>,
    /// Who started it.
    pub author: Option<String>,
    /// The alert, an object or a string.
    pub alert_data: Value,
    /// The investigation.
    pub conversation: Vec<Message>,
    /// What the agent concluded.
    pub final_analysis: Option<String>,
    /// The tools that were at hand.
    pub tools: Vec<String>,
    /// Labels.
    pub tags: Vec<String>,
    /// When it began.
    pub started_at: Option<DateTime<Utc>>,
    /// When it ended.
    pub completed_at: Option<DateTime<Utc>>,
}

/// What a put did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PutOutcome {
    /// It was not there.
    New,
    /// It was there, and something differs.
    Updated,
    /// It was there, the same.
    Unchanged,
}

/// What enqueue must know of a session, in one read.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoringView {
    /// Where the session stands.
    pub status: SessionStatus,
    /// Whether there is anything to judge: the conversation has at least one message.
    pub has_conversation: bool,
    /// The job that is active for it (purpose `score`), if any.
    pub active_job: Option<Job>,
    /// The newest job that failed after the current score was made, if any (for GET's `not-scored`).
    pub last_failed_job: Option<Job>,
    /// The current score's id and criteria, if any.
    pub current_score: Option<(Uuid, String)>,
}

/// Which sessions by their score.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scored {
    /// Those with a current score.
    Yes,
    /// Those without.
    No,
    /// Those with an active job.
    Running,
    /// Those whose newest job failed.
    Failed,
}

/// Which sessions; every field narrows.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SessionFilter {
    /// Prefix of id, alert type, agent or author, case-insensitive.
    pub q: Option<String>,
    /// Where the session stands.
    pub status: Option<SessionStatus>,
    /// By its score.
    pub scored: Option<Scored>,
    /// By the current score's rating.
    pub rating: Option<Rating>,
    /// Current score at least.
    pub min_score: Option<u8>,
    /// Current score at most.
    pub max_score: Option<u8>,
    /// The current score's criteria hash.
    pub criteria_hash: Option<String>,
    /// Only those whose current score has another criteria hash than this (`criteria=not_current`).
    pub criteria_not: Option<String>,
    /// Has this label.
    pub tag: Option<String>,
    /// The agent's name, whole.
    pub agent: Option<String>,
    /// The alert type, whole.
    pub alert_type: Option<String>,
    /// Completed (else first seen) at or after.
    pub from: Option<DateTime<Utc>>,
    /// Completed (else first seen) before.
    pub to: Option<DateTime<Utc>>,
    /// Only these.
    pub ids: Vec<Uuid>,
}

/// One line of the list of sessions.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionSummary {
    /// The session's id.
    pub session_id: Uuid,
    /// Where it came from.
    pub source: String,
    /// Where it stands.
    pub status: SessionStatus,
    /// What kind of alert it was.
    pub alert_type: Option<String>,
    /// The agent's name.
    pub agent: Option<String>,
    /// Who started it.
    pub author: Option<String>,
    /// Labels.
    pub tags: Vec<String>,
    /// When it began.
    pub started_at: Option<DateTime<Utc>>,
    /// When it ended.
    pub completed_at: Option<DateTime<Utc>>,
    /// When gavel first saw it.
    pub created_at: DateTime<Utc>,
    /// The current score: id, total, criteria hash, simulated, when.
    pub score: Option<(Uuid, u8, String, bool, DateTime<Utc>)>,
    /// The active job's id and state.
    pub active_job: Option<(crate::job::JobId, crate::job::JobState)>,
}

impl Store {
    /// Inserts or replaces a session; scores and jobs stay.
    pub async fn put_session(
        &self,
        _session: &SessionRecord,
        _now: DateTime<Utc>,
    ) -> Result<PutOutcome, StoreError> {
        unimplemented!()
    }
    /// Reads a session, whole.
    pub async fn session(&self, _id: Uuid) -> Result<Option<SessionRecord>, StoreError> {
        unimplemented!()
    }
    /// Reads what enqueue must know. `None`: no such session.
    pub async fn scoring_view(&self, _id: Uuid) -> Result<Option<ScoringView>, StoreError> {
        unimplemented!()
    }
    /// Lists sessions, newest first (completed, else first seen). `limit` 1-500.
    pub async fn sessions(
        &self,
        _filter: &SessionFilter,
        _after: Option<&Cursor>,
        _limit: u32,
    ) -> Result<Page<SessionSummary>, StoreError> {
        unimplemented!()
    }
}
