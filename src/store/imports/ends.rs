//! How an import ends, and what is forgotten then.
//!
//! An import of a million sessions has seen a million ids: they go in slices after its end, so that nobody waits for one long
//! delete. What a death leaves of them goes when the database is pruned.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::ImportRow;
use crate::store::database::sql::{Sql, sql};
use crate::store::{Imports, StoreError};

/// How many rows one delete takes.
const SLICE: u64 = 10_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImportEnd {
    /// Every session was seen.
    Completed,
    /// It can't go on: why.
    Failed(String),
}

impl Imports<'_> {
    /// Ends an import. What it saw is forgotten but for the failures whose reasons are kept. `false`: it is not the
    /// owner's any more.
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
        let finish = sql!(
            "update session_imports set state = $3, last_error = $4, owner = null, finished_at = $5, updated_at = $5
             where import_id = $1 and owner = $2 and finished_at is null",
            id,
            owner,
            state,
            error,
            now
        );
        let ended = self.db.execute_long("ending an import", &finish).await? > 0;
        if ended {
            self.forget_seen(id).await;
        }
        Ok(ended)
    }

    /// Cancels an import that hasn't ended. Answers it, and whether this call ended it; `None`: no such import.
    pub async fn cancel(
        self,
        id: Uuid,
        now: DateTime<Utc>,
    ) -> Result<Option<(ImportRow, bool)>, StoreError> {
        let statement = sql!(
            "update session_imports set state = 'cancelled', owner = null, finished_at = $2, updated_at = $2
             where import_id = $1 and finished_at is null",
            id,
            now
        );
        let ended = self
            .db
            .execute_long("cancelling an import", &statement)
            .await?
            > 0;
        if ended {
            self.forget_seen(id).await;
        }
        Ok(self.get(id).await?.map(|row| (row, ended)))
    }

    /// Deletes what imports that have ended had seen. Answers how many rows went.
    ///
    /// # Errors
    /// `Unavailable` when the database is away; what was deleted before stays deleted.
    pub(in crate::store) async fn prune(self) -> Result<u64, StoreError> {
        let seen = sql!(
            "delete from session_import_items where (import_id, item) in (
                select i.import_id, i.item from session_import_items i
                join session_imports s on s.import_id = i.import_id
                where s.finished_at is not null and i.reason is null limit $1)",
            i64::try_from(SLICE).unwrap_or(i64::MAX)
        );
        self.delete_in_slices(&seen).await
    }

    /// The end stands already: what can't be deleted now is left to [`Imports::prune`].
    async fn forget_seen(self, id: Uuid) {
        let seen = sql!(
            "delete from session_import_items where import_id = $1 and item in (
                select item from session_import_items where import_id = $1 and reason is null limit $2)",
            id,
            i64::try_from(SLICE).unwrap_or(i64::MAX)
        );
        if let Err(error) = self.delete_in_slices(&seen).await {
            tracing::warn!(import_id = %id, %error, "could not forget what an import has seen; it is pruned later");
        }
    }

    async fn delete_in_slices(self, slice: &Sql) -> Result<u64, StoreError> {
        let mut gone = 0;
        loop {
            let deleted = self
                .db
                .execute_long("deleting what imports have seen", slice)
                .await?;
            gone += deleted;
            if deleted < SLICE {
                return Ok(gone);
            }
        }
    }
}
