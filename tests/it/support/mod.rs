//! Test support: stores of either kind, each with a separate database.

pub(crate) mod batch_server;
pub(crate) mod client;
pub(crate) mod criteria;
pub(crate) mod home;
pub(crate) mod judge_server;
pub(crate) mod nginx;
pub(crate) mod pooler;
pub(crate) mod process;
pub(crate) mod receiver;
pub(crate) mod sessions;
pub(crate) mod sse;
pub(crate) mod tarsy;
pub(crate) mod tarsy_go;
pub(crate) mod tarsy_python;
pub(crate) mod wait;
pub(crate) mod world;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, SubsecRound as _, Utc};
use gavel::job::{JobId, JobOptions, Kind, Priority};
use gavel::judge::gate::{BreakerState, GateSnapshot, PaceSnapshot, Sharing};
use gavel::judge::{CallRecord, CallUsage};
use gavel::store::{Heartbeat, NewBatch, Store, StoreOptions};
use gavel::wire::{BatchOrigin, WorkerState};
use sqlx::Connection as _;
use sqlx::Executor as _;
use tokio::task::JoinHandle;
use uuid::Uuid;

/// Address that rejects connections while the socket exists: it is bound, so that no other process gets the port, but
/// doesn't listen.
pub(crate) fn no_listener() -> (tokio::net::TcpSocket, SocketAddr) {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

pub(crate) struct TestStore {
    pub(crate) store: Arc<Store>,
    pub(crate) url: String,
    _dir: Option<tempfile::TempDir>,
}

impl TestStore {
    /// The same database for a further process; the original must outlive it.
    pub(crate) fn beside(&self) -> Self {
        Self {
            store: self.store.clone(),
            url: self.url.clone(),
            _dir: None,
        }
    }
}

pub(crate) fn postgres_server() -> Option<String> {
    std::env::var("DATABASE_URL")
        .ok()
        .filter(|url| url.starts_with("postgres"))
}

pub(crate) fn redis_server() -> Option<String> {
    std::env::var("REDIS_URL")
        .ok()
        .filter(|url| !url.is_empty())
}

/// Nodes of the Redis Cluster of the tests, each as the address of one server; prints a message without one.
pub(crate) fn redis_cluster() -> Option<Vec<String>> {
    let url = std::env::var("REDIS_CLUSTER_URL").unwrap_or_default();
    let Some(nodes) = url.strip_prefix("redis+cluster://") else {
        eprintln!("NOT TESTED ON A CLUSTER: REDIS_CLUSTER_URL names no Redis Cluster");
        return None;
    };
    Some(
        nodes
            .split(',')
            .map(|node| format!("redis://{node}"))
            .collect(),
    )
}

pub(crate) fn options(url: &str) -> StoreOptions {
    StoreOptions {
        url: url.to_owned(),
        password_file: None,
        max_connections: 1,
        connect_timeout: Duration::from_secs(10),
    }
}

pub(crate) fn sqlite_database() -> (String, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    (format!("sqlite://{}/gavel.db", dir.path().display()), dir)
}

/// Address of an empty Postgres database; `None` without a server.
pub(crate) async fn postgres_database() -> Option<String> {
    let server = postgres_server()?;
    let name = format!("gavel_test_{}", Uuid::now_v7().simple());
    let mut admin = sqlx::PgConnection::connect(&server).await.unwrap();
    let create = format!("create database {name}");
    admin.execute(sqlx::AssertSqlSafe(create)).await.unwrap();
    admin.close().await.unwrap();
    let (base, _) = server.rsplit_once('/').unwrap();
    Some(format!("{base}/{name}"))
}

/// Drops a database created by [`postgres_database`], and disconnects its open sessions.
///
/// The server first writes out all dirty pages. On a busy disk that may exceed the time limit of a test: then the drop
/// continues on the server.
pub(crate) async fn drop_postgres_database(url: &str) {
    let server = postgres_server().unwrap();
    let (_, name) = url.rsplit_once('/').unwrap();
    let mut admin = sqlx::PgConnection::connect(&server).await.unwrap();
    let drop = format!("drop database {name} with (force)");
    let dropped = admin.execute(sqlx::AssertSqlSafe(drop));
    if let Ok(dropped) = tokio::time::timeout(Duration::from_secs(2), dropped).await {
        dropped.unwrap();
    }
}

pub(crate) async fn sqlite() -> TestStore {
    let (url, dir) = sqlite_database();
    let store = Store::connect(options(&url)).await.unwrap();
    store.migrate().await.unwrap();
    TestStore {
        store: Arc::new(store),
        url,
        _dir: Some(dir),
    }
}

/// Migrated Postgres store; `None`, with a message, without a server.
pub(crate) async fn postgres() -> Option<TestStore> {
    let Some(url) = postgres_database().await else {
        eprintln!("NOT TESTED ON POSTGRES: DATABASE_URL names none");
        return None;
    };
    let store = Store::connect(options(&url)).await.unwrap();
    store.migrate().await.unwrap();
    Some(TestStore {
        store: Arc::new(store),
        url,
        _dir: None,
    })
}

pub(crate) async fn stores() -> Vec<TestStore> {
    let mut stores = vec![sqlite().await];
    stores.extend(postgres().await);
    stores
}

pub(crate) async fn databases() -> Vec<(String, Option<tempfile::TempDir>)> {
    let (url, dir) = sqlite_database();
    let mut databases = vec![(url, Some(dir))];
    if let Some(url) = postgres_database().await {
        databases.push((url, None));
    }
    databases
}

pub(crate) async fn reopen(test: &TestStore) -> Arc<Store> {
    Arc::new(Store::connect(options(&test.url)).await.unwrap())
}

/// Runs one statement on a database, bypassing the store.
pub(crate) async fn execute(url: &str, statement: &'static str) -> Result<(), sqlx::Error> {
    if url.starts_with("postgres") {
        let mut conn = sqlx::PgConnection::connect(url).await?;
        conn.execute(statement).await?;
        conn.close().await
    } else {
        let mut conn = sqlx::SqliteConnection::connect(url).await?;
        conn.execute(statement).await?;
        conn.close().await
    }
}

pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    task: JoinHandle<()>,
}

impl Served {
    pub(crate) async fn start(router: axum::Router) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, task }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Ends all other sessions of a Postgres database.
pub(crate) const END_SESSIONS: &str = "select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid()";

pub(crate) async fn heartbeat(store: &Store, beat: &Heartbeat) {
    let written = store.workers().heartbeat(beat, Duration::from_secs(10));
    written.await.unwrap();
}

pub(crate) fn beat(worker_id: Uuid, name: &str) -> Heartbeat {
    Heartbeat {
        worker_id,
        name: name.to_owned(),
        version: "0.1".to_owned(),
        in_hand: 0,
        state: WorkerState::Running,
        lease: Duration::from_secs(5),
        judges: None,
        queue_away: false,
    }
}

pub(crate) fn gate(judge: &str) -> GateSnapshot {
    GateSnapshot {
        judge: judge.to_owned(),
        breaker: BreakerState::Closed,
        failures_in_row: 0,
        closed: None,
        in_flight: 0,
        sharing: Sharing::Alone,
        pace: PaceSnapshot::default(),
        last_error: None,
    }
}

pub(crate) fn call(asked_for: JobId) -> CallRecord {
    CallRecord {
        call_id: Uuid::now_v7(),
        asked_for: asked_for.0,
        judge: "main".to_owned(),
        model: "model-1".to_owned(),
        at: Utc::now().trunc_subsecs(6),
        latency: Duration::from_micros(1_234_567),
        error: None,
        message: None,
        status: Some(200),
        usage: CallUsage {
            tokens_in: 10,
            tokens_in_cached: 4,
            tokens_out: 3,
            cost_usd: Some(0.01),
        },
        reply: Some("{\"total_score\": 3}".to_owned()),
        simulated: false,
        repaired: false,
        retries_spent: 0,
        cache_key: None,
    }
}

/// Suite without a name, threshold or budget, by criteria `a`.
pub(crate) fn new_batch(kind: Kind, created_at: DateTime<Utc>) -> NewBatch {
    NewBatch {
        batch_id: Uuid::now_v7(),
        name: None,
        kind,
        origin: BatchOrigin::Suite,
        threshold: None,
        criteria_hash: "a".repeat(64),
        budget_usd: None,
        created_by: "ann".to_owned().into(),
        created_at,
    }
}

pub(crate) fn in_bulk(triggered_by: &str) -> JobOptions {
    JobOptions::new(triggered_by.to_owned(), Priority::Bulk)
}

/// Pages of `docs/pages.md` without parameters.
pub(crate) fn documented_pages() -> impl Iterator<Item = &'static str> {
    let table = include_str!("../../../docs/pages.md");
    let rows = table.lines().filter(|line| line.starts_with("| `/"));
    let cells = rows.filter_map(|line| line.split('|').nth(1));
    let paths = cells.flat_map(|cell| cell.split(',').map(|path| path.trim().trim_matches('`')));
    paths.filter(|path| !path.contains('{'))
}
