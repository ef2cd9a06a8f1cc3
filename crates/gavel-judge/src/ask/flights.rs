//! Questions in flight: whoever asks an equal one joins, and whoever is left carries it on.

use std::collections::HashMap;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared, WeakShared};
use parking_lot::{Mutex, MutexGuard};

use super::Asked;
use crate::CacheKey;

pub(super) type FlightKey = (String, CacheKey);

/// Questions in flight. It holds no answer: a landed flight is gone.
#[derive(Default)]
pub(super) struct Flights {
    aloft: Mutex<HashMap<FlightKey, Aloft>>,
}

type Flight = Shared<BoxFuture<'static, Asked>>;

struct Aloft {
    number: u64,
    flight: WeakShared<BoxFuture<'static, Asked>>,
    led_with: u32,
}

/// A place in a flight. Dropping every seat of a flight drops the flight.
pub(super) struct Seat {
    pub(super) flight: Flight,
    /// For those who joined: the retries that the flight set out with.
    pub(super) led_with: Option<u32>,
}

/// Takes a flight off the list when it lands, and when everybody has left it.
struct Landing {
    flights: Arc<Flights>,
    key: FlightKey,
    number: u64,
}

impl Drop for Landing {
    fn drop(&mut self) {
        let mut aloft = self.flights.lock();
        if aloft
            .get(&self.key)
            .is_some_and(|flight| flight.number == self.number)
        {
            aloft.remove(&self.key);
        }
    }
}

impl Flights {
    /// Joins the flight of `key`, or starts one.
    pub(super) fn board(
        self: &Arc<Self>,
        key: FlightKey,
        retries_spent: u32,
        start: impl FnOnce() -> BoxFuture<'static, Asked>,
    ) -> Seat {
        let mut aloft = self.lock();
        let known = aloft.get(&key);
        if let Some(known) = known
            && let Some(flight) = known.flight.upgrade()
        {
            return Seat {
                flight,
                led_with: Some(known.led_with),
            };
        }
        // A flight that everybody left may not be off the list yet; its number tells it from this one.
        let number = known.map_or(0, |left| left.number.wrapping_add(1));
        let landing = Landing {
            flights: Arc::clone(self),
            key: key.clone(),
            number,
        };
        let run = start();
        let flight = async move {
            let _landing = landing;
            run.await
        }
        .boxed()
        .shared();
        if let Some(weak) = flight.downgrade() {
            let entry = Aloft {
                number,
                flight: weak,
                led_with: retries_spent,
            };
            aloft.insert(key, entry);
        }
        Seat {
            flight,
            led_with: None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<FlightKey, Aloft>> {
        self.aloft.lock()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use tokio::sync::Notify;

    use super::super::AskEnd;
    use super::*;
    use crate::gate::Closed;

    fn waits() -> Asked {
        Asked {
            end: AskEnd::Wait {
                why: Closed::Paused,
                retry_in: None,
                fallback: None,
            },
            retries_spent: 0,
            usage: super::super::usage::nothing(),
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

        fn board(&self) -> Seat {
            let (starts, land) = (Arc::clone(&self.starts), Arc::clone(&self.land));
            let key = ("judge".to_owned(), CacheKey("k".to_owned()));
            self.flights.board(key, 0, || {
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
    async fn equal_questions_share_one_flight_and_the_next_starts_another() {
        let airport = Airport::new();
        let (first, second) = (airport.board(), airport.board());
        assert_eq!((first.led_with, second.led_with), (None, Some(0)));
        airport.land.notify_one();
        let answers = tokio::join!(first.flight, second.flight);
        assert_eq!(answers, (waits(), waits()));
        assert_eq!(airport.starts.load(Ordering::Relaxed), 1);
        assert!(airport.flights.lock().is_empty());
        assert_eq!(airport.board().led_with, None);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_is_left_carries_the_question_on() {
        let airport = Airport::new();
        let (first, second) = (airport.board(), airport.board());
        let gone = tokio::time::timeout(Duration::from_secs(1), first.flight).await;
        assert!(gone.is_err());
        airport.land.notify_one();
        assert_eq!(second.flight.await, waits());
        assert_eq!(airport.starts.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn a_flight_that_everybody_left_is_forgotten() {
        let airport = Airport::new();
        drop(airport.board());
        assert!(airport.flights.lock().is_empty());
    }
}
