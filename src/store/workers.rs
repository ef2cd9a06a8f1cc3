//! `workers`: who is alive, by the database's clock.
//!
//! The one place, with [`Store::rescue_lost`], where the two databases are told apart by their SQL: neither has the other's
//! word for now.

use std::time::Duration;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::sql::{Row, Sql, sql};
use super::{Dialect, Store, StoreError};
use crate::job::text_enum;

text_enum! {
    /// What a worker does.
    pub enum WorkerState {
        /// Takes work.
        Running = "running",
        /// Finishes what it has.
        Draining = "draining",
        /// Left in good order.
        Stopped = "stopped",
    }
}

/// One worker.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkerRow {
    /// Unique per start.
    pub worker_id: Uuid,
    /// Host and process, for people.
    pub name: String,
    /// The binary's version.
    pub version: String,
    /// When it started.
    pub started_at: DateTime<Utc>,
    /// When it was last heard.
    pub heartbeat_at: DateTime<Utc>,
    /// Jobs in hand.
    pub in_hand: i32,
    /// What it does.
    pub state: WorkerState,
    /// Whether it was heard within the time that the caller named, and hasn't stopped.
    pub alive: bool,
}

impl Store {
    /// Registers a start.
    ///
    /// # Errors
    /// `Unavailable` when the database is away.
    pub async fn register_worker(
        &self,
        worker_id: Uuid,
        name: &str,
        version: &str,
    ) -> Result<(), StoreError> {
        self.heartbeat(worker_id, name, version, 0, WorkerState::Running)
            .await
    }

    /// Says that a worker lives (registers it again if its row is gone).
    ///
    /// # Errors
    /// `Unavailable` when the database is away.
    pub async fn heartbeat(
        &self,
        worker_id: Uuid,
        name: &str,
        version: &str,
        in_hand: i32,
        state: WorkerState,
    ) -> Result<(), StoreError> {
        let mut statement = sql!(
            "insert into workers (worker_id, name, version, in_hand, state, started_at, heartbeat_at)
             values ($1, $2, $3, $4, $5, ",
            worker_id,
            name,
            version,
            in_hand,
            state.as_str()
        );
        let now = self.database_now();
        statement.push(now).push(", ").push(now).push(
            ") on conflict (worker_id) do update set heartbeat_at = excluded.heartbeat_at, in_hand = excluded.in_hand,
                state = excluded.state, name = excluded.name, version = excluded.version, swept = false",
        );
        self.db
            .execute("writing a worker's heartbeat", &statement)
            .await
            .map(drop)
    }

    /// Lists workers heard in the last 24 h, newest first; at most 1,000.
    ///
    /// # Errors
    /// `Unavailable` when the database is away.
    pub async fn workers(&self, stale_after: Duration) -> Result<Vec<WorkerRow>, StoreError> {
        const ATTEMPTED: &str = "listing workers";
        const DAY: Duration = Duration::from_secs(24 * 60 * 60);
        let mut statement = sql!(
            "select worker_id, name, version, started_at, heartbeat_at, in_hand, state,
                case when state <> 'stopped' and not (heartbeat_at < "
        );
        self.push_heard_before(&mut statement, stale_after);
        statement.push(") then 1 else 0 end as alive from workers where not (heartbeat_at < ");
        self.push_heard_before(&mut statement, DAY);
        statement.push(") order by started_at desc, worker_id desc limit 1000");
        let rows = self.db.read(ATTEMPTED, &statement).await?;
        rows.iter()
            .map(worker)
            .collect::<sqlx::Result<_>>()
            .map_err(|e| StoreError::of(ATTEMPTED, &e))
    }

    /// Embedded set-ups only, where a lock on the data folder proves that no other process lives: marks all as stopped.
    ///
    /// # Errors
    /// `Unavailable` when the database is away.
    pub async fn forget_workers(&self) -> Result<(), StoreError> {
        let statement =
            sql!("update workers set state = 'stopped', in_hand = 0 where state <> 'stopped'");
        self.db
            .execute("marking workers as stopped", &statement)
            .await
            .map(drop)
    }

    /// The time `ago` before the database's now, as an expression; SQLite's has milliseconds, in the width that times are
    /// stored in.
    pub(super) fn push_heard_before(&self, statement: &mut Sql, ago: Duration) {
        match self.dialect() {
            Dialect::Postgres => statement
                .push("clock_timestamp() - ")
                .push_arg(ago.as_secs_f64())
                .push(" * interval '1 second'"),
            Dialect::Sqlite => statement
                .push("strftime('%Y-%m-%dT%H:%M:%f000+00:00', 'now', ")
                .push_arg(format!("-{:.3} seconds", ago.as_secs_f64()))
                .push(")"),
        };
    }

    /// The database's now, as an expression.
    pub(super) fn database_now(&self) -> &'static str {
        match self.dialect() {
            Dialect::Postgres => "clock_timestamp()",
            Dialect::Sqlite => "strftime('%Y-%m-%dT%H:%M:%f000+00:00', 'now')",
        }
    }
}

fn worker(row: &Row) -> sqlx::Result<WorkerRow> {
    Ok(WorkerRow {
        worker_id: row.get("worker_id")?,
        name: row.get("name")?,
        version: row.get("version")?,
        started_at: row.get("started_at")?,
        heartbeat_at: row.get("heartbeat_at")?,
        in_hand: row.int("in_hand")?,
        state: row.text_enum("state")?,
        alive: row.get::<i32>("alive")? == 1,
    })
}
