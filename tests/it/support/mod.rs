//! What tests stand on: a store of either kind with a database of its own.

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

/// An address at which connections are refused for as long as the socket is kept: it is bound, so that nobody else gets
/// the port, and doesn't listen.
pub(crate) fn nobody_at() -> (tokio::net::TcpSocket, SocketAddr) {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

/// A migrated store in a database of its own.
pub(crate) struct TestStore {
    pub(crate) store: Arc<Store>,
    pub(crate) url: String,
    _dir: Option<tempfile::TempDir>,
}

impl TestStore {
    /// The same database, for a further process; this one must outlive it.
    pub(crate) fn beside(&self) -> Self {
        Self {
            store: self.store.clone(),
            url: self.url.clone(),
            _dir: None,
        }
    }
}

/// The Postgres server to test on, if there is one.
pub(crate) fn postgres_server() -> Option<String> {
    std::env::var("DATABASE_URL")
        .ok()
        .filter(|url| url.starts_with("postgres"))
}

/// The Redis server to test on, if there is one.
pub(crate) fn redis_server() -> Option<String> {
    std::env::var("REDIS_URL")
        .ok()
        .filter(|url| !url.is_empty())
}

/// The nodes of the Redis Cluster to test on, each as the address of one server; says so where there is none.
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

/// The address of an empty SQLite file.
pub(crate) fn sqlite_database() -> (String, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    (format!("sqlite://{}/gavel.db", dir.path().display()), dir)
}

/// The address of an empty Postgres database; `None` without a server.
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

/// Drops a database that [`postgres_database`] made; whoever still holds it is cut off.
///
/// The server writes out all its dirty pages first. On a busy disk that takes longer than any test: it isn't waited for
/// then, and the server goes on with it alone.
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

/// A migrated SQLite store.
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

/// A migrated Postgres store; `None`, with a line that says so, without a server.
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

/// Every store there is to test on.
pub(crate) async fn stores() -> Vec<TestStore> {
    let mut stores = vec![sqlite().await];
    stores.extend(postgres().await);
    stores
}

/// The addresses of empty databases of every kind there is to test on.
pub(crate) async fn databases() -> Vec<(String, Option<tempfile::TempDir>)> {
    let (url, dir) = sqlite_database();
    let mut databases = vec![(url, Some(dir))];
    if let Some(url) = postgres_database().await {
        databases.push((url, None));
    }
    databases
}

/// A second store on the same database, as another process would have.
pub(crate) async fn reopen(test: &TestStore) -> Arc<Store> {
    Arc::new(Store::connect(options(&test.url)).await.unwrap())
}

/// Runs one statement on a database, past the store.
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

/// An HTTP server on a port of its own; it ends with this value.
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

/// Ends every session of a Postgres database but the one that says so.
pub(crate) const END_SESSIONS: &str = "select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid()";

/// Writes a worker's heartbeat.
pub(crate) async fn heartbeat(store: &Store, beat: &Heartbeat) {
    let written = store.workers().heartbeat(beat, Duration::from_secs(10));
    written.await.unwrap();
}

/// What a test's worker says of itself.
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

/// What a gate that lets everything through says of its judge.
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

/// A call of just now that was answered well.
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

/// A suite without a name, a threshold or a budget, by criteria `a`.
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

/// How a batch asks for its items.
pub(crate) fn in_bulk(triggered_by: &str) -> JobOptions {
    JobOptions::new(triggered_by.to_owned(), Priority::Bulk)
}

/// The pages of `docs/pages.md` that need nothing in their address.
pub(crate) fn documented_pages() -> impl Iterator<Item = &'static str> {
    let table = include_str!("../../../docs/pages.md");
    let rows = table.lines().filter(|line| line.starts_with("| `/"));
    let cells = rows.filter_map(|line| line.split('|').nth(1));
    let paths = cells.flat_map(|cell| cell.split(',').map(|path| path.trim().trim_matches('`')));
    paths.filter(|path| !path.contains('{'))
}
