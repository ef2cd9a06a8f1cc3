//! A batch's items with what they came to, a page at a time: what reports are made of.

use uuid::Uuid;

use super::job_row::{job, job_columns};
use super::page::bounded;
use super::sql::{Row, sql};
use super::{Store, StoreError};
use crate::job::Job;

/// An item of a batch, and what it came to.
#[derive(Debug, Clone, PartialEq)]
pub struct BatchItem {
    /// Its job.
    pub job: Job,
    /// Of a case: 0-1; `None` where it has no score, or no whole one.
    pub total: Option<f64>,
    /// Of a case: whether it passed; `None`: not known.
    pub passed: Option<bool>,
    /// Of a session: what its judge said.
    pub reasoning: Option<String>,
}

impl Store {
    /// The items of a batch behind the place `after` (`None`: from the first on), in their order. `limit` 1-500.
    ///
    /// # Errors
    /// `Unavailable` when the database is away.
    pub async fn batch_items(
        &self,
        id: Uuid,
        after: Option<i64>,
        limit: u32,
    ) -> Result<Vec<BatchItem>, StoreError> {
        const ATTEMPTED: &str = "reading the items of a batch";
        // Subqueries by unique index: a join would have to rename most columns.
        let statement = sql!(
            concat!(
                "select ",
                job_columns!(),
                ", (select e.total from evaluation_scores e where e.job_id = scoring_jobs.job_id) as case_total,
                   (select e.passed from evaluation_scores e where e.job_id = scoring_jobs.job_id) as case_passed,
                   (select s.score_reasoning from session_scores s where s.job_id = scoring_jobs.job_id) as reasoning
                 from scoring_jobs where batch_id = $1 and item_no > $2 order by item_no limit $3"
            ),
            id,
            after.unwrap_or(-1),
            bounded(limit)
        );
        let rows = self.db.read(ATTEMPTED, &statement).await?;
        rows.iter()
            .map(item)
            .collect::<sqlx::Result<_>>()
            .map_err(|e| StoreError::of(ATTEMPTED, &e))
    }
}

fn item(row: &Row) -> sqlx::Result<BatchItem> {
    Ok(BatchItem {
        job: job(row)?,
        total: row.get("case_total")?,
        passed: row.get("case_passed")?,
        reasoning: row.get("reasoning")?,
    })
}
