//! `scoring_batches`: rows and creation of batches. Their items are rows of `scoring_jobs`.
//!
//! A batch of given items is `expanding` while its items are inserted, in several transactions. They aren't claimed or
//! pushed until the batch is `running`; before that, the batch is hidden. If its creator stops sending heartbeats, the batch is
//! deleted, items first. A rescore exists from its first row on: its items run while it expands, and the leader expands it.

pub(super) mod backlog_steps;
pub(super) mod backlogs;
pub(super) mod cancelling;
pub(super) mod figures;
pub(super) mod items;
pub(super) mod moves;

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::Value;
use uuid::Uuid;

use crate::job::{JobId, Kind, Purpose, Requester};
use crate::store::calls::CallSender;
use crate::store::database::db::{Db, transact};
use crate::store::database::page::{Cursor, Page, bounded};
use crate::store::database::row::{DbRow, Decoded, Nullable, decode, decoded};
use crate::store::database::sql::{Sql, long_sql, step};
use crate::store::{BatchFigures, StoreError};
use crate::wire::{BatchOrigin, BatchState, PausedBy, Skipped};
use backlogs::BacklogPlan;

/// Condition for jobs that may be claimed and pushed: without a batch, in a batch that isn't halted, or requested individually.
/// Postgres reads the few halted batches once per statement, and only if some row has a batch. Items of a batch whose replies
/// are being collected (`economy = 'asked'`) don't run either, unless they are interactive.
macro_rules! not_halted {
    () => {
        "(batch_id is null or on_demand or (batch_id not in (select b.batch_id from scoring_batches b where b.halted)
            and (priority = 'interactive'
                or batch_id not in (select b.batch_id from scoring_batches b where b.economy = 'asked'))))"
    };
}
pub(super) use not_halted;

#[derive(Debug, Clone, PartialEq)]
pub struct NewBatch {
    /// UUID v7.
    pub batch_id: Uuid,
    /// Name given by the user.
    pub name: Option<String>,
    pub kind: Kind,
    pub origin: BatchOrigin,
    /// Default threshold of its items.
    pub threshold: Option<f64>,
    /// Criteria of its items.
    pub criteria_hash: String,
    /// Budget in USD; the batch is paused when its calls reach it.
    pub budget_usd: Option<f64>,
    pub created_by: Requester,
    pub created_at: DateTime<Utc>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct BatchRow {
    pub batch_id: Uuid,
    /// Name given by the user.
    pub name: Option<String>,
    pub kind: Kind,
    pub origin: BatchOrigin,
    pub state: BatchState,
    /// Default threshold of its items.
    pub threshold: Option<f64>,
    /// Number of items; grows while `expanding`.
    pub total: i64,
    pub created_by: Requester,
    pub created_at: DateTime<Utc>,
    /// When it was completed or cancelled.
    pub finished_at: Option<DateTime<Utc>>,
    /// Number of times that ended items were queued again.
    pub reopened: i64,
    /// Statistics, stored after all items have ended.
    pub figures: Option<BatchFigures>,
    pub purpose: Purpose,
    /// Criteria of its items; `None`: several.
    pub criteria_hash: Option<String>,
    /// Budget in USD; the batch is paused when its calls reach it.
    pub budget_usd: Option<f64>,
    /// Set while it is paused.
    pub paused_by: Option<PausedBy>,
    /// Whether all items are inserted.
    pub expanded: bool,
    /// Of a rescore: the filter as requested.
    pub filter: Option<Value>,
    /// Of a rescore: conversion of sessions to items.
    pub plan: Option<BacklogPlan>,
    /// Of a rescore: sessions found and skipped so far.
    pub skipped: Option<Skipped>,
}

/// Filter of the list; set fields are combined by AND.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BatchFilter {
    pub kind: Option<Kind>,
    pub state: Option<BatchState>,
}

#[derive(sqlx::FromRow)]
struct PausedBatch {
    batch_id: Uuid,
    #[sqlx(try_from = "Nullable<String>")]
    paused_by: Option<PausedBy>,
}

macro_rules! columns {
    () => {
        "batch_id, name, kind, origin, state, threshold, total, created_by, authenticated_as, created_at, finished_at, reopened, figures, \
         purpose, criteria_hash, budget_usd, paused_by, expanded, filter, plan, skipped"
    };
}
pub(super) use columns;

/// Prefix of the list's cursors.
const LIST: char = 'b';
const ROWS_PER_DELETE: i64 = 2_000;

#[derive(Clone, Copy)]
pub struct Batches<'a> {
    pub(super) db: &'a Db,
    pub(super) call_log: &'a CallSender,
}

impl Batches<'_> {
    /// Creates an empty batch in state `expanding`. Idempotent.
    pub async fn begin(self, new: &NewBatch) -> Result<(), StoreError> {
        let mut statement = long_sql!(
            "beginning a batch",
            "insert into scoring_batches (batch_id, name, kind, origin, state, threshold, created_by, authenticated_as,
                created_at, criteria_hash, budget_usd, expanded, halted, touched_at)
             values ($1, $2, $3, $4, 'expanding', $5, $6, $7, $8, $9, $10, false, true, ",
            new.batch_id,
            new.name.as_deref(),
            new.kind.as_str(),
            new.origin.as_str(),
            new.threshold,
            &new.created_by.user,
            new.created_by.authenticated_as.as_deref(),
            new.created_at,
            &new.criteria_hash,
            new.budget_usd
        );
        statement
            .push(self.db.dialect().now())
            .push(") on conflict (batch_id) do nothing");
        self.db.execute(&statement).await.map(drop)
    }

    pub async fn get(self, id: Uuid) -> Result<Option<BatchRow>, StoreError> {
        let statement = long_sql!(
            "reading a batch",
            concat!(
                "select ",
                columns!(),
                " from scoring_batches where batch_id = $1 and not abandoned"
            ),
            id
        );
        self.db.read_one(&statement).await
    }

    /// Lists batches, newest first. `limit` 1-500.
    ///
    /// # Errors
    /// `BadCursor` for a cursor of another list.
    pub async fn list(
        self,
        filter: BatchFilter,
        after: Option<&Cursor>,
        limit: u32,
    ) -> Result<Page<BatchRow>, StoreError> {
        let limit = bounded(limit);
        let mut statement = long_sql!(
            "listing batches",
            concat!(
                "select ",
                columns!(),
                " from scoring_batches where not abandoned"
            )
        );
        statement.and("kind = ", filter.kind.map(|kind| kind.as_str()));
        statement.and("state = ", filter.state.map(|state| state.as_str()));
        if let Some(cursor) = after {
            statement
                .push(" and batch_id < ")
                .push_arg(cursor.id(LIST)?);
        }
        statement
            .push(" order by batch_id desc limit ")
            .push_arg(limit + 1);
        let items = self.db.read(&statement).await?;
        Ok(Page::of(items, limit, |row: &BatchRow| {
            Cursor::of_id(LIST, row.batch_id)
        }))
    }

    /// Returns which of these batches are paused, and the cause.
    pub async fn paused(self, ids: &[Uuid]) -> Result<Vec<(Uuid, PausedBy)>, StoreError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let mut statement = long_sql!(
            "reading which batches are paused",
            "select batch_id, paused_by from scoring_batches where state = 'paused' and batch_id in "
        );
        statement.push_list(ids.iter().copied());
        let paused: Vec<PausedBatch> = self.db.read(&statement).await?;
        let cause = |batch: PausedBatch| {
            (
                batch.batch_id,
                batch.paused_by.unwrap_or(PausedBy::Operator),
            )
        };
        Ok(paused.into_iter().map(cause).collect())
    }

    /// Returns which of these batches are collecting replies.
    pub async fn collecting(self, ids: &[Uuid]) -> Result<Vec<Uuid>, StoreError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let mut statement = long_sql!(
            "reading which batches collect replies",
            "select batch_id from scoring_batches where economy = 'asked' and batch_id in "
        );
        statement.push_list(ids.iter().copied());
        self.db.read_column(&statement).await
    }

    /// Deletes a batch of given items that is still `expanding`, with its items, by any creator. Its creator's next step
    /// finds no batch.
    ///
    /// # Errors
    /// `Unavailable` if the database is unavailable; `Batches::remove_silent` deletes the rest.
    pub async fn remove_expanding(self, id: Uuid) -> Result<(), StoreError> {
        let statement = long_sql!(
            REMOVING,
            "update scoring_batches set abandoned = true where batch_id = $1 and state = 'expanding' and origin = 'suite'
             returning batch_id",
            id
        );
        for (id,) in self.db.write::<(Uuid,)>(&statement).await? {
            self.remove_abandoned(id).await?;
        }
        Ok(())
    }

    /// Deletes `expanding` batches of given items without a heartbeat for `silent` by the database's clock. Returns their ids.
    pub async fn remove_silent(self, silent: Duration) -> Result<Vec<Uuid>, StoreError> {
        let mut statement = long_sql!(
            REMOVING,
            "update scoring_batches set abandoned = true where finished_at is null and state = 'expanding'
               and origin = 'suite' and (abandoned or touched_at < "
        );
        self.db.dialect().push_ago(&mut statement, silent);
        statement.push(") returning batch_id");
        let ids: Vec<(Uuid,)> = self.db.write(&statement).await?;
        for (id,) in &ids {
            self.remove_abandoned(*id).await?;
        }
        Ok(ids.into_iter().map(|(id,)| id).collect())
    }

    /// Deletes the items first, because an item without its batch would be claimed.
    async fn remove_abandoned(self, id: Uuid) -> Result<(), StoreError> {
        let items = long_sql!(
            REMOVING,
            "delete from scoring_jobs where job_id in (
                select job_id from scoring_jobs where batch_id = $1 limit $2)",
            id,
            ROWS_PER_DELETE
        );
        while self.db.execute(&items).await? > 0 {}
        // A concurrent step of the creator locks the row and checks `abandoned`.
        let batch = long_sql!(
            REMOVING,
            "delete from scoring_batches where batch_id = $1 and abandoned
               and not exists (select 1 from scoring_jobs where batch_id = $1)",
            id
        );
        self.db.execute(&batch).await.map(drop)
    }

    /// Runs `steps` in one transaction, with the batch's row locked by `lock`. `None`: the batch isn't in the state that `lock`
    /// requires.
    pub(super) async fn holding<T: Decoded>(
        self,
        attempted: &'static str,
        lock: &Sql,
        steps: &[Sql],
    ) -> Result<Option<(BatchRow, Vec<T>)>, StoreError> {
        transact!(self.db, attempted, |tx| {
            let Some(row) = tx.fetch(lock).await?.pop() else {
                return Ok(None);
            };
            let mut found = Vec::new();
            for step in steps {
                found = tx.fetch(step).await?;
            }
            Some((row.decode()?, decoded(&found)?))
        })
    }
}

/// Reopens a completed batch when one of its jobs is queued again, and deletes its stored statistics. Runs before the job's
/// update in the same transaction, because completing a batch and storing its statistics lock the batch's row too.
pub(super) fn reopen_statement(job: JobId) -> Sql {
    step!(
        "update scoring_batches set reopened = reopened + 1, figures = null,
            finished_at = case when state = 'completed' then null else finished_at end,
            state = case when state = 'completed' then 'running' else state end
         where batch_id = (select batch_id from scoring_jobs where job_id = $1)",
        job.0
    )
}

const REMOVING: &str = "removing an incomplete batch";

impl Decoded for BatchRow {
    fn decoded(row: &DbRow) -> sqlx::Result<Self> {
        Ok(BatchRow {
            batch_id: row.get("batch_id")?,
            name: row.get("name")?,
            kind: row.text_enum("kind")?,
            origin: row.text_enum("origin")?,
            state: row.text_enum("state")?,
            threshold: row.get("threshold")?,
            total: row.get("total")?,
            created_by: Requester {
                user: row.get("created_by")?,
                authenticated_as: row.get("authenticated_as")?,
            },
            created_at: row.get("created_at")?,
            finished_at: row.get("finished_at")?,
            reopened: row.get("reopened")?,
            figures: typed(row, "figures")?,
            purpose: row.text_enum("purpose")?,
            criteria_hash: row.get("criteria_hash")?,
            budget_usd: row.get("budget_usd")?,
            paused_by: row.optional_enum("paused_by")?,
            expanded: row.get("expanded")?,
            filter: row.json("filter")?,
            plan: typed(row, "plan")?,
            skipped: typed(row, "skipped")?,
        })
    }
}

/// Reads a typed value from a `jsonb` column, or null.
fn typed<T: serde::de::DeserializeOwned>(row: &DbRow, column: &str) -> sqlx::Result<Option<T>> {
    let value = row.json(column)?;
    value
        .map(|value| {
            serde_json::from_value(value).map_err(|error| decode(column, &error.to_string()))
        })
        .transpose()
}
