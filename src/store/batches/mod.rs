//! `scoring_batches`: which there are, and how one comes to be. Its items are rows of `scoring_jobs`.
//!
//! A batch of given items is `expanding` while they are inserted, in as many transactions as it takes, and none of them is
//! claimed or pushed. One update to `running` is what makes it exist. One whose maker went silent before that is removed,
//! items first. A rescore exists from its first row on: its items run while it expands, and the worker that leads goes on
//! with it.

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

/// What a statement says of rows that may be claimed and pushed: theirs is no batch, or none that is stopped, or somebody asked
/// for them by themselves. Postgres reads
/// the few that are stopped once for the statement, and not at all if no row has a batch. One whose replies are collected is
/// stopped until they are here, whatever else lets it go on, but for items that somebody waits for: those are asked as ever.
macro_rules! not_halted {
    () => {
        "(batch_id is null or on_demand or (batch_id not in (select b.batch_id from scoring_batches b where b.halted)
            and (priority = 'interactive'
                or batch_id not in (select b.batch_id from scoring_batches b where b.economy = 'asked'))))"
    };
}
pub(super) use not_halted;

/// A batch to begin.
#[derive(Debug, Clone, PartialEq)]
pub struct NewBatch {
    /// The batch's id, UUID v7.
    pub batch_id: Uuid,
    /// What its maker calls it.
    pub name: Option<String>,
    /// What is scored.
    pub kind: Kind,
    /// What made it what it is.
    pub origin: BatchOrigin,
    /// What its items are held against where they name nothing themselves.
    pub threshold: Option<f64>,
    /// What its items are judged by.
    pub criteria_hash: String,
    /// It is paused once its calls cost this, USD.
    pub budget_usd: Option<f64>,
    pub created_by: Requester,
    pub created_at: DateTime<Utc>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct BatchRow {
    pub batch_id: Uuid,
    /// What its maker calls it.
    pub name: Option<String>,
    pub kind: Kind,
    /// What made it what it is.
    pub origin: BatchOrigin,
    /// Where it stands.
    pub state: BatchState,
    /// What its items are held against where they name nothing themselves.
    pub threshold: Option<f64>,
    /// How many items it has; still rising while `expanding`.
    pub total: i64,
    pub created_by: Requester,
    /// When it was asked for.
    pub created_at: DateTime<Utc>,
    /// When it was completed or cancelled.
    pub finished_at: Option<DateTime<Utc>>,
    /// How often items that had ended were queued again.
    pub reopened: i64,
    /// What it came to, once that was counted after all its items had ended.
    pub figures: Option<BatchFigures>,
    /// Why its items are judged.
    pub purpose: Purpose,
    /// What its items are judged by; `None`: it was made before that was kept.
    pub criteria_hash: Option<String>,
    /// It is paused once its calls cost this, USD.
    pub budget_usd: Option<f64>,
    /// Who paused it, while it is paused.
    pub paused_by: Option<PausedBy>,
    /// Whether all its items are there.
    pub expanded: bool,
    /// Of a rescore: which sessions, as it was asked for.
    pub filter: Option<Value>,
    /// Of a rescore: how its items are made of them.
    pub plan: Option<BacklogPlan>,
    /// Of a rescore: what was found and skipped so far.
    pub skipped: Option<Skipped>,
}

/// Which batches; every field narrows.
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

/// The list's name in its cursors.
const LIST: char = 'b';
/// How many rows one statement removes.
const REMOVED: i64 = 2_000;

/// Batches and their items.
#[derive(Clone, Copy)]
pub struct Batches<'a> {
    pub(super) db: &'a Db,
    pub(super) call_log: &'a CallSender,
}

impl Batches<'_> {
    /// Begins a batch, `expanding` and empty. Idempotent.
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
    /// `BadCursor` for a position that this list didn't give.
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

    /// Which of these batches are paused, and by whom.
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
            let by = row.text_enum_or_null("paused_by")?;
            Ok((row.get("batch_id")?, by.unwrap_or(PausedBy::Operator)))
        };
        all(ATTEMPTED, &rows, paused)
    }

    /// Those of these batches whose replies are being collected.
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

    /// Removes a batch of given items that is still `expanding`, whoever makes it, with its items. Its maker's next step finds it gone.
    ///
    /// # Errors
    /// `Unavailable` when the database is away; what is left is removed by `Batches::remove_silent`.
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

    /// Removes batches of given items whose maker wasn't heard for so long while `expanding`, by the database's clock. Answers their ids.
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

    /// The items first: an item without its batch would be claimed.
    async fn remove_abandoned(self, id: Uuid) -> Result<(), StoreError> {
        let items = sql!(
            "delete from scoring_jobs where job_id in (
                select job_id from scoring_jobs where batch_id = $1 limit $2)",
            id,
            REMOVED
        );
        while self.db.execute_long(REMOVING, &items).await? > 0 {}
        // A step of its maker that came in between holds the row, and has seen that it is abandoned.
        let batch = sql!(
            "delete from scoring_batches where batch_id = $1 and abandoned
               and not exists (select 1 from scoring_jobs where batch_id = $1)",
            id
        );
        self.db.execute_long(REMOVING, &batch).await.map(drop)
    }

    /// Runs `steps` in one transaction that holds the batch's row, in the state that `lock` asks for. `None`: it isn't in
    /// that state.
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

/// A batch that was completed goes on when one of its jobs is queued again, and what was counted doesn't hold any more. Before
/// the job, in its transaction: whoever completes the batch or keeps its figures holds the batch's row too.
pub(super) fn reopen_statement(job: JobId) -> Sql {
    sql!(
        "update scoring_batches set reopened = reopened + 1, figures = null,
            finished_at = case when state = 'completed' then null else finished_at end,
            state = case when state = 'completed' then 'running' else state end
         where batch_id = (select batch_id from scoring_jobs where job_id = $1)",
        job.0
    )
}

const REMOVING: &str = "removing a batch that was never whole";

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
        // Figures of another version are counted anew.
        figures: row
            .json("figures")?
            .and_then(|figures| serde_json::from_value(figures).ok()),
        purpose: row.text_enum("purpose")?,
        criteria_hash: row.get("criteria_hash")?,
        budget_usd: row.get("budget_usd")?,
        paused_by: row.text_enum_or_null("paused_by")?,
        expanded: row.get("expanded")?,
        filter: row.json("filter")?,
        plan: typed(row, "plan")?,
        skipped: typed(row, "skipped")?,
    })
}

/// A typed value from a `jsonb` column, or null.
fn typed<T: serde::de::DeserializeOwned>(row: &DbRow, column: &str) -> sqlx::Result<Option<T>> {
    let value = row.json(column)?;
    value
        .map(|value| {
            serde_json::from_value(value).map_err(|error| decode(column, &error.to_string()))
        })
        .transpose()
}
