//! Background chores of the leader: daily rollups, items of cancelled batches, retention.
//!
//! Steps are short, with pauses between them, because on SQLite no other writer proceeds during one, and half of the database's time is
//! left to other work.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, SubsecRound as _, TimeDelta, Utc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::leadership::Leadership;
use crate::clock::{Clock, ClockSkew};
use crate::store::{Aged, CancelStep, Cancelling, DaysRolledUp, Pruning, Store, StoreError};

/// Pause of the rollup if no other day is dirty, so that a constantly changing day is rolled up at this interval.
const ROLLUP_REST: Duration = Duration::from_secs(15);
/// Minimum pause as a multiple of the rollup's duration. A constantly changing day with very many sessions thus uses 5 % of a core.
const ROLLUP_RESTS: u32 = 19;
/// Interval of checks for cancelled batches and of leadership.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
const PRUNE_PERIOD: Duration = Duration::from_secs(3600);

const IMPORTS_KEPT: TimeDelta = TimeDelta::days(90);

/// Retention periods; `None`: unlimited.
#[derive(Debug, Clone, Copy)]
pub struct RetentionPeriods {
    /// Judge calls and their raw replies.
    pub calls: TimeDelta,
    /// Ended jobs and batches.
    pub jobs: Option<TimeDelta>,
    pub sessions: Option<TimeDelta>,
    /// Webhook deliveries.
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
    /// Rolls up days so that views of years are fast. Results don't depend on it: other days are counted from their sessions.
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
                    tracing::warn!(%error, "failed to roll up days; retrying");
                    ROLLUP_REST
                }
            };
            if self.is_over_after(pause).await {
                return;
            }
        }
    }

    /// Ends the items of cancelled batches step by step. A new leader restarts at the first item.
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
                Ok(CancelStep::Done) => CHECK_INTERVAL,
                Err(error) => {
                    tracing::warn!(%error, "failed to end items of cancelled batches; retrying");
                    CHECK_INTERVAL
                }
            };
            if self.is_over_after(pause).await {
                return;
            }
        }
    }

    /// Deletes expired rows and rows beyond their retention period. Merges the counts of finished days into one row per judge and model.
    pub(super) async fn prune(self, kept: RetentionPeriods) {
        let mut pruned_at: Option<Instant> = None;
        while !self.is_over_after(CHECK_INTERVAL).await {
            let waits = pruned_at.is_some_and(|at| at.elapsed() < PRUNE_PERIOD);
            if waits || !self.leadership.leads() {
                continue;
            }
            pruned_at = Some(Instant::now());
            // Full seconds, because an operator repeats a rejected limit as text.
            let now = self.clock.now().trunc_subsecs(0);
            let skew = ClockSkew::of(now);
            let by_age = !skew.is_too_large();
            if by_age {
                self.prune_expired(now).await;
            } else {
                tracing::error!(%skew, "retention deletes no rows: clock skew too large");
            }
            for (aged, kept) in kept.by_kind() {
                let before = kept.filter(|_| by_age).map(|kept| now - kept);
                let pruned = self.prune_kind(aged, before, kept.is_none()).await;
                if let Err(error) = pruned {
                    tracing::warn!(%error, %aged, "failed to delete old rows; retrying in an hour");
                }
            }
        }
    }

    async fn prune_expired(&self, now: DateTime<Utc>) {
        match self.store.retention().prune(now).await {
            Ok(0) => {}
            Ok(rows) => tracing::info!(rows, "pruned expired rows"),
            Err(error) => tracing::warn!(%error, "failed to prune; retrying in an hour"),
        }
        if let Err(error) = self.store.budgets().roll_up_usage(now.date_naive()).await {
            tracing::warn!(%error, "failed to roll up judge calls; retrying in an hour");
        }
    }

    /// Deletes rows of a kind older than a limit. If there is no limit or it is rejected, only finishes interrupted deletions by an
    /// operator, because their rows are already hidden.
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
            tracing::error!(%expired, "retention deletes no rows of this kind until an operator runs gavel prune: see /readyz");
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

    /// Deletes step by step while this worker leads. Returns whether it finished.
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
            tracing::info!(rows, %aged, "deleted rows past their retention");
        }
        Ok(!more)
    }

    async fn is_over_after(&self, pause: Duration) -> bool {
        let pause = tokio::time::sleep(pause);
        self.stop.run_until_cancelled(pause).await.is_none()
    }
}
