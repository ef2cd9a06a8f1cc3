//! `workers`: heartbeats, death declarations and the leader.
//!
//! Does not decide which worker is dead: other workers do, by their monotonic clocks. Heartbeats have the database's time.

use std::time::{Duration, TryFromFloatSecsError};

use chrono::{DateTime, Utc};
use serde_json::json;
use uuid::Uuid;

use crate::store::StoreError;
use crate::store::database::db::Db;
use crate::store::database::session::Purpose;
use crate::store::database::sql::sql;
use crate::wire::WorkerState;

#[derive(Debug, Clone, PartialEq, sqlx::FromRow)]
pub struct WorkerRow {
    /// Unique per start.
    pub worker_id: Uuid,
    /// Host and process.
    pub name: String,
    pub version: String,
    pub started_at: DateTime<Utc>,
    pub heartbeat_at: DateTime<Utc>,
    #[sqlx(try_from = "i64")]
    pub in_hand: i32,
    #[sqlx(try_from = "String")]
    pub state: WorkerState,
    /// Judges that it can call: names, and `entry:*` for an entry that accepts any model; `None`: not reported yet.
    #[sqlx(json(nullable))]
    pub judges: Option<Vec<String>>,
    /// Whether its last heartbeat is within its lease, and it hasn't stopped.
    pub alive: bool,
}

#[derive(Debug, Clone)]
pub struct Heartbeat {
    /// Unique per start.
    pub worker_id: Uuid,
    /// Host and process.
    pub name: String,
    pub version: String,
    pub in_hand: i32,
    pub state: WorkerState,
    /// Time without a heartbeat after which it may be declared dead.
    pub lease: Duration,
    /// Judges that it can call: names, and `entry:*` for an entry that accepts any model; `None`: unchanged.
    pub judges: Option<Vec<String>>,
    pub queue_away: bool,
}

/// Facts of a worker for the detection of dead workers.
#[derive(Debug, Clone, PartialEq, sqlx::FromRow)]
pub struct WorkerPulse {
    pub worker_id: Uuid,
    /// Compared for change only, because it is from another clock.
    pub heartbeat_at: DateTime<Utc>,
    /// Time without a heartbeat after which it is dead.
    #[sqlx(rename = "lease_s", try_from = "Seconds")]
    pub lease: Duration,
    /// `stopped`: it shut down cleanly.
    #[sqlx(try_from = "String")]
    pub state: WorkerState,
    /// Whether it can't reach the queue.
    pub queue_away: bool,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct RollCall {
    /// Workers that were not declared dead.
    pub workers: Vec<WorkerPulse>,
    /// The leader; may be dead.
    pub leader: Option<Uuid>,
}

/// Role of the leader, which rescues jobs, expands batches and prunes rows.
const HOUSEKEEPING: &str = "housekeeping";

#[derive(Clone, Copy)]
pub struct Workers<'a> {
    pub(super) db: &'a Db,
}

impl Workers<'_> {
    /// Stores a worker's heartbeat; registers an unknown worker. Ends after `within`.
    ///
    /// # Errors
    /// `Unavailable` if the database is unavailable or slower than `within`.
    pub async fn heartbeat(self, beat: &Heartbeat, within: Duration) -> Result<(), StoreError> {
        let mut statement = sql!(
            "writing a worker's heartbeat",
            "insert into workers (worker_id, name, version, in_hand, state, lease_s, judges, queue_away, started_at,
                heartbeat_at)
             values ($1, $2, $3, $4, $5, $6, $7, $8, ",
            beat.worker_id,
            &beat.name,
            &beat.version,
            beat.in_hand,
            beat.state.as_str(),
            beat.lease.as_secs_f64(),
            beat.judges.as_ref().map(|judges| json!(judges)),
            beat.queue_away
        )
        .on(Purpose::Heartbeat);
        let now = self.db.dialect().now();
        statement.push(now).push(", ").push(now).push(
            ") on conflict (worker_id) do update set heartbeat_at = excluded.heartbeat_at, in_hand = excluded.in_hand,
                state = excluded.state, name = excluded.name, version = excluded.version, lease_s = excluded.lease_s,
                judges = coalesce(excluded.judges, workers.judges), queue_away = excluded.queue_away, declared_dead = false",
        );
        let beating = async {
            self.db
                .writer(statement.purpose)
                .await?
                .execute(&statement)
                .await
        };
        match tokio::time::timeout(within, beating).await {
            Ok(beaten) => beaten.map(drop).map_err(|error| statement.error(&error)),
            Err(_) => Err(StoreError::no_answer(
                statement.name,
                format!("no answer within {} ms", within.as_millis()),
            )),
        }
    }

    /// Returns the workers that were not declared dead, at most 10,000, and the leader.
    pub async fn roll_call(self) -> Result<RollCall, StoreError> {
        let statement = sql!(
            "listing live workers",
            "select worker_id, heartbeat_at, lease_s, state, queue_away,
                (select l.worker_id from leaders l where l.role = $1) as leader
             from workers where not declared_dead limit 10000",
            HOUSEKEEPING
        );
        let mut roll = RollCall::default();
        for member in self.db.read::<Member>(&statement).await? {
            roll.leader = member.leader;
            roll.workers.push(member.pulse);
        }
        Ok(roll)
    }

    /// Declares workers dead that have sent no heartbeat since the given one, so that their jobs may be rescued. The next
    /// heartbeat reverts this. Returns the number of workers that were declared dead.
    pub async fn declare_dead(self, dead: &[(Uuid, DateTime<Utc>)]) -> Result<u64, StoreError> {
        let mut declared = 0;
        for (worker_id, heard_at) in dead {
            let statement = sql!(
                "declaring a worker dead",
                "update workers set declared_dead = true where worker_id = $1 and heartbeat_at = $2 and not declared_dead",
                *worker_id,
                *heard_at
            );
            declared += self.db.execute(&statement).await?;
        }
        Ok(declared)
    }

    /// Makes a worker the leader, if there is none, or the current one has stopped or was declared dead. Returns whether it
    /// leads.
    pub async fn lead(self, worker_id: Uuid, now: DateTime<Utc>) -> Result<bool, StoreError> {
        let statement = sql!(
            "becoming the leader",
            "insert into leaders (role, worker_id, since) values ($1, $2, $3)
             on conflict (role) do update set worker_id = excluded.worker_id, since = excluded.since
             where leaders.worker_id = excluded.worker_id or not exists (
                select 1 from workers w
                where w.worker_id = leaders.worker_id and w.state = 'running' and not w.declared_dead)
             returning role",
            HOUSEKEEPING,
            worker_id,
            now
        );
        Ok(!self.db.written(&statement).await?.is_empty())
    }

    /// Gives up the leadership, if this worker has it.
    pub async fn resign(self, worker_id: Uuid) -> Result<(), StoreError> {
        let statement = sql!(
            "leaving the lead to another worker",
            "delete from leaders where role = $1 and worker_id = $2",
            HOUSEKEEPING,
            worker_id
        );
        self.db.execute(&statement).await.map(drop)
    }

    /// Lists workers with a heartbeat in the last 24 h, newest first; at most 1,000.
    pub async fn list(self) -> Result<Vec<WorkerRow>, StoreError> {
        const DAY: Duration = Duration::from_secs(24 * 60 * 60);
        let mut statement = sql!(
            "listing workers",
            "select worker_id, name, version, started_at, heartbeat_at, in_hand, state, judges,
                state <> 'stopped' and not (heartbeat_at < "
        );
        self.db.dialect().push_column_ago(&mut statement, "lease_s");
        // A heartbeat from the future was stored before the database's clock was set back, and would count until the clock catches up.
        statement
            .push(") and not (heartbeat_at > ")
            .push(self.db.dialect().now())
            .push(") and not declared_dead as alive from workers where not (heartbeat_at < ");
        self.db.dialect().push_ago(&mut statement, DAY);
        statement.push(") order by started_at desc, worker_id desc limit 1000");
        self.db.read(&statement).await
    }

    /// Marks all workers as stopped. Only for embedded use, where a lock on the data folder excludes other processes.
    pub async fn forget(self) -> Result<(), StoreError> {
        let statement = sql!(
            "marking workers as stopped",
            "update workers set state = 'stopped', in_hand = 0 where state <> 'stopped'"
        );
        self.db.execute(&statement).await.map(drop)
    }
}

/// A row of the roll call.
#[derive(sqlx::FromRow)]
struct Member {
    leader: Option<Uuid>,
    #[sqlx(flatten)]
    pulse: WorkerPulse,
}

/// Seconds of a lease, for `#[sqlx(try_from = "Seconds")]` on a duration.
#[derive(sqlx::Type)]
#[sqlx(transparent)]
struct Seconds(f64);

impl TryFrom<Seconds> for Duration {
    type Error = TryFromFloatSecsError;

    fn try_from(seconds: Seconds) -> Result<Self, Self::Error> {
        Self::try_from_secs_f64(seconds.0)
    }
}
