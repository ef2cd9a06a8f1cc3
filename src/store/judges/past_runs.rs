//! Reply lengths and throughput of a judge's recent jobs, for estimates.

use chrono::{DateTime, TimeDelta, Utc};

use crate::store::database::sql::{DbRow, sql};
use crate::store::{Judges, StoreError};

/// Maximum number of recent session jobs with a reply that are scanned.
const LOOKED_AT: i64 = 20_000;
/// Maximum number of jobs of the judge that are used.
const ANSWERED: i64 = 500;
/// Period of the throughput.
const LATELY: TimeDelta = TimeDelta::minutes(10);
/// Maximum number of ended jobs that are read for the throughput.
const ENDS: i64 = 2_000;
/// Minimum busy time for a throughput, seconds.
const LEAST_BUSY_S: f64 = 0.05;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PastReplies {
    pub jobs: u64,
    /// Mean reply tokens per job; `None` without jobs.
    pub mean_tokens: Option<f64>,
}

/// Throughput of a judge's jobs in the last 10 minutes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RecentPace {
    pub jobs: i64,
    /// Jobs per second of busy time, without idle time; `None` if unknown.
    pub per_s: Option<f64>,
}

impl Judges<'_> {
    /// Returns the reply lengths of the judge's newest scored session jobs, at most 500.
    pub async fn past_replies(self, judge: &str) -> Result<PastReplies, StoreError> {
        const ATTEMPTED: &str = "reading the lengths of a judge's recent replies";
        let statement = sql!(
            "select count(*) as jobs, avg(cast(tokens_out as double precision)) as mean_tokens from (
                select tokens_out from (
                    select tokens_out, kind, judge, state, finished_at
                    from scoring_jobs where finished_at is not null and subject_id is not null and tokens_out > 0
                    order by finished_at desc limit $2) ended
                where kind = 'session' and judge = $1 and state = 'succeeded'
                order by finished_at desc limit $3) newest",
            judge,
            LOOKED_AT,
            ANSWERED
        );
        let rows = self.db.read_long(ATTEMPTED, &statement).await?;
        let read = |row: &DbRow| -> sqlx::Result<PastReplies> {
            Ok(PastReplies {
                jobs: row.get::<i64>("jobs")?.unsigned_abs(),
                mean_tokens: row.get("mean_tokens")?,
            })
        };
        let none = PastReplies {
            jobs: 0,
            mean_tokens: None,
        };
        rows.first()
            .map_or(Ok(none), read)
            .map_err(|e| StoreError::of(ATTEMPTED, &e))
    }

    /// Returns the throughput of a judge's session jobs in the last 10 minutes.
    pub async fn recent_pace(
        self,
        judge: &str,
        now: DateTime<Utc>,
    ) -> Result<RecentPace, StoreError> {
        const ATTEMPTED: &str = "reading the completion rate of a judge's jobs";
        let statement = sql!(
            "select started_at, finished_at from scoring_jobs
             where finished_at >= $2 and started_at is not null and kind = 'session' and judge = $1
               and state = 'succeeded' and tokens_out > 0
             order by finished_at desc limit $3",
            judge,
            now - LATELY,
            ENDS
        );
        let rows = self.db.read_long(ATTEMPTED, &statement).await?;
        let run = |row: &DbRow| Ok((row.get("started_at")?, row.get("finished_at")?));
        let runs: sqlx::Result<Vec<(DateTime<Utc>, DateTime<Utc>)>> =
            rows.iter().map(run).collect();
        Ok(pace(runs.map_err(|e| StoreError::of(ATTEMPTED, &e))?))
    }
}

/// Computes the throughput from start and end of each run.
fn pace(mut runs: Vec<(DateTime<Utc>, DateTime<Utc>)>) -> RecentPace {
    runs.sort_unstable();
    let (mut busy, mut behind) = (TimeDelta::zero(), None);
    for (began, ended) in &runs {
        let from = behind.map_or(*began, |behind| *began.max(&behind));
        busy += (*ended - from).max(TimeDelta::zero());
        behind = Some(behind.map_or(*ended, |behind| *ended.max(&behind)));
    }
    let jobs = u32::try_from(runs.len()).unwrap_or(u32::MAX);
    let busy = busy.as_seconds_f64().max(LEAST_BUSY_S);
    RecentPace {
        jobs: i64::from(jobs),
        per_s: (jobs > 0).then(|| f64::from(jobs) / busy),
    }
}
