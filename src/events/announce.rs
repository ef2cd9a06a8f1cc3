//! Announcer of events: a bounded channel and a task that sends them in groups. It doesn't wait for listeners or servers: events that don't
//! fit are dropped and replaced by `reset`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{Event, EventType, Events};
use crate::clock::Clock;

/// Maximum events waiting to be sent.
const WAITING: usize = 10_000;
/// Maximum events per group.
const GROUP: usize = 512;
/// Minimum interval of groups, because a few large groups cost much less than many small ones.
const SPACING: Duration = Duration::from_millis(20);
/// Delay of the `reset` after a loss if no other event follows.
const AGAIN: Duration = Duration::from_secs(1);

/// Accepts events from any part of the process. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Announcer {
    events: mpsc::Sender<Event>,
    lost: Arc<AtomicBool>,
}

impl Announcer {
    /// Queues an event or drops it, without waiting. Must be called after the commit.
    pub fn announce(&self, event: Event) {
        if self.events.try_send(event).is_err() {
            self.lost.store(true, Ordering::Relaxed);
            count_dropped(1);
        }
    }
}

/// Returns the announcer of a process and its sending task. The task ends once `shutdown` is cancelled and it has tried to send the queued
/// events.
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
            // The lost event may have been the last one for hours, so waiting listeners must learn of the loss.
            () = tokio::time::sleep(AGAIN), if lost.load(Ordering::Relaxed) => {}
        }
        let held = group.len();
        if lost.swap(false, Ordering::Relaxed) {
            // Before the other events, so that a listener then reads rows that are at least as new.
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
                    tracing::warn!(%error, "failed to send events; listeners will be notified to reload");
                }
                away = true;
                lost.store(true, Ordering::Relaxed);
                count_dropped(held);
                if shutdown.is_cancelled() {
                    // The remaining groups would delay the shutdown by a timeout each.
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

    /// Log that accepts as many groups as it has permits, and may be unavailable.
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
    async fn sends_queued_events_at_shutdown() {
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
    async fn overflow_drops_events_and_sends_reset() {
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
    async fn sends_reset_after_loss_without_further_events() {
        let (log, stop) = (log(100), CancellationToken::new());
        log.away.store(true, Ordering::Relaxed);
        let (announcer, task) = announcer(log.clone(), Arc::new(Still), stop.clone());
        let task = tokio::spawn(task);
        announcer.announce(one());
        while log.open.available_permits() == 100 {
            tokio::task::yield_now().await;
        }
        log.away.store(false, Ordering::Relaxed);
        // With paused time, the sleep ends once all tasks wait.
        tokio::time::sleep(AGAIN * 2).await;
        assert_eq!(*log.taken.lock().unwrap(), [EventType::Reset]);
        tokio::time::sleep(AGAIN * 5).await;
        assert_eq!(log.taken.lock().unwrap().len(), 1, "told once");
        stop.cancel();
        task.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn recovered_log_gets_reset_first() {
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
