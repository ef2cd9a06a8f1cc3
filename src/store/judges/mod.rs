//! `judges`: snapshots of each worker's gates, for the API and pages.

pub(super) mod holds;
pub(super) mod past_runs;
pub(super) mod totals;

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::job::WaitReason;
use crate::judge::gate::{GateSnapshot, HeldBack, MeterSnapshot, PaceSnapshot, Sharing};
use crate::store::StoreError;
use crate::store::database::db::{Conn, Db, retry_once};
use crate::store::database::sql::{Arg, DbRow, Sql, all, sql};

/// A judge's gate in one worker.
#[derive(Debug, Clone, PartialEq)]
pub struct JudgeRow {
    pub name: String,
    pub worker_id: Uuid,
    /// `closed`, `open` or `half_open`.
    pub breaker: String,
    pub closed: Option<WaitReason>,
    /// Time at which it opens again, if known.
    pub closed_until: Option<DateTime<Utc>>,
    pub failures_in_row: i32,
    pub in_flight: i32,
    pub last_error: Option<String>,
    /// `None` also if the writing version stored no time.
    pub last_error_at: Option<DateTime<Utc>>,
    /// `None` if the writing version stored none.
    pub pace: Option<PaceRow>,
    pub updated_at: DateTime<Utc>,
}

/// A judge's rate limits in one worker.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
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

    fn json(&self) -> Value {
        let meter = |meter: &MeterRow| {
            json!({
                "limit": meter.limit,
                "configured": meter.configured,
                "learned": meter.learned,
                "used": meter.used,
            })
        };
        json!({
            "requests": meter(&self.requests),
            "tokens": meter(&self.tokens),
            "input_tokens": meter(&self.input_tokens),
            "output_tokens": meter(&self.output_tokens),
            "shrunk_until": self.shrunk_until,
            "held_until": self.held_until,
            "together": self.together,
            "part_of": self.part_of,
        })
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
        let delete = sql!("delete from judges where worker_id = $1", worker_id);
        let insert = insert_statement(worker_id, snapshot, now);
        retry_once!("storing the gate state of judges", async {
            let mut conn: Conn = self.db.writer().await?;
            let mut tx = conn.begin().await?;
            tx.execute(&delete).await?;
            if !snapshot.is_empty() {
                tx.execute(&insert).await?;
            }
            tx.commit().await
        })
    }

    /// Lists the snapshots of live workers, by judge; at most 1,000.
    pub async fn list(self) -> Result<Vec<JudgeRow>, StoreError> {
        const ATTEMPTED: &str = "listing judges";
        let mut statement = sql!(
            "select j.name, j.worker_id, j.breaker, j.closed, j.closed_until, j.failures_in_row, j.in_flight, j.last_error,
                j.last_error_at, j.pace, j.updated_at
             from judges j join workers w on w.worker_id = j.worker_id
             where w.state <> 'stopped' and not (j.updated_at < "
        );
        self.db.dialect().push_column_ago(&mut statement, "lease_s");
        statement.push(") order by j.name, j.worker_id limit 1000");
        let rows = self.db.read(ATTEMPTED, &statement).await?;
        all(ATTEMPTED, &rows, judge)
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
                PaceRow::of(known, now).json().into(),
                now.into(),
            ]
        })
        .collect();
    let mut statement = Sql::of_rows(COLUMNS, rows);
    statement
        .push("insert into judges (")
        .push(COLUMNS)
        .push(") select ")
        .push(COLUMNS)
        .push(" from v where name is not null");
    statement
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

fn judge(row: &DbRow) -> sqlx::Result<JudgeRow> {
    Ok(JudgeRow {
        name: row.get("name")?,
        worker_id: row.get("worker_id")?,
        breaker: row.get("breaker")?,
        closed: row.optional_enum("closed")?,
        closed_until: row.get("closed_until")?,
        failures_in_row: row.int("failures_in_row")?,
        in_flight: row.int("in_flight")?,
        last_error: row.get("last_error")?,
        last_error_at: row.get("last_error_at")?,
        pace: match row.json("pace")? {
            Some(_) => Some(row.json_as("pace")?),
            None => None,
        },
        updated_at: row.get("updated_at")?,
    })
}
