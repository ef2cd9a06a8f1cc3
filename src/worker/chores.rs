//! What one worker at a time does besides rescue: sums by day, items of cancelled batches, rows that are past their time.
//!
//! Steps are short and followed by pauses: on SQLite nobody else writes during one, and half of the database's time is the
//! others'.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::leadership::Leadership;
use crate::clock::Clock;
use crate::store::{Aged, CancelStep, Cancelling, DaysRolledUp, Pruning, Store};

/// How long roll-up rests when no other day is dirty: a day that changes all the time is rolled up so often.
const ROLLUP_REST: Duration = Duration::from_secs(15);
/// How many times as long as a roll-up took it rests at least: a day of very many sessions that changes all the time costs a
/// twentieth of a core.
const ROLLUP_RESTS: u32 = 19;
/// How often it looks for cancelled batches, and whether this worker leads by now.
const LOOK: Duration = Duration::from_secs(1);
const PRUNE_PERIOD: Duration = Duration::from_secs(3600);

/// How long things are kept; `None`: for ever.
#[derive(Debug, Clone, Copy)]
pub struct RetentionPeriods {
    /// Judge calls and their raw replies.
    pub calls: TimeDelta,
    /// Jobs and batches that have ended.
    pub jobs: Option<TimeDelta>,
    pub sessions: Option<TimeDelta>,
}

#[derive(Clone)]
pub(super) struct Chores {
    pub(super) store: Arc<Store>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) leadership: Leadership,
    pub(super) stop: CancellationToken,
}

impl Chores {
    /// Sums up what days come to, so that a view of years is quick. Never a condition for right figures: a day that isn't rolled
    /// up is counted from its sessions.
    pub(super) async fn roll_up_days(self) {
        loop {
            let began = Instant::now();
            let rolled_up = match self.leadership.leads() {
                true => self.store.analytics().roll_up_days().await,
                false => Ok(DaysRolledUp::default()),
            };
            let took = began.elapsed();
            let pause = match rolled_up {
                Ok(days) if days.more => took,
                Ok(_) => (took * ROLLUP_RESTS).max(ROLLUP_REST),
                Err(error) => {
                    tracing::warn!(%error, "could not sum up what days come to; it tries again");
                    ROLLUP_REST
                }
            };
            if self.is_over_after(pause).await {
                return;
            }
        }
    }

    /// Ends the items of cancelled batches, step by step; whoever goes on begins with the first item again.
    pub(super) async fn end_cancelled(self) {
        let mut cancelling = Cancelling::default();
        loop {
            let began = Instant::now();
            let step = match self.leadership.leads() {
                true => {
                    let now = self.clock.now();
                    self.store.batches().cancel_step(&mut cancelling, now).await
                }
                false => Ok(CancelStep::Done),
            };
            let pause = match step {
                Ok(CancelStep::More) => began.elapsed(),
                Ok(CancelStep::Done) => LOOK,
                Err(error) => {
                    tracing::warn!(%error, "could not end items of cancelled batches; it tries again");
                    LOOK
                }
            };
            if self.is_over_after(pause).await {
                return;
            }
        }
    }

    /// Keeps the database from growing for ever: expired replies and sign-ins, old judge calls, imports that ended long ago, workers that are
    /// long gone, deliveries of webhooks; the counts of finished days become one row for each judge and model. Jobs and sessions go
    /// where a setting says so.
    pub(super) async fn prune(self, kept: RetentionPeriods, deliveries_kept: TimeDelta) {
        let mut pruned_at: Option<Instant> = None;
        while !self.is_over_after(LOOK).await {
            let waits = pruned_at.is_some_and(|at| at.elapsed() < PRUNE_PERIOD);
            if waits || !self.leadership.leads() {
                continue;
            }
            pruned_at = Some(Instant::now());
            let now = self.clock.now();
            match self.store.prune(now, now - kept.calls).await {
                Ok(0) => {}
                Ok(rows) => tracing::info!(rows, "pruned what is past its time"),
                Err(error) => tracing::warn!(%error, "could not prune; it tries again in an hour"),
            }
            if let Err(error) = self.store.webhooks().prune(now - deliveries_kept).await {
                tracing::warn!(%error, "could not prune deliveries of webhooks; it tries again in an hour");
            }
            if let Err(error) = self.store.budgets().roll_up_usage(now.date_naive()).await {
                tracing::warn!(%error, "could not sum up what calls came to; it tries again in an hour");
            }
            // Without a setting, too: a deletion by hand that broke off is finished, since its batch is hidden already.
            let before = kept.jobs.map_or(DateTime::UNIX_EPOCH, |kept| now - kept);
            self.delete_aged(Aged::Batches, before).await;
            for (aged, kept) in [(Aged::Jobs, kept.jobs), (Aged::Sessions, kept.sessions)] {
                if let Some(kept) = kept {
                    self.delete_aged(aged, now - kept).await;
                }
            }
        }
    }

    /// Step by step, for as long as this worker leads.
    async fn delete_aged(&self, aged: Aged, before: DateTime<Utc>) {
        let mut pruning = Pruning::new(aged, before);
        let mut rows = 0;
        while self.leadership.leads() {
            let began = Instant::now();
            let more = match self.store.retention().step(&mut pruning).await {
                Ok(step) => {
                    rows += step.deleted;
                    step.more
                }
                Err(error) => {
                    tracing::warn!(%error, ?aged, "could not delete what is past its time; it tries again in an hour");
                    false
                }
            };
            if !more || self.is_over_after(began.elapsed()).await {
                break;
            }
        }
        if rows > 0 {
            tracing::info!(rows, ?aged, "deleted what is past its time");
        }
    }

    async fn is_over_after(&self, pause: Duration) -> bool {
        let pause = tokio::time::sleep(pause);
        self.stop.run_until_cancelled(pause).await.is_none()
    }
}
