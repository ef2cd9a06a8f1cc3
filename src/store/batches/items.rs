//! Items of a batch with their results, page by page, for reports and lists.

use uuid::Uuid;

use crate::job::{Job, JobState, Purpose};
use crate::score::sql_metrics::calibration::Confidence;
use crate::store::database::page::bounded;
use crate::store::database::row::{DbRow, Decoded, Int, Nullable};
use crate::store::database::sql::long_sql;
use crate::store::jobs::row::job_columns;
use crate::store::{Batches, MadeBy, StoreError};
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

const READING: &str = "reading the items of a batch";

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
        let mut statement = long_sql!(
            READING,
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
        self.db.read(&statement).await
    }

    /// Returns the item with this number, if there is one.
    pub async fn item(self, id: Uuid, item_no: i64) -> Result<Option<BatchItem>, StoreError> {
        let statement = long_sql!(
            READING,
            concat!(item_columns!(), " and item_no = $2"),
            id,
            item_no
        );
        self.db.read_one(&statement).await
    }
}

impl Decoded for BatchItem {
    fn decoded(row: &DbRow) -> sqlx::Result<Self> {
        Ok(BatchItem {
            job: row.decode()?,
            total: row.get("case_total")?,
            passed: row.get("case_passed")?,
            reasoning: row.get("reasoning")?,
        })
    }
}

// Confidence and correctness of the cases of a suite, grouped by the database.

/// Number of cases with equal confidence and correctness.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ConfidenceCount {
    /// Confidence that the generator reported.
    pub confidence: Confidence,
    /// Range 0-1.
    pub correctness: f64,
    /// Judge of the correctness; `None`: no judge was needed.
    pub made_by: Option<MadeBy>,
    pub cases: u32,
}

impl Batches<'_> {
    /// Counts the ended cases among the first `most` items of a batch of kind `sql_metrics` that have a confidence and a
    /// correctness.
    pub async fn confidence_counts(
        self,
        batch_id: Uuid,
        most: u32,
    ) -> Result<Vec<ConfidenceCount>, StoreError> {
        let statement = long_sql!(
            "counting cases by their confidence",
            "select confidence, correctness, simulated, judged, count(*) as cases from (
                select lower(trim(j.payload ->> 'confidence')) as confidence,
                    cast(e.components ->> 'query_correctness' as double precision) as correctness,
                    e.simulated as simulated,
                    j.result -> 'metrics' -> 'query_correctness' -> 'details' ->> 'judge' is not null as judged
                from scoring_jobs j join evaluation_scores e on e.job_id = j.job_id
                where j.batch_id = $1 and j.item_no < $2 and j.finished_at is not null) c
             where confidence in ('high', 'medium', 'low') and correctness is not null
             group by confidence, correctness, simulated, judged",
            batch_id,
            most
        );
        self.db.read(&statement).await
    }
}

impl Decoded for ConfidenceCount {
    fn decoded(row: &DbRow) -> sqlx::Result<Self> {
        Ok(ConfidenceCount {
            confidence: row.text_enum("confidence")?,
            correctness: row.get("correctness")?,
            made_by: match (row.get("simulated")?, row.get("judged")?) {
                (true, _) => Some(MadeBy::Simulated),
                (false, true) => Some(MadeBy::Judge),
                (false, false) => None,
            },
            cases: row.int("cases")?,
        })
    }
}

// Items of a batch that score one session several times, by one judge or several.

#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct AskedOfPanel {
    #[sqlx(rename = "subject_id")]
    pub session_id: Uuid,
    pub job_id: Uuid,
    /// `repeat` or `jury`.
    #[sqlx(try_from = "String")]
    pub purpose: Purpose,
    pub judge: Option<String>,
    /// Total, 0-100; `None`: no score.
    #[sqlx(rename = "total_score", try_from = "Nullable<Int>")]
    pub total: Option<u8>,
    #[sqlx(rename = "made_up")]
    pub simulated: bool,
}

const READ: i64 = 5_000;

impl Batches<'_> {
    /// Returns the next panel items of a batch, ordered by session and job, after `after`. Empty at the end.
    pub async fn asked_of_panels(
        self,
        batch_id: Uuid,
        after: (Uuid, Uuid),
    ) -> Result<Vec<AskedOfPanel>, StoreError> {
        let statement = long_sql!(
            "reading the panels of a batch",
            "select j.subject_id, j.job_id, j.purpose, j.judge, s.total_score, coalesce(s.simulated, false) as made_up
             from scoring_jobs j left join session_scores s on s.job_id = j.job_id
             where j.batch_id = $1 and j.purpose in ('repeat', 'jury') and (j.subject_id, j.job_id) > ($2, $3)
             order by j.subject_id, j.job_id limit $4",
            batch_id,
            after.0,
            after.1,
            READ
        );
        self.db.read(&statement).await
    }
}
