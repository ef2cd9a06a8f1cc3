//! What a judge's last jobs used, and how fast they ended: what estimates are made from.

use chrono::{DateTime, TimeDelta, Utc};

use crate::store::database::sql::{DbRow, sql};
use crate::store::{Judges, StoreError};

/// How many of the newest jobs are looked through that ended after a session's judge replied.
const LOOKED_AT: i64 = 20_000;
/// How many of them are answered.
const ANSWERED: i64 = 500;
/// How far back a pace is looked at.
const LATELY: TimeDelta = TimeDelta::minutes(10);
/// The most ends that are looked at for it.
const ENDS: i64 = 2_000;
/// Less time than this says nothing of a pace, seconds.
const LEAST_BUSY_S: f64 = 0.05;

/// How long a judge's last replies were.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PastReplies {
    /// Jobs that were looked at.
    pub jobs: u64,
    /// Tokens of replies, a job, on the mean; `None`: there is no job.
    pub mean_tokens: Option<f64>,
}

/// How fast a judge's jobs ended within the last 10 minutes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RecentPace {
    /// How many.
    pub jobs: i64,
    /// Jobs a second of the time in which any of them ran: idle time doesn't count. `None`: there is none.
    pub per_s: Option<f64>,
}

impl Judges<'_> {
    /// How long the replies in a judge's newest jobs were, of sessions that ended with a score; of at most 500 jobs.
    pub async fn past_replies(self, judge: &str) -> Result<PastReplies, StoreError> {
        const ATTEMPTED: &str = "reading how long a judge's last replies were";
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

    /// How fast a judge's jobs for sessions ended within the last 10 minutes.
    pub async fn recent_pace(
        self,
        judge: &str,
        now: DateTime<Utc>,
    ) -> Result<RecentPace, StoreError> {
        const ATTEMPTED: &str = "reading how fast a judge's jobs ended";
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

/// The pace of runs, by when each began and ended.
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
