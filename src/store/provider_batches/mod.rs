//! Batches whose replies are collected from a provider's batch API: owner and progress.
//!
//! While a batch is `asked`, none of its items is claimed. Its chunks are in `chunks.rs`.

pub(super) mod answers;
pub(super) mod chunks;

use std::time::Duration;

use uuid::Uuid;

use crate::store::batches::ids_of;
use crate::store::database::db::Db;
use crate::store::database::sql::{DbRow, sql};
use crate::store::{Calls, ChunkRow, StoreError};
use crate::wire::ProviderBatchState;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderBatchRow {
    pub state: ProviderBatchState,
    /// Reason why it waits, as text for users.
    pub note: Option<String>,
    /// Number of items with a reply.
    pub replied: i64,
    /// Number of items that get an ordinary call.
    pub failed: i64,
    /// Oldest first.
    pub chunks: Vec<ChunkRow>,
}

#[derive(Clone, Copy)]
pub struct ProviderBatches<'a> {
    pub(super) db: &'a Db,
    pub(super) calls: Calls<'a>,
}

impl ProviderBatches<'_> {
    /// Returns the batches that collect replies and have no other owner with a heartbeat in the last `silent`; at most 100.
    pub async fn due(self, owner: Uuid, silent: Duration) -> Result<Vec<Uuid>, StoreError> {
        const ATTEMPTED: &str = "looking for batches that collect replies";
        let mut statement = sql!(
            "select batch_id from scoring_batches where economy = 'asked' and not abandoned
               and (economy_owner is null or economy_owner = $1 or economy_heard_at < ",
            owner
        );
        self.db.dialect().push_ago(&mut statement, silent);
        statement.push(") order by batch_id limit 100");
        let rows = self.db.read_long(ATTEMPTED, &statement).await?;
        ids_of(ATTEMPTED, &rows)
    }

    /// Acquires or renews the lease of a batch; `false`: another worker has it, or its replies are collected.
    pub async fn lease(self, id: Uuid, owner: Uuid, silent: Duration) -> Result<bool, StoreError> {
        let mut statement = sql!(
            "update scoring_batches set economy_owner = $2, economy_heard_at = ",
            id,
            owner
        );
        statement.push(self.db.dialect().now()).push(
            " where batch_id = $1 and economy = 'asked'
               and (economy_owner is null or economy_owner = $2 or economy_heard_at < ",
        );
        self.db.dialect().push_ago(&mut statement, silent);
        statement.push(")");
        let leased = self
            .db
            .execute_long("looking after a batch", &statement)
            .await?;
        Ok(leased > 0)
    }

    /// Releases a batch, with a note.
    ///
    /// # Errors
    /// `Unavailable` if the database is unavailable; others take over after the lease.
    pub async fn leave(self, id: Uuid, owner: Uuid, note: Option<&str>) -> Result<(), StoreError> {
        let statement = sql!(
            "update scoring_batches set economy_owner = null, economy_note = $3
             where batch_id = $1 and economy_owner = $2",
            id,
            owner,
            note
        );
        self.db
            .execute_long("leaving a batch to others", &statement)
            .await
            .map(drop)
    }

    /// Ends the collection, so that its items run.
    pub async fn end(self, id: Uuid) -> Result<(), StoreError> {
        let statement = sql!(
            "update scoring_batches set economy = 'collected', economy_owner = null, economy_note = null
             where batch_id = $1 and economy = 'asked'",
            id
        );
        self.db
            .execute_long("letting a batch's items run", &statement)
            .await
            .map(drop)
    }

    /// Returns the progress; `None`: the batch doesn't use the provider's batch API.
    pub async fn get(self, id: Uuid) -> Result<Option<ProviderBatchRow>, StoreError> {
        const ATTEMPTED: &str = "reading how a batch's replies are fetched";
        let statement = sql!(
            "select b.economy, b.economy_note,
                (select count(*) from provider_chunk_items i join provider_chunks p on p.chunk_id = i.chunk_id
                 where p.batch_id = b.batch_id and i.outcome = 'replied') as replied,
                (select count(*) from provider_chunk_items i join provider_chunks p on p.chunk_id = i.chunk_id
                 where p.batch_id = b.batch_id and i.outcome = 'failed') as failed
             from scoring_batches b where b.batch_id = $1",
            id
        );
        let rows = self.db.read_long(ATTEMPTED, &statement).await?;
        let read = |row: &DbRow| -> sqlx::Result<Option<ProviderBatchRow>> {
            let Some(state) = row.optional_enum("economy")? else {
                return Ok(None);
            };
            Ok(Some(ProviderBatchRow {
                state,
                note: row.get("economy_note")?,
                replied: row.get("replied")?,
                failed: row.get("failed")?,
                chunks: Vec::new(),
            }))
        };
        let row = rows.first().map(read).transpose();
        let Some(mut row) = row.map_err(|e| StoreError::of(ATTEMPTED, &e))?.flatten() else {
            return Ok(None);
        };
        row.chunks = self.chunks(id).await?;
        Ok(Some(row))
    }
}
