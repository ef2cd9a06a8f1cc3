//! The process's one way out for events: a bounded channel and a task that sends what gathered. Never waits for a listener
//! or a server: what doesn't fit is dropped, and told as `reset`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{Event, EventType, Events};
use crate::clock::Clock;

/// How many events may wait to be sent.
const WAITING: usize = 10_000;
/// How many are sent at once.
const GROUP: usize = 512;
/// The least time between two sendings: under load a few large groups cost a fraction of many small ones.
const SPACING: Duration = Duration::from_millis(20);
/// How soon listeners are told of a loss when nothing else happens.
const AGAIN: Duration = Duration::from_secs(1);

/// Takes events from anywhere in the process.
#[derive(Debug, Clone)]
pub struct Announcer {
    events: mpsc::Sender<Event>,
    lost: Arc<AtomicBool>,
}

impl Announcer {
    /// Takes an event, or drops it; never waits. Call it after the commit.
    pub fn announce(&self, event: Event) {
        if self.events.try_send(event).is_err() {
            self.lost.store(true, Ordering::Relaxed);
            count_dropped(1);
        }
    }
}

/// The announcer of a process, and the task that sends what it takes; the task ends when `shutdown` is cancelled and what
/// it held is sent, or could not be.
pub fn announcer(
    events: Arc<dyn Events>,
    clock: Arc<dyn Clock>,
    shutdown: CancellationToken,
) -> (Announcer, impl Future<Output = ()> + Send + 'static) {
    let (sender, waiting) = mpsc::channel(WAITING);
    let lost = Arc::new(AtomicBool::new(false));
    let announcer = Announcer {
        events: sender,
        lost: lost.clone(),
    };
    (announcer, send(events, clock, waiting, lost, shutdown))
}

async fn send(
    events: Arc<dyn Events>,
    clock: Arc<dyn Clock>,
    mut waiting: mpsc::Receiver<Event>,
    lost: Arc<AtomicBool>,
    shutdown: CancellationToken,
) {
    let mut group = Vec::with_capacity(GROUP);
    let mut away = false;
    loop {
        tokio::select! {
            biased;
            n = waiting.recv_many(&mut group, GROUP) => if n == 0 { return },
            () = shutdown.cancelled(), if !waiting.is_closed() => {
                waiting.close();
                continue;
            }
            // What was lost may have been the last that happens for hours: whoever waits for it must hear of the loss.
            () = tokio::time::sleep(AGAIN), if lost.load(Ordering::Relaxed) => {}
        }
        let held = group.len();
        if lost.swap(false, Ordering::Relaxed) {
            // Before the others: whoever hears it reads rows that are at least as new.
            group.insert(0, Event::new(EventType::Reset, clock.now()));
        }
        match events.append(&group).await {
            Ok(()) if away => {
                tracing::info!("events are sent again");
                away = false;
            }
            Ok(()) => {}
            Err(error) => {
                if !away {
                    tracing::warn!(%error, "events can't be sent; when they can, listeners are asked to read again");
                }
                away = true;
                lost.store(true, Ordering::Relaxed);
                count_dropped(held);
                if shutdown.is_cancelled() {
                    // What is left would hold up the shutdown, a timeout for each group.
                    return;
                }
            }
        }
        group.clear();
        tokio::select! {
            () = tokio::time::sleep(SPACING) => {}
            () = shutdown.cancelled() => {}
        }
    }
}

fn count_dropped(events: usize) {
    metrics::counter!("gavel_events_dropped_total")
        .increment(u64::try_from(events).unwrap_or(u64::MAX));
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use async_trait::async_trait;
    use chrono::DateTime;
    use tokio::sync::Semaphore;

    use super::super::EventsError;
    use super::*;

    struct Still;

    impl Clock for Still {
        fn now(&self) -> DateTime<chrono::Utc> {
            DateTime::UNIX_EPOCH
        }
    }

    /// A log that takes as many groups as it has permits, and may be away.
    struct Log {
        taken: Mutex<Vec<EventType>>,
        open: Semaphore,
        away: AtomicBool,
    }

    #[async_trait]
    impl Events for Log {
        async fn append(&self, events: &[Event]) -> Result<(), EventsError> {
            self.open.acquire().await.unwrap().forget();
            if self.away.load(Ordering::Relaxed) {
                return Err(EventsError {
                    attempted: "appending",
                    reason: "away".to_owned(),
                });
            }
            let mut taken = self.taken.lock().unwrap();
            taken.extend(events.iter().map(|event| event.event));
            Ok(())
        }
    }

    fn log(permits: usize) -> Arc<Log> {
        Arc::new(Log {
            taken: Mutex::default(),
            open: Semaphore::new(permits),
            away: AtomicBool::new(false),
        })
    }

    fn one() -> Event {
        Event::new(EventType::JobQueued, DateTime::UNIX_EPOCH)
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_held_at_the_end_is_sent() {
        let (log, stop) = (log(100), CancellationToken::new());
        let (announcer, task) = announcer(log.clone(), Arc::new(Still), stop.clone());
        for _ in 0..GROUP + 1 {
            announcer.announce(one());
        }
        stop.cancel();
        task.await;
        assert_eq!(log.taken.lock().unwrap().len(), GROUP + 1);
    }

    #[tokio::test(start_paused = true)]
    async fn what_does_not_fit_is_dropped_and_the_next_group_begins_with_reset() {
        let (log, stop) = (log(0), CancellationToken::new());
        let (announcer, task) = announcer(log.clone(), Arc::new(Still), stop.clone());
        for _ in 0..WAITING + 7 {
            announcer.announce(one());
        }
        log.open.add_permits(100);
        stop.cancel();
        task.await;
        let taken = log.taken.lock().unwrap();
        assert_eq!(taken[0], EventType::Reset);
        assert_eq!(taken.len(), WAITING + 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_loss_is_told_though_nothing_happens_after_it() {
        let (log, stop) = (log(100), CancellationToken::new());
        log.away.store(true, Ordering::Relaxed);
        let (announcer, task) = announcer(log.clone(), Arc::new(Still), stop.clone());
        let task = tokio::spawn(task);
        announcer.announce(one());
        while log.open.available_permits() == 100 {
            tokio::task::yield_now().await;
        }
        log.away.store(false, Ordering::Relaxed);
        // Time is paused: it passes as soon as every task waits for it.
        tokio::time::sleep(AGAIN * 2).await;
        assert_eq!(*log.taken.lock().unwrap(), [EventType::Reset]);
        tokio::time::sleep(AGAIN * 5).await;
        assert_eq!(log.taken.lock().unwrap().len(), 1, "told once");
        stop.cancel();
        task.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_log_that_was_away_is_told_reset_first_when_it_is_back() {
        let (log, stop) = (log(100), CancellationToken::new());
        log.away.store(true, Ordering::Relaxed);
        let (announcer, task) = announcer(log.clone(), Arc::new(Still), stop.clone());
        let task = tokio::spawn(task);
        announcer.announce(one());
        while log.open.available_permits() == 100 {
            tokio::task::yield_now().await;
        }
        log.away.store(false, Ordering::Relaxed);
        announcer.announce(one());
        stop.cancel();
        task.await.unwrap();
        let taken = log.taken.lock().unwrap();
        assert_eq!(*taken, [EventType::Reset, EventType::JobQueued]);
    }
}
