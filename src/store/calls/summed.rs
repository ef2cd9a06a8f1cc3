//! Sums of judge calls whose rows could not be stored, kept in memory until they are written.
//!
//! Calls end here when more of them wait for the database than the log holds, and when it refuses one. Their rows are
//! missing then, for the audit; of the money nothing is.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use uuid::Uuid;

use crate::job::Kind;
use crate::judge::CallRecord;
use crate::store::budgets::usage::{self, Sums};
use crate::store::budgets::{BatchUsage, spend_for_jobs};
use crate::store::database::db::Conn;
use crate::store::database::sql::sql;

/// Sums are kept for so many jobs; those of further ones count for their judge and day, and for no batch.
const MOST: usize = 65_536;

/// The sums of this process.
#[derive(Clone, Default)]
pub(super) struct SummedCalls(Arc<Mutex<Piles>>);

#[derive(Default)]
struct Piles {
    /// One whose write failed. It may have been committed all the same, so that nothing more is added to it.
    tried: Option<Pile>,
    open: Pile,
}

/// Sums that are written once.
pub(super) struct Pile {
    /// Whose they are in the tables: rows of it say that an earlier try was committed.
    id: Uuid,
    days: Sums,
    jobs: BTreeMap<Uuid, BatchUsage>,
}

impl Default for Pile {
    fn default() -> Self {
        Self {
            id: Uuid::now_v7(),
            days: Sums::new(),
            jobs: BTreeMap::new(),
        }
    }
}

impl SummedCalls {
    /// Adds what a call came to, in the place of the call.
    pub(in crate::store) fn add(&self, call: &CallRecord) {
        metrics::counter!("gavel_judge_calls_dropped_total").increment(1);
        let mut piles = self.lock();
        let pile = &mut piles.open;
        usage::add_call(&mut pile.days, call);
        if pile.jobs.len() < MOST || pile.jobs.contains_key(&call.asked_for) {
            let used = pile.jobs.entry(call.asked_for).or_default();
            used.add_call(call);
        } else {
            tracing::error!(job_id = %call.asked_for, cost_usd = ?call.usage.cost_usd, "a judge call is counted for its day and for no batch: too many wait for the database");
        }
    }

    /// The oldest sums; `None`: there are none.
    pub(in crate::store) fn take(&self) -> Option<Pile> {
        let mut piles = self.lock();
        if let Some(tried) = piles.tried.take() {
            return Some(tried);
        }
        (!piles.open.days.is_empty()).then(|| std::mem::take(&mut piles.open))
    }

    /// Takes sums back that couldn't be written.
    pub(super) fn put_back(&self, pile: Pile) {
        self.lock().tried = Some(pile);
    }

    fn lock(&self) -> MutexGuard<'_, Piles> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pile {
    /// Adds the sums to those of their days and batches, once however often it is called. Answers the batches that this
    /// paused.
    pub(super) async fn write_on(&self, conn: &mut Conn) -> sqlx::Result<Vec<(Uuid, Kind)>> {
        let (Some((day, judge, model)), Some(days)) = (
            self.days.keys().next(),
            usage::add_statement(self.days.clone(), self.id),
        ) else {
            return Ok(Vec::new());
        };
        let committed = sql!(
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

    /// Says what is in no sum, and never will be.
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
                "judge calls are counted nowhere: the database took them no more"
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
    fn the_days_sum_stays_exact_however_many_jobs_there_are() {
        let summed = SummedCalls::default();
        let most = u128::try_from(MOST).unwrap();
        for job in (0..most + 10).chain([0]) {
            summed.add(&call(job));
        }
        let pile = summed.take().unwrap();
        assert_eq!(pile.jobs.len(), MOST);
        assert_eq!(pile.jobs[&Uuid::nil()].spent_usd, 1.0);
        let sums: Vec<i64> = pile.days.values().map(|sum| sum.calls).collect();
        assert_eq!(sums, [i64::try_from(MOST).unwrap() + 11]);
        assert!(summed.take().is_none());
    }

    #[test]
    fn nothing_is_added_to_sums_that_may_have_been_committed() {
        let summed = SummedCalls::default();
        summed.add(&call(1));
        let tried = summed.take().unwrap();
        let id = tried.id;
        summed.add(&call(1));
        summed.put_back(tried);
        summed.add(&call(1));
        let (tried, open) = (summed.take().unwrap(), summed.take().unwrap());
        let calls = |pile: &Pile| pile.days.values().map(|sum| sum.calls).sum::<i64>();
        assert_eq!((tried.id, calls(&tried)), (id, 1));
        assert_ne!(open.id, id);
        assert_eq!(calls(&open), 2);
    }
}
