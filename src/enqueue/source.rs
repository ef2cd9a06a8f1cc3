//! Source of sessions that aren't stored. `app` connects it; enqueue doesn't depend on the history module.

use std::sync::Arc;

use async_trait::async_trait;
use uuid::Uuid;

use super::{Enqueue, EnqueueError};
use crate::store::{ScoringFacts, StoreError};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sourced {
    /// The current version is stored.
    Stored,
    /// The source has no such session, or the session came from elsewhere.
    Unknown,
}

#[derive(Debug, Clone)]
pub enum SourceError {
    /// The source is unavailable or timed out.
    Unavailable(SourceProblem),
    /// The session can't be stored, for this reason.
    Unusable(String),
    Store(StoreError),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceProblem {
    /// Error, and the remedy if there is one.
    pub reason: String,
    /// Retry delay in seconds.
    pub retry_after_s: u64,
}

/// Source of sessions that may be missing in the store. A fetch has a timeout.
#[async_trait]
pub trait SessionSource: Send + Sync {
    async fn fetch(&self, session_id: Uuid) -> Result<Sourced, SourceError>;
}

impl Enqueue {
    /// Sets the source of sessions that are missing, or that hadn't ended when they were stored. Later calls are ignored.
    pub fn source_from(&self, source: Arc<dyn SessionSource>) {
        let _named_already = self.source.set(source);
    }

    /// Returns the facts about a session, read again unless `seen` is recent. If they are insufficient to score it, fetches the session
    /// first.
    pub(super) async fn facts(
        &self,
        session_id: Uuid,
        seen: Option<ScoringFacts>,
        asked: &mut SourceAsked,
    ) -> Result<ScoringFacts, EnqueueError> {
        let facts = match seen {
            Some(facts) => Some(facts),
            None => self.store.sessions().scoring_facts(session_id).await?,
        };
        let enough = facts
            .as_ref()
            .is_some_and(|facts| facts.status.is_terminal());
        let sourced = match self.source.get() {
            Some(source) if !enough && *asked == SourceAsked::No => {
                *asked = SourceAsked::Yes;
                source.fetch(session_id).await
            }
            Some(_) | None => Ok(Sourced::Unknown),
        };
        let facts = match sourced {
            Ok(Sourced::Unknown) => facts,
            Ok(Sourced::Stored) => self.store.sessions().scoring_facts(session_id).await?,
            Err(SourceError::Unavailable(problem)) => {
                return Err(EnqueueError::SourceUnavailable {
                    session_id,
                    problem,
                });
            }
            Err(SourceError::Unusable(reason)) => {
                return Err(EnqueueError::SourceUnusable { session_id, reason });
            }
            Err(SourceError::Store(error)) => return Err(error.into()),
        };
        facts.ok_or(EnqueueError::SessionNotFound(session_id))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SourceAsked {
    No,
    Yes,
}
