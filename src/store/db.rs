//! The pools of either kind, and the connections that flushers keep for themselves.
//!
//! A statement that fails for a passing reason is tried once more by [`twice`]; nothing here retries longer than that.

use std::str::FromStr as _;
use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{
    ConnectOptions as _, Connection as _, PgConnection, PgPool, Postgres, Sqlite, SqliteConnection,
    SqlitePool, Transaction,
};

use super::error::is_passing;
use super::sql::{Row, Sql};
use super::{StoreError, StoreOptions};

/// Which database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// Postgres 13 or newer.
    Postgres,
    /// SQLite, embedded.
    Sqlite,
}

impl Dialect {
    /// What asks how a statement would be run, and the column of the answer's lines.
    pub(super) fn explain(self) -> (&'static str, &'static str) {
        match self {
            Self::Postgres => ("explain ", "QUERY PLAN"),
            Self::Sqlite => ("explain query plan ", "detail"),
        }
    }
}

/// How long a writer waits for SQLite's one writing connection, or for another process's lock.
const BUSY: Duration = Duration::from_secs(10);
/// How long a statement waits for a connection of the general pool.
const ACQUIRE: Duration = Duration::from_secs(2);
/// How long a pooled connection that was used is believed to be alive.
const TRUSTED: Duration = Duration::from_millis(500);
/// How long one statement, or one group's transaction, may take before its connection is given up.
pub(super) const STATEMENT: Duration = Duration::from_secs(60);
/// The pause before the second try.
const PAUSE: Duration = Duration::from_millis(50);

/// The pools of one database.
#[derive(Clone)]
pub(super) enum Db {
    Postgres {
        pool: PgPool,
        options: Box<PgConnectOptions>,
    },
    Sqlite {
        /// One connection: SQLite has one writer.
        write: SqlitePool,
        /// The same pool for a database in memory.
        read: SqlitePool,
        options: Box<SqliteConnectOptions>,
        in_memory: bool,
    },
}

impl Db {
    pub(super) fn new(options: &StoreOptions) -> Result<Self, StoreError> {
        let url = options.url.as_str();
        if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            let connect = PgConnectOptions::from_str(url)
                .map_err(|e| bad_url(&e))?
                .application_name("gavel")
                // A switched-off sequential scan looks so dear that Postgres would compile the plan of a query over
                // three rows, for 60 ms.
                .options([("jit", "off")])
                .disable_statement_logging();
            let pool = PgPoolOptions::new()
                .max_connections(options.max_connections.max(1))
                .acquire_timeout(ACQUIRE)
                // A connection that answered a moment ago is not asked whether it lives: under load that would be a
                // round trip for each statement, and a statement that fails for a lost connection is tried twice.
                .test_before_acquire(false)
                .before_acquire(|conn, known| {
                    Box::pin(
                        async move { Ok(known.idle_for < TRUSTED || conn.ping().await.is_ok()) },
                    )
                })
                .connect_lazy_with(connect.clone());
            return Ok(Self::Postgres {
                pool,
                options: Box::new(connect),
            });
        }
        let in_memory = url.contains(":memory:") || url.contains("mode=memory");
        let connect = SqliteConnectOptions::from_str(url)
            .map_err(|e| bad_url(&e))?
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(BUSY)
            .foreign_keys(true)
            .disable_statement_logging();
        let pool = |connections: u32, options: SqliteConnectOptions| {
            SqlitePoolOptions::new()
                .max_connections(connections)
                .acquire_timeout(BUSY * 3)
                .idle_timeout(None)
                .max_lifetime(None)
                .connect_lazy_with(options)
        };
        let write = pool(1, connect.clone());
        let read = if in_memory {
            write.clone()
        } else {
            pool(options.max_connections.max(1), connect.clone())
        };
        Ok(Self::Sqlite {
            write,
            read,
            options: Box::new(connect),
            in_memory,
        })
    }

    pub(super) fn dialect(&self) -> Dialect {
        match self {
            Self::Postgres { .. } => Dialect::Postgres,
            Self::Sqlite { .. } => Dialect::Sqlite,
        }
    }

    /// Runs a statement that only reads.
    pub(super) async fn read(
        &self,
        attempted: &'static str,
        sql: &Sql,
    ) -> Result<Vec<Row>, StoreError> {
        twice!(attempted, async { self.reader().await?.fetch(sql).await })
    }

    /// Runs a statement that writes; answers what it returns.
    pub(super) async fn write(
        &self,
        attempted: &'static str,
        sql: &Sql,
    ) -> Result<Vec<Row>, StoreError> {
        twice!(attempted, async { self.writer().await?.fetch(sql).await })
    }

    /// Runs a statement that writes; answers how many rows it touched.
    pub(super) async fn execute(
        &self,
        attempted: &'static str,
        sql: &Sql,
    ) -> Result<u64, StoreError> {
        twice!(attempted, async { self.writer().await?.execute(sql).await })
    }

    pub(super) async fn reader(&self) -> sqlx::Result<Conn> {
        Ok(match self {
            Self::Postgres { pool, .. } => {
                Conn::Pooled(pool.acquire().await.map_err(broken_greeting)?)
            }
            Self::Sqlite { read, .. } => Conn::Sqlite(read.acquire().await?),
        })
    }

    pub(super) async fn writer(&self) -> sqlx::Result<Conn> {
        Ok(match self {
            Self::Postgres { pool, .. } => {
                Conn::Pooled(pool.acquire().await.map_err(broken_greeting)?)
            }
            Self::Sqlite { write, .. } => Conn::Sqlite(write.acquire().await?),
        })
    }

    pub(super) async fn close(&self) {
        match self {
            Self::Postgres { pool, .. } => pool.close().await,
            Self::Sqlite { write, read, .. } => {
                read.close().await;
                write.close().await;
            }
        }
    }
}

/// One connection, wherever it came from.
pub(super) enum Conn {
    Own(Box<PgConnection>),
    Pooled(PoolConnection<Postgres>),
    Sqlite(PoolConnection<Sqlite>),
}

impl Conn {
    fn link(&mut self) -> Link<'_> {
        match self {
            Self::Own(conn) => Link::Postgres(conn),
            Self::Pooled(conn) => Link::Postgres(conn),
            Self::Sqlite(conn) => Link::Sqlite(conn),
        }
    }

    pub(super) async fn fetch(&mut self, sql: &Sql) -> sqlx::Result<Vec<Row>> {
        self.link().fetch(sql).await
    }

    pub(super) async fn execute(&mut self, sql: &Sql) -> sqlx::Result<u64> {
        self.link().execute(sql).await
    }

    /// Begins a transaction, which is rolled back when dropped. On SQLite it takes the write lock at once, since a
    /// transaction that reads first can't take it later without failing.
    pub(super) async fn begin(&mut self) -> sqlx::Result<Tx<'_>> {
        Ok(match self {
            Self::Own(conn) => Tx::Postgres(conn.begin().await?),
            Self::Pooled(conn) => Tx::Postgres(sqlx::Connection::begin(&mut **conn).await?),
            Self::Sqlite(conn) => {
                Tx::Sqlite(sqlx::Connection::begin_with(&mut **conn, "begin immediate").await?)
            }
        })
    }
}

/// A transaction of either kind.
pub(super) enum Tx<'c> {
    Postgres(Transaction<'c, Postgres>),
    Sqlite(Transaction<'c, Sqlite>),
}

impl Tx<'_> {
    pub(super) fn dialect(&self) -> Dialect {
        match self {
            Self::Postgres(_) => Dialect::Postgres,
            Self::Sqlite(_) => Dialect::Sqlite,
        }
    }

    fn link(&mut self) -> Link<'_> {
        match self {
            Self::Postgres(tx) => Link::Postgres(tx),
            Self::Sqlite(tx) => Link::Sqlite(tx),
        }
    }

    pub(super) async fn fetch(&mut self, sql: &Sql) -> sqlx::Result<Vec<Row>> {
        self.link().fetch(sql).await
    }

    pub(super) async fn execute(&mut self, sql: &Sql) -> sqlx::Result<u64> {
        self.link().execute(sql).await
    }

    pub(super) async fn commit(self) -> sqlx::Result<()> {
        match self {
            Self::Postgres(tx) => tx.commit().await,
            Self::Sqlite(tx) => tx.commit().await,
        }
    }
}

enum Link<'c> {
    Postgres(&'c mut PgConnection),
    Sqlite(&'c mut SqliteConnection),
}

impl Link<'_> {
    async fn fetch(self, sql: &Sql) -> sqlx::Result<Vec<Row>> {
        Ok(match self {
            Self::Postgres(conn) => sql
                .postgres()
                .fetch_all(conn)
                .await?
                .into_iter()
                .map(Row::Postgres)
                .collect(),
            Self::Sqlite(conn) => sql
                .sqlite()
                .fetch_all(conn)
                .await?
                .into_iter()
                .map(Row::Sqlite)
                .collect(),
        })
    }

    async fn execute(self, sql: &Sql) -> sqlx::Result<u64> {
        Ok(match self {
            Self::Postgres(conn) => sql.postgres().execute(conn).await?.rows_affected(),
            Self::Sqlite(conn) => sql.sqlite().execute(conn).await?.rows_affected(),
        })
    }
}

/// Does something, and once more if it failed for a passing reason. Each try ends after [`STATEMENT`].
///
/// A macro, since a future that borrows can't be both made twice and proved `Send` today.
macro_rules! twice {
    ($attempted:expr, $work:expr) => {{
        let result = match $crate::store::db::within($work).await {
            Err(error) if $crate::store::db::worth_another_try($attempted, &error).await => {
                $crate::store::db::within($work).await
            }
            other => other,
        };
        result.map_err(|error| $crate::store::StoreError::of($attempted, &error))
    }};
}
pub(super) use twice;

/// Whether an error may pass; if so, after the pause that it takes.
pub(super) async fn worth_another_try(attempted: &'static str, error: &sqlx::Error) -> bool {
    let worth = is_passing(error) && !matches!(error, sqlx::Error::PoolClosed);
    if worth {
        tracing::debug!(attempted, %error, "a database statement failed, trying once more");
        tokio::time::sleep(PAUSE).await;
    }
    worth
}

/// Opens a connection of its own, once.
pub(super) async fn connect(options: PgConnectOptions) -> sqlx::Result<Conn> {
    let conn = tokio::time::timeout(ACQUIRE, options.connect())
        .await
        .map_err(|_| timed_out("connecting"))?
        .map_err(broken_greeting)?;
    Ok(Conn::Own(Box::new(conn)))
}

/// Bounds one try in time; the future that is dropped takes its connection with it.
pub(super) async fn within<T>(work: impl Future<Output = sqlx::Result<T>>) -> sqlx::Result<T> {
    tokio::time::timeout(STATEMENT, work)
        .await
        .unwrap_or_else(|_| Err(timed_out("waiting for the database")))
}

fn timed_out(what: &str) -> sqlx::Error {
    sqlx::Error::Io(std::io::Error::new(
        std::io::ErrorKind::TimedOut,
        format!("{what} took too long"),
    ))
}

/// A greeting that breaks off: a proxy without its server says so in this way. It passes like any lost connection.
fn broken_greeting(error: sqlx::Error) -> sqlx::Error {
    if let sqlx::Error::Protocol(text) = error {
        return sqlx::Error::Io(std::io::Error::other(text));
    }
    error
}

fn bad_url(error: &sqlx::Error) -> StoreError {
    StoreError::Unexpected {
        attempted: "reading the database url",
        reason: error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_statement_without_an_answer_ends_and_may_be_tried_again() {
        let never = std::future::pending::<sqlx::Result<()>>();
        let error = within(never).await.unwrap_err();
        assert!(super::super::error::is_passing(&error), "{error}");
        assert!(error.to_string().contains("took too long"), "{error}");
    }

    #[test]
    fn a_greeting_that_breaks_off_passes_and_other_errors_stay_what_they_are() {
        let broken = broken_greeting(sqlx::Error::Protocol("early eof".to_owned()));
        assert!(matches!(broken, sqlx::Error::Io(_)), "{broken}");
        let other = broken_greeting(sqlx::Error::RowNotFound);
        assert!(matches!(other, sqlx::Error::RowNotFound), "{other}");
    }
}
