//! Rescues jobs of dead workers, ids lost by the queue and jobs that waited too long.
//!
//! One worker at a time does this. Every push is idempotent, so an overlap of two leaders is harmless.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::batches;
use super::holds::HoldSync;
use super::leadership::Leadership;
use super::refill::{RefillOutcome, Refiller};
use super::{WorkerParts, to_push};
use crate::clock::Clock;
use crate::events::{Announcer, Event, EventType};
use crate::job::{FailureClass, JobId, JobState};
use crate::queue::{Push, Queue, QueueError};
use crate::store::{Store, StoreError};

const PERIOD: Duration = Duration::from_secs(1);
/// Interval while a bulk window is being refilled.
const BUSY_PERIOD: Duration = Duration::from_millis(100);
/// Due times up to this far ahead are attributed to clock error.
const CLOCK_ERROR: TimeDelta = TimeDelta::seconds(1);

#[derive(Debug, Clone, Copy)]
pub(super) struct RescueLimits {
    pub max_attempts: i32,
    pub max_wait: Duration,
    pub bulk_window: usize,
}

pub(super) struct Rescue {
    store: Arc<Store>,
    queue: Arc<dyn Queue>,
    clock: Arc<dyn Clock>,
    holds: Arc<HoldSync>,
    events: Announcer,
    leadership: Leadership,
    limits: RescueLimits,
    /// `None`: claims read the store, so no id needs to be pushed again.
    refiller: Option<Refiller>,
    looked_at: Option<Instant>,
    /// Clock reading of the last successful check. A failed step leaves it unchanged, so that the next one still detects a clock that was
    /// set back.
    followed_at: Option<(Instant, DateTime<Utc>)>,
}

impl Rescue {
    pub(super) fn new(
        parts: &WorkerParts,
        holds: Arc<HoldSync>,
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
            refiller: (parts.queue.holds_ids()).then(|| {
                Refiller::new(parts.store.clone(), parts.queue.clone(), limits.bulk_window)
            }),
            looked_at: None,
            followed_at: None,
        }
    }

    /// Runs once a second while this worker leads, more often during a refill, and at once after a worker's death.
    pub(super) async fn run(mut self, stop: CancellationToken) {
        loop {
            let period = match self.leadership.leads() {
                true => match self.look().await {
                    RefillOutcome::Partial => BUSY_PERIOD,
                    RefillOutcome::Done => PERIOD,
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

    /// Runs all steps. A failed step is retried at the next tick and doesn't stop the others.
    async fn look(&mut self) -> RefillOutcome {
        let now = self.clock.now();
        // Refilling runs more often without these steps.
        if self.looked_at.is_none_or(|at| at.elapsed() >= PERIOD) {
            self.looked_at = Some(Instant::now());
            let followed = self.follow_clock(now).await;
            if followed.is_ok() {
                self.followed_at = Some((Instant::now(), now));
            }
            failed("resetting due times in the future", followed);
            failed(
                "requeuing jobs of dead workers",
                self.requeue_lost(now).await,
            );
            failed("ending long waits", self.expire_waits(now).await);
            let batches = batches::settle(&self.store, &self.events, now);
            failed("settling batches", batches.await);
        }
        let Some(refiller) = &mut self.refiller else {
            return RefillOutcome::Done;
        };
        match refiller.refill(now).await {
            Ok(refill) => refill,
            Err(error) => {
                failed("pushing due jobs", Err(error));
                RefillOutcome::Done
            }
        }
    }

    /// Clamps due times that are far in the future because the clock was set back.
    async fn follow_clock(&self, now: DateTime<Utc>) -> Result<(), StoreError> {
        let was_set_back = self.followed_at.is_none_or(|(at, then)| {
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
                tracing::warn!(rows, "reset due times that a fast clock had set");
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
            .inspect_err(|_| self.leadership.restore(died))?;
        for job_id in &rescued.poisoned {
            tracing::error!(%job_id, "job failed as poison: each of its workers died");
            self.announce_failed(*job_id, FailureClass::Poison, now)
                .await;
        }
        if !rescued.requeued.is_empty() {
            tracing::warn!(
                jobs = rescued.requeued.len(),
                "requeued jobs of dead workers"
            );
            // The jobs have waited in the queue before, so they go to the front.
            let pushes: Vec<Push> = rescued.requeued.into_iter().map(to_push).collect();
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
            tracing::warn!(%job_id, "job failed after waiting too long");
            self.announce_failed(job_id, FailureClass::WaitExpired, now)
                .await;
        }
        Ok(())
    }

    /// Announces that a job failed outside a worker. Skips a row that can't be read now.
    async fn announce_failed(&self, job_id: JobId, class: FailureClass, now: DateTime<Utc>) {
        if let Ok(Some(job)) = self.store.jobs().get(job_id).await {
            self.events.announce(Event {
                class: Some(class),
                ..Event::of_job(EventType::JobFailed, &job, JobState::Failed, now)
            });
        }
    }
}

/// Logs a failed push. No job is lost, because workers claim due jobs from the store.
fn log_unpushed(pushed: Result<(), QueueError>) {
    if let Err(error) = pushed {
        tracing::debug!(%error, "rescue failed to push");
    }
}

fn failed(step: &str, done: Result<(), StoreError>) {
    if let Err(error) = done {
        tracing::warn!(step, %error, "rescue step failed; retrying");
    }
}
