//! Fetches sessions that aren't stored.

use uuid::Uuid;

use super::{Enqueue, EnqueueError};
use crate::history::on_demand::{FetchOutcome, OnDemandError};
use crate::store::ScoringFacts;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceProblem {
    /// Error, and the remedy if there is one.
    pub reason: String,
    /// Retry delay in seconds.
    pub retry_after_s: u64,
}

impl Enqueue {
    /// Returns the facts about a session, read again unless `seen` is recent. If they are insufficient to score it, fetches the session
    /// first, but only once per request.
    pub(super) async fn facts(
        &self,
        session_id: Uuid,
        seen: Option<ScoringFacts>,
        fetched: &mut bool,
    ) -> Result<ScoringFacts, EnqueueError> {
        let stored = async || self.store.sessions().scoring_facts(session_id).await;
        let facts = match seen {
            Some(facts) => Some(facts),
            None => stored().await?,
        };
        let enough = facts
            .as_ref()
            .is_some_and(|facts| facts.status.is_terminal());
        let outcome = match &self.history {
            Some(history) if !enough && !*fetched => {
                *fetched = true;
                history.fetch(session_id).await
            }
            Some(_) | None => Ok(FetchOutcome::Nothing),
        };
        let facts = match outcome {
            Ok(FetchOutcome::Nothing) => facts,
            Ok(FetchOutcome::Stored) => stored().await?,
            Err(OnDemandError::Unavailable {
                reason,
                retry_after,
            }) => {
                return Err(EnqueueError::SourceUnavailable {
                    session_id,
                    problem: SourceProblem {
                        reason,
                        retry_after_s: retry_after.as_secs().max(1),
                    },
                });
            }
            Err(OnDemandError::Unusable(reason)) => {
                return Err(EnqueueError::SourceUnusable { session_id, reason });
            }
            Err(OnDemandError::Store(error)) => return Err(error.into()),
        };
        facts.ok_or(EnqueueError::SessionNotFound(session_id))
    }
}
