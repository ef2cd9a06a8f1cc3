//! Retention: deletes old rows in bounded steps, each in its own transaction.
//!
//! Active jobs, items of unfinished batches and sessions with either are not deleted. A batch is deleted completely. Each
//! statement checks its rows after locking them, so that rows which are used again stay. Rollups stay: a dirty day is rolled up
//! before its sessions are deleted.

pub(super) mod erasure;
mod limits;
mod rows;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use self::erasure::{delete_made_by, delete_sessions};
use self::rows::{CALLS, DELIVERIES, IMPORTS, Rows};
use super::analytics::days::day;
use super::calls::CallSender;
use super::database::conn::Tx;
use super::database::db::{Db, transact};
use super::database::row::column;
use super::database::sql::{Sql, Statement, long_sql, step};
use super::{Batches, Dialect, Imports, StoreError};
use crate::job::text_enum;

pub use limits::Expired;

/// Maximum number of jobs or judge calls per step.
const SLICE: i64 = 1_000;
/// Number of sessions per step; low, because each may have many messages, jobs and scores.
const SESSIONS: i64 = 100;
const DELETING: &str = "deleting rows past their retention";

/// Condition for a batch `b` that may be deleted: it ended before $1 or its deletion has started, and no item is active.
macro_rules! batch_may_go {
    () => {
        "b.finished_at is not null and (b.finished_at < $1 or b.abandoned)
           and not exists (select 1 from scoring_jobs o where o.batch_id = b.batch_id and o.finished_at is null)"
    };
}

text_enum! {
/// Kinds of rows that are deleted by age.
pub enum Aged {
    /// Batches with their items, by end.
    Batches = "batch_items",
    /// Jobs without a batch, by end, with their calls and scores of cases.
    Jobs = "jobs",
    /// Sessions with all dependent rows, by completion (else creation) and last put.
    Sessions = "sessions",
    /// Judge calls with their replies, by time of sending.
    Calls = "judge_calls",
    /// Deliveries of webhooks in any state, by time of the event.
    Deliveries = "webhook_deliveries",
    /// Imports with reasons of failures, by end.
    Imports = "imports",
}
}

#[derive(Debug)]
pub struct Pruning {
    aged: Aged,
    before: DateTime<Utc>,
    /// Position of the scan.
    place: Option<(DateTime<Utc>, Uuid)>,
    /// The batch whose items are being deleted.
    batch: Option<Uuid>,
}

impl Pruning {
    pub fn new(aged: Aged, before: DateTime<Utc>) -> Self {
        Self {
            aged,
            before,
            place: None,
            batch: None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PruneStep {
    /// Number of deleted rows; for batches, of items.
    pub deleted: u64,
    /// Whether there may be further rows.
    pub more: bool,
}

#[derive(Clone, Copy)]
pub struct Retention<'a> {
    pub(super) db: &'a Db,
    pub(super) call_log: &'a CallSender,
    pub(super) batches: Batches<'a>,
    pub(super) imports: Imports<'a>,
}

impl Retention<'_> {
    /// Deletes the next rows.
    ///
    /// # Errors
    /// `Unavailable` if the database is unavailable; deleted rows stay deleted, and the next step continues.
    pub async fn step(self, pruning: &mut Pruning) -> Result<PruneStep, StoreError> {
        match pruning.aged {
            Aged::Batches => self.batch_step(pruning).await,
            Aged::Jobs => self.job_step(pruning).await,
            Aged::Sessions => self.session_step(pruning).await,
            Aged::Calls => self.row_step(&CALLS, pruning.before).await,
            Aged::Deliveries => self.row_step(&DELIVERIES, pruning.before).await,
            Aged::Imports => self.row_step(&IMPORTS, pruning.before).await,
        }
    }

    async fn row_step(self, rows: &Rows, before: DateTime<Utc>) -> Result<PruneStep, StoreError> {
        let deleted = self.db.execute(&expiring(rows.slice(before))).await?;
        Ok(PruneStep {
            deleted,
            more: deleted > 0,
        })
    }

    /// Counts the rows that the steps would delete now; for batches, the items.
    pub async fn count(self, aged: Aged, before: DateTime<Utc>) -> Result<u64, StoreError> {
        let statement = match aged {
            Aged::Batches => step!(
                concat!(
                    "select count(*) as n from scoring_batches b
                     join scoring_jobs j on j.batch_id = b.batch_id where ",
                    batch_may_go!()
                ),
                before
            ),
            Aged::Jobs => step!(
                "select count(*) as n from scoring_jobs where finished_at < $1 and batch_id is null",
                before
            ),
            Aged::Sessions => {
                let mut statement = step!(
                    "select count(*) as n from alert_sessions a where a.listed_at < $1 and ",
                    before
                );
                statement.push(SESSION_MAY_GO);
                statement
            }
            Aged::Calls => CALLS.count(before),
            Aged::Deliveries => DELIVERIES.count(before),
            Aged::Imports => IMPORTS.count(before),
        };
        let statement = Statement::new("counting rows past their retention", statement);
        self.db.count(&statement.long()).await
    }

    async fn job_step(self, pruning: &mut Pruning) -> Result<PruneStep, StoreError> {
        // Continues after the scan's position, because skipped sessions stay.
        let from = pruning.place.map_or(DateTime::UNIX_EPOCH, |(at, _)| at);
        let slice = jobs_statement(from, pruning.before);
        let found: Vec<(DateTime<Utc>, Uuid)> = self.db.read(&expiring(slice)).await?;
        pruning.place = found.last().copied().or(pruning.place);
        let mut jobs = step!(
            "delete from scoring_jobs where finished_at < $1 and job_id in ",
            pruning.before
        );
        jobs.push_list(found.iter().map(|(_, id)| *id));
        jobs.push(" returning job_id");
        Ok(PruneStep {
            deleted: self.delete_jobs(&jobs).await?,
            more: found.len() >= usize::try_from(SLICE).unwrap_or(usize::MAX),
        })
    }

    /// Runs a statement that deletes jobs, and deletes their dependent rows.
    async fn delete_jobs(self, jobs: &Sql) -> Result<u64, StoreError> {
        transact!(self.db, DELETING, |tx| {
            let gone = deleted_jobs(&mut tx, jobs).await?;
            delete_made_by(&mut tx, &gone).await?;
            gone.len() as u64
        })
    }

    /// Deletes items first, so that a later run finds the rest by its batch.
    async fn batch_step(self, pruning: &mut Pruning) -> Result<PruneStep, StoreError> {
        let before = pruning.before;
        let Some(id) = (match pruning.batch {
            Some(id) => Some(id),
            None => self.next_batch(before).await?,
        }) else {
            return Ok(PruneStep {
                deleted: 0,
                more: false,
            });
        };
        let items = step!(
            "delete from scoring_jobs where finished_at is not null and job_id in (
                select job_id from scoring_jobs where batch_id = $1 and finished_at is not null limit $2)
             returning job_id",
            id,
            SLICE
        );
        let deleted = self.delete_jobs(&items).await?;
        pruning.batch = match deleted {
            0 => self.remove_emptied(id).await?,
            _ => Some(id),
        };
        Ok(PruneStep {
            deleted,
            more: true,
        })
    }

    /// Marks the oldest batch that may be deleted as abandoned, and returns it.
    async fn next_batch(self, before: DateTime<Utc>) -> Result<Option<Uuid>, StoreError> {
        let statement = long_sql!(
            DELETING,
            concat!(
                "update scoring_batches set abandoned = true
                 where finished_at is not null and (finished_at < $1 or abandoned) and batch_id = (
                    select b.batch_id from scoring_batches b where ",
                batch_may_go!(),
                " order by b.finished_at limit 1) returning batch_id"
            ),
            before
        );
        let marked: Option<(Uuid,)> = self.db.write_one(&statement).await?;
        Ok(marked.map(|(id,)| id))
    }

    /// Deletes a batch without items and its dependent rows; `Some` if rows are left.
    async fn remove_emptied(self, id: Uuid) -> Result<Option<Uuid>, StoreError> {
        let skips = long_sql!(
            DELETING,
            "delete from scoring_batch_skips where batch_id = $1 and session_id in (
                select session_id from scoring_batch_skips where batch_id = $1 limit $2)",
            id,
            SLICE
        );
        if self.db.execute(&skips).await? > 0 {
            return Ok(Some(id));
        }
        // An item that was queued again concurrently stays, and so does its batch.
        let batch = step!(
            "delete from scoring_batches where batch_id = $1 and abandoned
               and not exists (select 1 from scoring_jobs where batch_id = $1) returning batch_id",
            id
        );
        transact!(self.db, DELETING, |tx| {
            if !tx.fetch(&batch).await?.is_empty() {
                for made in [
                    "delete from scoring_batch_usage where batch_id = $1",
                    "delete from scoring_batch_picks where batch_id = $1",
                    "delete from provider_chunks where batch_id = $1",
                ] {
                    tx.execute(&step!(made, id)).await?;
                }
            }
        })?;
        Ok(None)
    }

    async fn session_step(self, pruning: &mut Pruning) -> Result<PruneStep, StoreError> {
        if pruning.place.is_none() {
            self.batches.keep_ended_figures(None).await?;
        }
        let slice = sessions_statement(pruning.place, pruning.before);
        let found: Vec<(DateTime<Utc>, Uuid)> = self.db.read(&expiring(slice)).await?;
        pruning.place = found.last().copied().or(pruning.place);
        let more = found.len() >= usize::try_from(SESSIONS).unwrap_or(usize::MAX);
        if found.is_empty() {
            return Ok(PruneStep { deleted: 0, more });
        }
        let chosen = chosen_statement(
            self.db.dialect(),
            found.iter().map(|(_, id)| *id),
            pruning.before,
        );
        let deleted = transact!(self.db, DELETING, |tx| {
            let sessions: Vec<Uuid> = column(&tx.fetch(&chosen).await?)?;
            delete_sessions(&mut tx, &sessions).await?.sessions
        })?;
        Ok(PruneStep { deleted, more })
    }

    /// Returns the plans of the statements, for tests.
    #[doc(hidden)]
    pub async fn explain(self, before: DateTime<Utc>) -> Result<Vec<String>, StoreError> {
        let place = (DateTime::UNIX_EPOCH, Uuid::nil());
        let nobody = [Uuid::nil()];
        let mut lines = Vec::new();
        let statements = [
            jobs_statement(DateTime::UNIX_EPOCH, before),
            sessions_statement(Some(place), before),
            chosen_statement(self.db.dialect(), nobody.into_iter(), before),
            CALLS.slice(before),
        ];
        let made = erasure::statements(&nobody);
        for statement in statements.into_iter().chain(made) {
            lines.extend(self.db.explain(expiring(statement)).await?);
        }
        Ok(lines)
    }
}

fn expiring(statement: Sql) -> Statement {
    Statement::new(DELETING, statement).long()
}

/// Condition for a session `a` that may be deleted: not put since $1, no job that is active or in an unfinished batch, and its
/// day is rolled up.
const SESSION_MAY_GO: &str = "a.updated_at < $1
    and not exists (select 1 from scoring_jobs j where j.subject_id = a.session_id
        and (j.finished_at is null
            or exists (select 1 from scoring_batches b where b.batch_id = j.batch_id and b.finished_at is null)))";

fn jobs_statement(from: DateTime<Utc>, before: DateTime<Utc>) -> Sql {
    step!(
        "select finished_at, job_id from scoring_jobs
         where finished_at is not null and finished_at >= $1 and finished_at < $2 and batch_id is null
         order by finished_at limit $3",
        from,
        before,
        SLICE
    )
}

fn sessions_statement(after: Option<(DateTime<Utc>, Uuid)>, before: DateTime<Utc>) -> Sql {
    let mut statement = step!(
        "select listed_at, session_id from alert_sessions where listed_at < $1",
        before
    );
    if let Some((at, id)) = after {
        statement
            .push(" and (listed_at, session_id) > (")
            .push_arg(at)
            .push(", ")
            .push_arg(id)
            .push(")");
    }
    statement
        .push(" order by listed_at, session_id limit ")
        .push_arg(SESSIONS);
    statement
}

/// Returns those of these sessions that may be deleted, locked until the transaction ends.
fn chosen_statement(
    dialect: Dialect,
    ids: impl Iterator<Item = Uuid>,
    before: DateTime<Utc>,
) -> Sql {
    let mut statement = step!("select a.session_id from alert_sessions a where ", before);
    statement
        .push(SESSION_MAY_GO)
        .push(" and not exists (select 1 from dirty_days m where m.day = ")
        .push(day(dialect))
        .push(") and a.session_id in ")
        .push_list(ids);
    match dialect {
        // A session that is being put stays.
        Dialect::Postgres => statement.push(" for update of a skip locked"),
        Dialect::Sqlite => &mut statement,
    };
    statement
}

async fn deleted_jobs(tx: &mut Tx<'_>, statement: &Sql) -> sqlx::Result<Vec<Uuid>> {
    column(&tx.fetch(statement).await?)
}
