//! `judges`: snapshots of each worker's gates, for the API and pages.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};
use serde_json::json;
use uuid::Uuid;

use crate::job::WaitReason;
use crate::judge::gate::{GateSnapshot, HeldBack, MeterSnapshot, PaceSnapshot, Sharing};
use crate::store::StoreError;
use crate::store::database::db::{Db, transact};
use crate::store::database::row::{Int, Nullable};
use crate::store::database::session::Purpose;
use crate::store::database::sql::{Arg, Sql, long_sql, sql, step};

/// A judge's gate in one worker.
#[derive(Debug, Clone, PartialEq, sqlx::FromRow)]
pub struct JudgeRow {
    pub name: String,
    pub worker_id: Uuid,
    /// `closed`, `open` or `half_open`.
    pub breaker: String,
    #[sqlx(try_from = "Nullable<String>")]
    pub closed: Option<WaitReason>,
    /// Time at which it opens again, if known.
    pub closed_until: Option<DateTime<Utc>>,
    #[sqlx(try_from = "Int")]
    pub failures_in_row: i32,
    #[sqlx(try_from = "Int")]
    pub in_flight: i32,
    pub last_error: Option<String>,
    pub last_error_at: Option<DateTime<Utc>>,
    #[sqlx(json(nullable))]
    pub pace: Option<PaceRow>,
    pub updated_at: DateTime<Utc>,
}

/// A judge's rate limits in one worker.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PaceRow {
    pub requests: MeterRow,
    /// Tokens of prompts and replies.
    pub tokens: MeterRow,
    /// Tokens of prompts, if the provider limits them separately.
    pub input_tokens: MeterRow,
    /// Tokens of replies, if the provider limits them separately.
    pub output_tokens: MeterRow,
    /// End of the reduction after a 429.
    pub shrunk_until: Option<DateTime<Utc>>,
    /// No call is sent until this time, because a reply reported an exhausted limit.
    pub held_until: Option<DateTime<Utc>>,
    /// Whether the limits are shared by all workers.
    pub together: bool,
    /// Number of workers that split the limits while Redis is unavailable.
    pub part_of: Option<u32>,
}

/// A quantity with a limit per minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MeterRow {
    /// Current limit per minute; `None`: unlimited.
    pub limit: Option<u64>,
    pub configured: Option<u64>,
    /// Limit reported by the provider's replies.
    pub learned: Option<u64>,
    /// Usage of the last minute.
    pub used: u64,
}

impl From<MeterSnapshot> for MeterRow {
    fn from(meter: MeterSnapshot) -> Self {
        Self {
            limit: meter.limit,
            configured: meter.configured,
            learned: meter.learned,
            used: meter.used,
        }
    }
}

impl PaceRow {
    fn of(known: &GateSnapshot, now: DateTime<Utc>) -> Self {
        let pace: &PaceSnapshot = &known.pace;
        Self {
            requests: pace.requests.into(),
            tokens: pace.tokens.into(),
            input_tokens: pace.input_tokens.into(),
            output_tokens: pace.output_tokens.into(),
            shrunk_until: pace.shrunk_for.and_then(|wait| after(now, wait)),
            held_until: pace.held_for.and_then(|wait| after(now, wait)),
            together: known.sharing == Sharing::Together,
            part_of: match known.sharing {
                Sharing::Part { workers } => Some(workers),
                Sharing::Alone | Sharing::Together => None,
            },
        }
    }
}

#[derive(Clone, Copy)]
pub struct Judges<'a> {
    pub(super) db: &'a Db,
}

impl Judges<'_> {
    /// Replaces the snapshots of a worker.
    pub async fn put(
        self,
        worker_id: Uuid,
        snapshot: &[GateSnapshot],
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let delete = step!("delete from judges where worker_id = $1", worker_id);
        let insert = insert_statement(worker_id, snapshot, now);
        transact!(
            self.db,
            "storing the gate state of judges",
            Purpose::Any,
            |tx| {
                tx.execute(&delete).await?;
                if !snapshot.is_empty() {
                    tx.execute(&insert).await?;
                }
            }
        )
    }

    /// Lists the snapshots of live workers, by judge; at most 1,000.
    pub async fn list(self) -> Result<Vec<JudgeRow>, StoreError> {
        let mut statement = sql!(
            "listing judges",
            "select j.name, j.worker_id, j.breaker, j.closed, j.closed_until, j.failures_in_row, j.in_flight, j.last_error,
                j.last_error_at, j.pace, j.updated_at
             from judges j join workers w on w.worker_id = j.worker_id
             where w.state <> 'stopped' and not (j.updated_at < "
        );
        self.db.dialect().push_column_ago(&mut statement, "lease_s");
        statement.push(") order by j.name, j.worker_id limit 1000");
        self.db.read(&statement).await
    }
}

fn insert_statement(worker_id: Uuid, snapshot: &[GateSnapshot], now: DateTime<Utc>) -> Sql {
    const COLUMNS: &str = "name, worker_id, breaker, closed, closed_until, failures_in_row, in_flight, last_error, last_error_at, pace, updated_at";
    let rows = snapshot
        .iter()
        .map(|known| {
            let closed = known.closed.as_ref();
            let error = known.last_error.as_ref();
            let until = closed
                .and_then(|refusal| refusal.retry_in)
                .and_then(|wait| after(now, wait));
            vec![
                Arg::from(&known.judge),
                worker_id.into(),
                known.breaker.as_str().into(),
                closed
                    .map(|refusal| wait_reason(refusal.why).as_str())
                    .into(),
                until.into(),
                known.failures_in_row.into(),
                known.in_flight.into(),
                error.map(|error| error.message.as_str()).into(),
                error.and_then(|error| before(now, error.ago)).into(),
                json!(PaceRow::of(known, now)).into(),
                now.into(),
            ]
        })
        .collect();
    Sql::insert("judges", COLUMNS, rows)
}

fn after(now: DateTime<Utc>, wait: Duration) -> Option<DateTime<Utc>> {
    now.checked_add_signed(TimeDelta::from_std(wait).ok()?)
}

fn before(now: DateTime<Utc>, ago: Duration) -> Option<DateTime<Utc>> {
    now.checked_sub_signed(TimeDelta::from_std(ago).ok()?)
}

/// Returns the reason for rows and events.
pub fn wait_reason(why: HeldBack) -> WaitReason {
    match why {
        HeldBack::BreakerOpen => WaitReason::BreakerOpen,
        // A busy lane is open, so its reason isn't shown.
        HeldBack::Throttled | HeldBack::Busy => WaitReason::Throttled,
        HeldBack::Paced => WaitReason::Paced,
        HeldBack::Exhausted => WaitReason::Exhausted,
        HeldBack::Misconfigured => WaitReason::Misconfigured,
        HeldBack::Paused => WaitReason::Paused,
        HeldBack::Budget => WaitReason::Budget,
    }
}

// Totals of all calls by judge, for `/metrics`.

#[derive(Debug, Clone, PartialEq, sqlx::FromRow)]
pub struct JudgeTotal {
    pub judge: String,
    pub calls: i64,
    /// Calls without a usable reply.
    pub failed_calls: i64,
    /// Prompt tokens, including cached ones.
    pub tokens_in: i64,
    pub tokens_out: i64,
    /// USD of the calls with a known price.
    pub cost_usd: f64,
    /// Calls without a known price.
    pub unpriced_calls: i64,
}

impl Judges<'_> {
    /// Returns the totals over all days, by judge. Doesn't wait for the call log.
    pub async fn totals(self) -> Result<Vec<JudgeTotal>, StoreError> {
        let statement = sql!(
            "summing up the calls of judges",
            "select judge, cast(sum(calls) as bigint) as calls, cast(sum(failed_calls) as bigint) as failed_calls,
                cast(sum(tokens_in) as bigint) as tokens_in, cast(sum(tokens_out) as bigint) as tokens_out,
                sum(cost_usd) as cost_usd, cast(sum(unpriced_calls) as bigint) as unpriced_calls
             from judge_usage_daily group by judge order by judge limit 10000"
        );
        self.db.read(&statement).await
    }
}

// Reply lengths and throughput of a judge's recent jobs, for estimates.

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

#[derive(Debug, Clone, Copy, PartialEq, Default, sqlx::FromRow)]
pub struct PastReplies {
    #[sqlx(try_from = "Int")]
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
        let statement = long_sql!(
            "reading the lengths of a judge's recent replies",
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
        Ok(self.db.read_one(&statement).await?.unwrap_or_default())
    }

    /// Returns the throughput of a judge's session jobs in the last 10 minutes.
    pub async fn recent_pace(
        self,
        judge: &str,
        now: DateTime<Utc>,
    ) -> Result<RecentPace, StoreError> {
        let statement = long_sql!(
            "reading the completion rate of a judge's jobs",
            "select started_at, finished_at from scoring_jobs
             where finished_at >= $2 and started_at is not null and kind = 'session' and judge = $1
               and state = 'succeeded' and tokens_out > 0
             order by finished_at desc limit $3",
            judge,
            now - LATELY,
            ENDS
        );
        Ok(pace(self.db.read(&statement).await?))
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
