use std::ops::DerefMut;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};
use sqlx::{ConnectOptions as _, SqliteConnection};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::budgets::Spent;
use super::calls::CallSender;
use super::calls::cache;
use super::calls::writer::{self, CallWriter};
use super::database::db::{Db, StoreOptions};
use super::database::grants;
use super::database::group::{self, Reader, Statements};
use super::database::last_outage::KnownOutage;
use super::database::migrations::{self, Change};
use super::database::pool::{Pool, Pooled};
use super::database::pooler;
use super::database::session::Purpose;
use super::database::sql::{Statement, sql, step};
use super::jobs::accept::{self, Accepting};
use super::jobs::claim::Claimer;
use super::jobs::record::Recording;
use super::jobs::recorder;
use super::jobs::rescue::LastScan;
use super::sessions::{self, facts};
use super::{Dialect, Outage, StoreError};

/// Short, because callers such as readiness probes time out after seconds.
const PING_TIMEOUT: Duration = Duration::from_secs(2);

/// Capacity of the channels for accepts and records; further callers wait.
const CHANNEL: usize = 1024;
/// Tasks that read in groups: while one reads, the other collects.
const READERS: usize = 2;
/// Delay between two tries to connect at start.
const CONNECT_RETRY_DELAY: Duration = Duration::from_millis(250);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolUse {
    pub in_use: usize,
    pub idle: usize,
}

pub struct Store {
    pub(super) db: Db,
    pub(super) accepter: mpsc::Sender<Accepting>,
    pub(super) recorder: mpsc::Sender<Recording>,
    pub(super) call_log: CallSender,
    pub(super) reader: Reader,
    pub(super) claimer: Claimer,
    pub(super) last_scan: LastScan,
    pub(super) spent: Spent,
    closing: CancellationToken,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl Store {
    /// Connects, trying for `connect_timeout`. Does not check the schema.
    ///
    /// # Errors
    /// `Unavailable` if the database couldn't be reached in time, or at once if it rejects the role. `Unexpected` for an
    /// invalid URL. `SharedSessions` behind an unsuitable pooler.
    pub async fn connect(options: StoreOptions) -> Result<Self, StoreError> {
        let db = Db::new(&options)?;
        let deadline = Instant::now() + options.connect_timeout;
        while let Err(error) = answers(&db).await {
            let passing = match &error {
                StoreError::Unavailable { outage, .. } => outage.is_transient(),
                StoreError::Schema(_)
                | StoreError::Unexpected { .. }
                | StoreError::SharedSessions
                | StoreError::BadCursor(_) => false,
            };
            if !passing || Instant::now() >= deadline {
                return Err(error);
            }
            tokio::time::sleep(CONNECT_RETRY_DELAY).await;
        }
        let closing = CancellationToken::new();
        let (accepter, accepts) = mpsc::channel(CHANNEL);
        let (recorder, records) = mpsc::channel(CHANNEL);
        let (call_log, logged) = CallSender::new();
        let (reader, reads) = Reader::new(CHANNEL);
        let reads = Arc::new(tokio::sync::Mutex::new(reads));
        let spent = Spent::default();
        let mut tasks = vec![
            tokio::spawn(accept::run(accepts, closing.clone(), db.clone())),
            tokio::spawn(recorder::run(records, closing.clone(), db.clone())),
            tokio::spawn(writer::run(
                CallWriter {
                    db: db.clone(),
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
        for _ in 0..READERS {
            let (reads, closing) = (Arc::clone(&reads), closing.clone());
            tasks.push(tokio::spawn(group::run(
                reads,
                closing,
                db.clone(),
                statements,
            )));
        }
        Ok(Self {
            claimer: Claimer::default(),
            last_scan: LastScan::default(),
            db,
            accepter,
            recorder,
            call_log,
            reader,
            spent,
            closing,
            tasks: Mutex::new(tasks),
        })
    }

    pub fn dialect(&self) -> Dialect {
        self.db.dialect()
    }

    /// Applies pending migrations; returns their versions, oldest first.
    ///
    /// # Errors
    /// `Schema` if a version fails, or the database was migrated by another binary.
    pub async fn migrate(&self) -> Result<Vec<i64>, StoreError> {
        let versions = self.change_schema(Change::Apply).await?;
        for version in &versions {
            tracing::debug!(version, "schema migrated");
        }
        Ok(versions)
    }

    /// Returns the newest applied version; 0 if there is none.
    ///
    /// # Errors
    /// `Schema` if the versions can't be read.
    pub async fn schema_version(&self) -> Result<i64, StoreError> {
        match &mut self.migrating().await? {
            Migrating::Postgres(pooled) => migrations::version(pooled.raw().map_err(lost)?).await,
            Migrating::Sqlite(conn) => migrations::version(&mut ***conn).await,
        }
    }

    /// Reverts the newest `n` migrations; returns their versions, newest first.
    ///
    /// # Errors
    /// `Schema` if a version fails.
    pub async fn revert(&self, n: u32) -> Result<Vec<i64>, StoreError> {
        self.change_schema(Change::Revert(n as usize)).await
    }

    async fn change_schema(&self, change: Change) -> Result<Vec<i64>, StoreError> {
        match &mut self.migrating().await? {
            Migrating::Postgres(pooled) => {
                migrations::change(Dialect::Postgres, pooled.raw().map_err(lost)?, change).await
            }
            Migrating::Sqlite(conn) => {
                migrations::change(Dialect::Sqlite, &mut ***conn, change).await
            }
        }
    }

    /// Returns the versions that are not applied.
    ///
    /// # Errors
    /// `Schema` if a version was applied with another text.
    pub async fn pending_migrations(&self) -> Result<Vec<i64>, StoreError> {
        let failed = |error| StoreError::of("listing pending migrations", &error);
        // On a connection of the pool, because probes call this often.
        match &self.db {
            Db::Postgres(pool) => pending_on(pool).await.map_err(failed)?,
            Db::Sqlite { read, .. } => {
                let mut conn = read.acquire().await.map_err(failed)?;
                migrations::pending(Dialect::Sqlite, &mut *conn).await
            }
        }
    }

    pub fn pool_use(&self) -> PoolUse {
        let (in_use, idle) = match &self.db {
            Db::Postgres(pool) => pool.in_use_and_idle(),
            Db::Sqlite { read, .. } => {
                let (open, idle) = (read.size() as usize, read.num_idle());
                (open.saturating_sub(idle), idle)
            }
        };
        PoolUse { in_use, idle }
    }

    /// Returns why the database can't be used, if a recent error requires an operator.
    pub fn known_outage(&self) -> Option<KnownOutage> {
        self.db.last_outage().current()
    }

    /// Returns cause and remedy of [`Store::known_outage`], with the missing grants.
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

    /// Returns the statements that grant the role its missing privileges on Gavel's tables; none on SQLite.
    ///
    /// # Errors
    /// `Unavailable` if the database is unavailable.
    pub async fn missing_grants(&self) -> Result<Vec<String>, StoreError> {
        self.read_catalog(&grants::statement()).await
    }

    /// Returns the sessions of other clients that lock Gavel's tables against writes; none on SQLite.
    ///
    /// # Errors
    /// `Unavailable` if the database is unavailable.
    pub async fn table_locks(&self) -> Result<Vec<String>, StoreError> {
        self.read_catalog(&grants::locks()).await
    }

    async fn read_catalog(&self, statement: &Statement) -> Result<Vec<String>, StoreError> {
        match self.dialect() {
            Dialect::Sqlite => Ok(Vec::new()),
            Dialect::Postgres => self.db.read_column(statement).await,
        }
    }

    /// Returns the id of this database; the first call creates it.
    ///
    /// # Errors
    /// `Unavailable` if the database is unavailable.
    pub async fn installation_id(&self) -> Result<Uuid, StoreError> {
        let known = sql!(
            "reading the installation's id",
            "insert into installation (installation_id) values ($1)
             on conflict (only_row) do update set only_row = excluded.only_row returning installation_id",
            Uuid::new_v4()
        );
        let id: Option<(Uuid,)> = self.db.write_one(&known).await?;
        id.map(|(id,)| id)
            .ok_or_else(|| StoreError::no_answer(known.name, "it was not stored"))
    }

    /// Checks that the database answers.
    ///
    /// # Errors
    /// `Unavailable` if it doesn't.
    pub async fn ping(&self) -> Result<(), StoreError> {
        let statement = sql!("checking the database connection", "select 1 as one");
        let asked = self.db.rows(&statement);
        match tokio::time::timeout(PING_TIMEOUT, asked).await {
            Ok(answered) => answered.map(drop),
            Err(_) => Err(StoreError::no_answer(
                statement.name,
                format!("no answer within {} s", PING_TIMEOUT.as_secs()),
            )),
        }
    }

    /// Returns the database's time, which decides whether workers are alive. `None` on SQLite, which uses this machine's clock.
    ///
    /// # Errors
    /// `Unavailable` if the database is unavailable.
    pub async fn database_time(&self) -> Result<Option<DateTime<Utc>>, StoreError> {
        if self.dialect() == Dialect::Sqlite {
            return Ok(None);
        }
        let statement = sql!(
            "reading the database's time",
            "select clock_timestamp() as at"
        );
        self.db.read_value(&statement).await
    }

    /// Writes all buffered data, ends the tasks and closes the pool. Later calls fail as unavailable.
    pub async fn close(&self) {
        self.closing.cancel();
        let tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        for task in tasks {
            if let Err(error) = task.await {
                tracing::error!(%error, "a task of the store panicked");
            }
        }
        self.db.close().await;
    }

    /// Returns a connection that isn't reused afterwards, because it may cache statements of another schema.
    async fn migrating(&self) -> Result<Migrating, StoreError> {
        let opened = match &self.db {
            Db::Postgres(pool) => pool.take(Purpose::Migrate).await.map(Migrating::Postgres),
            Db::Sqlite {
                in_memory: true,
                write,
                ..
            } => write
                .acquire()
                .await
                .map(|conn| Migrating::Sqlite(Box::new(conn))),
            Db::Sqlite { options, .. } => {
                let opened = options.connect().await;
                opened.map(|conn| Migrating::Sqlite(Box::new(Box::new(conn))))
            }
        };
        opened.map_err(lost)
    }
}

fn lost(error: sqlx::Error) -> StoreError {
    StoreError::of("opening a connection for migrations", &error)
}

enum Migrating {
    Postgres(Pooled),
    Sqlite(Box<dyn DerefMut<Target = SqliteConnection> + Send>),
}

/// Reads on a session of the pool, which is reused unless an error occurs.
async fn pending_on(pool: &Pool) -> sqlx::Result<Result<Vec<i64>, StoreError>> {
    let mut pooled = pool.take(Purpose::Any).await?;
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
    if let Db::Postgres(pool) = db
        && pool.max() > 1
        && pooler::shares_sessions(pool.address())
            .await
            .map_err(failed)?
    {
        return Err(StoreError::SharedSessions);
    }
    let mut conn = db.reader(Purpose::Any).await.map_err(failed)?;
    let answer = conn.fetch(&step!("select 1 as one")).await;
    answer.map(drop).map_err(failed)
}
