//! What one worker at a time does besides rescue: sums by day, items of cancelled batches, rows that are past their time.
//!
//! Steps are short and followed by pauses: on SQLite nobody else writes during one, and half of the database's time is the
//! others'.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, SubsecRound as _, TimeDelta, Utc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::leadership::Leadership;
use crate::clock::{Clock, ClockSkew};
use crate::store::{Aged, CancelStep, Cancelling, DaysRolledUp, Pruning, Store, StoreError};

/// How long roll-up rests when no other day is dirty: a day that changes all the time is rolled up so often.
const ROLLUP_REST: Duration = Duration::from_secs(15);
/// How many times as long as a roll-up took it rests at least: a day of very many sessions that changes all the time costs a
/// twentieth of a core.
const ROLLUP_RESTS: u32 = 19;
/// How often it looks for cancelled batches, and whether this worker leads by now.
const LOOK: Duration = Duration::from_secs(1);
const PRUNE_PERIOD: Duration = Duration::from_secs(3600);

/// How long an import that has ended is known.
const IMPORTS_KEPT: TimeDelta = TimeDelta::days(90);

/// How long things are kept; `None`: for ever.
#[derive(Debug, Clone, Copy)]
pub struct RetentionPeriods {
    /// Judge calls and their raw replies.
    pub calls: TimeDelta,
    /// Jobs and batches that have ended.
    pub jobs: Option<TimeDelta>,
    pub sessions: Option<TimeDelta>,
    /// Deliveries of webhooks.
    pub deliveries: TimeDelta,
}

impl RetentionPeriods {
    fn by_kind(self) -> impl Iterator<Item = (Aged, Option<TimeDelta>)> {
        Aged::ALL.iter().map(move |aged| {
            let kept = match aged {
                Aged::Batches | Aged::Jobs => self.jobs,
                Aged::Sessions => self.sessions,
                Aged::Calls => Some(self.calls),
                Aged::Deliveries => Some(self.deliveries),
                Aged::Imports => Some(IMPORTS_KEPT),
            };
            (*aged, kept)
        })
    }
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

    /// Keeps the database from growing for ever: rows that have expired, and those older than a setting allows; the counts of finished
    /// days become one row for each judge and model.
    pub(super) async fn prune(self, kept: RetentionPeriods) {
        let mut pruned_at: Option<Instant> = None;
        while !self.is_over_after(LOOK).await {
            let waits = pruned_at.is_some_and(|at| at.elapsed() < PRUNE_PERIOD);
            if waits || !self.leadership.leads() {
                continue;
            }
            pruned_at = Some(Instant::now());
            // Whole seconds, because an operator repeats a refused limit as text.
            let now = self.clock.now().trunc_subsecs(0);
            let skew = ClockSkew::of(now);
            let by_age = !skew.is_too_large();
            if by_age {
                self.prune_expired(now).await;
            } else {
                tracing::error!(%skew, "nothing is deleted by its age: the clocks are too far apart");
            }
            for (aged, kept) in kept.by_kind() {
                let before = kept.filter(|_| by_age).map(|kept| now - kept);
                let pruned = self.prune_kind(aged, before, kept.is_none()).await;
                if let Err(error) = pruned {
                    tracing::warn!(%error, %aged, "failed to delete old rows; trying again in an hour");
                }
            }
        }
    }

    async fn prune_expired(&self, now: DateTime<Utc>) {
        match self.store.retention().prune(now).await {
            Ok(0) => {}
            Ok(rows) => tracing::info!(rows, "pruned what has expired"),
            Err(error) => tracing::warn!(%error, "could not prune; it tries again in an hour"),
        }
        if let Err(error) = self.store.budgets().roll_up_usage(now.date_naive()).await {
            tracing::warn!(%error, "could not sum up what calls came to; it tries again in an hour");
        }
    }

    /// Deletes the rows of a kind that are older than a limit. Without a limit, or if it is refused, this only finishes
    /// deletions by hand that were interrupted, because their rows are hidden already.
    async fn prune_kind(
        &self,
        aged: Aged,
        before: Option<DateTime<Utc>>,
        kept_for_ever: bool,
    ) -> Result<(), StoreError> {
        let retention = self.store.retention();
        if kept_for_ever {
            retention.forget_limits(aged).await?;
        }
        let mut allowed = before;
        if let Some(before) = before
            && let Some(expired) = retention.refusal(aged, before).await?
        {
            tracing::error!(%expired, "nothing of this kind is deleted by its age until an operator runs gavel prune: see /readyz");
            allowed = None;
        }
        let finished = self
            .delete(aged, allowed.unwrap_or(DateTime::UNIX_EPOCH))
            .await?;
        match allowed.filter(|_| finished) {
            Some(before) => retention.complete(aged, before).await,
            None => Ok(()),
        }
    }

    /// Deletes step by step for as long as this worker leads; returns whether it finished.
    async fn delete(&self, aged: Aged, before: DateTime<Utc>) -> Result<bool, StoreError> {
        let mut pruning = Pruning::new(aged, before);
        let mut rows = 0;
        let mut more = true;
        while more && self.leadership.leads() {
            let began = Instant::now();
            let step = self.store.retention().step(&mut pruning).await?;
            rows += step.deleted;
            more = step.more;
            if more && self.is_over_after(began.elapsed()).await {
                break;
            }
        }
        if rows > 0 {
            tracing::info!(rows, %aged, "deleted what is past its time");
        }
        Ok(!more)
    }

    async fn is_over_after(&self, pause: Duration) -> bool {
        let pause = tokio::time::sleep(pause);
        self.stop.run_until_cancelled(pause).await.is_none()
    }
}
