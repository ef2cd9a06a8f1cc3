//! Ends the items of cancelled batches in short steps, which any process may run, so that a million items don't block other work. Until
//! then, claims skip items of cancelled batches.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::columns;
use crate::store::database::sql::{Statement, long_sql};
use crate::store::{BatchRow, Batches, Moved, StoreError};
use crate::wire::BatchState;

/// Number of item numbers that a step covers.
const STEP: i64 = 1_000;
const CANCELLING: &str = "cancelling a batch's items";

/// First item number of each cancelled batch that isn't done yet. A new process starts at the front.
#[derive(Debug, Default)]
pub struct Cancelling(BTreeMap<Uuid, i64>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelStep {
    /// Some batch has items left.
    More,
    /// Only individually requested items remain.
    Done,
}

impl Batches<'_> {
    /// Cancels a batch that runs, is paused or expands. Items that were requested individually stay. Stored results stay. Rows
    /// of running items end at once; their calls finish and are counted. Up to 1,000 other items end at once as well, the rest
    /// is left to `Batches::cancel_step`.
    ///
    /// # Errors
    /// `Unavailable` if the database is unavailable. If the batch was cancelled by then, `cancel_step` ends all of its items.
    pub async fn cancel(self, id: Uuid, now: DateTime<Utc>) -> Result<Moved, StoreError> {
        let statement = long_sql!(
            "cancelling a batch",
            concat!(
                "update scoring_batches set state = 'cancelled', halted = true, finished_at = $2, paused_by = null
                 where batch_id = $1 and (state in ('running', 'paused') or (state = 'expanding' and origin = 'rescore'))
                 returning ",
                columns!()
            ),
            id,
            now
        );
        let moved: Option<BatchRow> = self.db.write_one(&statement).await?;
        if let Some(batch) = &moved {
            self.cancel_running(id, now).await?;
            self.cancel_next(id, batch.total, 0, now).await?;
        }
        self.moved(id, moved, BatchState::Cancelled).await
    }

    /// Ends up to 1,000 more items of each cancelled batch that has some left.
    ///
    /// # Errors
    /// `Unavailable` if the database is unavailable; the next call continues.
    pub async fn cancel_step(
        self,
        cancelling: &mut Cancelling,
        now: DateTime<Utc>,
    ) -> Result<CancelStep, StoreError> {
        let statement = long_sql!(
            "looking for cancelled batches with items left",
            "select batch_id, total from scoring_batches where halted and state = 'cancelled'"
        );
        let rows: Vec<(Uuid, i64)> = self.db.read(&statement).await?;
        let batches: BTreeMap<Uuid, i64> = rows.into_iter().collect();
        cancelling.0.retain(|id, _| batches.contains_key(id));
        let mut step = CancelStep::Done;
        for (id, total) in batches {
            let from = cancelling.0.get(&id).copied().unwrap_or(0);
            let next = self.cancel_next(id, total, from, now).await?;
            if next < total {
                step = CancelStep::More;
            }
            cancelling.0.insert(id, next);
        }
        Ok(step)
    }

    /// Ends the next items; returns the next item number. After the last one the batch's lock is released.
    async fn cancel_next(
        self,
        id: Uuid,
        total: i64,
        from: i64,
        now: DateTime<Utc>,
    ) -> Result<i64, StoreError> {
        let next = from.saturating_add(STEP).min(total);
        if from < total {
            let mut items = end_statement(now);
            items.push(" and batch_id = ").push_arg(id);
            items.push(" and item_no >= ").push_arg(from);
            items.push(" and item_no < ").push_arg(next);
            self.db.execute(&items).await?;
        }
        if next < total {
            return Ok(next);
        }
        // Finds items that changed their state while the range was processed.
        let left = long_sql!(
            CANCELLING,
            "select job_id from scoring_jobs where batch_id = $1 and finished_at is null and not on_demand limit 1",
            id
        );
        if !self.db.rows(&left).await?.is_empty() {
            return Ok(0);
        }
        let picks = long_sql!(
            CANCELLING,
            "delete from scoring_batch_picks where batch_id = $1 and session_id in (
                select session_id from scoring_batch_picks where batch_id = $1 limit $2)",
            id,
            STEP
        );
        if self.db.execute(&picks).await? >= STEP.unsigned_abs() {
            return Ok(next.saturating_sub(1));
        }
        let done = long_sql!(
            CANCELLING,
            "update scoring_batches set halted = false
             where batch_id = $1 and state = 'cancelled'
               and not exists (select 1 from scoring_jobs where batch_id = $1 and finished_at is null)",
            id
        );
        self.db.execute(&done).await?;
        Ok(total)
    }

    /// Ends running items: the results of their calls are discarded.
    async fn cancel_running(self, id: Uuid, now: DateTime<Utc>) -> Result<(), StoreError> {
        let running = long_sql!(
            CANCELLING,
            "select job_id from scoring_jobs
             where batch_id = $1 and finished_at is null and state = 'running' and not on_demand limit $2",
            id,
            STEP
        );
        let ids: Vec<Uuid> = self.db.read_column(&running).await?;
        if ids.is_empty() {
            return Ok(());
        }
        let mut items = end_statement(now);
        items.push(" and job_id in ");
        items.push_list(ids);
        self.db.execute(&items).await.map(drop)
    }
}

/// Statement that ends items; the caller appends conditions. Items that have ended or were requested individually stay.
fn end_statement(now: DateTime<Utc>) -> Statement {
    long_sql!(
        CANCELLING,
        "update scoring_jobs set state = 'cancelled', finished_at = $1, wait_reason = null, wait_until = null,
            waiting_since = null
         where finished_at is null and state in ('queued', 'waiting', 'running') and not on_demand",
        now
    )
}
