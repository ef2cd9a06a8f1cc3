//! Process and server failures: no job is lost or scored more than once.
//!
//! The tests run the real binary over Postgres and Redis, with a separate database and queue for each test.

mod backlogs;
mod clocks;
mod connections;
mod deaths;
mod eyes;
mod fleet;
mod imports;
mod liveness;
mod outages;
mod refusals;
mod releases;
mod reloads;
mod starts;
mod webhooks;

use std::time::Duration;

use serde_json::Value;
use sqlx::Connection as _;
use sqlx::Row as _;
use uuid::Uuid;

use crate::support::client::Api;
use crate::support::home::Home;
use crate::support::process::PrivatePostgres;
use crate::support::sessions::session;
use crate::support::wait::eventually;

/// Deadline for a whole fleet: generous, because these tests don't measure speed.
const DEADLINE: Duration = Duration::from_secs(150);

/// Set-up on the configured servers; prints a message without them.
async fn shared() -> Option<Home> {
    let home = Home::shared().await;
    if home.is_none() {
        eprintln!("NOT TESTED: DATABASE_URL and REDIS_URL name no servers");
    }
    home
}

/// Set-up on a private Postgres, which the test may stop; prints a message without one.
async fn private_postgres() -> Option<(Home, PrivatePostgres)> {
    let Some(redis) = crate::support::redis_server() else {
        eprintln!("NOT TESTED: REDIS_URL names no server");
        return None;
    };
    let postgres = PrivatePostgres::start().await?;
    Some((Home::on(&postgres.url(), &redis), postgres))
}

/// Blocks writes of heartbeats, but not reads, until the connection is closed.
async fn without_heartbeats(home: &Home) -> sqlx::PgConnection {
    let db = sqlx::PgConnection::connect(home.get("DATABASE_URL"));
    let mut db = db.await.unwrap();
    let lock = sqlx::raw_sql("begin; lock table workers in exclusive mode");
    lock.execute(&mut db).await.unwrap();
    db
}

async fn enqueue(api: &Api, sessions: usize) -> Vec<(Uuid, Uuid)> {
    let mut jobs = Vec::new();
    for _ in 0..sessions {
        jobs.push(api.enqueue(session()).await);
    }
    jobs
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Tally {
    jobs: i64,
    succeeded: i64,
    failed: i64,
    scores: i64,
    sessions_scored: i64,
    /// Replaced scores: 0 unless a session was scored more than once.
    superseded: i64,
}

impl Tally {
    fn all_scored_once(scored: i64) -> Self {
        Self {
            jobs: scored,
            succeeded: scored,
            failed: 0,
            scores: scored,
            sessions_scored: scored,
            superseded: 0,
        }
    }

    async fn read(home: &Home) -> Option<Self> {
        let mut db = sqlx::PgConnection::connect(home.get("DATABASE_URL"))
            .await
            .ok()?;
        let row = sqlx::query(
            "select (select count(*) from scoring_jobs) as jobs,
                    (select count(*) from scoring_jobs where state = 'succeeded') as succeeded,
                    (select count(*) from scoring_jobs where state = 'failed') as failed,
                    (select count(*) from session_scores) as scores,
                    (select count(distinct session_id) from session_scores) as sessions_scored,
                    (select count(*) from session_scores where superseded_at is not null) as superseded",
        )
        .fetch_one(&mut db)
        .await
        .ok()?;
        let _ = db.close().await;
        Some(Self {
            jobs: row.get("jobs"),
            succeeded: row.get("succeeded"),
            failed: row.get("failed"),
            scores: row.get("scores"),
            sessions_scored: row.get("sessions_scored"),
            superseded: row.get("superseded"),
        })
    }
}

/// Waits until this number of jobs have ended, and fails the test unless each is scored exactly once.
async fn all_scored_once(home: &Home, jobs: usize) {
    let jobs = i64::try_from(jobs).unwrap();
    let tally = eventually(DEADLINE, "all jobs end", || async {
        let tally = Tally::read(home).await?;
        (tally.succeeded + tally.failed == jobs).then_some(tally)
    })
    .await;
    assert_eq!(tally, Tally::all_scored_once(jobs));
}

async fn number(home: &Home, query: &'static str) -> i64 {
    let mut db = sqlx::PgConnection::connect(home.get("DATABASE_URL"))
        .await
        .unwrap();
    let number = sqlx::query_scalar(query).fetch_one(&mut db).await.unwrap();
    db.close().await.unwrap();
    number
}

fn marked(mark: &str) -> Value {
    let mut body = session();
    body["conversation"][0]["content"] = Value::from(mark);
    body
}
