//! Ends of imports.
//!
//! An import of a million sessions stores a million ids. They are deleted in slices after its end, so that no statement waits for a long
//! delete. After a crash, pruning deletes the rest.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::ImportRow;
use crate::store::database::sql::{Sql, sql};
use crate::store::{Imports, StoreError};

const SLICE: u64 = 10_000;

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
            self.delete_seen(id).await;
        }
        Ok(self.get(id).await?.map(|row| (row, ended)))
    }

    /// Deletes the ids that ended imports have seen. Returns the number of rows.
    ///
    /// # Errors
    /// `Unavailable` if the database is unavailable; earlier slices stay deleted.
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

    /// Errors are ignored, because the import has ended and [`Imports::prune`] deletes the rest.
    async fn delete_seen(self, id: Uuid) {
        let seen = sql!(
            "delete from session_import_items where import_id = $1 and item in (
                select item from session_import_items where import_id = $1 and reason is null limit $2)",
            id,
            i64::try_from(SLICE).unwrap_or(i64::MAX)
        );
        if let Err(error) = self.delete_in_slices(&seen).await {
            tracing::warn!(import_id = %id, %error, "failed to delete the seen items of an import; they are pruned later");
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
