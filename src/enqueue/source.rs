//! Where enqueue may get a session that isn't here. What is behind it is wired by `app`; enqueue knows no history.

use std::sync::Arc;

use async_trait::async_trait;
use uuid::Uuid;

use super::{Enqueue, EnqueueError};
use crate::store::{ScoringFacts, StoreError};

/// What came of asking for a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sourced {
    /// It is stored now, as its source has it.
    Stored,
    /// The source has no such session, or isn't where it came from.
    Unknown,
}

/// Why the source gave nothing.
#[derive(Debug, Clone)]
pub enum SourceError {
    /// It doesn't answer well, or not in time.
    Unavailable(SourceProblem),
    /// It has the session, and it can't be stored: why.
    Unusable(String),
    /// The store failed.
    Store(StoreError),
}

/// A source that doesn't answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceProblem {
    /// What happened, and the remedy if there is one.
    pub reason: String,
    /// When to try again, seconds.
    pub retry_after_s: u64,
}

/// Knows sessions that the store may not have. Asking takes a bounded time.
#[async_trait]
pub trait SessionSource: Send + Sync {
    /// Stores the session as the source has it now.
    async fn fetch(&self, session_id: Uuid) -> Result<Sourced, SourceError>;
}

impl Enqueue {
    /// Names the source of sessions that aren't here, or hadn't ended when they came. Once; a second one is ignored.
    pub fn source_from(&self, source: Arc<dyn SessionSource>) {
        let _named_already = self.source.set(source);
    }

    /// What is known of a session, read again unless it was `seen` just now; if that isn't enough to score it, the source
    /// is asked first.
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

/// Whether the source was asked for this request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SourceAsked {
    No,
    Yes,
}
