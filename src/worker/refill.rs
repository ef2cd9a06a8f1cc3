//! Keeps ids of due rows in the queue: ids that were never pushed, ids that the queue lost, and the next ids of a bulk window.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use tokio::time::Instant;

use super::to_push;
use crate::job::{JobId, Lane, Priority};
use crate::queue::{Push, Queue, QueueError};
use crate::store::{DueJob, Store, StoreError};

/// Rows that became due less than this ago are skipped, because their enqueue or worker pushes them.
const GRACE: TimeDelta = TimeDelta::seconds(1);
/// Maximum interactive ids pushed per lane and scan. The next scan continues at the cursor.
const INTERACTIVE_PAGE: u32 = 1_000;

/// A scan longer than this passed many rows that can't run, such as items of a paused batch.
const LONG_SCAN: Duration = Duration::from_millis(100);
/// Maximum pause of a lane after a long scan.
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// Interval after which a scan restarts at the oldest row, because rows may have been added before the cursor, for example by resuming a
/// batch.
const SCAN_RESTART_INTERVAL: Duration = Duration::from_secs(30);

struct Position {
    /// Time of the last start at the oldest row.
    begun: Instant,
    /// Last row of a scan that found more rows than the queue had room for.
    after: Option<(DateTime<Utc>, JobId)>,
    rests_until: Option<Instant>,
}

impl Position {
    fn start() -> Self {
        Self {
            begun: Instant::now(),
            after: None,
            rests_until: None,
        }
    }
}

/// Pushes due rows again, each lane from its cursor.
pub(super) struct Refiller {
    store: Arc<Store>,
    queue: Arc<dyn Queue>,
    bulk_window: usize,
    positions: HashMap<(Lane, Priority), Position>,
}

impl Refiller {
    pub(super) fn new(store: Arc<Store>, queue: Arc<dyn Queue>, bulk_window: usize) -> Self {
        Self {
            store,
            queue,
            bulk_window,
            positions: HashMap::new(),
        }
    }

    pub(super) async fn refill(&mut self, now: DateTime<Utc>) -> Result<RefillOutcome, StoreError> {
        let mut refill = RefillOutcome::Done;
        let lanes = self.store.jobs().lanes().await?;
        // Clients choose lane names, so positions of empty lanes are dropped.
        self.positions.retain(|(lane, _), _| lanes.contains(lane));
        for lane in lanes {
            for priority in [Priority::Interactive, Priority::Bulk] {
                match self.refill_set(&lane, priority, now).await? {
                    Some(RefillOutcome::Done) => {}
                    Some(RefillOutcome::Partial) => refill = RefillOutcome::Partial,
                    // The queue is unavailable. Each further lane would wait for its timeout, and delay the other steps of the rescue.
                    None => return Ok(RefillOutcome::Done),
                }
            }
        }
        Ok(refill)
    }

    /// Pushes due ids of one lane and priority from the cursor, as many as the queue has room for. Returns `None` if the queue is
    /// unavailable.
    async fn refill_set(
        &mut self,
        lane: &Lane,
        priority: Priority,
        now: DateTime<Utc>,
    ) -> Result<Option<RefillOutcome>, StoreError> {
        let room = match self.room(lane, priority).await {
            Ok(room) => room,
            Err(QueueError::Unreachable { .. }) => return Ok(None),
            Err(QueueError::Unexpected { .. }) => return Ok(Some(RefillOutcome::Done)),
        };
        if room == 0 {
            return Ok(Some(RefillOutcome::Done));
        }
        let asked = Instant::now();
        let position = self.positions.entry((lane.clone(), priority));
        let position = position.or_insert_with(Position::start);
        if position.rests_until.is_some_and(|until| until > asked) {
            return Ok(Some(RefillOutcome::Done));
        }
        // An empty window may mean that the queue lost its ids.
        let is_empty = priority == Priority::Bulk && room as usize >= self.bulk_window;
        if is_empty || position.begun.elapsed() >= SCAN_RESTART_INTERVAL {
            *position = Position::start();
        }
        let due = self
            .store
            .jobs()
            .due(lane, priority, now - GRACE, position.after, room)
            .await?;
        let full = due.len() >= room as usize;
        if full {
            position.after = due.last().map(|last| (last.due_at, last.job_id));
        } else {
            *position = Position {
                rests_until: delay_after(asked.elapsed()).map(|rest| Instant::now() + rest),
                ..Position::start()
            };
        }
        if let Err(QueueError::Unreachable { .. }) = self.push(&due).await {
            return Ok(None);
        }
        Ok(Some(if full {
            RefillOutcome::Partial
        } else {
            RefillOutcome::Done
        }))
    }

    /// Returns the number of ids that the queue has room for.
    async fn room(&self, lane: &Lane, priority: Priority) -> Result<u32, QueueError> {
        match priority {
            Priority::Interactive => Ok(INTERACTIVE_PAGE),
            Priority::Bulk => {
                let depth = self.queue.depth(lane).await?;
                let room = self.bulk_window.saturating_sub(depth.bulk);
                Ok(u32::try_from(room).unwrap_or(u32::MAX))
            }
        }
    }

    async fn push(&self, jobs: &[DueJob]) -> Result<(), QueueError> {
        let pushes: Vec<Push> = jobs.iter().cloned().map(to_push).collect();
        if pushes.is_empty() {
            return Ok(());
        }
        let pushed = self.queue.push(&pushes).await;
        pushed.inspect_err(|error| tracing::debug!(%error, "rescue failed to push"))
    }
}

/// Returns the pause of a lane after a scan that took `took` and found too few rows. Scans may use a tenth of the time.
fn delay_after(took: Duration) -> Option<Duration> {
    (took > LONG_SCAN).then(|| (took * 9).min(MAX_PAUSE))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RefillOutcome {
    Done,
    Partial,
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use async_trait::async_trait;
    use serde_json::json;

    use super::*;
    use crate::clock::{Clock as _, SystemClock};
    use crate::job::{JobOptions, Kind, NewJob};
    use crate::queue::{ClaimRequest, Claimed, Depth};
    use crate::store::StoreOptions;

    #[test]
    fn long_scan_without_rows_is_followed_by_a_pause() {
        assert_eq!(delay_after(Duration::from_millis(100)), None);
        assert_eq!(
            delay_after(Duration::from_millis(200)),
            Some(Duration::from_millis(1_800))
        );
        assert_eq!(delay_after(Duration::from_secs(60)), Some(MAX_PAUSE));
    }

    fn now() -> DateTime<Utc> {
        SystemClock.now()
    }

    /// Redis that is unavailable, or that always contains this number of bulk ids.
    #[derive(Default)]
    struct Fake {
        bulk: Option<usize>,
        asked: Mutex<usize>,
        pushed: Mutex<Vec<JobId>>,
    }

    impl Fake {
        fn answers<T>(&self, answer: T) -> Result<T, QueueError> {
            self.bulk.map_or_else(away, |_| Ok(answer))
        }
    }

    fn away<T>() -> Result<T, QueueError> {
        Err(QueueError::Unreachable {
            attempted: "asking",
            reason: "frozen".to_owned(),
        })
    }

    #[async_trait]
    impl Queue for Fake {
        async fn push(&self, ids: &[Push]) -> Result<(), QueueError> {
            self.pushed
                .lock()
                .unwrap()
                .extend(ids.iter().map(|push| push.id));
            self.answers(())
        }
        async fn push_first(&self, _: &[Push]) -> Result<(), QueueError> {
            away()
        }
        async fn claim(&self, _: &ClaimRequest) -> Result<Vec<Claimed>, QueueError> {
            away()
        }
        async fn depth(&self, _: &Lane) -> Result<Depth, QueueError> {
            *self.asked.lock().unwrap() += 1;
            self.answers(Depth {
                bulk: self.bulk.unwrap_or_default(),
                ..Depth::default()
            })
        }
        async fn woken(&self, _: Duration) {}
        async fn ping(&self) -> Result<(), QueueError> {
            away()
        }
        fn holds_ids(&self) -> bool {
            true
        }
    }

    async fn store_of(dir: &tempfile::TempDir, judges: &[&str]) -> (Arc<Store>, Vec<JobId>) {
        let options = StoreOptions {
            url: format!("sqlite://{}/gavel.db", dir.path().display()),
            password_file: None,
            max_connections: 2,
            connect_timeout: Duration::from_secs(10),
        };
        let store = Arc::new(Store::connect(options).await.unwrap());
        store.migrate().await.unwrap();
        let mut ids = Vec::new();
        for (place, judge) in (0..).zip(judges) {
            let options = JobOptions::new("tester".to_owned(), Priority::Bulk);
            let at = now() - TimeDelta::minutes(60 - place);
            let new = NewJob {
                judge: Some((*judge).to_owned()),
                ..NewJob::new(Kind::Session, json!({}), options, at)
            };
            ids.push(new.job_id);
            store.jobs().accept(new).await.unwrap();
        }
        (store, ids)
    }

    #[tokio::test]
    async fn unavailable_queue_is_called_once_per_scan() {
        let dir = tempfile::tempdir().unwrap();
        let (store, _) = store_of(&dir, &["a", "b", "c", "d", "e"]).await;
        let queue = Arc::new(Fake::default());
        let mut refiller = Refiller::new(store, queue.clone(), 100);
        for looks in 1..=3 {
            let refill = refiller.refill(now()).await.unwrap();
            assert_eq!(refill, RefillOutcome::Done);
            assert_eq!(*queue.asked.lock().unwrap(), looks);
        }
    }

    #[tokio::test]
    async fn rows_before_cursor_are_pushed_with_full_window() {
        let dir = tempfile::tempdir().unwrap();
        let (store, ids) = store_of(&dir, &["a"; 20]).await;
        let queue = Arc::new(Fake {
            bulk: Some(98),
            ..Fake::default()
        });
        let mut refiller = Refiller::new(store, queue.clone(), 100);
        for _ in 0..3 {
            refiller.refill(now()).await.unwrap();
        }
        assert_eq!(*queue.pushed.lock().unwrap(), ids[..6]);
        tokio::time::pause();
        tokio::time::advance(SCAN_RESTART_INTERVAL).await;
        tokio::time::resume();
        refiller.refill(now()).await.unwrap();
        assert_eq!(queue.pushed.lock().unwrap()[6..], ids[..2]);
    }
}
