//! Progress of an import. A step stores its sessions, their outcomes and the counts in one transaction, so that a crash leaves
//! no session uncounted. Each id counts once for an import, even if TARSy's list repeats it.

use std::collections::HashSet;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::store::database::conn::Tx;
use crate::store::database::db::transact;
use crate::store::database::row::first;
use crate::store::database::sql::{Sql, Statement, long_sql, step};
use crate::store::imports::{CountColumns, ImportRow, WalkPlace};
use crate::store::ratings::note_statement;
use crate::store::sessions::TARSY;
use crate::store::sessions::{outcome_of, put_statement};
use crate::store::{Imports, SessionRecord, StoreError};
use crate::wire::{ImportCounts, PutOutcome, Quality};

/// Maximum number of failures of an import that are stored with a reason; further ones are only counted.
const REASONS: u64 = 1_000;

/// Data that an import has read since its last step.
#[derive(Debug, Clone)]
pub struct ImportStep {
    pub import_id: Uuid,
    /// The process that runs it.
    pub owner: Uuid,
    pub sessions: Vec<SessionRecord>,
    /// Ids of unchanged sessions.
    pub unchanged: Vec<String>,
    /// Ids that can't be stored, with reasons.
    pub failed: Vec<(String, String)>,
    /// Ratings by reviewers of the source; ratings of unknown sessions are skipped.
    pub ratings: Vec<(Uuid, Quality)>,
    /// New position in the list; `None`: unchanged.
    pub place: Option<WalkPlace>,
    pub now: DateTime<Utc>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Walked {
    On(ImportCounts),
    /// The owner has lost the import; no rows are stored.
    Lost,
}

impl Imports<'_> {
    /// Returns which of these ids the import has seen already.
    pub async fn seen(self, id: Uuid, items: &[String]) -> Result<HashSet<String>, StoreError> {
        let mut statement = long_sql!(
            "reading the seen items of an import",
            "select item from session_import_items where import_id = $1 and item in ",
            id
        );
        statement.push_list(items);
        self.db.read_column(&statement).await
    }

    /// Stores the source's generation and the size of its list. `false`: the owner has lost the import.
    pub async fn note_source(
        self,
        id: Uuid,
        owner: Uuid,
        generation: &str,
        expected: Option<u64>,
    ) -> Result<bool, StoreError> {
        let statement = long_sql!(
            "noting an import's source",
            "update session_imports set generation = $3, expected = coalesce(expected, $4)
             where import_id = $1 and owner = $2 and finished_at is null",
            id,
            owner,
            generation,
            expected
        );
        let touched = self.db.execute(&statement).await?;
        Ok(touched > 0)
    }

    /// Stores a step: all or nothing.
    pub async fn record(self, step: &ImportStep) -> Result<Walked, StoreError> {
        let puts = puts(step)?;
        let ratings = note_statement(TARSY, &step.ratings, step.now);
        transact!(self.db, "storing the seen items of an import", |tx| {
            let Some(failed_before) = self.lock(&mut tx, step).await? else {
                return Ok(Walked::Lost);
            };
            let mut counts = ImportCounts::default();
            for (id, put) in &puts {
                let outcome = outcome_of(first(&tx.fetch(put).await?)?);
                let item = vec![(id.to_string(), outcome.as_str(), None)];
                let added = add(&mut tx, step.import_id, item).await?;
                match outcome {
                    PutOutcome::New => counts.new += added,
                    PutOutcome::Updated => counts.updated += added,
                    PutOutcome::Unchanged => counts.unchanged += added,
                }
            }
            if let Some(ratings) = &ratings {
                tx.execute(ratings).await?;
            }
            let unchanged = step.unchanged.iter();
            let unchanged = unchanged.map(|item| (item.clone(), "unchanged", None));
            counts.unchanged += add(&mut tx, step.import_id, unchanged.collect()).await?;
            let room = usize::try_from(REASONS.saturating_sub(failed_before)).unwrap_or(0);
            let failed = step.failed.iter().enumerate().map(|(n, (item, reason))| {
                let reason = (n < room).then(|| reason.clone());
                (item.clone(), "failed", reason)
            });
            counts.failed = add(&mut tx, step.import_id, failed.collect()).await?;
            let progress = tx.fetch(&progress(step, counts)).await?;
            let Some(counts) = first::<CountColumns>(&progress)? else {
                return Ok(Walked::Lost);
            };
            Walked::On(counts.into())
        })
    }

    /// Locks the import's row until the end of the transaction. Returns its number of failures; `None`: the owner has lost the
    /// import.
    async fn lock(self, tx: &mut Tx<'_>, step: &ImportStep) -> sqlx::Result<Option<u64>> {
        let mut lock = step!("update session_imports set heartbeat_at = ");
        lock.push(self.db.dialect().now())
            .push(" where finished_at is null and import_id = ")
            .push_arg(step.import_id);
        lock.push(" and owner = ").push_arg(step.owner);
        lock.push(" returning failed_count");
        let failed: Option<(i64,)> = first(&tx.fetch(&lock).await?)?;
        Ok(failed.map(|(count,)| count.unsigned_abs()))
    }
}

/// Ordered by id, so that concurrent imports of the same sessions don't deadlock.
fn puts(step: &ImportStep) -> Result<Vec<(Uuid, Sql)>, StoreError> {
    let mut puts = step
        .sessions
        .iter()
        .map(|session| Ok((session.session_id, put_statement(session, step.now)?)))
        .collect::<Result<Vec<_>, StoreError>>()?;
    puts.sort_unstable_by_key(|(id, _)| *id);
    Ok(puts)
}

/// Inserts ids as seen; returns the number of new ones.
async fn add(
    tx: &mut Tx<'_>,
    import_id: Uuid,
    items: Vec<(String, &'static str, Option<String>)>,
) -> sqlx::Result<u64> {
    if items.is_empty() {
        return Ok(0);
    }
    let rows = items
        .into_iter()
        .map(|(item, outcome, reason)| vec![item.into(), outcome.into(), reason.into()])
        .collect();
    let mut insert = Sql::of_rows("item, outcome, reason", rows);
    insert
        .push("insert into session_import_items (import_id, item, outcome, reason) select ")
        .push_arg(import_id);
    insert.push(
        ", item, outcome, reason from v where item is not null on conflict (import_id, item) do nothing",
    );
    tx.execute(&insert).await
}

fn progress(step: &ImportStep, counts: ImportCounts) -> Sql {
    let mut progress = step!(
        "update session_imports set new_count = new_count + $2, updated_count = updated_count + $3,
            unchanged_count = unchanged_count + $4, failed_count = failed_count + $5, updated_at = $6",
        step.import_id,
        counts.new,
        counts.updated,
        counts.unchanged,
        counts.failed,
        step.now
    );
    if let Some(place) = step.place {
        progress.push(", walk_until = ").push_arg(place.until);
        progress.push(", walk_page = ").push_arg(place.page);
        progress.push(", walk_total = ").push_arg(place.total);
    }
    progress.push(
        " where import_id = $1 returning new_count, updated_count, unchanged_count, failed_count",
    );
    progress
}

// Ends of imports.
//
// An import of a million sessions stores a million ids. They are deleted in slices after its end, so that no statement waits for a long
// delete. After a crash, pruning deletes the rest.

const SLICE: u64 = 10_000;
const DELETING: &str = "deleting what imports have seen";

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImportEnd {
    /// All sessions were read.
    Completed,
    Failed(String),
}

impl Imports<'_> {
    /// Ends an import and deletes the ids that it has seen, except failures with a reason. `false`: the owner has lost the
    /// import.
    pub async fn finish(
        self,
        id: Uuid,
        owner: Uuid,
        end: &ImportEnd,
        now: DateTime<Utc>,
    ) -> Result<bool, StoreError> {
        let (state, error) = match end {
            ImportEnd::Completed => ("completed", None),
            ImportEnd::Failed(error) => ("failed", Some(error.as_str())),
        };
        let finish = long_sql!(
            "ending an import",
            "update session_imports set state = $3, last_error = $4, owner = null, finished_at = $5, updated_at = $5
             where import_id = $1 and owner = $2 and finished_at is null",
            id,
            owner,
            state,
            error,
            now
        );
        let ended = self.db.execute(&finish).await? > 0;
        if ended {
            self.delete_seen(id).await;
        }
        Ok(ended)
    }

    /// Cancels a running import. Returns it and whether this call cancelled it; `None`: unknown id.
    pub async fn cancel(
        self,
        id: Uuid,
        now: DateTime<Utc>,
    ) -> Result<Option<(ImportRow, bool)>, StoreError> {
        let statement = long_sql!(
            "cancelling an import",
            "update session_imports set state = 'cancelled', owner = null, finished_at = $2, updated_at = $2
             where import_id = $1 and finished_at is null",
            id,
            now
        );
        let ended = self.db.execute(&statement).await? > 0;
        if ended {
            self.delete_seen(id).await;
        }
        Ok(self.get(id).await?.map(|row| (row, ended)))
    }

    /// Deletes the ids that ended imports have seen. Returns the number of rows.
    ///
    /// # Errors
    /// `Unavailable` if the database is unavailable; earlier slices stay deleted.
    pub(in crate::store) async fn prune(self) -> Result<u64, StoreError> {
        let seen = long_sql!(
            DELETING,
            "delete from session_import_items where (import_id, item) in (
                select i.import_id, i.item from session_import_items i
                join session_imports s on s.import_id = i.import_id
                where s.finished_at is not null and i.reason is null limit $1)",
            SLICE
        );
        self.delete_in_slices(&seen).await
    }

    /// Errors are ignored, because the import has ended and [`Imports::prune`] deletes the rest.
    async fn delete_seen(self, id: Uuid) {
        let seen = long_sql!(
            DELETING,
            "delete from session_import_items where import_id = $1 and item in (
                select item from session_import_items where import_id = $1 and reason is null limit $2)",
            id,
            SLICE
        );
        if let Err(error) = self.delete_in_slices(&seen).await {
            tracing::warn!(import_id = %id, %error, "failed to delete the seen items of an import; they are pruned later");
        }
    }

    async fn delete_in_slices(self, slice: &Statement) -> Result<u64, StoreError> {
        let mut gone = 0;
        loop {
            let deleted = self.db.execute(slice).await?;
            gone += deleted;
            if deleted < SLICE {
                return Ok(gone);
            }
        }
    }
}
