//! Costs of batches by name, so that a nightly suite is one row. Sums of the call log's totals by batch.

use chrono::{DateTime, Utc};

use crate::store::budgets::usage::known_usd;
use crate::store::database::sql::{DbRow, all, sql};
use crate::store::{Batches, StoreError};
use crate::wire::BatchCostItem;

impl Batches<'_> {
    /// Counts the batches that were created in `from..to`, up to `most`.
    pub async fn count_between(
        self,
        (from, to): (DateTime<Utc>, DateTime<Utc>),
        most: u32,
    ) -> Result<i64, StoreError> {
        const ATTEMPTED: &str = "counting batches";
        let statement = sql!(
            "select count(*) as batches from (select batch_id from scoring_batches
                where not abandoned and created_at >= $1 and created_at < $2 limit $3) b",
            from,
            to,
            most
        );
        let rows = self.db.read_long(ATTEMPTED, &statement).await?;
        let batches = rows.first().map_or(Ok(0), |row| row.get("batches"));
        batches.map_err(|e| StoreError::of(ATTEMPTED, &e))
    }

    /// Costs of the batches that were created in `from..to`, by name and kind, highest first. Reads the newest `most` batches
    /// and returns at most `limit` rows. Waits for this process's call log.
    pub async fn costs(
        self,
        (from, to): (DateTime<Utc>, DateTime<Utc>),
        most: u32,
        limit: u32,
    ) -> Result<Vec<BatchCostItem>, StoreError> {
        const ATTEMPTED: &str = "summing up what batches cost";
        self.call_log.flush().await;
        let statement = sql!(
            "select b.name, b.kind, count(distinct b.batch_id) as batches, coalesce(sum(u.cost_usd), 0.0) as cost_usd,
                cast(coalesce(sum(u.unpriced), 0) as bigint) as unpriced,
                cast(coalesce(sum(u.tokens_in), 0) as bigint) as tokens_in,
                cast(coalesce(sum(u.tokens_out), 0) as bigint) as tokens_out
             from (select batch_id, name, kind from scoring_batches
                where not abandoned and created_at >= $1 and created_at < $2
                order by created_at desc, batch_id desc limit $3) b
             left join scoring_batch_usage u on u.batch_id = b.batch_id
             group by b.name, b.kind order by 4 desc, 5 desc, coalesce(b.name, ''), b.kind limit $4",
            from,
            to,
            most,
            limit
        );
        let rows = self.db.read_long(ATTEMPTED, &statement).await?;
        all(ATTEMPTED, &rows, cost)
    }
}

fn cost(row: &DbRow) -> sqlx::Result<BatchCostItem> {
    let unpriced_calls = row.get("unpriced")?;
    Ok(BatchCostItem {
        name: row.get("name")?,
        kind: row.text_enum("kind")?,
        batches: row.get("batches")?,
        tokens_in: row.get("tokens_in")?,
        tokens_out: row.get("tokens_out")?,
        cost_usd: known_usd(row.get("cost_usd")?, unpriced_calls),
        unpriced_calls,
    })
}
