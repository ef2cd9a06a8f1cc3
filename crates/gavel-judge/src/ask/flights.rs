//! Deduplicates questions in flight. A flight runs while at least one caller awaits it.

use std::collections::HashMap;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared, WeakShared};
use parking_lot::{Mutex, MutexGuard};

use super::AskOutcome;
use crate::CacheKey;

pub(super) type FlightKey = (String, CacheKey);

/// Questions in flight. Finished flights are removed with their answers.
#[derive(Default)]
pub(super) struct Flights {
    in_flight: Mutex<HashMap<FlightKey, FlightEntry>>,
}

type Flight = Shared<BoxFuture<'static, AskOutcome>>;

struct FlightEntry {
    number: u64,
    flight: WeakShared<BoxFuture<'static, AskOutcome>>,
    leader_retries: u32,
}

/// Handle of one caller. The flight is dropped with its last handle.
pub(super) struct JoinedFlight {
    pub(super) flight: Flight,
    pub(super) role: FlightRole,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FlightRole {
    Leader,
    Joined { leader_retries: u32 },
}

/// Removes the flight when it ends or when its last handle is dropped.
struct RemoveOnDrop {
    flights: Arc<Flights>,
    key: FlightKey,
    number: u64,
}

impl Drop for RemoveOnDrop {
    fn drop(&mut self) {
        let mut in_flight = self.flights.lock();
        if in_flight
            .get(&self.key)
            .is_some_and(|flight| flight.number == self.number)
        {
            in_flight.remove(&self.key);
        }
    }
}

impl Flights {
    pub(super) fn join_or_start(
        self: &Arc<Self>,
        key: FlightKey,
        retries_spent: u32,
        start: impl FnOnce() -> BoxFuture<'static, AskOutcome>,
    ) -> JoinedFlight {
        let mut in_flight = self.lock();
        let known = in_flight.get(&key);
        if let Some(known) = known
            && let Some(flight) = known.flight.upgrade()
        {
            return JoinedFlight {
                flight,
                role: FlightRole::Joined {
                    leader_retries: known.leader_retries,
                },
            };
        }
        // An abandoned flight may still be in the map. The number distinguishes it from the new one.
        let number = known.map_or(0, |left| left.number.wrapping_add(1));
        let remove_on_drop = RemoveOnDrop {
            flights: Arc::clone(self),
            key: key.clone(),
            number,
        };
        let run = start();
        let flight = async move {
            let _remove_on_drop = remove_on_drop;
            run.await
        }
        .boxed()
        .shared();
        if let Some(weak) = flight.downgrade() {
            let entry = FlightEntry {
                number,
                flight: weak,
                leader_retries: retries_spent,
            };
            in_flight.insert(key, entry);
        }
        JoinedFlight {
            flight,
            role: FlightRole::Leader,
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<FlightKey, FlightEntry>> {
        self.in_flight.lock()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use tokio::sync::Notify;

    use super::super::AskEnd;
    use super::*;
    use crate::gate::HeldBack;

    fn waits() -> AskOutcome {
        AskOutcome {
            end: AskEnd::Wait {
                why: HeldBack::Paused,
                retry_in: None,
                fallback: None,
            },
            retries_spent: 0,
            usage: super::super::usage::zero(),
        }
    }

    struct Airport {
        flights: Arc<Flights>,
        starts: Arc<AtomicU32>,
        land: Arc<Notify>,
    }

    impl Airport {
        fn new() -> Self {
            Self {
                flights: Arc::default(),
                starts: Arc::default(),
                land: Arc::default(),
            }
        }

        fn join_or_start(&self) -> JoinedFlight {
            let (starts, land) = (Arc::clone(&self.starts), Arc::clone(&self.land));
            let key = ("judge".to_owned(), CacheKey(uuid::Uuid::nil()));
            self.flights.join_or_start(key, 0, || {
                async move {
                    starts.fetch_add(1, Ordering::Relaxed);
                    land.notified().await;
                    waits()
                }
                .boxed()
            })
        }
    }

    #[tokio::test]
    async fn equal_questions_share_one_flight() {
        let airport = Airport::new();
        let (first, second) = (airport.join_or_start(), airport.join_or_start());
        assert_eq!(
            (first.role, second.role),
            (FlightRole::Leader, FlightRole::Joined { leader_retries: 0 })
        );
        airport.land.notify_one();
        let answers = tokio::join!(first.flight, second.flight);
        assert_eq!(answers, (waits(), waits()));
        assert_eq!(airport.starts.load(Ordering::Relaxed), 1);
        assert!(airport.flights.lock().is_empty());
        assert_eq!(airport.join_or_start().role, FlightRole::Leader);
    }

    #[tokio::test(start_paused = true)]
    async fn flight_continues_after_its_leader_leaves() {
        let airport = Airport::new();
        let (first, second) = (airport.join_or_start(), airport.join_or_start());
        let gone = tokio::time::timeout(Duration::from_secs(1), first.flight).await;
        assert!(gone.is_err());
        airport.land.notify_one();
        assert_eq!(second.flight.await, waits());
        assert_eq!(airport.starts.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn abandoned_flight_is_removed() {
        let airport = Airport::new();
        drop(airport.join_or_start());
        assert!(airport.flights.lock().is_empty());
    }
}
