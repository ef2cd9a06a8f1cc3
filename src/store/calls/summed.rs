//! Totals of judge calls whose rows couldn't be stored, in memory until they are written.
//!
//! Contains calls that found the log's buffer full, and calls that the database rejected. Their rows are missing in the audit,
//! but their costs are counted.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use uuid::Uuid;

use crate::job::Kind;
use crate::judge::CallRecord;
use crate::store::budgets::usage::{self, Sums};
use crate::store::budgets::{BatchUsage, spend_for_jobs};
use crate::store::database::conn::Conn;
use crate::store::database::sql::step;

/// Maximum number of jobs with separate totals; calls of further jobs count for their judge and day, but not for their batch.
const MAX_JOBS: usize = 65_536;

/// Totals of this process.
#[derive(Clone, Default)]
pub(super) struct UnloggedTotals(Arc<Mutex<PendingTotals>>);

#[derive(Default)]
struct PendingTotals {
    /// Totals whose write failed. They may be committed, so they must not grow.
    tried: Option<TotalsBatch>,
    open: TotalsBatch,
}

/// Totals that are written once.
pub(super) struct TotalsBatch {
    /// Worker id of their rows; existing rows show that an earlier try was committed.
    id: Uuid,
    days: Sums,
    jobs: BTreeMap<Uuid, BatchUsage>,
}

impl Default for TotalsBatch {
    fn default() -> Self {
        Self {
            id: Uuid::now_v7(),
            days: Sums::new(),
            jobs: BTreeMap::new(),
        }
    }
}

impl UnloggedTotals {
    pub(in crate::store) fn add(&self, call: &CallRecord) {
        metrics::counter!("gavel_judge_calls_dropped_total").increment(1);
        let mut piles = self.lock();
        let totals = &mut piles.open;
        usage::add_call(&mut totals.days, call);
        if totals.jobs.len() < MAX_JOBS || totals.jobs.contains_key(&call.asked_for) {
            let used = totals.jobs.entry(call.asked_for).or_default();
            used.add_call(call);
        } else {
            tracing::error!(job_id = %call.asked_for, cost_usd = ?call.usage.cost_usd, "judge call counted for its day but not for its batch: too many buffered calls");
        }
    }

    /// Takes the oldest totals, if there are any.
    pub(in crate::store) fn take(&self) -> Option<TotalsBatch> {
        let mut piles = self.lock();
        if let Some(tried) = piles.tried.take() {
            return Some(tried);
        }
        (!piles.open.days.is_empty()).then(|| std::mem::take(&mut piles.open))
    }

    pub(super) fn put_back(&self, totals: TotalsBatch) {
        self.lock().tried = Some(totals);
    }

    fn lock(&self) -> MutexGuard<'_, PendingTotals> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TotalsBatch {
    /// Adds the totals to their days and batches; idempotent. Returns the batches that this paused.
    pub(super) async fn write_on(&self, conn: &mut Conn) -> sqlx::Result<Vec<(Uuid, Kind)>> {
        let (Some((day, judge, model)), Some(days)) = (
            self.days.keys().next(),
            usage::add_statement(self.days.clone(), self.id),
        ) else {
            return Ok(Vec::new());
        };
        let committed = step!(
            "select 1 as one from judge_usage_daily where day = $1 and judge = $2 and model = $3 and worker_id = $4",
            day,
            judge,
            model,
            self.id
        );
        let mut tx = conn.begin().await?;
        if !tx.fetch(&committed).await?.is_empty() {
            return Ok(Vec::new());
        }
        tx.execute(&days).await?;
        let paused = spend_for_jobs(&mut tx, &self.jobs, self.id).await?;
        tx.commit().await?;
        Ok(paused)
    }

    /// Logs the totals that are lost at the end of the process.
    pub(super) fn log_lost(&self) {
        for ((day, judge, model), sum) in &self.days {
            tracing::error!(
                day,
                judge,
                model,
                calls = sum.calls,
                cost_usd = sum.cost_usd,
                unpriced_calls = sum.unpriced_calls,
                tokens_in = sum.tokens_in,
                tokens_out = sum.tokens_out,
                "judge calls not counted: database unavailable at shutdown"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(job: u128) -> CallRecord {
        CallRecord {
            call_id: Uuid::now_v7(),
            asked_for: Uuid::from_u128(job),
            judge: "a".to_owned(),
            model: "m".to_owned(),
            at: chrono::DateTime::UNIX_EPOCH,
            latency: std::time::Duration::ZERO,
            error: None,
            message: None,
            status: None,
            usage: crate::judge::CallUsage {
                cost_usd: Some(0.5),
                ..Default::default()
            },
            reply: None,
            simulated: false,
            repaired: false,
            retries_spent: 0,
            cache_key: None,
        }
    }

    #[test]
    fn totals_by_day_stay_exact_beyond_the_job_limit() {
        let summed = UnloggedTotals::default();
        let most = u128::try_from(MAX_JOBS).unwrap();
        for job in (0..most + 10).chain([0]) {
            summed.add(&call(job));
        }
        let totals = summed.take().unwrap();
        assert_eq!(totals.jobs.len(), MAX_JOBS);
        assert_eq!(totals.jobs[&Uuid::nil()].spent_usd, 1.0);
        let sums: Vec<i64> = totals.days.values().map(|sum| sum.calls).collect();
        assert_eq!(sums, [i64::try_from(MAX_JOBS).unwrap() + 11]);
        assert!(summed.take().is_none());
    }

    #[test]
    fn tried_totals_are_not_changed() {
        let summed = UnloggedTotals::default();
        summed.add(&call(1));
        let tried = summed.take().unwrap();
        let id = tried.id;
        summed.add(&call(1));
        summed.put_back(tried);
        summed.add(&call(1));
        let (tried, open) = (summed.take().unwrap(), summed.take().unwrap());
        let calls = |totals: &TotalsBatch| totals.days.values().map(|sum| sum.calls).sum::<i64>();
        assert_eq!((tried.id, calls(&tried)), (id, 1));
        assert_ne!(open.id, id);
        assert_eq!(calls(&open), 2);
    }
}
