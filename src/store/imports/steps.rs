//! Progress of an import. A step stores its sessions, their outcomes and the counts in one transaction, so that a crash leaves
//! no session uncounted. Each id counts once for an import, even if TARSy's list repeats it.

use std::collections::HashSet;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::WalkPlace;
use crate::store::database::db::{Conn, Tx, retry_once};
use crate::store::database::sql::{Sql, all, sql};
use crate::store::ratings::note_statement;
use crate::store::sessions::outcome_of;
use crate::store::sessions::put_statement;
use crate::store::sessions::readers::TARSY;
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
        const ATTEMPTED: &str = "reading the seen items of an import";
        let mut statement = sql!(
            "select item from session_import_items where import_id = $1 and item in ",
            id
        );
        statement.push_list(items);
        let rows = self.db.read_long(ATTEMPTED, &statement).await?;
        all(ATTEMPTED, &rows, |row| row.get("item"))
    }

    /// Stores the source's generation and the size of its list. `false`: the owner has lost the import.
    pub async fn note_source(
        self,
        id: Uuid,
        owner: Uuid,
        generation: &str,
        expected: Option<u64>,
    ) -> Result<bool, StoreError> {
        let statement = sql!(
            "update session_imports set generation = $3, expected = coalesce(expected, $4)
             where import_id = $1 and owner = $2 and finished_at is null",
            id,
            owner,
            generation,
            expected.map(whole)
        );
        let touched = self
            .db
            .execute_long("noting an import's source", &statement)
            .await?;
        Ok(touched > 0)
    }

    /// Stores a step: all or nothing.
    pub async fn record(self, step: &ImportStep) -> Result<Walked, StoreError> {
        let puts = puts(step)?;
        let ratings = note_statement(TARSY, &step.ratings, step.now);
        retry_once!("storing the seen items of an import", async {
            let mut conn: Conn = self.db.long_writer().await?;
            let mut tx = conn.begin().await?;
            let Some(failed_before) = self.lock(&mut tx, step).await? else {
                return Ok(Walked::Lost);
            };
            let mut counts = ImportCounts::default();
            for (id, put) in &puts {
                let row = tx.fetch(put).await?.pop();
                let outcome = outcome_of(row.map(|row| row.get("revision")).transpose()?);
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
            let rows = tx.fetch(&progress(step, counts)).await?;
            let Some(row) = rows.first() else {
                return Ok(Walked::Lost);
            };
            let counts = super::counts(row)?;
            tx.commit().await?;
            Ok(Walked::On(counts))
        })
    }

    /// Locks the import's row until the end of the transaction. Returns its number of failures; `None`: the owner has lost the
    /// import.
    async fn lock(self, tx: &mut Tx<'_>, step: &ImportStep) -> sqlx::Result<Option<u64>> {
        let mut lock = sql!("update session_imports set heartbeat_at = ");
        lock.push(self.db.dialect().now())
            .push(" where finished_at is null and import_id = ")
            .push_arg(step.import_id);
        lock.push(" and owner = ").push_arg(step.owner);
        lock.push(" returning failed_count");
        let rows = tx.fetch(&lock).await?;
        rows.first().map(|row| row.int("failed_count")).transpose()
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
    let mut progress = sql!(
        "update session_imports set new_count = new_count + $2, updated_count = updated_count + $3,
            unchanged_count = unchanged_count + $4, failed_count = failed_count + $5, updated_at = $6",
        step.import_id,
        whole(counts.new),
        whole(counts.updated),
        whole(counts.unchanged),
        whole(counts.failed),
        step.now
    );
    if let Some(place) = step.place {
        progress.push(", walk_until = ").push_arg(place.until);
        progress.push(", walk_page = ").push_arg(place.page);
        progress
            .push(", walk_total = ")
            .push_arg(place.total.map(whole));
    }
    progress.push(
        " where import_id = $1 returning new_count, updated_count, unchanged_count, failed_count",
    );
    progress
}

fn whole(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
