//! One session from the configured TARSy, when it is to be scored and isn't here, or hadn't ended when it came.
//!
//! Bounded: so many at once, so long each; requests for one session share one fetch. How many at once goes by the pace, so
//! that what is begun is also finished: with the pace cut among many, all would run out of time. A session that came in another way
//! is never replaced.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared, WeakShared};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use uuid::Uuid;

use super::imports::HistoryOptions;
use super::tarsy::{Address, SOURCE, Tarsy, TarsyError, TarsySession};
use crate::clock::Clock;
use crate::store::{Store, StoreError};

/// Sessions that are fetched at once at most.
const MOST_AT_ONCE: u8 = 8;
/// How long a client waits for a session from elsewhere, all retries included.
const FETCH_TIMEOUT: Duration = Duration::from_secs(15);
/// When to try again, if TARSy doesn't say.
const RETRY_AFTER: Duration = Duration::from_secs(10);

/// What came of asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FetchOutcome {
    /// It is stored now, as TARSy has it.
    Stored,
    /// TARSy has no such session, or the stored one came in another way.
    Nothing,
}

/// Why it is not known whether there is such a session.
#[derive(Debug, Clone, thiserror::Error)]
pub enum OnDemandError {
    /// TARSy doesn't answer well, or not in time.
    #[error("{reason}")]
    Unavailable {
        /// What happened.
        reason: String,
        /// When to try again.
        retry_after: Duration,
    },
    /// TARSy has the session, and it can't be stored.
    #[error("{0}")]
    Unusable(String),
    /// The store failed.
    #[error(transparent)]
    Store(StoreError),
}

type FetchResult = Result<FetchOutcome, OnDemandError>;
type Flight = BoxFuture<'static, FetchResult>;

/// Fetches sessions one by one.
pub struct OnDemand {
    parts: Arc<SessionFetcher>,
    flights: Mutex<HashMap<Uuid, WeakShared<Flight>>>,
}

struct SessionFetcher {
    store: Arc<Store>,
    clock: Arc<dyn Clock>,
    tarsy: Tarsy,
    permits: Semaphore,
}

impl OnDemand {
    /// Prepares to fetch from the TARSy at `base`, at a pace of its own: an import that runs doesn't hold it up.
    pub fn new(
        store: Arc<Store>,
        clock: Arc<dyn Clock>,
        options: &HistoryOptions,
        base: Address,
    ) -> Self {
        let parts = SessionFetcher {
            store,
            clock,
            tarsy: options.tarsy(base, options.requests_per_second),
            permits: Semaphore::new(at_once(options.requests_per_second)),
        };
        Self {
            parts: Arc::new(parts),
            flights: Mutex::default(),
        }
    }

    /// Fetches a session and stores it; who asks for it meanwhile gets the same answer.
    ///
    /// # Errors
    /// `Unavailable` after 15 s at the latest; `Unusable` when the session can't be stored as TARSy has it.
    pub async fn fetch(&self, id: Uuid) -> FetchResult {
        let answer = self.flight(id).await;
        let mut flights = self.flights();
        if flights
            .get(&id)
            .is_some_and(|flight| flight.upgrade().is_none_or(|f| f.peek().is_some()))
        {
            flights.remove(&id);
        }
        answer
    }

    fn flight(&self, id: Uuid) -> Shared<Flight> {
        let mut flights = self.flights();
        // Those whose clients have all gone away.
        flights.retain(|_, flight| flight.upgrade().is_some());
        if let Some(flight) = flights.get(&id).and_then(WeakShared::upgrade) {
            return flight;
        }
        let parts = self.parts.clone();
        let flight = async move { parts.fetch(id).await }.boxed().shared();
        if let Some(weak) = flight.downgrade() {
            flights.insert(id, weak);
        }
        flight
    }

    fn flights(&self) -> MutexGuard<'_, HashMap<Uuid, WeakShared<Flight>>> {
        match self.flights.lock() {
            Ok(flights) => flights,
            Err(poisoned) => poisoned.into_inner(),
        }
    }
}

impl SessionFetcher {
    async fn fetch(&self, id: Uuid) -> FetchResult {
        let stored = self.store.sessions().stored(&[id]).await;
        let stored = stored.map_err(OnDemandError::Store)?;
        if stored
            .get(&id)
            .is_some_and(|stored| stored.source != SOURCE)
        {
            return Ok(FetchOutcome::Nothing);
        }
        let asked = async {
            // Closed never: it lives as long as this.
            let _permit = self.permits.acquire().await;
            self.tarsy.session(id).await
        };
        let TarsySession { input, quality } = match timeout(FETCH_TIMEOUT, asked).await {
            Err(_) => {
                return Err(OnDemandError::Unavailable {
                    reason: format!(
                        "{} did not give the session within {} s",
                        self.tarsy.address(),
                        FETCH_TIMEOUT.as_secs()
                    ),
                    retry_after: RETRY_AFTER,
                });
            }
            Ok(Err(TarsyError::Missing(_))) => return Ok(FetchOutcome::Nothing),
            Ok(Err(TarsyError::Unavailable {
                message,
                retry_after,
            })) => {
                return Err(OnDemandError::Unavailable {
                    reason: message,
                    retry_after: retry_after.unwrap_or(RETRY_AFTER),
                });
            }
            Ok(Err(TarsyError::Denied(reason))) => {
                return Err(OnDemandError::Unavailable {
                    reason,
                    retry_after: RETRY_AFTER,
                });
            }
            Ok(Err(TarsyError::Unusable(reason))) => return Err(OnDemandError::Unusable(reason)),
            Ok(Ok(session)) => session,
        };
        let record = input
            .into_record(id, SOURCE)
            .map_err(|faults| OnDemandError::Unusable(faults.to_string()))?;
        // It may have been put in another way meanwhile.
        let now = self.clock.now();
        let put = self.store.sessions().put_of_its_source(&record, now).await;
        put.map_err(OnDemandError::Store)?;
        let said: Vec<_> = quality.map(|quality| (id, quality)).into_iter().collect();
        let noted = self.store.ratings().note(SOURCE, &said, now).await;
        noted.map_err(OnDemandError::Store)?;
        Ok(FetchOutcome::Stored)
    }
}

/// How many sessions are fetched at once: each has a request a second, which is enough for the largest (a newer TARSy's, in
/// thirteen requests) to come in time. `requests_per_second`: 0 is as fast as it goes.
fn at_once(requests_per_second: f64) -> usize {
    (1..MOST_AT_ONCE)
        .find(|most| requests_per_second > 0.0 && f64::from(*most) >= requests_per_second.floor())
        .unwrap_or(MOST_AT_ONCE)
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_session_that_is_fetched_has_a_request_a_second() {
        for (pace, sessions) in [
            (0.0, 8),
            (0.1, 1),
            (1.0, 1),
            (2.0, 2),
            (2.9, 2),
            (7.0, 7),
            (100.0, 8),
        ] {
            assert_eq!(at_once(pace), sessions, "{pace}");
        }
    }
}
