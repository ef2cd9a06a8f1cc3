//! `session_imports`: imports from a TARSy, their owners and progress.
//!
//! An import is `running` until it ends, even without an owner. If its owner sends no heartbeat, the next
//! process that calls [`Imports::claim`] takes it over. Doesn't call TARSy.

pub(super) mod ends;
pub(super) mod steps;

use std::time::Duration;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::store::StoreError;
use crate::store::database::db::{Conn, Db, retry_once};
use crate::store::database::page::{Cursor, Page, bounded};
use crate::store::database::sql::{DbRow, all, first, sql};
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WalkPlace {
    /// End of the listed time range, exclusive.
    pub until: DateTime<Utc>,
    /// Page, from 1.
    pub page: u32,
    /// Number of sessions in the range when the last page was read.
    pub total: Option<u64>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ImportRow {
    pub import_id: Uuid,
    pub source: String,
    /// `python` or `go`, once it is known.
    pub generation: Option<String>,
    /// Statuses to import; empty: all.
    pub statuses: Vec<SessionStatus>,
    /// Start of the time range.
    pub since: Option<DateTime<Utc>>,
    /// End of the time range, exclusive.
    pub until: DateTime<Utc>,
    /// Rate limit; 0: none.
    pub requests_per_second: f64,
    /// Whether unchanged sessions are fetched too.
    pub refresh: bool,
    pub state: ImportState,
    pub place: WalkPlace,
    /// Number of sessions in the list at the start.
    pub expected: Option<u64>,
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
        let insert = sql!(
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
        let running = sql!(
            concat!(
                "select ",
                columns!(),
                " from session_imports where same_as = $1 and finished_at is null"
            ),
            &new.same_as
        );
        // The conflicting import may have ended in between, so that a second try can insert.
        retry_once!("starting an import", async {
            let mut conn: Conn = self.db.long_writer().await?;
            for _ in 0..3 {
                if let Some(row) = conn.fetch(&insert).await?.first() {
                    return Ok((import(row)?, true));
                }
                if let Some(row) = conn.fetch(&running).await?.first() {
                    let row = import(row)?;
                    // An insert whose response was lost finds its own row.
                    let new = row.import_id == new.import_id;
                    return Ok((row, new));
                }
            }
            Err(sqlx::Error::RowNotFound)
        })
    }

    pub async fn get(self, id: Uuid) -> Result<Option<ImportRow>, StoreError> {
        const ATTEMPTED: &str = "reading an import";
        let statement = sql!(
            concat!(
                "select ",
                columns!(),
                " from session_imports where import_id = $1"
            ),
            id
        );
        let rows = self.db.read_long(ATTEMPTED, &statement).await?;
        first(ATTEMPTED, &rows, import)
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
        const ATTEMPTED: &str = "listing imports";
        let limit = bounded(limit);
        let mut statement = sql!(concat!("select ", columns!(), " from session_imports"));
        if let Some(cursor) = cursor {
            statement
                .push(" where import_id < ")
                .push_arg(cursor.id('i')?);
        }
        statement
            .push(" order by import_id desc limit ")
            .push_arg(i64::from(limit) + 1);
        let rows = self.db.read_long(ATTEMPTED, &statement).await?;
        let items = all(ATTEMPTED, &rows, import)?;
        Ok(Page::of(items, limit, |row: &ImportRow| {
            Cursor::of_id('i', row.import_id)
        }))
    }

    /// Returns the ids that an import couldn't store, with reasons; at most 1,000.
    pub async fn failures(self, id: Uuid) -> Result<Vec<(String, String)>, StoreError> {
        const ATTEMPTED: &str = "reading items that an import failed to store";
        let statement = sql!(
            "select item, reason from session_import_items
             where import_id = $1 and outcome = 'failed' and reason is not null order by item limit 1000",
            id
        );
        let rows = self.db.read_long(ATTEMPTED, &statement).await?;
        all(ATTEMPTED, &rows, |row| {
            Ok((row.get("item")?, row.get("reason")?))
        })
    }

    /// Takes over the oldest running import without an owner, or whose owner has sent no heartbeat for `stale_after`. If ids
    /// are given, only one of these.
    pub async fn claim(
        self,
        owner: Uuid,
        stale_after: Duration,
        only: Option<&[Uuid]>,
    ) -> Result<Option<ImportRow>, StoreError> {
        const ATTEMPTED: &str = "claiming an import";
        let mut free = sql!(
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
        let rows = self.db.write_long(ATTEMPTED, &free).await?;
        first(ATTEMPTED, &rows, import)
    }

    /// Stores the owner's heartbeat and returns the rate limit, requests per second. `None`: the owner has lost the import
    /// (cancelled, ended or taken over).
    pub async fn heartbeat(self, id: Uuid, owner: Uuid) -> Result<Option<f64>, StoreError> {
        const ATTEMPTED: &str = "writing an import's heartbeat";
        let mut statement = sql!("update session_imports set heartbeat_at = ");
        statement
            .push(self.db.dialect().now())
            .push(" where finished_at is null and import_id = ")
            .push_arg(id);
        statement.push(" and owner = ").push_arg(owner);
        statement.push(" returning requests_per_second");
        let rows = self.db.write_long(ATTEMPTED, &statement).await?;
        first(ATTEMPTED, &rows, |row| row.get("requests_per_second"))
    }

    /// Changes the rate limit of a running import; its owner reads it with the next heartbeat. `None`: it isn't running.
    pub async fn pace(
        self,
        id: Uuid,
        requests_per_second: f64,
    ) -> Result<Option<ImportRow>, StoreError> {
        const ATTEMPTED: &str = "changing an import's pace";
        let statement = sql!(
            concat!(
                "update session_imports set requests_per_second = $2 where import_id = $1 and finished_at is null returning ",
                columns!()
            ),
            id,
            requests_per_second
        );
        let rows = self.db.write_long(ATTEMPTED, &statement).await?;
        first(ATTEMPTED, &rows, import)
    }

    /// Releases an import, so that any process may take it over at once.
    pub async fn release(self, id: Uuid, owner: Uuid) -> Result<(), StoreError> {
        let statement = sql!(
            "update session_imports set owner = null where import_id = $1 and owner = $2",
            id,
            owner
        );
        self.db
            .execute_long("giving an import back", &statement)
            .await
            .map(drop)
    }

    /// Releases all imports. Only for embedded use, where a lock on the data folder excludes other processes.
    pub async fn release_all(self) -> Result<(), StoreError> {
        let statement = sql!(
            "update session_imports set owner = null where finished_at is null and owner is not null"
        );
        self.db
            .execute_long("giving imports back", &statement)
            .await
            .map(drop)
    }
}

fn import(row: &DbRow) -> sqlx::Result<ImportRow> {
    Ok(ImportRow {
        import_id: row.get("import_id")?,
        source: row.get("source")?,
        generation: row.get("generation")?,
        statuses: row.json_as("statuses")?,
        since: row.get("since")?,
        until: row.get("until")?,
        requests_per_second: row.get("requests_per_second")?,
        refresh: row.get("refresh")?,
        state: row.text_enum("state")?,
        place: WalkPlace {
            until: row.get("walk_until")?,
            page: row.int("walk_page")?,
            total: count(row, "walk_total")?,
        },
        expected: count(row, "expected")?,
        counts: counts(row)?,
        last_error: row.get("last_error")?,
        started_by: row.get("started_by")?,
        owner: row.get("owner")?,
        created_at: row.get("created_at")?,
        updated_at: row.get("updated_at")?,
        finished_at: row.get("finished_at")?,
    })
}

pub(super) fn counts(row: &DbRow) -> sqlx::Result<ImportCounts> {
    let (new, updated) = (row.int("new_count")?, row.int("updated_count")?);
    let (unchanged, failed) = (row.int("unchanged_count")?, row.int("failed_count")?);
    Ok(ImportCounts {
        new,
        updated,
        unchanged,
        failed,
        total: new + updated + unchanged + failed,
    })
}

fn count(row: &DbRow, column: &str) -> sqlx::Result<Option<u64>> {
    let count: Option<i64> = row.get(column)?;
    Ok(count.and_then(|count| u64::try_from(count).ok()))
}
