//! Usage and budgets of batches.
//!
//! Each call is added in the transaction that logs it, independent of the run's outcome. The same transaction pauses batches that
//! reach their budget. Calls in flight finish, so a budget may be exceeded by their cost.

pub(super) mod usage;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use chrono::{DateTime, TimeDelta, Utc};
use uuid::Uuid;

use crate::job::{JobId, Kind};
use crate::judge::{CallRecord, ErrorClass};
use crate::store::batches::columns;
use crate::store::batches::moves::clear_waits;
use crate::store::calls::CallSender;
use crate::store::database::conn::Tx;
use crate::store::database::db::{Db, transact};
use crate::store::database::row::{Nullable, decoded, first};
use crate::store::database::sql::{Arg, Sql, Statement, long_sql, step};
use crate::store::{BatchRow, Moved, StoreError};
use crate::wire::BatchState;

/// Cost of a batch's calls, USD.
macro_rules! spent {
    () => {
        "(select coalesce(sum(u.cost_usd), 0.0) from scoring_batch_usage u where u.batch_id = scoring_batches.batch_id)"
    };
}
pub(super) use spent;

/// Period of the throughput.
const MINUTE: TimeDelta = TimeDelta::minutes(1);
/// Maximum number of ended items that are read for the throughput.
const MAX_ENDED: i64 = 5_000;
const JOBS_PER_LOOKUP: usize = 1_000;
/// Maximum number of skipped sessions in the list.
const MAX_SKIPS: i64 = 100;

/// Usage of a batch's calls, including failed runs.
#[derive(Debug, Clone, Copy, PartialEq, Default, sqlx::FromRow)]
pub struct BatchUsage {
    /// USD of the calls with a known price.
    pub spent_usd: f64,
    /// Calls without a known price, so that the total cost is higher. A judge that reports no usage counts 0 tokens.
    pub unpriced: i64,
    pub tokens_in: i64,
    pub tokens_out: i64,
}

impl BatchUsage {
    pub(super) fn add_call(&mut self, call: &CallRecord) {
        self.add(&Self {
            spent_usd: call.usage.cost_usd.unwrap_or(0.0),
            // A call that timed out may have cost something. It counts as priced, so that it doesn't end the budget.
            unpriced: i64::from(
                call.usage.cost_usd.is_none() && call.error != Some(ErrorClass::Transient),
            ),
            tokens_in: call.usage.tokens_in,
            tokens_out: call.usage.tokens_out,
        });
    }

    fn add(&mut self, other: &Self) {
        self.spent_usd += other.spent_usd;
        self.unpriced = self.unpriced.saturating_add(other.unpriced);
        self.tokens_in = self.tokens_in.saturating_add(other.tokens_in);
        self.tokens_out = self.tokens_out.saturating_add(other.tokens_out);
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BatchPace {
    /// Items per second.
    pub per_s: f64,
}

/// A session that a rescore skipped because of an active job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, sqlx::FromRow)]
pub struct BatchSkip {
    pub session_id: Uuid,
    /// `None`: the job had ended when it was looked up.
    #[sqlx(try_from = "Nullable<Uuid>")]
    pub job_id: Option<JobId>,
}

#[derive(sqlx::FromRow)]
struct PausedBatch {
    batch_id: Uuid,
    #[sqlx(try_from = "String")]
    kind: Kind,
}

impl From<PausedBatch> for (Uuid, Kind) {
    fn from(batch: PausedBatch) -> Self {
        (batch.batch_id, batch.kind)
    }
}

/// Batches that the call log paused, until they are announced.
#[derive(Clone, Default)]
pub(super) struct Spent(Arc<Mutex<Vec<(Uuid, Kind)>>>);

impl Spent {
    pub(super) fn add(&self, batches: Vec<(Uuid, Kind)>) {
        if batches.is_empty() {
            return;
        }
        let mut spent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        spent.extend(batches);
    }

    fn take(&self) -> Vec<(Uuid, Kind)> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[derive(Clone, Copy)]
pub struct Budgets<'a> {
    pub(super) db: &'a Db,
    pub(super) call_log: &'a CallSender,
    pub(super) spent: &'a Spent,
}

impl Budgets<'_> {
    /// Returns the batches that this process paused for their budget since the last call, to announce them. Also pauses batches
    /// that reached their budget by concurrent transactions of two processes, which don't see each other's usage.
    ///
    /// # Errors
    /// `Unavailable` if the database is unavailable; the next call returns the result.
    pub async fn spent_batches(self) -> Result<Vec<(Uuid, Kind)>, StoreError> {
        let pause = pause_statement(Vec::new());
        let mut statement = Statement::new("searching for batches over their budget", pause).long();
        statement.push(" and finished_at is null returning batch_id, kind");
        let late: Vec<PausedBatch> = self.db.write(&statement).await?;
        self.spent
            .add(late.into_iter().map(PausedBatch::into).collect());
        Ok(self.spent.take())
    }

    /// Changes the budget of a batch, USD. A batch that is paused for its budget resumes if the new one is higher than its
    /// usage. A running batch is paused if its usage has reached it.
    pub async fn set(
        self,
        id: Uuid,
        budget_usd: Option<f64>,
        now: DateTime<Utc>,
    ) -> Result<Moved, StoreError> {
        let before = step!(
            concat!(
                "update scoring_batches set touched_at = touched_at where batch_id = $1 and not abandoned returning ",
                columns!()
            ),
            id
        );
        let moved = transact!(self.db, "changing a batch's budget", |tx| {
            let Some(before) = first::<BatchRow>(&tx.fetch(&before).await?)? else {
                return Ok(None);
            };
            let after = tx.fetch(&budget_statement(id, budget_usd)).await?;
            let Some(after) = first::<BatchRow>(&after)? else {
                return Ok(None);
            };
            if before.state == BatchState::Paused && after.goes_on() {
                tx.execute(&clear_waits(id, now)).await?;
            }
            Some((before, after))
        })?;
        Ok(match moved {
            None => Moved::Unknown,
            Some((before, after)) if before.state == after.state => Moved::Already(after),
            Some((_, after)) => Moved::Now(after),
        })
    }

    /// Returns the usage of a batch. Waits for this process's call log.
    pub async fn batch_usage(self, id: Uuid) -> Result<BatchUsage, StoreError> {
        self.call_log.flush().await;
        let statement = long_sql!(
            "reading the cost of a batch",
            "select coalesce(sum(cost_usd), 0.0) as spent_usd, cast(coalesce(sum(unpriced), 0) as bigint) as unpriced,
                cast(coalesce(sum(tokens_in), 0) as bigint) as tokens_in,
                cast(coalesce(sum(tokens_out), 0) as bigint) as tokens_out
             from scoring_batch_usage where batch_id = $1",
            id
        );
        Ok(self.db.read_one(&statement).await?.unwrap_or_default())
    }

    /// Returns the throughput of the last minute, or since the batch was created.
    pub async fn batch_pace(
        self,
        batch: &BatchRow,
        now: DateTime<Utc>,
    ) -> Result<BatchPace, StoreError> {
        let since = (now - MINUTE).max(batch.created_at);
        let statement = long_sql!(
            "reading a batch's pace",
            "select count(*) as ended, min(finished_at) as oldest from (
                select finished_at from scoring_jobs where batch_id = $1 and finished_at >= $2
                order by finished_at desc limit $3) lately",
            batch.batch_id,
            since,
            MAX_ENDED
        );
        let (ended, oldest) = self.db.read_one(&statement).await?.unwrap_or_default();
        Ok(BatchPace {
            per_s: per_s(ended, oldest, since, now),
        })
    }

    /// Returns the first 100 sessions that a rescore skipped because of an active job.
    pub async fn batch_skips(self, id: Uuid) -> Result<Vec<BatchSkip>, StoreError> {
        let statement = long_sql!(
            "reading the items that a rescore skipped",
            "select session_id, job_id from scoring_batch_skips where batch_id = $1 order by session_id limit $2",
            id,
            MAX_SKIPS
        );
        self.db.read(&statement).await
    }
}

/// Adds the usage of jobs to their batches, in the rows of process `counter`. Pauses batches that reach their budget and
/// returns them. Jobs without a batch or without usage are skipped.
pub(super) async fn spend_for_jobs(
    tx: &mut Tx<'_>,
    used: &BTreeMap<Uuid, BatchUsage>,
    counter: Uuid,
) -> sqlx::Result<Vec<(Uuid, Kind)>> {
    let jobs: Vec<Uuid> = used
        .iter()
        .filter(|(_, used)| **used != BatchUsage::default())
        .map(|(job, _)| *job)
        .collect();
    let mut batches: BTreeMap<(Uuid, Uuid), BatchUsage> = BTreeMap::new();
    for jobs in jobs.chunks(JOBS_PER_LOOKUP) {
        let mut statement = step!(
            "select job_id, batch_id from scoring_jobs where batch_id is not null and job_id in "
        );
        statement.push_list(jobs.iter().copied());
        let batch_of: Vec<(Uuid, Uuid)> = decoded(&tx.fetch(&statement).await?)?;
        for (job, batch) in batch_of {
            if let Some(used) = used.get(&job) {
                batches.entry((batch, counter)).or_default().add(used);
            }
        }
    }
    if batches.is_empty() {
        return Ok(Vec::new());
    }
    spend(tx, &batches).await
}

/// Adds usage by batch and process. Pauses batches that reach their budget and returns them. Also pauses batches with a budget
/// and a call without a known price, because their cost is unknown.
async fn spend(
    tx: &mut Tx<'_>,
    used: &BTreeMap<(Uuid, Uuid), BatchUsage>,
) -> sqlx::Result<Vec<(Uuid, Kind)>> {
    tx.execute(&add_statement(used)).await?;
    let unpriced = used.iter().filter(|(_, usage)| usage.unpriced > 0);
    let mut statement = pause_statement(unpriced.map(|((batch_id, _), _)| *batch_id).collect());
    statement.push(" and batch_id in ");
    statement.push_list(used.keys().map(|(batch_id, _)| *batch_id));
    statement.push(" returning batch_id, kind");
    let paused: Vec<PausedBatch> = decoded(&tx.fetch(&statement).await?)?;
    Ok(paused.into_iter().map(PausedBatch::into).collect())
}

fn add_statement(used: &BTreeMap<(Uuid, Uuid), BatchUsage>) -> Sql {
    let rows = used
        .iter()
        .map(|((batch_id, worker_id), usage)| {
            vec![
                Arg::from(*batch_id),
                Arg::from(*worker_id),
                Arg::from(usage.spent_usd),
                Arg::from(usage.unpriced),
                Arg::from(usage.tokens_in),
                Arg::from(usage.tokens_out),
            ]
        })
        .collect();
    let mut statement = Sql::of_rows(
        "v_batch_id, v_worker_id, v_cost_usd, v_unpriced, v_tokens_in, v_tokens_out",
        rows,
    );
    statement.push(
        "insert into scoring_batch_usage (batch_id, worker_id, cost_usd, unpriced, tokens_in, tokens_out)
         select v_batch_id, v_worker_id, v_cost_usd, v_unpriced, v_tokens_in, v_tokens_out
         from v where v_batch_id is not null
         on conflict (batch_id, worker_id) do update set
            cost_usd = scoring_batch_usage.cost_usd + excluded.cost_usd,
            unpriced = scoring_batch_usage.unpriced + excluded.unpriced,
            tokens_in = scoring_batch_usage.tokens_in + excluded.tokens_in,
            tokens_out = scoring_batch_usage.tokens_out + excluded.tokens_out",
    );
    statement
}

/// Statement that pauses batches with a budget and items that may start, if the budget is used up or the batch is in
/// `unpriced`. The caller appends conditions. A batch whose last items are running isn't paused.
fn pause_statement(unpriced: Vec<Uuid>) -> Sql {
    let mut statement = step!(concat!(
        "update scoring_batches set state = 'paused', halted = true, paused_by = 'budget'
         where budget_usd is not null
           and ((state = 'expanding' and origin = 'rescore') or (state = 'running' and exists (
                select 1 from scoring_jobs j where j.batch_id = scoring_batches.batch_id and j.finished_at is null
                    and j.state in ('queued', 'waiting'))))
           and (budget_usd <= ",
        spent!()
    ));
    if !unpriced.is_empty() {
        statement.push(" or batch_id in ");
        statement.push_list(unpriced);
    }
    statement.push(")");
    statement
}

/// Statement that sets the budget and the state: resumes a batch that is paused for its budget, pauses a running one, or keeps
/// the state.
fn budget_statement(id: Uuid, budget_usd: Option<f64>) -> Sql {
    let left = "(cast($2 as double precision) is null or cast($2 as double precision) > ";
    let resumed = "(state = 'paused' and paused_by = 'budget')";
    let mut statement = step!(
        "update scoring_batches set budget_usd = $2, state = case when ",
        id,
        budget_usd
    );
    let goes_on = format!("{resumed} and {left}{})", spent!());
    let stops = format!(
        "(state = 'running' or (state = 'expanding' and origin = 'rescore')) and not {left}{})",
        spent!()
    );
    statement
        .push(&goes_on)
        .push(" then case when expanded then 'running' else 'expanding' end when ")
        .push(&stops)
        .push(" then 'paused' else state end, halted = case when ")
        .push(&goes_on)
        .push(" then false when ")
        .push(&stops)
        .push(" then true else halted end, paused_by = case when ")
        .push(&goes_on)
        .push(" then null when ")
        .push(&stops)
        .push(concat!(
            " then 'budget' else paused_by end where batch_id = $1 and not abandoned returning ",
            columns!()
        ));
    statement
}

/// Items per second since `since`, or since the oldest one that was read.
fn per_s(
    ended: i64,
    oldest: Option<DateTime<Utc>>,
    since: DateTime<Utc>,
    now: DateTime<Utc>,
) -> f64 {
    let since = oldest.filter(|_| ended == MAX_ENDED).unwrap_or(since);
    let seconds = (now - since).as_seconds_f64().max(1.0);
    f64::from(u32::try_from(ended).unwrap_or(u32::MAX)) / seconds
}
