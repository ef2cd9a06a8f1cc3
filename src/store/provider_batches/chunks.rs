//! Chunks of a batch in a provider's batch API, from creation to end.
//!
//! An item is in one chunk. Outcomes are in `answers.rs`.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::job::{Job, JobId};
use crate::judge::CacheKey;
use crate::store::database::db::transact;
use crate::store::database::sql::{Arg, Sql, long_sql, step};
use crate::store::jobs::row::job_columns;
use crate::store::{ProviderBatches, StoreError};
use crate::wire::ChunkState;

#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct ChunkRow {
    pub chunk_id: Uuid,
    pub batch_id: Uuid,
    pub judge: String,
    /// The provider's id, once it is known.
    pub provider_id: Option<String>,
    #[sqlx(try_from = "String")]
    pub state: ChunkState,
    pub requests: i64,
    /// Number of ended items, as reported by the provider.
    pub done: i64,
    /// Before it was submitted.
    pub made_at: DateTime<Utc>,
    pub submitted_at: Option<DateTime<Utc>>,
    pub error: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewChunk {
    pub chunk_id: Uuid,
    pub batch_id: Uuid,
    pub judge: String,
    /// Worker that processes the batch.
    pub owner: Uuid,
    /// Items with the keys of their questions.
    pub items: Vec<(JobId, CacheKey)>,
    /// Items that aren't sent, with reasons; ordinary calls follow.
    pub left_out: Vec<(JobId, String)>,
    pub at: DateTime<Utc>,
}

macro_rules! chunk_columns {
    () => {
        "chunk_id, batch_id, judge, provider_id, state, requests, done, made_at, submitted_at, error"
    };
}

/// Condition for a batch with chunks that this owner may submit.
macro_rules! handing_over {
    ($owner:literal) => {
        concat!(
            "economy = 'asked' and state = 'running' and economy_owner = ",
            $owner
        )
    };
}

impl ChunkRow {
    /// Whether results may still follow.
    pub fn is_open(&self) -> bool {
        match self.state {
            ChunkState::Making | ChunkState::Submitted => true,
            ChunkState::Collected | ChunkState::Failed => false,
        }
    }

    /// Whether the provider had no capacity for it, so that its items were moved to other chunks.
    pub fn was_turned_away(&self) -> bool {
        self.state == ChunkState::Failed && self.requests == 0 && self.provider_id.is_some()
    }
}

impl ProviderBatches<'_> {
    /// Returns the chunks of a batch, oldest first.
    pub async fn chunks(self, id: Uuid) -> Result<Vec<ChunkRow>, StoreError> {
        let statement = long_sql!(
            "reading the chunks of a batch",
            concat!(
                "select ",
                chunk_columns!(),
                " from provider_chunks where batch_id = $1 order by chunk_id"
            ),
            id
        );
        self.db.read(&statement).await
    }

    /// Returns unfinished items of a batch without a chunk, in order after `after`. `limit` 1-500.
    pub async fn items_in_no_chunk(
        self,
        id: Uuid,
        after: i64,
        limit: u32,
    ) -> Result<Vec<Job>, StoreError> {
        let statement = long_sql!(
            "reading items that are in no chunk",
            concat!(
                "select ",
                job_columns!(),
                " from scoring_jobs where batch_id = $1 and item_no > $2 and finished_at is null
                   and priority = 'bulk' and not exists (select 1 from provider_chunk_items i where i.job_id = scoring_jobs.job_id)
                 order by item_no limit $3"
            ),
            id,
            after,
            limit
        );
        self.db.read(&statement).await
    }

    /// Stores a chunk before it is submitted; `false`: its batch doesn't run, or has another owner, and no row is stored.
    /// Fails if an item is in another chunk already.
    pub async fn make_chunk(self, new: &NewChunk) -> Result<bool, StoreError> {
        let (state, error) = match new.items.is_empty() {
            true => {
                let first = new.left_out.first();
                (ChunkState::Failed, first.map(|(_, why)| why.as_str()))
            }
            false => (ChunkState::Making, None),
        };
        let chunk = step!(
            "insert into provider_chunks (chunk_id, batch_id, judge, state, requests, made_at, error)
             values ($1, $2, $3, $4, $5, $6, $7)",
            new.chunk_id,
            new.batch_id,
            &new.judge,
            state.as_str(),
            new.items.len(),
            new.at,
            error
        );
        // Locks the batch, so that it can't be paused before the chunk is stored.
        let hold = step!(
            concat!(
                "update scoring_batches set halted = halted where batch_id = $1 and ",
                handing_over!("$2"),
                " returning batch_id"
            ),
            new.batch_id,
            new.owner
        );
        let placed = new.items.iter().map(|(id, key)| Placed {
            id: *id,
            key: Some(*key),
            error: None,
        });
        let left_out = new.left_out.iter().map(|(id, why)| Placed {
            id: *id,
            key: None,
            error: Some(why),
        });
        let items: Vec<Placed<'_>> = placed.chain(left_out).collect();
        transact!(self.db, "noting a chunk of a batch", |tx| {
            if tx.fetch(&hold).await?.is_empty() {
                return Ok(false);
            }
            tx.execute(&chunk).await?;
            for items in items.chunks(1_000) {
                tx.execute(&items_statement(new.chunk_id, items)).await?;
            }
            true
        })
    }

    /// Whether a stored chunk may be submitted: its batch runs and belongs to `owner`.
    pub async fn may_hand_over(self, chunk_id: Uuid, owner: Uuid) -> Result<bool, StoreError> {
        let statement = long_sql!(
            "looking whether a chunk may go",
            concat!(
                "select p.chunk_id from provider_chunks p where p.chunk_id = $1 and p.state = 'making' and p.batch_id in (
                    select batch_id from scoring_batches where ",
                handing_over!("$2"),
                ")"
            ),
            chunk_id,
            owner
        );
        Ok(!self.db.rows(&statement).await?.is_empty())
    }

    /// Deletes a chunk that `owner` hasn't submitted, so that its items have no chunk.
    pub async fn forget_chunk(self, chunk_id: Uuid, owner: Uuid) -> Result<(), StoreError> {
        let chunk = step!(
            "delete from provider_chunks where chunk_id = $1 and state = 'making'
               and batch_id in (select batch_id from scoring_batches where economy_owner = $2)",
            chunk_id,
            owner
        );
        let items = step!(
            "delete from provider_chunk_items where chunk_id = $1",
            chunk_id
        );
        self.change_chunk("deleting an unsent chunk", &chunk, &items)
            .await
    }

    /// Stores the provider's id of a submitted chunk; `false`: it is no longer being submitted, and has another id.
    pub async fn chunk_submitted(
        self,
        chunk_id: Uuid,
        provider_id: &str,
        now: DateTime<Utc>,
    ) -> Result<bool, StoreError> {
        let statement = long_sql!(
            "noting that a chunk has arrived",
            "update provider_chunks set state = 'submitted', provider_id = $2, submitted_at = $3
             where chunk_id = $1 and state = 'making'",
            chunk_id,
            provider_id,
            now
        );
        if self.db.execute(&statement).await? > 0 {
            return Ok(true);
        }
        // Another worker may have stored it, or an earlier try was committed.
        let known = long_sql!(
            "noting that a chunk has arrived",
            "select chunk_id from provider_chunks where chunk_id = $1 and provider_id = $2",
            chunk_id,
            provider_id
        );
        Ok(!self.db.rows(&known).await?.is_empty())
    }

    /// Marks a chunk that didn't arrive or was rejected; its items go into another one.
    pub async fn turn_chunk_away(self, chunk_id: Uuid, why: &str) -> Result<(), StoreError> {
        let items = step!(
            "delete from provider_chunk_items where chunk_id = $1 and outcome is null",
            chunk_id
        );
        let chunk = step!(
            "update provider_chunks set state = 'failed', requests = 0, error = $2
             where chunk_id = $1 and state in ('making', 'submitted')",
            chunk_id,
            why
        );
        self.change_chunk("requeuing a chunk that never arrived", &chunk, &items)
            .await
    }

    /// Stores the number of ended requests, as reported by the provider.
    pub async fn chunk_progress(self, chunk_id: Uuid, done: u64) -> Result<(), StoreError> {
        let statement = long_sql!(
            "updating the progress of a chunk",
            "update provider_chunks set done = $2 where chunk_id = $1 and state = 'submitted'",
            chunk_id,
            done
        );
        self.db.execute(&statement).await.map(drop)
    }

    /// Ends a chunk. Items without an outcome get ordinary calls.
    pub async fn end_chunk(
        self,
        chunk_id: Uuid,
        state: ChunkState,
        error: Option<&str>,
    ) -> Result<(), StoreError> {
        let items = step!(
            "update provider_chunk_items set outcome = 'failed', error = coalesce(cast($2 as text), 'left unanswered')
             where chunk_id = $1 and outcome is null",
            chunk_id,
            error
        );
        let chunk = step!(
            "update provider_chunks set state = $2, error = $3,
                done = case when $2 = 'collected' then requests else done end
             where chunk_id = $1 and state in ('making', 'submitted')",
            chunk_id,
            state.as_str(),
            error
        );
        self.change_chunk("ending a chunk", &chunk, &items).await
    }

    /// Changes a chunk and, if it was in the required state, its items.
    async fn change_chunk(
        self,
        attempted: &'static str,
        chunk: &Sql,
        items: &Sql,
    ) -> Result<(), StoreError> {
        transact!(self.db, attempted, |tx| {
            if tx.execute(chunk).await? > 0 {
                tx.execute(items).await?;
            }
        })
    }
}

/// An item of a chunk, or a skipped one.
struct Placed<'a> {
    id: JobId,
    key: Option<CacheKey>,
    error: Option<&'a str>,
}

fn items_statement(chunk_id: Uuid, items: &[Placed<'_>]) -> Sql {
    let rows = items
        .iter()
        .map(|item| {
            vec![
                Arg::from(item.id.0),
                chunk_id.into(),
                item.error.map(|_| "failed").into(),
                item.error.into(),
                item.key.map(|key| key.0).into(),
            ]
        })
        .collect();
    let mut statement = Sql::of_rows(
        "v_job_id, v_chunk_id, v_outcome, v_error, v_cache_key",
        rows,
    );
    statement.push(
        "insert into provider_chunk_items (job_id, chunk_id, outcome, error, cache_key)
         select v_job_id, v_chunk_id, v_outcome, v_error, v_cache_key from v where v_job_id is not null",
    );
    statement
}
