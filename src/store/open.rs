//! Opening, migrating and closing a store.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};
use sqlx::pool::PoolConnection;
use sqlx::{ConnectOptions as _, PgConnection, Sqlite, SqliteConnection};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::budgets::Spent;
use super::calls::CallSender;
use super::calls::cache;
use super::calls::writer::{self, CallWriter};
use super::database::db::{Db, StoreOptions};
use super::database::dedicated::{DedicatedConnection, Durability, Opener};
use super::database::error::timed_out;
use super::database::grants;
use super::database::last_outage::KnownOutage;
use super::database::migrations;
use super::database::pool::{Bound, CONNECT, ConnectionPermit, Pool};
use super::database::pooler;
use super::database::reads::{self, Reader, Statements};
use super::database::sql::{DbRow, first, sql};
use super::jobs::accept::{self, Accepting};
use super::jobs::claim::Claimer;
use super::jobs::record::Recording;
use super::jobs::recorder;
use super::jobs::rescue::Rescuer;
use super::sessions::{self, facts};
use super::{Dialect, Outage, StoreError};

/// Callers have a short timeout themselves: a readiness probe gives up after seconds.
const PING: Duration = Duration::from_secs(2);

/// How many accepts, and how many records, may wait for their group; the next one waits for a place.
const CHANNEL: usize = 1024;
/// Connections that read in groups: one takes what gathers while the other reads.
const READERS: usize = 2;
/// What the dedicated connections' statements are about.
const JOBS: &[&str] = &["scoring_jobs"];
const READ: &[&str] = &[
    "alert_sessions",
    "session_scores",
    "scoring_jobs",
    "judge_calls",
];
const RECORDED: &[&str] = &[
    "scoring_jobs",
    "session_scores",
    "score_missing_tools",
    "score_alternative_approaches",
    "score_alternative_approach_steps",
];
const LOGGED: &[&str] = &[
    "judge_calls",
    "judge_usage_daily",
    "judge_latency_daily",
    "scoring_jobs",
    "scoring_batches",
    "scoring_batch_usage",
];
/// How long a start waits for the connections that are opened ahead.
const WARMING: Duration = Duration::from_secs(5);
/// The pause between two tries to reach the database at start.
const CONNECT_PAUSE: Duration = Duration::from_millis(250);

/// Connections to the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolUse {
    /// In use, dedicated ones included.
    pub in_use: usize,
    /// Open, and in nobody's.
    pub idle: usize,
}

/// What a process will use the store for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Clients' requests.
    Requests,
    /// Runs of jobs.
    Runs,
}

pub struct Store {
    pub(super) db: Db,
    pub(super) accepter: mpsc::Sender<Accepting>,
    pub(super) recorder: mpsc::Sender<Recording>,
    pub(super) call_log: CallSender,
    pub(super) reader: Reader,
    pub(super) claimer: Claimer,
    pub(super) rescuer: Rescuer,
    pub(super) pulse: tokio::sync::Mutex<DedicatedConnection>,
    pub(super) spent: Spent,
    for_requests: Vec<Opener>,
    for_runs: Vec<Opener>,
    closing: CancellationToken,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl Store {
    /// Opens the pool, trying for `connect_timeout`. Doesn't look at the schema.
    ///
    /// # Errors
    /// `Unavailable` when the database couldn't be reached in time, or at once if it rejects the role; `Unexpected` for an
    /// address that makes no sense, `SharedSessions` behind a pooler that doesn't fit.
    pub async fn connect(options: StoreOptions) -> Result<Self, StoreError> {
        let db = Db::new(&options)?;
        let deadline = Instant::now() + options.connect_timeout;
        while let Err(error) = answers(&db).await {
            let passing = match &error {
                StoreError::Unavailable { outage, .. } => outage.is_passing(),
                StoreError::Schema(_)
                | StoreError::Unexpected { .. }
                | StoreError::SharedSessions
                | StoreError::BadCursor(_) => false,
            };
            if !passing || Instant::now() >= deadline {
                return Err(error);
            }
            tokio::time::sleep(CONNECT_PAUSE).await;
        }
        let closing = CancellationToken::new();
        let connection = |durability| DedicatedConnection::new(db.clone(), durability);
        let accepting = connection(Durability::Full);
        let [recording, again] = [(); 2].map(|()| connection(Durability::Full).brief());
        let (logging, claiming) = (
            connection(Durability::Full),
            connection(Durability::Lazy).brief(),
        );
        let reading: Vec<DedicatedConnection> =
            (0..READERS).map(|_| connection(Durability::Lazy)).collect();
        let readers = || reading.iter().map(|connection| connection.opener(READ));
        let for_requests = readers().chain([accepting.opener(JOBS)]).collect();
        let writers = [
            claiming.opener(JOBS),
            recording.opener(RECORDED),
            logging.opener(LOGGED),
        ];
        let for_runs = readers().chain(writers).collect();
        let (accepter, accepts) = mpsc::channel(CHANNEL);
        let (recorder, records) = mpsc::channel(CHANNEL);
        let (call_log, logged) = CallSender::new();
        let (reader, reads) = Reader::new(CHANNEL);
        let reads = Arc::new(tokio::sync::Mutex::new(reads));
        let spent = Spent::default();
        let mut tasks = vec![
            tokio::spawn(accept::run(accepts, closing.clone(), accepting)),
            tokio::spawn(recorder::run(records, closing.clone(), [recording, again])),
            tokio::spawn(writer::run(
                CallWriter {
                    connection: logging,
                    closing: closing.clone(),
                    spent: spent.clone(),
                },
                logged,
            )),
        ];
        let statements = Statements {
            sessions: sessions::statement,
            facts: facts::statement,
            calls: cache::statement,
        };
        for connection in reading {
            let (reads, closing) = (Arc::clone(&reads), closing.clone());
            tasks.push(tokio::spawn(reads::run(
                reads, closing, connection, statements,
            )));
        }
        Ok(Self {
            claimer: Claimer::new(claiming),
            rescuer: Rescuer::new(connection(Durability::Lazy).long()),
            pulse: tokio::sync::Mutex::new(connection(Durability::Lazy)),
            db,
            accepter,
            recorder,
            call_log,
            reader,
            spent,
            for_requests,
            for_runs,
            closing,
            tasks: Mutex::new(tasks),
        })
    }

    /// Opens the connections that will be needed soon, so that the first of many requests or runs don't wait for them.
    /// What can't be opened now, within 5 s, is opened when it is needed.
    pub async fn warm(&self, use_for: Use) {
        let openers = match use_for {
            Use::Requests => &self.for_requests,
            Use::Runs => &self.for_runs,
        };
        let pool = async {
            if let Err(error) = self.criteria().content("").await {
                tracing::debug!(%error, "a connection couldn't be opened ahead");
            }
        };
        let dedicated = futures::future::join_all(openers.iter().map(Opener::open));
        let warming = futures::future::join(dedicated, pool);
        if tokio::time::timeout(WARMING, warming).await.is_err() {
            tracing::debug!("connections couldn't be opened ahead in time");
        }
    }

    /// Which database this is.
    pub fn dialect(&self) -> Dialect {
        self.db.dialect()
    }

    /// Applies what is pending; answers the versions applied, oldest first.
    ///
    /// # Errors
    /// `Schema` if a version fails, or the database was migrated by another binary.
    pub async fn migrate(&self) -> Result<Vec<i64>, StoreError> {
        let mut conn = self.migrating().await?;
        let versions = match &mut conn {
            Migrating::Postgres(conn, _) => migrations::run(Dialect::Postgres, &mut **conn).await,
            Migrating::Sqlite(conn) => migrations::run(Dialect::Sqlite, &mut **conn).await,
            Migrating::InMemory(conn) => migrations::run(Dialect::Sqlite, &mut **conn).await,
        }?;
        for version in &versions {
            tracing::debug!(version, "schema migrated");
        }
        Ok(versions)
    }

    /// The newest version that is applied; 0 if none is.
    ///
    /// # Errors
    /// `Schema` if the versions can't be read.
    pub async fn schema_version(&self) -> Result<i64, StoreError> {
        match &mut self.migrating().await? {
            Migrating::Postgres(conn, _) => migrations::version(&mut **conn).await,
            Migrating::Sqlite(conn) => migrations::version(&mut **conn).await,
            Migrating::InMemory(conn) => migrations::version(&mut **conn).await,
        }
    }

    /// Takes back the newest `n` migrations; answers their versions, newest first.
    ///
    /// # Errors
    /// `Schema` if a version fails.
    pub async fn revert(&self, n: u32) -> Result<Vec<i64>, StoreError> {
        match &mut self.migrating().await? {
            Migrating::Postgres(conn, _) => {
                migrations::revert(Dialect::Postgres, &mut **conn, n).await
            }
            Migrating::Sqlite(conn) => migrations::revert(Dialect::Sqlite, &mut **conn, n).await,
            Migrating::InMemory(conn) => migrations::revert(Dialect::Sqlite, &mut **conn, n).await,
        }
    }

    /// Returns the versions that are not applied yet.
    ///
    /// # Errors
    /// `Schema` if a version was applied with another text.
    pub async fn pending_migrations(&self) -> Result<Vec<i64>, StoreError> {
        let failed = |error| StoreError::of("asking which migrations are pending", &error);
        // Probes ask this again and again: a connection of its own is too much.
        match &self.db {
            Db::Postgres { pool, .. } => pending_on(pool).await.map_err(failed)?,
            Db::Sqlite { read, .. } => {
                let mut conn = read.acquire().await.map_err(failed)?;
                migrations::pending(Dialect::Sqlite, &mut *conn).await
            }
        }
    }

    /// How the connections are used now.
    pub fn pool_use(&self) -> PoolUse {
        let (in_use, idle) = match &self.db {
            Db::Postgres { pool, .. } => pool.in_use_and_idle(),
            Db::Sqlite { read, .. } => {
                let (open, idle) = (read.size() as usize, read.num_idle());
                (open.saturating_sub(idle), idle)
            }
        };
        PoolUse { in_use, idle }
    }

    /// Returns why the database can't be used, by an error of the last 2 s that an operator must mend.
    pub fn known_outage(&self) -> Option<KnownOutage> {
        self.db.last_outage().current()
    }

    /// Returns cause and remedy of [`Store::known_outage`], with the grants that are missing.
    pub async fn explain_outage(&self) -> Option<String> {
        let KnownOutage { outage, mut remedy } = self.known_outage()?;
        if matches!(outage, Outage::MissingPrivilege | Outage::MissingTable)
            && let Ok(missing) = self.missing_grants().await
            && !missing.is_empty()
        {
            remedy = format!("{remedy}; run as the tables' owner: {}", missing.join("; "));
        }
        Some(match outage.stops_claims() {
            true => format!(
                "the database can't be used: {remedy}. No job is claimed and results wait in memory; work resumes without a restart"
            ),
            false => format!("the database can't be used in full: {remedy}"),
        })
    }

    /// Returns the statements that grant the role the privileges which it lacks on Gavel's tables; none on SQLite.
    ///
    /// # Errors
    /// `Unavailable` if the database doesn't answer.
    pub async fn missing_grants(&self) -> Result<Vec<String>, StoreError> {
        if self.dialect() == Dialect::Sqlite {
            return Ok(Vec::new());
        }
        let decode = |row: &DbRow| row.get("missing");
        self.db
            .read_all(grants::ATTEMPTED, &grants::statement(), decode)
            .await
    }

    /// Whether the database answers.
    ///
    /// # Errors
    /// `Unavailable` if it doesn't.
    pub async fn ping(&self) -> Result<(), StoreError> {
        let attempted = "asking whether the database answers";
        let sql = sql!("select 1 as one");
        let asked = self.db.read(attempted, &sql);
        match tokio::time::timeout(PING, asked).await {
            Ok(answered) => answered.map(drop),
            Err(_) => Err(StoreError::no_answer(
                attempted,
                format!("no answer within {} s", PING.as_secs()),
            )),
        }
    }

    /// The database's clock, by which workers are called alive or dead. `None`: SQLite has this machine's.
    ///
    /// # Errors
    /// `Unavailable` if it doesn't answer.
    pub async fn database_time(&self) -> Result<Option<DateTime<Utc>>, StoreError> {
        const ATTEMPTED: &str = "asking the database for its time";
        if self.dialect() == Dialect::Sqlite {
            return Ok(None);
        }
        let rows = self
            .db
            .read(ATTEMPTED, &sql!("select clock_timestamp() as at"))
            .await?;
        first(ATTEMPTED, &rows, |row| row.get("at"))
    }

    /// Writes what the flushers hold, ends their tasks and closes the pool. Later calls fail as unavailable.
    pub async fn close(&self) {
        self.closing.cancel();
        let tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        for task in tasks {
            if let Err(error) = task.await {
                tracing::error!(%error, "a task of the store panicked");
            }
        }
        self.claimer.close().await;
        self.rescuer.close().await;
        self.pulse.lock().await.close().await;
        self.db.close().await;
    }

    /// One connection, apart from the pools: a pooled one may remember statements of another schema.
    async fn migrating(&self) -> Result<Migrating, StoreError> {
        let opened = match &self.db {
            Db::Postgres { pool, address } => match pool.reserve().await {
                Ok(permit) => tokio::time::timeout(CONNECT, address.connect())
                    .await
                    .unwrap_or_else(|_| Err(timed_out("connecting")))
                    .map(|conn| Migrating::Postgres(Box::new(conn), permit)),
                Err(error) => Err(error),
            },
            Db::Sqlite {
                in_memory: true,
                write,
                ..
            } => write.acquire().await.map(Migrating::InMemory),
            Db::Sqlite { options, .. } => options
                .connect()
                .await
                .map(|c| Migrating::Sqlite(Box::new(c))),
        };
        opened.map_err(|e| StoreError::of("opening a connection for migrations", &e))
    }
}

/// The connection that migrations run on.
enum Migrating {
    Postgres(
        Box<PgConnection>,
        #[expect(dead_code, reason = "kept for as long as the connection")] ConnectionPermit,
    ),
    Sqlite(Box<SqliteConnection>),
    InMemory(PoolConnection<Sqlite>),
}

/// Asks on a session of the pool, which is kept if all went well.
async fn pending_on(pool: &Pool) -> sqlx::Result<Result<Vec<i64>, StoreError>> {
    let mut pooled = pool.take(Bound::Ordinary).await?;
    let (conn, state) = pooled.session()?.parts();
    let asking = async { Ok(migrations::pending(Dialect::Postgres, conn).await) };
    let pending = state.timed(asking).await?;
    if pending.is_err() {
        state.unfinished();
    }
    Ok(pending)
}

async fn answers(db: &Db) -> Result<(), StoreError> {
    let failed = |error| StoreError::of("connecting to the database", &error);
    if let Db::Postgres { address, .. } = db
        && pooler::shares_sessions(address).await.map_err(failed)?
    {
        return Err(StoreError::SharedSessions);
    }
    let mut conn = db.reader().await.map_err(failed)?;
    let answer = conn.fetch(&sql!("select 1 as one")).await;
    answer.map(drop).map_err(failed)
}
