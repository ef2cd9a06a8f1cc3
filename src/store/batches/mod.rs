//! `scoring_batches`: rows and creation of batches. Their items are rows of `scoring_jobs`.
//!
//! A batch of given items is `expanding` while its items are inserted, in several transactions. They aren't claimed or
//! pushed until the batch is `running`; before that, the batch is hidden. If its creator stops sending heartbeats, the batch is
//! deleted, items first. A rescore exists from its first row on: its items run while it expands, and the leader expands it.

pub(super) mod backlog_steps;
pub(super) mod backlogs;
pub(super) mod cancelling;
pub(super) mod confidence;
mod costs;
pub(super) mod figures;
pub(super) mod items;
pub(super) mod moves;
pub(super) mod panels;

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::Value;
use uuid::Uuid;

use crate::job::{JobId, Kind, Purpose, Requester};
use crate::store::calls::CallSender;
use crate::store::database::db::{Conn, Db, retry_once};
use crate::store::database::page::{Cursor, Page, bounded};
use crate::store::database::sql::{DbRow, Sql, all, decode, first, sql};
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
        let mut statement = sql!(
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
        self.db
            .execute_long("beginning a batch", &statement)
            .await
            .map(drop)
    }

    pub async fn get(self, id: Uuid) -> Result<Option<BatchRow>, StoreError> {
        const ATTEMPTED: &str = "reading a batch";
        let statement = sql!(
            concat!(
                "select ",
                columns!(),
                " from scoring_batches where batch_id = $1 and not abandoned"
            ),
            id
        );
        one(ATTEMPTED, &self.db.read_long(ATTEMPTED, &statement).await?)
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
        const ATTEMPTED: &str = "listing batches";
        let limit = bounded(limit);
        let mut statement = sql!(concat!(
            "select ",
            columns!(),
            " from scoring_batches where not abandoned"
        ));
        if let Some(kind) = filter.kind {
            statement.push(" and kind = ").push_arg(kind.as_str());
        }
        if let Some(state) = filter.state {
            statement.push(" and state = ").push_arg(state.as_str());
        }
        if let Some(cursor) = after {
            statement
                .push(" and batch_id < ")
                .push_arg(cursor.id(LIST)?);
        }
        statement
            .push(" order by batch_id desc limit ")
            .push_arg(i64::from(limit) + 1);
        let rows = self.db.read_long(ATTEMPTED, &statement).await?;
        let items = all(ATTEMPTED, &rows, batch)?;
        Ok(Page::of(items, limit, |row: &BatchRow| {
            Cursor::of_id(LIST, row.batch_id)
        }))
    }

    /// Returns which of these batches are paused, and the cause.
    pub async fn paused(self, ids: &[Uuid]) -> Result<Vec<(Uuid, PausedBy)>, StoreError> {
        const ATTEMPTED: &str = "reading which batches are paused";
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let mut statement = sql!(
            "select batch_id, paused_by from scoring_batches where state = 'paused' and batch_id in "
        );
        statement.push_list(ids.iter().copied());
        let rows = self.db.read_long(ATTEMPTED, &statement).await?;
        let paused = |row: &DbRow| {
            let by = row.optional_enum("paused_by")?;
            Ok((row.get("batch_id")?, by.unwrap_or(PausedBy::Operator)))
        };
        all(ATTEMPTED, &rows, paused)
    }

    /// Returns which of these batches are collecting replies.
    pub async fn collecting(self, ids: &[Uuid]) -> Result<Vec<Uuid>, StoreError> {
        const ATTEMPTED: &str = "reading which batches collect replies";
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let mut statement =
            sql!("select batch_id from scoring_batches where economy = 'asked' and batch_id in ");
        statement.push_list(ids.iter().copied());
        ids_of(ATTEMPTED, &self.db.read_long(ATTEMPTED, &statement).await?)
    }

    /// Deletes a batch of given items that is still `expanding`, with its items, by any creator. Its creator's next step
    /// finds no batch.
    ///
    /// # Errors
    /// `Unavailable` if the database is unavailable; `Batches::remove_silent` deletes the rest.
    pub async fn remove_expanding(self, id: Uuid) -> Result<(), StoreError> {
        let statement = sql!(
            "update scoring_batches set abandoned = true where batch_id = $1 and state = 'expanding' and origin = 'suite'
             returning batch_id",
            id
        );
        let rows = self.db.write_long(REMOVING, &statement).await?;
        for id in ids_of(REMOVING, &rows)? {
            self.remove_abandoned(id).await?;
        }
        Ok(())
    }

    /// Deletes `expanding` batches of given items without a heartbeat for `silent` by the database's clock. Returns their ids.
    pub async fn remove_silent(self, silent: Duration) -> Result<Vec<Uuid>, StoreError> {
        let mut statement = sql!(
            "update scoring_batches set abandoned = true where finished_at is null and state = 'expanding'
               and origin = 'suite' and (abandoned or touched_at < "
        );
        self.db.dialect().push_ago(&mut statement, silent);
        statement.push(") returning batch_id");
        let rows = self.db.write_long(REMOVING, &statement).await?;
        let ids = ids_of(REMOVING, &rows)?;
        for id in &ids {
            self.remove_abandoned(*id).await?;
        }
        Ok(ids)
    }

    /// Deletes the items first, because an item without its batch would be claimed.
    async fn remove_abandoned(self, id: Uuid) -> Result<(), StoreError> {
        let items = sql!(
            "delete from scoring_jobs where job_id in (
                select job_id from scoring_jobs where batch_id = $1 limit $2)",
            id,
            ROWS_PER_DELETE
        );
        while self.db.execute_long(REMOVING, &items).await? > 0 {}
        // A concurrent step of the creator locks the row and checks `abandoned`.
        let batch = sql!(
            "delete from scoring_batches where batch_id = $1 and abandoned
               and not exists (select 1 from scoring_jobs where batch_id = $1)",
            id
        );
        self.db.execute_long(REMOVING, &batch).await.map(drop)
    }

    /// Runs `steps` in one transaction, with the batch's row locked by `lock`. `None`: the batch isn't in the state that `lock`
    /// requires.
    pub(super) async fn holding(
        self,
        attempted: &'static str,
        lock: &Sql,
        steps: &[Sql],
    ) -> Result<Option<(BatchRow, Vec<DbRow>)>, StoreError> {
        retry_once!(attempted, async {
            let mut conn: Conn = self.db.long_writer().await?;
            let mut tx = conn.begin().await?;
            let Some(row) = tx.fetch(lock).await?.pop() else {
                return Ok(None);
            };
            let mut found = Vec::new();
            for step in steps {
                found = tx.fetch(step).await?;
            }
            tx.commit().await?;
            Ok(Some((batch(&row)?, found)))
        })
    }
}

/// Reopens a completed batch when one of its jobs is queued again, and deletes its stored statistics. Runs before the job's
/// update in the same transaction, because completing a batch and storing its statistics lock the batch's row too.
pub(super) fn reopen_statement(job: JobId) -> Sql {
    sql!(
        "update scoring_batches set reopened = reopened + 1, figures = null,
            finished_at = case when state = 'completed' then null else finished_at end,
            state = case when state = 'completed' then 'running' else state end
         where batch_id = (select batch_id from scoring_jobs where job_id = $1)",
        job.0
    )
}

const REMOVING: &str = "removing an incomplete batch";

pub(super) fn ids_of(attempted: &'static str, rows: &[DbRow]) -> Result<Vec<Uuid>, StoreError> {
    all(attempted, rows, |row| row.get("batch_id"))
}

pub(super) fn one(attempted: &'static str, rows: &[DbRow]) -> Result<Option<BatchRow>, StoreError> {
    first(attempted, rows, batch)
}

pub(super) fn batch(row: &DbRow) -> sqlx::Result<BatchRow> {
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
        // Statistics in an older format are computed again.
        figures: row
            .json("figures")?
            .and_then(|figures| serde_json::from_value(figures).ok()),
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

/// Reads a typed value from a `jsonb` column, or null.
fn typed<T: serde::de::DeserializeOwned>(row: &DbRow, column: &str) -> sqlx::Result<Option<T>> {
    let value = row.json(column)?;
    value
        .map(|value| {
            serde_json::from_value(value).map_err(|error| decode(column, &error.to_string()))
        })
        .transpose()
}
