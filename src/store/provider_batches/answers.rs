//! What a provider's batch answered for items, and what that used. The replies are in the call log.
//!
//! What an item used is added to its job with its outcome, in one transaction, and it has one outcome: answers may be collected
//! as often as it takes. What the batch spent is the call log's.

use std::collections::HashSet;

use uuid::Uuid;

use crate::job::{Job, JobId, Usage};
use crate::judge::CacheKey;
use crate::store::database::db::{Conn, retry_once};
use crate::store::database::sql::{Arg, DbRow, Sql, all, sql};
use crate::store::jobs::row::{job, job_columns};
use crate::store::{ChunkRow, ProviderBatches, StoreError};

/// What came of one item.
#[derive(Debug, Clone, PartialEq)]
pub struct ItemAnswer {
    pub job_id: JobId,
    /// Why there is no reply that can be used.
    pub error: Option<String>,
    /// What it used.
    pub usage: Usage,
}

impl ProviderBatches<'_> {
    /// Returns those of these jobs that are in the chunk and have no outcome yet, and the keys of their questions as sent;
    /// `None`: not sent.
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

    /// Keeps what came of items: what they used on the jobs, and the outcomes; all or nothing, and of each item once. Their replies
    /// are written before: an item with an outcome isn't collected again.
    pub async fn keep_answers(
        self,
        chunk: &ChunkRow,
        answers: &[ItemAnswer],
    ) -> Result<(), StoreError> {
        const ATTEMPTED: &str = "keeping what a chunk's items came to";
        if answers.is_empty() {
            return Ok(());
        }
        self.calls.counted().await;
        let outcomes = outcomes_statement(chunk.chunk_id, answers);
        // Of a batch that was cancelled meanwhile they were counted already.
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

/// As the recorder adds what a run used.
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
