//! `session_imports`: imports from a TARSy, their owners and progress.
//!
//! An import is `running` until it ends, even without an owner. If its owner sends no heartbeat, the next
//! process that calls [`Imports::claim`] takes it over. Doesn't call TARSy.

pub(super) mod steps;

use std::time::Duration;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::store::StoreError;
use crate::store::database::conn::Conn;
use crate::store::database::db::{Db, retry_once};
use crate::store::database::page::{Cursor, Page, bounded};
use crate::store::database::row::{Int, Nullable};
use crate::store::database::session::Purpose;
use crate::store::database::sql::{long_sql, step};
use crate::wire::{ImportCounts, ImportState, SessionStatus};

#[derive(Debug, Clone, PartialEq)]
pub struct NewImport {
    /// UUID v7.
    pub import_id: Uuid,
    /// Deduplication key.
    pub same_as: String,
    /// Without credentials.
    pub source: String,
    /// Statuses to import; empty: all.
    pub statuses: Vec<SessionStatus>,
    /// Start of the time range as given.
    pub since_given: Option<String>,
    /// End of the time range as given.
    pub until_given: Option<String>,
    /// Start of the time range.
    pub since: Option<DateTime<Utc>>,
    /// End of the time range, exclusive.
    pub until: DateTime<Utc>,
    /// Rate limit; 0: none.
    pub requests_per_second: f64,
    /// Whether sessions are fetched although the list shows no change.
    pub refresh: bool,
    pub started_by: String,
    pub now: DateTime<Utc>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, sqlx::FromRow)]
pub struct WalkPlace {
    /// End of the listed time range, exclusive.
    #[sqlx(rename = "walk_until")]
    pub until: DateTime<Utc>,
    /// Page, from 1.
    #[sqlx(rename = "walk_page", try_from = "Int")]
    pub page: u32,
    /// Number of sessions in the range when the last page was read.
    #[sqlx(rename = "walk_total", try_from = "Nullable<Int>")]
    pub total: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, sqlx::FromRow)]
pub struct ImportRow {
    pub import_id: Uuid,
    pub source: String,
    /// `python` or `go`, once it is known.
    pub generation: Option<String>,
    /// Statuses to import; empty: all.
    #[sqlx(json)]
    pub statuses: Vec<SessionStatus>,
    /// Start of the time range.
    pub since: Option<DateTime<Utc>>,
    /// End of the time range, exclusive.
    pub until: DateTime<Utc>,
    /// Rate limit; 0: none.
    pub requests_per_second: f64,
    /// Whether unchanged sessions are fetched too.
    pub refresh: bool,
    #[sqlx(try_from = "String")]
    pub state: ImportState,
    #[sqlx(flatten)]
    pub place: WalkPlace,
    /// Number of sessions in the list at the start.
    #[sqlx(try_from = "Nullable<Int>")]
    pub expected: Option<u64>,
    #[sqlx(flatten, try_from = "CountColumns")]
    pub counts: ImportCounts,
    pub last_error: Option<String>,
    pub started_by: String,
    /// The process that runs it; `None`: no process.
    pub owner: Option<Uuid>,
    pub created_at: DateTime<Utc>,
    /// Time of the last progress.
    pub updated_at: DateTime<Utc>,
    pub finished_at: Option<DateTime<Utc>>,
}

macro_rules! columns {
    () => {
        "import_id, source, generation, statuses, since, until, requests_per_second, refresh, state, walk_until,
         walk_page, walk_total, expected, new_count, updated_count, unchanged_count, failed_count, last_error,
         started_by, owner, created_at, updated_at, finished_at"
    };
}

#[derive(Clone, Copy)]
pub struct Imports<'a> {
    pub(super) db: &'a Db,
}

impl Imports<'_> {
    /// Starts an import, unless one with the same key is running. Returns the import and whether it is new.
    pub async fn start(self, new: &NewImport) -> Result<(ImportRow, bool), StoreError> {
        let statuses: Vec<&str> = new.statuses.iter().map(|status| status.as_str()).collect();
        let insert = step!(
            concat!(
                "insert into session_imports (import_id, same_as, source, statuses, since_given, until_given, since, until,
                    requests_per_second, refresh, state, walk_until, walk_page, new_count, updated_count,
                    unchanged_count, failed_count, started_by, created_at, updated_at)
                 values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 'running', $8, 1, 0, 0, 0, 0, $11, $12, $12)
                 on conflict do nothing returning ",
                columns!()
            ),
            new.import_id,
            &new.same_as,
            &new.source,
            serde_json::Value::from(statuses),
            new.since_given.as_deref(),
            new.until_given.as_deref(),
            new.since,
            new.until,
            new.requests_per_second,
            new.refresh,
            &new.started_by,
            new.now
        );
        let running = step!(
            concat!(
                "select ",
                columns!(),
                " from session_imports where same_as = $1 and finished_at is null"
            ),
            &new.same_as
        );
        // The conflicting import may have ended in between, so that a second try can insert.
        retry_once!("starting an import", async {
            let mut conn: Conn = self.db.writer(Purpose::Many).await?;
            for _ in 0..3 {
                if let Some(row) = conn.fetch(&insert).await?.first() {
                    return Ok((row.decode()?, true));
                }
                if let Some(row) = conn.fetch(&running).await?.first() {
                    let row: ImportRow = row.decode()?;
                    // An insert whose response was lost finds its own row.
                    let new = row.import_id == new.import_id;
                    return Ok((row, new));
                }
            }
            Err(sqlx::Error::RowNotFound)
        })
    }

    pub async fn get(self, id: Uuid) -> Result<Option<ImportRow>, StoreError> {
        let statement = long_sql!(
            "reading an import",
            concat!(
                "select ",
                columns!(),
                " from session_imports where import_id = $1"
            ),
            id
        );
        self.db.read_one(&statement).await
    }

    /// Lists imports, newest first.
    ///
    /// # Errors
    /// `BadCursor` for a cursor of another list.
    pub async fn list(
        self,
        cursor: Option<&Cursor>,
        limit: u32,
    ) -> Result<Page<ImportRow>, StoreError> {
        let limit = bounded(limit);
        let mut statement = long_sql!(
            "listing imports",
            concat!("select ", columns!(), " from session_imports")
        );
        if let Some(cursor) = cursor {
            statement
                .push(" where import_id < ")
                .push_arg(cursor.id('i')?);
        }
        statement
            .push(" order by import_id desc limit ")
            .push_arg(limit + 1);
        let items = self.db.read(&statement).await?;
        Ok(Page::of(items, limit, |row: &ImportRow| {
            Cursor::of_id('i', row.import_id)
        }))
    }

    /// Returns the ids that an import couldn't store, with reasons; at most 1,000.
    pub async fn failures(self, id: Uuid) -> Result<Vec<(String, String)>, StoreError> {
        let statement = long_sql!(
            "reading items that an import failed to store",
            "select item, reason from session_import_items
             where import_id = $1 and outcome = 'failed' and reason is not null order by item limit 1000",
            id
        );
        self.db.read(&statement).await
    }

    /// Takes over the oldest running import without an owner, or whose owner has sent no heartbeat for `stale_after`. If ids
    /// are given, only one of these.
    pub async fn claim(
        self,
        owner: Uuid,
        stale_after: Duration,
        only: Option<&[Uuid]>,
    ) -> Result<Option<ImportRow>, StoreError> {
        let mut free = long_sql!(
            "claiming an import",
            "update session_imports set owner = $1, heartbeat_at = ",
            owner
        );
        free.push(self.db.dialect().now())
            .push(" where finished_at is null and (owner is null or heartbeat_at < ");
        self.db.dialect().push_ago(&mut free, stale_after);
        free.push(
            ") and import_id = (select import_id from session_imports
             where finished_at is null and (owner is null or heartbeat_at < ",
        );
        self.db.dialect().push_ago(&mut free, stale_after);
        free.push(")");
        if let Some(only) = only {
            free.push(" and import_id in ")
                .push_list(only.iter().copied());
        }
        free.push(" order by import_id limit 1) returning ")
            .push(columns!());
        self.db.write_one(&free).await
    }

    /// Stores the owner's heartbeat and returns the rate limit, requests per second. `None`: the owner has lost the import
    /// (cancelled, ended or taken over).
    pub async fn heartbeat(self, id: Uuid, owner: Uuid) -> Result<Option<f64>, StoreError> {
        let mut statement = long_sql!(
            "writing an import's heartbeat",
            "update session_imports set heartbeat_at = "
        );
        statement
            .push(self.db.dialect().now())
            .push(" where finished_at is null and import_id = ")
            .push_arg(id);
        statement.push(" and owner = ").push_arg(owner);
        statement.push(" returning requests_per_second");
        let pace: Option<(f64,)> = self.db.write_one(&statement).await?;
        Ok(pace.map(|(per_second,)| per_second))
    }

    /// Changes the rate limit of a running import; its owner reads it with the next heartbeat. `None`: it isn't running.
    pub async fn pace(
        self,
        id: Uuid,
        requests_per_second: f64,
    ) -> Result<Option<ImportRow>, StoreError> {
        let statement = long_sql!(
            "changing an import's pace",
            concat!(
                "update session_imports set requests_per_second = $2 where import_id = $1 and finished_at is null returning ",
                columns!()
            ),
            id,
            requests_per_second
        );
        self.db.write_one(&statement).await
    }

    /// Releases an import, so that any process may take it over at once.
    pub async fn release(self, id: Uuid, owner: Uuid) -> Result<(), StoreError> {
        let statement = long_sql!(
            "giving an import back",
            "update session_imports set owner = null where import_id = $1 and owner = $2",
            id,
            owner
        );
        self.db.execute(&statement).await.map(drop)
    }

    /// Releases all imports. Only for embedded use, where a lock on the data folder excludes other processes.
    pub async fn release_all(self) -> Result<(), StoreError> {
        let statement = long_sql!(
            "giving imports back",
            "update session_imports set owner = null where finished_at is null and owner is not null"
        );
        self.db.execute(&statement).await.map(drop)
    }
}

/// The counters of an import.
#[derive(sqlx::FromRow)]
pub(super) struct CountColumns {
    #[sqlx(try_from = "Int")]
    new_count: u64,
    #[sqlx(try_from = "Int")]
    updated_count: u64,
    #[sqlx(try_from = "Int")]
    unchanged_count: u64,
    #[sqlx(try_from = "Int")]
    failed_count: u64,
}

impl From<CountColumns> for ImportCounts {
    fn from(columns: CountColumns) -> Self {
        let (new, updated) = (columns.new_count, columns.updated_count);
        let (unchanged, failed) = (columns.unchanged_count, columns.failed_count);
        Self {
            new,
            updated,
            unchanged,
            failed,
            total: new + updated + unchanged + failed,
        }
    }
}
