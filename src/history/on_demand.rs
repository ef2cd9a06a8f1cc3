//! Fetches a session to be scored from the configured TARSy if it isn't stored, or hadn't ended when it was stored.
//!
//! The number of concurrent fetches and their time are limited, and requests for one session share a fetch. The number depends on the rate
//! limit, so that each fetch can finish in time. A session from another source isn't replaced.

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

/// Maximum concurrent fetches.
const MAX_CONCURRENT: u8 = 8;
/// Timeout of a fetch, including retries.
const FETCH_TIMEOUT: Duration = Duration::from_secs(15);
/// Retry delay if the TARSy doesn't set one.
const RETRY_AFTER: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FetchOutcome {
    /// The TARSy's current version is stored.
    Stored,
    /// The TARSy has no such session, or the stored one is from another source.
    Nothing,
}

/// Error that leaves unknown whether the session exists.
#[derive(Debug, Clone, thiserror::Error)]
pub enum OnDemandError {
    /// The TARSy is unavailable or timed out.
    #[error("{reason}")]
    Unavailable {
        reason: String,
        retry_after: Duration,
    },
    /// The session can't be stored.
    #[error("{0}")]
    Unusable(String),
    #[error(transparent)]
    Store(StoreError),
}

type FetchResult = Result<FetchOutcome, OnDemandError>;
type Flight = BoxFuture<'static, FetchResult>;

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
    /// Prepares fetches from the TARSy at `base` with a separate rate limit, so that a running import doesn't delay them.
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

    /// Fetches and stores a session. Concurrent callers share the result. Errors: `Unavailable` after 15 s at the latest; `Unusable` if the
    /// session can't be stored.
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
        // Drops fetches without a connected client.
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
        // It may have been stored from another source since.
        let now = self.clock.now();
        let put = self.store.sessions().put_of_its_source(&record, now).await;
        put.map_err(OnDemandError::Store)?;
        let said: Vec<_> = quality.map(|quality| (id, quality)).into_iter().collect();
        let noted = self.store.ratings().note(SOURCE, &said, now).await;
        noted.map_err(OnDemandError::Store)?;
        Ok(FetchOutcome::Stored)
    }
}

/// Returns the number of concurrent fetches: one per request a second, so that the largest session (thirteen requests in the newer
/// generation) arrives in time. `requests_per_second` 0: no limit.
fn at_once(requests_per_second: f64) -> usize {
    (1..MAX_CONCURRENT)
        .find(|most| requests_per_second > 0.0 && f64::from(*most) >= requests_per_second.floor())
        .unwrap_or(MAX_CONCURRENT)
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn concurrent_fetches_get_one_request_a_second() {
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
