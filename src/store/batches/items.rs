//! Items of a batch with their results, page by page, for reports and lists.

use uuid::Uuid;

use crate::job::{Job, JobState};
use crate::store::database::page::bounded;
use crate::store::database::sql::{DbRow, Sql, all, sql};
use crate::store::jobs::row::{job, job_columns};
use crate::store::{Batches, StoreError};
use crate::wire::ItemOutcome;

/// An item of a batch with its result.
#[derive(Debug, Clone, PartialEq)]
pub struct BatchItem {
    pub job: Job,
    /// Of a case: 0-1; `None`: no complete score.
    pub total: Option<f64>,
    /// Of a case: whether it passed; `None`: unknown.
    pub passed: Option<bool>,
    /// Of a session: the judge's reasoning.
    pub reasoning: Option<String>,
}

impl BatchItem {
    pub fn outcome(&self) -> ItemOutcome {
        match (self.job.state, self.passed) {
            (JobState::Queued | JobState::Running | JobState::Waiting, _) => ItemOutcome::Open,
            (JobState::Cancelled, _) => ItemOutcome::Cancelled,
            (JobState::Failed, _) => ItemOutcome::Unscored,
            (JobState::Succeeded, Some(true)) => ItemOutcome::Passed,
            (JobState::Succeeded, Some(false)) => ItemOutcome::Missed,
            (JobState::Succeeded, None) if self.total.is_none() && self.job.kind.is_case() => {
                ItemOutcome::Unscored
            }
            (JobState::Succeeded, None) => ItemOutcome::Scored,
        }
    }
}

/// Returns [`BatchItem::outcome`] as an SQL condition on `scoring_jobs`, where `case` is the job's row in `evaluation_scores`.
fn condition(outcome: ItemOutcome) -> &'static str {
    macro_rules! case {
        ($condition:literal) => {
            concat!(
                "exists (select 1 from evaluation_scores e where e.job_id = scoring_jobs.job_id and ",
                $condition,
                ")"
            )
        };
    }
    match outcome {
        ItemOutcome::Passed => concat!(" and state = 'succeeded' and ", case!("e.passed")),
        ItemOutcome::Missed => concat!(" and state = 'succeeded' and ", case!("not e.passed")),
        ItemOutcome::Scored => concat!(
            " and state = 'succeeded' and (kind = 'session' or ",
            case!("e.passed is null and e.total is not null"),
            ")"
        ),
        ItemOutcome::Unscored => concat!(
            " and (state = 'failed' or (state = 'succeeded' and kind <> 'session' and not ",
            case!("(e.passed is not null or e.total is not null)"),
            "))"
        ),
        ItemOutcome::Cancelled => " and state = 'cancelled'",
        ItemOutcome::Open => " and finished_at is null",
    }
}

/// Subqueries by unique index, because a join would require aliases for most columns.
macro_rules! item_columns {
    () => {
        concat!(
            "select ",
            job_columns!(),
            ", (select e.total from evaluation_scores e where e.job_id = scoring_jobs.job_id) as case_total,
               (select e.passed from evaluation_scores e where e.job_id = scoring_jobs.job_id) as case_passed,
               (select s.score_reasoning from session_scores s where s.job_id = scoring_jobs.job_id) as reasoning
             from scoring_jobs where batch_id = $1"
        )
    };
}

impl Batches<'_> {
    /// Returns items of a batch in order, after the item number `after` (`None`: from the first). `outcome` filters. `limit`
    /// 1-500.
    pub async fn items(
        self,
        id: Uuid,
        outcome: Option<ItemOutcome>,
        after: Option<i64>,
        limit: u32,
    ) -> Result<Vec<BatchItem>, StoreError> {
        let mut statement = sql!(
            concat!(item_columns!(), " and item_no > $2"),
            id,
            after.unwrap_or(-1)
        );
        if let Some(outcome) = outcome {
            statement.push(condition(outcome));
        }
        statement
            .push(" order by item_no limit ")
            .push_arg(bounded(limit));
        self.read_items(&statement).await
    }

    /// Returns the item with this number, if there is one.
    pub async fn item(self, id: Uuid, item_no: i64) -> Result<Option<BatchItem>, StoreError> {
        let statement = sql!(concat!(item_columns!(), " and item_no = $2"), id, item_no);
        Ok(self.read_items(&statement).await?.into_iter().next())
    }

    async fn read_items(self, statement: &Sql) -> Result<Vec<BatchItem>, StoreError> {
        const ATTEMPTED: &str = "reading the items of a batch";
        let rows = self.db.read_long(ATTEMPTED, statement).await?;
        all(ATTEMPTED, &rows, item)
    }
}

fn item(row: &DbRow) -> sqlx::Result<BatchItem> {
    Ok(BatchItem {
        job: job(row)?,
        total: row.get("case_total")?,
        passed: row.get("case_passed")?,
        reasoning: row.get("reasoning")?,
    })
}
