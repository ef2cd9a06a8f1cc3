//! Outcomes and usage of items in a provider's batch API. The replies are in the call log.
//!
//! An item's usage is added to its job together with its outcome, in one transaction, and an item has one outcome, so that
//! collecting may be repeated. The batch's usage is counted by the call log.

use std::collections::HashSet;

use uuid::Uuid;

use crate::job::{Job, JobId, Usage};
use crate::judge::CacheKey;
use crate::store::database::db::{Conn, retry_once};
use crate::store::database::sql::{Arg, DbRow, Sql, all, sql};
use crate::store::jobs::row::{job, job_columns};
use crate::store::{ChunkRow, ProviderBatches, StoreError};

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
        const ATTEMPTED: &str = "reading items of a chunk";
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let mut statement = sql!(
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
        let rows = self.db.read_long(ATTEMPTED, &statement).await?;
        let read = |row: &DbRow| {
            let key: Option<Uuid> = row.get("asked_key")?;
            Ok((job(row)?, key.map(CacheKey)))
        };
        all(ATTEMPTED, &rows, read)
    }

    /// Stores outcomes and usage, all or nothing, once per item. Replies must be stored before, because an item with an outcome
    /// isn't collected again.
    pub async fn keep_answers(
        self,
        chunk: &ChunkRow,
        answers: &[ItemAnswer],
    ) -> Result<(), StoreError> {
        const ATTEMPTED: &str = "storing the results of a chunk's items";
        if answers.is_empty() {
            return Ok(());
        }
        self.calls.counted().await;
        let outcomes = outcomes_statement(chunk.chunk_id, answers);
        // Items of a cancelled batch have been counted already.
        let forget = sql!(
            "update scoring_batches set figures = null where batch_id = $1 and figures is not null",
            chunk.batch_id
        );
        retry_once!(ATTEMPTED, async {
            let mut conn: Conn = self.db.long_writer().await?;
            let mut tx = conn.begin().await?;
            let first = tx.fetch(&outcomes).await?;
            let first = first
                .iter()
                .map(|row| row.get("job_id"))
                .collect::<sqlx::Result<HashSet<Uuid>>>()?;
            let new = answers.iter().filter(|one| first.contains(&one.job_id.0));
            let new: Vec<&ItemAnswer> = new.collect();
            if !new.is_empty() {
                tx.execute(&usage_statement(&new)).await?;
                tx.execute(&forget).await?;
            }
            tx.commit().await
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
