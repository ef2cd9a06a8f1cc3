//! `judges`: what each process's gate knows, for the page that shows judges. A snapshot, never a command.

use chrono::{DateTime, TimeDelta, Utc};
use uuid::Uuid;

use super::db::{Conn, twice};
use super::sql::{Arg, Row, Sql, sql};
use super::{Store, StoreError};
use crate::job::WaitReason;
use crate::judge::gate::{Closed, GateSnapshot};

/// What one process's gate knows of one judge.
#[derive(Debug, Clone, PartialEq)]
pub struct JudgeRow {
    /// The judge's name.
    pub name: String,
    /// The worker that says so.
    pub worker_id: Uuid,
    /// `closed`, `open` or `half_open`.
    pub breaker: String,
    /// Why its lane is closed, if it is.
    pub closed: Option<WaitReason>,
    /// When it opens again, if known.
    pub closed_until: Option<DateTime<Utc>>,
    /// Transient failures in a row.
    pub failures_in_row: i32,
    /// Calls in flight.
    pub in_flight: i32,
    /// The last error's text.
    pub last_error: Option<String>,
    /// When this was written.
    pub updated_at: DateTime<Utc>,
}

impl Store {
    /// Writes what a process's gate knows, replacing what that worker wrote before.
    ///
    /// # Errors
    /// `Unavailable` when the database is away.
    pub async fn put_judges(
        &self,
        worker_id: Uuid,
        snapshot: &[GateSnapshot],
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let delete = sql!("delete from judges where worker_id = $1", worker_id);
        let insert = insert_statement(worker_id, snapshot, now);
        twice!("writing what a gate knows of its judges", async {
            let mut conn: Conn = self.db.writer().await?;
            let mut tx = conn.begin().await?;
            tx.execute(&delete).await?;
            if !snapshot.is_empty() {
                tx.execute(&insert).await?;
            }
            tx.commit().await
        })
    }

    /// What live workers (heard since `heard_since`, and not stopped) know of judges, by name; at most 1,000.
    ///
    /// # Errors
    /// `Unavailable` when the database is away.
    pub async fn judges(&self, heard_since: DateTime<Utc>) -> Result<Vec<JudgeRow>, StoreError> {
        const ATTEMPTED: &str = "listing judges";
        let statement = sql!(
            "select j.name, j.worker_id, j.breaker, j.closed, j.closed_until, j.failures_in_row, j.in_flight, j.last_error,
                j.updated_at
             from judges j left join workers w on w.worker_id = j.worker_id
             where j.updated_at >= $1 and coalesce(w.state, 'running') <> 'stopped'
             order by j.name, j.worker_id limit 1000",
            heard_since
        );
        let rows = self.db.read(ATTEMPTED, &statement).await?;
        rows.iter()
            .map(judge)
            .collect::<sqlx::Result<_>>()
            .map_err(|e| StoreError::of(ATTEMPTED, &e))
    }
}

fn insert_statement(worker_id: Uuid, snapshot: &[GateSnapshot], now: DateTime<Utc>) -> Sql {
    const COLUMNS: &str = "name, worker_id, breaker, closed, closed_until, failures_in_row, in_flight, last_error, updated_at";
    let rows = snapshot
        .iter()
        .map(|known| {
            let closed = known.closed.as_ref();
            let until = closed
                .and_then(|refusal| refusal.retry_in)
                .and_then(|wait| TimeDelta::from_std(wait).ok())
                .and_then(|wait| now.checked_add_signed(wait));
            vec![
                Arg::from(&known.judge),
                worker_id.into(),
                known.breaker.as_str().into(),
                closed.map(|refusal| reason(refusal.why).as_str()).into(),
                until.into(),
                known.failures_in_row.into(),
                known.in_flight.into(),
                known.last_error.as_deref().into(),
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

fn reason(closed: Closed) -> WaitReason {
    match closed {
        Closed::BreakerOpen => WaitReason::BreakerOpen,
        // A busy lane is an open one: nobody asks for the reason of that.
        Closed::Throttled | Closed::Busy => WaitReason::Throttled,
        Closed::Exhausted => WaitReason::Exhausted,
        Closed::Misconfigured => WaitReason::Misconfigured,
        Closed::Paused => WaitReason::Paused,
    }
}

fn judge(row: &Row) -> sqlx::Result<JudgeRow> {
    Ok(JudgeRow {
        name: row.get("name")?,
        worker_id: row.get("worker_id")?,
        breaker: row.get("breaker")?,
        closed: row.text_enum_or_null("closed")?,
        closed_until: row.get("closed_until")?,
        failures_in_row: row.int("failures_in_row")?,
        in_flight: row.int("in_flight")?,
        last_error: row.get("last_error")?,
        updated_at: row.get("updated_at")?,
    })
}
