//! State transitions of a batch: add items, start, pause, resume, complete, retry failed items.
//!
//! Each transition is a compare-and-set on the batch's state. Transitions that read the items lock the batch's row, so that a
//! batch isn't completed while items are queued again.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::{BatchRow, columns};
use crate::job::NewJob;
use crate::store::budgets::spent;
use crate::store::database::conn::Conn;
use crate::store::database::db::retry_once;
use crate::store::database::row::column;
use crate::store::database::session::Purpose;
use crate::store::database::sql::{Sql, long_sql, step};
use crate::store::jobs::row::insert_statement;
use crate::store::{Batches, DueJob, StoreError};
use crate::wire::{BatchOrigin, BatchState};

/// Condition for completing a batch, except for its items.
macro_rules! may_complete {
    () => {
        "(state = 'running' or (state = 'paused' and paused_by = 'budget' and expanded))"
    };
}

/// Condition for failed items of batch $1 that may be queued again: they failed before $2, and their subject has no active job.
macro_rules! retriable {
    ($column:literal) => {
        concat!(
            "select ",
            $column,
            " from scoring_jobs f
             where f.batch_id = $1 and f.state = 'failed' and f.finished_at <= $2
               and (f.purpose <> 'score' or not exists (select 1 from scoring_jobs a where a.kind = f.kind
                    and a.subject_id = f.subject_id and a.finished_at is null and a.purpose = 'score'))"
        )
    };
}

/// Maximum number of items that a statement queues again.
const SLICE: i64 = 1_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Added {
    All,
    /// The batch isn't `expanding` any more: it was abandoned because its creator sent no heartbeat.
    Gone,
    /// Not stored, because jobs are active for these subjects.
    Active(Vec<Uuid>),
}

#[derive(Debug, Clone, PartialEq)]
pub enum Moved {
    Now(BatchRow),
    /// The batch is in the target state already, or has no work left.
    Already(BatchRow),
    /// The batch is in a state without this transition.
    Refused(BatchRow),
    Unknown,
}

impl Batches<'_> {
    /// Adds items to an `expanding` batch: all or none, at most 1,000. Idempotent.
    pub async fn add_items(self, batch_id: Uuid, items: &[NewJob]) -> Result<Added, StoreError> {
        let jobs: Vec<&NewJob> = items.iter().collect();
        let insert = insert_statement(&jobs);
        let mut touch = step!(
            "update scoring_batches set total = total + $2, touched_at = ",
            batch_id,
            items.len()
        );
        touch.push(self.db.dialect().now()).push(
            " where batch_id = $1 and state = 'expanding' and not abandoned returning batch_id",
        );
        let mut there = step!("select job_id from scoring_jobs where job_id in ");
        there.push_list(items.iter().map(|job| job.job_id.0));
        let mut active = step!(
            "select subject_id from scoring_jobs
             where finished_at is null and purpose = 'score' and subject_id in "
        );
        active.push_list(items.iter().filter_map(|job| job.subject_id));
        retry_once!("adding items to a batch", async {
            let mut conn: Conn = self.db.writer(Purpose::Many).await?;
            let mut tx = conn.begin().await?;
            if tx.fetch(&touch).await?.is_empty() {
                return Ok(Added::Gone);
            }
            if tx.fetch(&insert).await?.len() == items.len() {
                tx.commit().await?;
                return Ok(Added::All);
            }
            drop(tx);
            // An earlier try was committed, and its response was lost.
            if conn.fetch(&there).await?.len() == items.len() {
                return Ok(Added::All);
            }
            Ok(Added::Active(column(&conn.fetch(&active).await?)?))
        })
    }

    /// Starts an `expanding` batch, which makes it visible.
    pub async fn start(self, id: Uuid) -> Result<Moved, StoreError> {
        let statement = long_sql!(
            "starting a batch",
            concat!(
                "update scoring_batches set state = 'running', halted = false, expanded = true
                 where batch_id = $1 and state = 'expanding' and not abandoned returning ",
                columns!()
            ),
            id
        );
        let moved = self.db.write_one(&statement).await?;
        self.moved(id, moved, BatchState::Running).await
    }

    /// Pauses a batch that runs, or a rescore that expands: no item starts, running items finish. A batch that is paused for
    /// its budget then stays paused when the budget changes.
    pub async fn pause(self, id: Uuid) -> Result<Moved, StoreError> {
        let statement = long_sql!(
            "pausing a batch",
            concat!(
                "update scoring_batches set state = 'paused', halted = true, paused_by = 'operator'
                 where batch_id = $1 and (state = 'running' or (state = 'expanding' and origin = 'rescore')
                    or (state = 'paused' and paused_by = 'budget')) returning ",
                columns!()
            ),
            id
        );
        let moved = self.db.write_one(&statement).await?;
        self.moved(id, moved, BatchState::Paused).await
    }

    /// Resumes a paused batch, unless its budget is used up. The wait limit of its items starts again.
    pub async fn resume(self, id: Uuid, now: DateTime<Utc>) -> Result<Moved, StoreError> {
        let lock = step!(
            concat!(
                "update scoring_batches set state = case when expanded then 'running' else 'expanding' end,
                    halted = false, paused_by = null
                 where batch_id = $1 and state = 'paused' and (budget_usd is null or budget_usd > ",
                spent!(),
                ") returning ",
                columns!()
            ),
            id
        );
        let resumed = self
            .holding::<(Uuid,)>("resuming a batch", &lock, &[clear_waits(id, now)])
            .await?;
        let moved = resumed.map(|(batch, _)| batch);
        self.moved(id, moved, BatchState::Running).await
    }

    /// Completes a batch that runs, or is paused for its budget, if all items have ended: the last items may have been in
    /// flight when the budget was reached. `None`: not completed.
    pub async fn complete(
        self,
        id: Uuid,
        now: DateTime<Utc>,
    ) -> Result<Option<BatchRow>, StoreError> {
        // Locks the row first, because a statement that waits for the lock would see outdated items.
        let hold = step!(
            concat!(
                "update scoring_batches set halted = halted where batch_id = $1 and ",
                may_complete!(),
                " returning ",
                columns!()
            ),
            id
        );
        let complete = step!(
            concat!(
                "update scoring_batches set state = 'completed', finished_at = $2, halted = false, paused_by = null
                 where batch_id = $1 and ",
                may_complete!(),
                " and not exists (select 1 from scoring_jobs where batch_id = $1 and finished_at is null)
                 returning ",
                columns!()
            ),
            id,
            now
        );
        match self
            .holding("completing a batch", &hold, &[complete])
            .await?
        {
            Some((_, mut completed)) => Ok(completed.pop()),
            None => Ok(None),
        }
    }

    /// Returns the batches that `Batches::complete` would complete, at most 100.
    pub async fn without_items_left(self) -> Result<Vec<Uuid>, StoreError> {
        let statement = long_sql!("looking for batches that are done", concat!(
            "select b.batch_id from scoring_batches b where b.finished_at is null and ",
            may_complete!(),
            " and not exists (
                select 1 from scoring_jobs j where j.batch_id = b.batch_id and j.finished_at is null)
             limit 100"
        ));
        self.db.read_column(&statement).await
    }

    /// Queues up to 1,000 failed items again, as `Jobs::retry` does, but keeps their priority. A completed batch runs again.
    /// Items whose subject has an active job stay failed. Only items that failed before `before`, so that callers can repeat
    /// this until it returns no items.
    pub async fn retry_failed_items(
        self,
        id: Uuid,
        before: DateTime<Utc>,
        now: DateTime<Utc>,
    ) -> Result<(Moved, Vec<DueJob>), StoreError> {
        let hold = step!(
            concat!(
                "update scoring_batches set finished_at = null, reopened = reopened + 1, figures = null,
                    state = case when state = 'completed' then 'running' else state end
                 where batch_id = $1 and not abandoned
                   and (state in ('running', 'paused', 'completed') or (state = 'expanding' and origin = 'rescore'))
                   and exists (",
                retriable!("1"),
                ") returning ",
                columns!()
            ),
            id,
            before
        );
        let again = step!(
            concat!("update scoring_jobs set state = 'queued', on_demand = false, finished_at = null, lane = coalesce(judge, 'none'),
                attempts = 0, losses = 0, retries = 0, due_at = $3, worker_id = null, wait_reason = null,
                wait_until = null, waiting_since = null, error_class = null, error = null, result = null
             where job_id in (",
                retriable!("f.job_id"),
                " order by f.item_no limit $4)
             returning job_id, lane, priority, due_at"
            ),
            id,
            before,
            now,
            SLICE
        );
        let Some((batch, due)) = self
            .holding("queueing a batch's failed items again", &hold, &[again])
            .await?
        else {
            let moved = match self.get(id).await? {
                Some(batch) if batch.takes_retries() => Moved::Already(batch),
                Some(batch) => Moved::Refused(batch),
                None => Moved::Unknown,
            };
            return Ok((moved, Vec::new()));
        };
        Ok((Moved::Now(batch), due))
    }

    /// Returns the first queued items, to push them at once. `rescue` pushes the rest.
    pub async fn first_items(self, id: Uuid, limit: u32) -> Result<Vec<DueJob>, StoreError> {
        let statement = long_sql!(
            "reading a batch's first items",
            "select job_id, lane, priority, due_at from scoring_jobs
             where batch_id = $1 and finished_at is null and state = 'queued' order by item_no limit $2",
            id,
            limit
        );
        self.db.read(&statement).await
    }

    pub(in crate::store) async fn moved(
        self,
        id: Uuid,
        changed: Option<BatchRow>,
        aim: BatchState,
    ) -> Result<Moved, StoreError> {
        if let Some(batch) = changed {
            return Ok(Moved::Now(batch));
        }
        Ok(match self.get(id).await? {
            Some(batch)
                if batch.state == aim || (batch.goes_on() && aim == BatchState::Running) =>
            {
                Moved::Already(batch)
            }
            Some(batch) => Moved::Refused(batch),
            None => Moved::Unknown,
        })
    }
}

impl BatchRow {
    /// Whether its items run: it is running, or a rescore that expands.
    pub fn goes_on(&self) -> bool {
        match self.state {
            BatchState::Running => true,
            BatchState::Expanding => self.origin == BatchOrigin::Rescore,
            BatchState::Paused | BatchState::Completed | BatchState::Cancelled => false,
        }
    }

    pub fn takes_retries(&self) -> bool {
        match self.state {
            BatchState::Paused | BatchState::Completed => true,
            BatchState::Running | BatchState::Expanding => self.goes_on(),
            BatchState::Cancelled => false,
        }
    }
}

/// Restarts the wait limit of items, because a pause doesn't count.
pub(in crate::store) fn clear_waits(id: Uuid, now: DateTime<Utc>) -> Sql {
    step!(
        "update scoring_jobs set waiting_since = $2
         where batch_id = $1 and finished_at is null and waiting_since is not null",
        id,
        now
    )
}
