//! Finds what was lost: jobs of dead workers, ids that the queue no longer holds, waits that took too long, batches that are
//! done or were never whole.
//!
//! Reads the store, pushes ids. One worker does so at a time; every push is idempotent, so that two at a change do no harm.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::holds::Holds;
use super::leadership::Leadership;
use super::{WorkerParts, push_of};
use crate::clock::Clock;
use crate::events::{Announcer, Event, EventType};
use crate::job::{FailureClass, JobId, JobState, Lane, Priority, WaitReason};
use crate::queue::{Push, Queue, QueueError};
use crate::store::{DueJob, Store, StoreError};

const PERIOD: Duration = Duration::from_secs(1);
/// How often it looks while a window is being refilled.
const BUSY_PERIOD: Duration = Duration::from_millis(100);
/// A row that became due less than this ago is left to the push that its enqueue or its worker sends.
const GRACE: TimeDelta = TimeDelta::seconds(1);
/// Times this much ahead may be the error of a clock that is followed.
const CLOCK_ERROR: TimeDelta = TimeDelta::seconds(1);
/// Interactive ids that one look pushes again at most, per lane; the cursor goes on from there.
const INTERACTIVE_PAGE: u32 = 1_000;

/// A look for due rows that takes longer walked over many that may not run, such as the items of a paused batch.
const LONG_LOOK: Duration = Duration::from_millis(100);
/// The longest time that a lane is left alone after such a look.
const LONGEST_REST: Duration = Duration::from_secs(30);

/// A batch that is being made, and whose maker wasn't heard for this long, will never be whole.
const SILENT: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy)]
pub(super) struct RescueLimits {
    /// Losses in the lane `suspect` until a job fails as poison.
    pub max_attempts: i32,
    /// Longest time in state waiting.
    pub max_wait: Duration,
    /// Bulk ids per lane that lie in the queue.
    pub bulk_window: usize,
}

#[derive(Default)]
struct Position {
    /// The last row of a look that found more than there was room for.
    after: Option<(DateTime<Utc>, JobId)>,
    /// Until then it is left alone.
    rests_until: Option<Instant>,
}

/// Looks after what was lost, until told to stop.
pub(super) struct Rescue {
    store: Arc<Store>,
    queue: Arc<dyn Queue>,
    clock: Arc<dyn Clock>,
    holds: Arc<Holds>,
    events: Announcer,
    leadership: Leadership,
    limits: RescueLimits,
    positions: HashMap<(Lane, Priority), Position>,
    /// When it last looked for dead workers and long waits, and what the time was then.
    looked_at: Option<(Instant, DateTime<Utc>)>,
}

impl Rescue {
    pub(super) fn new(
        parts: &WorkerParts,
        holds: Arc<Holds>,
        leadership: Leadership,
        limits: RescueLimits,
    ) -> Self {
        Self {
            store: parts.store.clone(),
            queue: parts.queue.clone(),
            clock: parts.clock.clone(),
            holds,
            events: parts.events.clone(),
            leadership,
            limits,
            positions: HashMap::new(),
            looked_at: None,
        }
    }

    /// Looks once a second while this worker leads, more often while it refills a window, at once when a worker died.
    pub(super) async fn run(mut self, stop: CancellationToken) {
        loop {
            let period = match self.leadership.leads() {
                true => match self.look().await {
                    Refill::Partial => BUSY_PERIOD,
                    Refill::Done => PERIOD,
                },
                false => PERIOD,
            };
            tokio::select! {
                () = tokio::time::sleep(period) => {}
                () = self.leadership.news() => self.looked_at = None,
                () = stop.cancelled() => return,
            }
        }
    }

    /// Looks once. A step that fails is tried again with the next look, and stops no other.
    async fn look(&mut self) -> Refill {
        let now = self.clock.now();
        // Refilling a window comes back sooner, and needs none of these.
        if self.looked_at.is_none_or(|(at, _)| at.elapsed() >= PERIOD) {
            failed(
                "making due what is in the future",
                self.follow_clock(now).await,
            );
            failed("taking jobs back", self.requeue_lost(now).await);
            failed("ending long waits", self.expire_waits(now).await);
            failed("looking after batches", self.look_after_batches(now).await);
            self.looked_at = Some((Instant::now(), now));
        }
        match self.refill_lanes(now).await {
            Ok(refill) => refill,
            Err(error) => {
                failed("pushing due jobs", Err(error));
                Refill::Done
            }
        }
    }

    async fn refill_lanes(&mut self, now: DateTime<Utc>) -> Result<Refill, StoreError> {
        let mut refill = Refill::Done;
        let lanes = self.store.jobs().lanes().await?;
        // Lanes are named by whoever asks: those that are empty are forgotten.
        self.positions.retain(|(lane, _), _| lanes.contains(lane));
        for lane in lanes {
            for priority in [Priority::Interactive, Priority::Bulk] {
                match self.refill(&lane, priority, now).await? {
                    Some(Refill::Done) => {}
                    Some(Refill::Partial) => refill = Refill::Partial,
                    // Each lane would wait for it again, and with them what a look does besides.
                    None => return Ok(Refill::Done),
                }
            }
        }
        Ok(refill)
    }

    /// A clock that was set back leaves rows that are due long after now.
    async fn follow_clock(&self, now: DateTime<Utc>) -> Result<(), StoreError> {
        let was_set_back = self.looked_at.is_none_or(|(at, then)| {
            let passed = TimeDelta::from_std(at.elapsed()).unwrap_or(TimeDelta::MAX);
            now - then < passed - CLOCK_ERROR
        });
        if was_set_back {
            let rows = self
                .store
                .jobs()
                .make_due_what_lies_ahead(now + CLOCK_ERROR)
                .await?;
            if rows > 0 {
                tracing::warn!(
                    rows,
                    "jobs that a clock that was fast put off are due again"
                );
            }
        }
        Ok(())
    }

    async fn requeue_lost(&self, now: DateTime<Utc>) -> Result<(), StoreError> {
        let died = self.leadership.died();
        let rescued = self
            .store
            .jobs()
            .rescue_lost(died, self.limits.max_attempts, now)
            .await
            .inspect_err(|_| self.leadership.forgot(died))?;
        for job_id in &rescued.poisoned {
            tracing::error!(%job_id, "a job ended as poison: each of its workers died");
            self.tell_failed(*job_id, FailureClass::Poison, now).await;
        }
        if !rescued.requeued.is_empty() {
            tracing::warn!(
                jobs = rescued.requeued.len(),
                "took jobs back from dead workers"
            );
            // They have had their turn: others that came since don't go before them.
            let pushes: Vec<Push> = rescued.requeued.into_iter().map(push_of).collect();
            log_unpushed(self.queue.push_first(&pushes).await);
        }
        Ok(())
    }

    async fn expire_waits(&self, now: DateTime<Utc>) -> Result<(), StoreError> {
        let max_wait = TimeDelta::from_std(self.limits.max_wait).unwrap_or(TimeDelta::MAX);
        let Some(since) = now.checked_sub_signed(max_wait) else {
            return Ok(());
        };
        let stopped = self.holds.stopped_lanes();
        if self.holds.queue_paused() {
            return Ok(());
        }
        for job_id in self.store.jobs().expire_waits(since, &stopped, now).await? {
            tracing::warn!(%job_id, "a job waited too long and failed");
            self.tell_failed(job_id, FailureClass::WaitExpired, now)
                .await;
        }
        Ok(())
    }

    /// Completes batches that are done, tells of those that spent their budget, and removes those that were never whole.
    async fn look_after_batches(&self, now: DateTime<Utc>) -> Result<(), StoreError> {
        for batch_id in self.store.batches().without_items_left().await? {
            if let Some(batch) = self.store.batches().complete(batch_id, now).await? {
                self.events.announce(Event::of_batch(
                    EventType::BatchCompleted,
                    batch.batch_id,
                    batch.kind,
                    now,
                ));
            }
        }
        for (batch_id, kind) in self.store.budgets().spent_batches().await? {
            tracing::info!(%batch_id, "a batch has spent its budget and is paused");
            self.events.announce(Event {
                reason: Some(WaitReason::Budget),
                ..Event::of_batch(EventType::BatchPaused, batch_id, kind, now)
            });
        }
        for batch_id in self.store.batches().remove_silent(SILENT).await? {
            tracing::warn!(%batch_id, "a batch whose maker died before it was whole is removed");
        }
        Ok(())
    }

    /// Tells that a job failed in nobody's hand. A row that can't be read now goes untold.
    async fn tell_failed(&self, job_id: JobId, class: FailureClass, now: DateTime<Utc>) {
        if let Ok(Some(job)) = self.store.jobs().get(job_id).await {
            self.events.announce(Event {
                class: Some(class),
                ..Event::of_job(EventType::JobFailed, &job, JobState::Failed, now)
            });
        }
    }

    /// Pushes due ids of one lane's set again, as many as there is room for, from where the last look ended. `None`: the queue
    /// is away.
    async fn refill(
        &mut self,
        lane: &Lane,
        priority: Priority,
        now: DateTime<Utc>,
    ) -> Result<Option<Refill>, StoreError> {
        let room = match self.room(lane, priority).await {
            Ok(room) => room,
            Err(QueueError::Unreachable { .. }) => return Ok(None),
            Err(QueueError::Unexpected { .. }) => return Ok(Some(Refill::Done)),
        };
        if room == 0 {
            return Ok(Some(Refill::Done));
        }
        let position = self.positions.entry((lane.clone(), priority)).or_default();
        let asked = Instant::now();
        if position.rests_until.is_some_and(|until| until > asked) {
            return Ok(Some(Refill::Done));
        }
        if priority == Priority::Bulk && room as usize >= self.limits.bulk_window {
            // Nothing is left in the window: it may have been lost, so the oldest rows go first again.
            position.after = None;
        }
        let due = self
            .store
            .jobs()
            .due(lane, priority, now - GRACE, position.after, room)
            .await?;
        let full = due.len() >= room as usize;
        *position = if full {
            Position {
                after: due.last().map(|last| (last.due_at, last.job_id)),
                rests_until: None,
            }
        } else {
            Position {
                after: None,
                rests_until: rest_after(asked.elapsed()).map(|rest| Instant::now() + rest),
            }
        };
        if let Err(QueueError::Unreachable { .. }) = self.push(&due).await {
            return Ok(None);
        }
        Ok(Some(if full { Refill::Partial } else { Refill::Done }))
    }

    /// How many ids may go in.
    async fn room(&self, lane: &Lane, priority: Priority) -> Result<u32, QueueError> {
        match priority {
            Priority::Interactive => Ok(INTERACTIVE_PAGE),
            Priority::Bulk => {
                let depth = self.queue.depth(lane).await?;
                let room = self.limits.bulk_window.saturating_sub(depth.bulk);
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

/// A push that fails costs nothing: workers take due work from the store meanwhile.
fn log_unpushed(pushed: Result<(), QueueError>) {
    if let Err(error) = pushed {
        tracing::debug!(%error, "rescue could not push");
    }
}

fn failed(step: &str, done: Result<(), StoreError>) {
    if let Err(error) = done {
        tracing::warn!(step, %error, "rescue could not do a step; it tries again");
    }
}

/// How long a lane is left alone after a look that took so long and found less than there was room for: a tenth of the time
/// may go into looks.
fn rest_after(took: Duration) -> Option<Duration> {
    (took > LONG_LOOK).then(|| (took * 9).min(LONGEST_REST))
}

/// Whether a refill left more to push.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refill {
    Done,
    Partial,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_look_in_vain_is_followed_by_a_rest() {
        assert_eq!(rest_after(Duration::from_millis(100)), None);
        assert_eq!(
            rest_after(Duration::from_millis(200)),
            Some(Duration::from_millis(1_800))
        );
        assert_eq!(rest_after(Duration::from_secs(60)), Some(LONGEST_REST));
    }
}
