//! Keeps ids of due rows in the queue: those that were never pushed, that it lost, and the next of a bulk window.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use tokio::time::Instant;

use super::push_of;
use crate::job::{JobId, Lane, Priority};
use crate::queue::{Push, Queue, QueueError};
use crate::store::{DueJob, Store, StoreError};

/// A row that became due less than this ago is left to the push that its enqueue or its worker sends.
const GRACE: TimeDelta = TimeDelta::seconds(1);
/// Interactive ids that one look pushes again at most, per lane; the cursor goes on from there.
const INTERACTIVE_PAGE: u32 = 1_000;

/// A look for due rows that takes longer walked over many that may not run, such as the items of a paused batch.
const LONG_LOOK: Duration = Duration::from_millis(100);
/// The longest time that a lane is left alone after such a look.
const LONGEST_REST: Duration = Duration::from_secs(30);

/// So often the oldest rows go first again: rows may have come in before the position, as those of a batch that is resumed.
const WALK: Duration = Duration::from_secs(30);

struct Position {
    /// When it began with the oldest row.
    begun: Instant,
    /// The last row of a look that found more than there was room for.
    after: Option<(DateTime<Utc>, JobId)>,
    /// Until then it is left alone.
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

/// Pushes due rows again, each lane from where the last look ended.
pub(super) struct Refiller {
    store: Arc<Store>,
    queue: Arc<dyn Queue>,
    /// Bulk ids per lane that lie in the queue.
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

    /// Refills each lane once.
    pub(super) async fn refill(&mut self, now: DateTime<Utc>) -> Result<RefillOutcome, StoreError> {
        let mut refill = RefillOutcome::Done;
        let lanes = self.store.jobs().lanes().await?;
        // Lanes are named by whoever asks: those that are empty are forgotten.
        self.positions.retain(|(lane, _), _| lanes.contains(lane));
        for lane in lanes {
            for priority in [Priority::Interactive, Priority::Bulk] {
                match self.refill_set(&lane, priority, now).await? {
                    Some(RefillOutcome::Done) => {}
                    Some(RefillOutcome::Partial) => refill = RefillOutcome::Partial,
                    // Each lane would wait for it again, and with them what a look does besides.
                    None => return Ok(RefillOutcome::Done),
                }
            }
        }
        Ok(refill)
    }

    /// Pushes due ids of one lane's set again, as many as there is room for, from where the last look ended. `None`: the queue
    /// is away.
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
        // Nothing is left in the window: it may have been lost.
        let is_empty = priority == Priority::Bulk && room as usize >= self.bulk_window;
        if is_empty || position.begun.elapsed() >= WALK {
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
                rests_until: rest_after(asked.elapsed()).map(|rest| Instant::now() + rest),
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

    /// How many ids may go in.
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
        let pushes: Vec<Push> = jobs.iter().cloned().map(push_of).collect();
        if pushes.is_empty() {
            return Ok(());
        }
        let pushed = self.queue.push(&pushes).await;
        pushed.inspect_err(|error| tracing::debug!(%error, "rescue could not push"))
    }
}

/// How long a lane is left alone after a look that took so long and found less than there was room for: a tenth of the time
/// may go into looks.
fn rest_after(took: Duration) -> Option<Duration> {
    (took > LONG_LOOK).then(|| (took * 9).min(LONGEST_REST))
}

/// Whether a refill left more to push.
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
    use uuid::Uuid;

    use super::*;
    use crate::clock::{Clock as _, SystemClock};
    use crate::job::{JobOptions, Kind, NewJob};
    use crate::queue::{ClaimRequest, Claimed, Depth};
    use crate::store::StoreOptions;

    #[test]
    fn a_long_look_in_vain_is_followed_by_a_rest() {
        assert_eq!(rest_after(Duration::from_millis(100)), None);
        assert_eq!(
            rest_after(Duration::from_millis(200)),
            Some(Duration::from_millis(1_800))
        );
        assert_eq!(rest_after(Duration::from_secs(60)), Some(LONGEST_REST));
    }

    fn now() -> DateTime<Utc> {
        SystemClock.now()
    }

    /// A Redis that answers nobody, or one in which so many bulk ids always lie.
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
        async fn claim(&self, _: Uuid, _: &ClaimRequest) -> Result<Vec<Claimed>, QueueError> {
            away()
        }
        async fn ack(&self, _: Uuid, _: &[JobId]) -> Result<(), QueueError> {
            away()
        }
        async fn release(&self, _: Uuid, _: &[Claimed]) -> Result<(), QueueError> {
            away()
        }
        async fn later(&self, _: Uuid, _: &Push, _: DateTime<Utc>) -> Result<(), QueueError> {
            away()
        }
        async fn renew(&self, _: Uuid, _: &[JobId]) -> Result<Vec<JobId>, QueueError> {
            away()
        }
        async fn remove(&self, _: &[JobId]) -> Result<(), QueueError> {
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
        fn lease(&self) -> Duration {
            Duration::from_secs(5)
        }
    }

    /// A store with a bulk job of each of these judges, in this order.
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
    async fn a_queue_that_is_away_is_asked_once_a_look_however_many_lanes_there_are() {
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
    async fn rows_before_the_position_have_their_turn_though_the_window_never_empties() {
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
        tokio::time::advance(WALK).await;
        tokio::time::resume();
        refiller.refill(now()).await.unwrap();
        assert_eq!(queue.pushed.lock().unwrap()[6..], ids[..2]);
    }
}
