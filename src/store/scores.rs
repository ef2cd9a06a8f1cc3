//! `session_scores` and its three child tables. (Skeleton.)

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::{Store, StoreError};
use crate::job::{JobId, Usage};
use crate::score::session::SessionScore;

/// A session's score on its way into the store.
#[derive(Debug, Clone, PartialEq)]
pub struct NewSessionScore {
    /// The score's id.
    pub score_id: Uuid,
    /// The session.
    pub session_id: Uuid,
    /// The criteria that the job pinned.
    pub criteria_hash: String,
    /// The score.
    pub score: SessionScore,
    /// Who asked.
    pub triggered_by: String,
}

/// A stored session score.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionScoreRow {
    /// The score's id.
    pub score_id: Uuid,
    /// The session.
    pub session_id: Uuid,
    /// The job that made it.
    pub job_id: JobId,
    /// The criteria.
    pub criteria_hash: String,
    /// The score.
    pub score: SessionScore,
    /// Who asked.
    pub triggered_by: String,
    /// When it was made.
    pub scored_at: DateTime<Utc>,
    /// When a newer one took its place; `None` for the current one.
    pub superseded_at: Option<DateTime<Utc>>,
    /// What the job's calls used.
    pub usage: Usage,
}

impl Store {
    /// The current score of a session.
    pub async fn current_score(
        &self,
        _session_id: Uuid,
    ) -> Result<Option<SessionScoreRow>, StoreError> {
        unimplemented!()
    }
    /// Every score of a session, newest first; at most 1,000.
    pub async fn scores_of(&self, _session_id: Uuid) -> Result<Vec<SessionScoreRow>, StoreError> {
        unimplemented!()
    }
    /// One score by its id.
    pub async fn score(&self, _score_id: Uuid) -> Result<Option<SessionScoreRow>, StoreError> {
        unimplemented!()
    }
}
