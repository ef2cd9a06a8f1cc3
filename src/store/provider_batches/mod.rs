//! Batches whose replies are collected from a provider's batch API: owner and progress.
//!
//! While a batch is `asked`, none of its items is claimed. Its chunks are in `chunks.rs`.

pub(super) mod chunks;

use std::collections::HashSet;
use std::time::Duration;

use uuid::Uuid;

use crate::job::{Job, JobId, Usage};
use crate::judge::CacheKey;
use crate::store::database::db::{Db, transact};
use crate::store::database::row::{DbRow, column};
use crate::store::database::sql::{Arg, Sql, long_sql, step};
use crate::store::jobs::row::job_columns;
use crate::store::{Calls, ChunkRow, StoreError};
use crate::wire::ProviderBatchState;

#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct ProviderBatchRow {
    #[sqlx(rename = "economy", try_from = "String")]
    pub state: ProviderBatchState,
    /// Reason why it waits, as text for users.
    #[sqlx(rename = "economy_note")]
    pub note: Option<String>,
    /// Number of items with a reply.
    pub replied: i64,
    /// Number of items that get an ordinary call.
    pub failed: i64,
    /// Oldest first.
    #[sqlx(skip)]
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
        let mut statement = long_sql!(
            "looking for batches that collect replies",
            "select batch_id from scoring_batches where economy = 'asked' and not abandoned
               and (economy_owner is null or economy_owner = $1 or economy_heard_at < ",
            owner
        );
        self.db.dialect().push_ago(&mut statement, silent);
        statement.push(") order by batch_id limit 100");
        self.db.read_column(&statement).await
    }

    /// Acquires or renews the lease of a batch; `false`: another worker has it, or its replies are collected.
    pub async fn lease(self, id: Uuid, owner: Uuid, silent: Duration) -> Result<bool, StoreError> {
        let mut statement = long_sql!(
            "looking after a batch",
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
        let leased = self.db.execute(&statement).await?;
        Ok(leased > 0)
    }

    /// Releases a batch, with a note.
    ///
    /// # Errors
    /// `Unavailable` if the database is unavailable; others take over after the lease.
    pub async fn leave(self, id: Uuid, owner: Uuid, note: Option<&str>) -> Result<(), StoreError> {
        let statement = long_sql!(
            "leaving a batch to others",
            "update scoring_batches set economy_owner = null, economy_note = $3
             where batch_id = $1 and economy_owner = $2",
            id,
            owner,
            note
        );
        self.db.execute(&statement).await.map(drop)
    }

    /// Ends the collection, so that its items run.
    pub async fn end(self, id: Uuid) -> Result<(), StoreError> {
        let statement = long_sql!(
            "letting a batch's items run",
            "update scoring_batches set economy = 'collected', economy_owner = null, economy_note = null
             where batch_id = $1 and economy = 'asked'",
            id
        );
        self.db.execute(&statement).await.map(drop)
    }

    /// Returns the progress; `None`: the batch doesn't use the provider's batch API.
    pub async fn get(self, id: Uuid) -> Result<Option<ProviderBatchRow>, StoreError> {
        let statement = long_sql!(
            "reading how a batch's replies are fetched",
            "select b.economy, b.economy_note,
                (select count(*) from provider_chunk_items i join provider_chunks p on p.chunk_id = i.chunk_id
                 where p.batch_id = b.batch_id and i.outcome = 'replied') as replied,
                (select count(*) from provider_chunk_items i join provider_chunks p on p.chunk_id = i.chunk_id
                 where p.batch_id = b.batch_id and i.outcome = 'failed') as failed
             from scoring_batches b where b.batch_id = $1 and b.economy is not null",
            id
        );
        let mut row: Option<ProviderBatchRow> = self.db.read_one(&statement).await?;
        if let Some(row) = &mut row {
            row.chunks = self.chunks(id).await?;
        }
        Ok(row)
    }
}

// Outcomes and usage of items in a provider's batch API. The replies are in the call log.
//
// An item's usage is added to its job together with its outcome, in one transaction, and an item has one outcome, so that
// collecting may be repeated. The batch's usage is counted by the call log.

#[derive(Debug, Clone, PartialEq)]
pub struct ItemAnswer {
    pub job_id: JobId,
    /// Reason why there is no usable reply.
    pub error: Option<String>,
    pub usage: Usage,
}

impl ProviderBatches<'_> {
    /// Returns the jobs of the chunk without an outcome, with the keys of their questions as sent; `None`: not sent.
    pub async fn unanswered_of_chunk(
        self,
        chunk_id: Uuid,
        ids: &[Uuid],
    ) -> Result<Vec<(Job, Option<CacheKey>)>, StoreError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let mut statement = long_sql!(
            "reading items of a chunk",
            concat!(
                "select ",
                job_columns!(),
                ", (select i.cache_key from provider_chunk_items i where i.job_id = scoring_jobs.job_id) as asked_key
                 from scoring_jobs where exists (select 1 from provider_chunk_items i
                    where i.job_id = scoring_jobs.job_id and i.chunk_id = $1 and i.outcome is null) and job_id in "
            ),
            chunk_id
        );
        statement.push_list(ids.iter().copied());
        let read = |row: &DbRow| {
            let key: Option<Uuid> = row.get("asked_key")?;
            Ok((row.decode()?, key.map(CacheKey)))
        };
        self.db.read_with(&statement, read).await
    }

    /// Stores outcomes and usage, all or nothing, once per item. Replies must be stored before, because an item with an outcome
    /// isn't collected again.
    pub async fn keep_answers(
        self,
        chunk: &ChunkRow,
        answers: &[ItemAnswer],
    ) -> Result<(), StoreError> {
        if answers.is_empty() {
            return Ok(());
        }
        self.calls.counted().await;
        let outcomes = outcomes_statement(chunk.chunk_id, answers);
        // Items of a cancelled batch have been counted already.
        let forget = step!(
            "update scoring_batches set figures = null where batch_id = $1 and figures is not null",
            chunk.batch_id
        );
        transact!(self.db, "storing the results of a chunk's items", |tx| {
            let first: HashSet<Uuid> = column(&tx.fetch(&outcomes).await?)?;
            let new = answers.iter().filter(|one| first.contains(&one.job_id.0));
            let new: Vec<&ItemAnswer> = new.collect();
            if !new.is_empty() {
                tx.execute(&usage_statement(&new)).await?;
                tx.execute(&forget).await?;
            }
        })
    }
}

fn outcomes_statement(chunk_id: Uuid, answers: &[ItemAnswer]) -> Sql {
    let rows = answers
        .iter()
        .map(|one| {
            let outcome = match one.error {
                None => "replied",
                Some(_) => "failed",
            };
            vec![
                Arg::from(one.job_id.0),
                chunk_id.into(),
                outcome.into(),
                one.error.as_deref().into(),
            ]
        })
        .collect();
    let mut statement = Sql::of_rows("v_job_id, v_chunk_id, v_outcome, v_error", rows);
    statement.push(
        "update provider_chunk_items set outcome = v_outcome, error = v_error from v
         where job_id = v_job_id and chunk_id = v_chunk_id and outcome is null returning job_id",
    );
    statement
}

/// Adds usage like the recorder.
fn usage_statement(answers: &[&ItemAnswer]) -> Sql {
    let rows = answers
        .iter()
        .map(|one| {
            vec![
                Arg::from(one.job_id.0),
                one.usage.tokens_in.into(),
                one.usage.tokens_out.into(),
                one.usage.cost_usd.into(),
            ]
        })
        .collect();
    let mut statement = Sql::of_rows("v_job_id, v_tokens_in, v_tokens_out, v_cost_usd", rows);
    statement.push(
        "update scoring_jobs set
            tokens_in = tokens_in + v_tokens_in,
            tokens_out = tokens_out + v_tokens_out,
            cost_usd = cost_usd + v_cost_usd
         from v where job_id = v_job_id",
    );
    statement
}
