//! Pools of both databases and their connections.
//!
//! [`retry_once`] repeats a statement after a transient error; this module doesn't retry longer.

use std::path::PathBuf;
use std::str::FromStr as _;
use std::time::Duration;

use futures::FutureExt as _;
use sqlx::pool::PoolConnection;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{
    ConnectOptions as _, Executor as _, PgConnection, Postgres, Sqlite, SqliteConnection,
    SqlitePool, Transaction,
};

use super::connect::PgAddress;
use super::dialect::Dialect;
use super::error::{StoreError, has_waited, is_transient, timed_out};
use super::last_outage::LastOutage;
use super::pool::{Pool, Pooled};
use super::session::{Purpose, State};
use super::sql::{DbRow, Sql, all};

/// Maximum wait for SQLite's writing connection, or for the lock of another process.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of one try of an operation. Each statement has its own timeout, see [`Purpose`].
pub(in crate::store) const STATEMENT: Duration = Duration::from_secs(60);
const RETRY_DELAY: Duration = Duration::from_millis(50);

#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// `postgres://…`, `sqlite:///path/file.db` or `sqlite::memory:`.
    pub url: String,
    /// File with the password of the Postgres role, read for each connection; overrides the URL's password.
    pub password_file: Option<PathBuf>,
    /// Maximum number of sessions with Postgres; on SQLite, of reading connections.
    pub max_connections: u32,
    /// Duration of retries to connect at start.
    pub connect_timeout: Duration,
}

#[derive(Clone)]
pub(in crate::store) enum Db {
    Postgres(Pool),
    Sqlite {
        /// One connection, because SQLite has one writer.
        write: SqlitePool,
        /// The same pool as `write` for a database in memory.
        read: SqlitePool,
        options: Box<SqliteConnectOptions>,
        in_memory: bool,
        outage: LastOutage,
    },
}

impl Db {
    pub(in crate::store) fn new(options: &StoreOptions) -> Result<Self, StoreError> {
        let url = options.url.as_str();
        if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            let address =
                PgAddress::new(url, options.password_file.clone()).map_err(|e| bad_url(&e))?;
            return Ok(Self::Postgres(Pool::new(address, options.max_connections)));
        }
        let in_memory = url.contains(":memory:") || url.contains("mode=memory");
        let connect = SqliteConnectOptions::from_str(url)
            .map_err(|e| bad_url(&e))?
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(BUSY_TIMEOUT)
            .foreign_keys(true)
            // Overwrites deleted data in the file.
            .pragma("secure_delete", "on")
            .disable_statement_logging();
        let pool = |connections: u32, options: SqliteConnectOptions| {
            SqlitePoolOptions::new()
                .max_connections(connections)
                .acquire_timeout(BUSY_TIMEOUT * 3)
                .idle_timeout(None)
                .max_lifetime(None)
                // A full disk ends a transaction while the driver considers it open, so that no other could be started on this
                // connection.
                .before_acquire(|conn, _| {
                    Box::pin(async { Ok(!sqlx::Connection::is_in_transaction(conn)) })
                })
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
            outage: LastOutage::default(),
        })
    }

    pub(in crate::store) fn dialect(&self) -> Dialect {
        match self {
            Self::Postgres(_) => Dialect::Postgres,
            Self::Sqlite { .. } => Dialect::Sqlite,
        }
    }

    pub(in crate::store) async fn read(
        &self,
        attempted: &'static str,
        sql: &Sql,
    ) -> Result<Vec<DbRow>, StoreError> {
        retry_once!(attempted, async { self.reader().await?.fetch(sql).await })
    }

    /// Runs a reading statement and decodes its rows.
    pub(in crate::store) async fn read_all<T>(
        &self,
        attempted: &'static str,
        sql: &Sql,
        decode: impl Fn(&DbRow) -> sqlx::Result<T>,
    ) -> Result<Vec<T>, StoreError> {
        all(attempted, &self.read(attempted, sql).await?, decode)
    }

    /// Runs a reading statement that may read many rows.
    pub(in crate::store) async fn read_long(
        &self,
        attempted: &'static str,
        sql: &Sql,
    ) -> Result<Vec<DbRow>, StoreError> {
        retry_once!(attempted, async {
            self.reader_for(Purpose::Many).await?.fetch(sql).await
        })
    }

    /// Runs a writing statement; returns its rows.
    pub(in crate::store) async fn write(
        &self,
        attempted: &'static str,
        sql: &Sql,
    ) -> Result<Vec<DbRow>, StoreError> {
        retry_once!(attempted, async { self.writer().await?.fetch(sql).await })
    }

    /// Runs a statement that writes many rows; returns its rows.
    pub(in crate::store) async fn write_long(
        &self,
        attempted: &'static str,
        sql: &Sql,
    ) -> Result<Vec<DbRow>, StoreError> {
        retry_once!(attempted, async {
            self.long_writer().await?.fetch(sql).await
        })
    }

    /// Runs a writing statement; returns the number of rows.
    pub(in crate::store) async fn execute(
        &self,
        attempted: &'static str,
        sql: &Sql,
    ) -> Result<u64, StoreError> {
        retry_once!(attempted, async { self.writer().await?.execute(sql).await })
    }

    /// Runs a statement that writes many rows; returns their number.
    pub(in crate::store) async fn execute_long(
        &self,
        attempted: &'static str,
        sql: &Sql,
    ) -> Result<u64, StoreError> {
        retry_once!(attempted, async {
            self.long_writer().await?.execute(sql).await
        })
    }

    pub(in crate::store) async fn reader(&self) -> sqlx::Result<Conn> {
        self.reader_for(Purpose::Any).await
    }

    async fn reader_for(&self, purpose: Purpose) -> sqlx::Result<Conn> {
        match self {
            Self::Sqlite { read, outage, .. } => {
                Ok(Conn::Sqlite(read.acquire().await?, outage.clone()))
            }
            Self::Postgres(_) => self.writer_for(purpose).await,
        }
    }

    pub(in crate::store) async fn writer(&self) -> sqlx::Result<Conn> {
        self.writer_for(Purpose::Any).await
    }

    /// For statements that may write many rows.
    pub(in crate::store) async fn long_writer(&self) -> sqlx::Result<Conn> {
        self.writer_for(Purpose::Many).await
    }

    /// Acquires a connection. A caller must not take a second one, because a process must work with one session.
    pub(in crate::store) async fn writer_for(&self, purpose: Purpose) -> sqlx::Result<Conn> {
        Ok(match self {
            Self::Postgres(pool) => Conn::Pooled(pool.take(purpose).await?),
            Self::Sqlite { write, outage, .. } => {
                Conn::Sqlite(write.acquire().await?, outage.clone())
            }
        })
    }

    pub(in crate::store) fn last_outage(&self) -> &LastOutage {
        match self {
            Self::Postgres(pool) => pool.last_outage(),
            Self::Sqlite { outage, .. } => outage,
        }
    }

    pub(in crate::store) async fn close(&self) {
        match self {
            Self::Postgres(pool) => pool.close().await,
            Self::Sqlite { write, read, .. } => {
                read.close().await;
                write.close().await;
            }
        }
    }
}

pub(in crate::store) enum Conn {
    Pooled(Pooled),
    Sqlite(PoolConnection<Sqlite>, LastOutage),
}

impl Conn {
    pub(in crate::store) fn dialect(&self) -> Dialect {
        match self {
            Self::Pooled(_) => Dialect::Postgres,
            Self::Sqlite(..) => Dialect::Sqlite,
        }
    }

    fn link(&mut self) -> sqlx::Result<Link<'_>> {
        let session = match self {
            Self::Pooled(pooled) => pooled.session()?,
            Self::Sqlite(conn, outage) => return Ok(Link::Sqlite(conn, outage)),
        };
        let (conn, state) = session.parts();
        Ok(Link::Postgres(conn, state))
    }

    pub(in crate::store) async fn fetch(&mut self, sql: &Sql) -> sqlx::Result<Vec<DbRow>> {
        self.link()?.fetch(sql).await
    }

    pub(in crate::store) async fn execute(&mut self, sql: &Sql) -> sqlx::Result<u64> {
        self.link()?.execute(sql).await
    }

    /// Starts a transaction, which is rolled back when dropped. On SQLite it locks at once, because a transaction that has read
    /// may fail to get the write lock later.
    pub(in crate::store) async fn begin(&mut self) -> sqlx::Result<Tx<'_>> {
        let session = match self {
            Self::Pooled(pooled) => pooled.session()?,
            Self::Sqlite(conn, outage) => {
                let begun = sqlx::Connection::begin_with(&mut **conn, "begin immediate").await;
                outage.record(&begun);
                return Ok(Tx::Sqlite(begun?, outage));
            }
        };
        let (tx, state) = session.begin().await?;
        Ok(Tx::Postgres(tx, state))
    }
}

pub(in crate::store) enum Tx<'c> {
    Postgres(Transaction<'c, Postgres>, &'c mut State),
    Sqlite(Transaction<'c, Sqlite>, &'c LastOutage),
}

impl Tx<'_> {
    pub(in crate::store) fn dialect(&self) -> Dialect {
        match self {
            Self::Postgres(..) => Dialect::Postgres,
            Self::Sqlite(..) => Dialect::Sqlite,
        }
    }

    fn link(&mut self) -> Link<'_> {
        match self {
            Self::Postgres(tx, state) => Link::Postgres(tx, state),
            Self::Sqlite(tx, outage) => Link::Sqlite(tx, outage),
        }
    }

    fn still_open(&mut self) {
        if let Self::Postgres(_, state) = self {
            state.unfinished();
        }
    }

    pub(in crate::store) async fn fetch(&mut self, sql: &Sql) -> sqlx::Result<Vec<DbRow>> {
        let result = self.link().fetch(sql).await;
        self.still_open();
        result
    }

    pub(in crate::store) async fn execute(&mut self, sql: &Sql) -> sqlx::Result<u64> {
        let result = self.link().execute(sql).await;
        self.still_open();
        result
    }

    pub(in crate::store) async fn commit(self) -> sqlx::Result<()> {
        match self {
            Self::Postgres(tx, state) => {
                let result = state.timed(tx.commit()).await;
                if result.is_err() {
                    state.unfinished();
                }
                result
            }
            Self::Sqlite(tx, outage) => {
                let result = tx.commit().await;
                outage.record(&result);
                result
            }
        }
    }
}

enum Link<'c> {
    Postgres(&'c mut PgConnection, &'c mut State),
    Sqlite(&'c mut SqliteConnection, &'c LastOutage),
}

// Calls the connection's own methods on Postgres, whose futures are boxed, so that `timed` contains a pointer only.
impl Link<'_> {
    async fn fetch(self, sql: &Sql) -> sqlx::Result<Vec<DbRow>> {
        Ok(match self {
            Self::Postgres(conn, state) => state
                .timed(conn.fetch_all(sql.postgres()))
                .await?
                .into_iter()
                .map(DbRow::Postgres)
                .collect(),
            Self::Sqlite(conn, outage) => {
                let result = sql.sqlite().fetch_all(conn).await;
                outage.record(&result);
                result?.into_iter().map(DbRow::Sqlite).collect()
            }
        })
    }

    async fn execute(self, sql: &Sql) -> sqlx::Result<u64> {
        Ok(match self {
            Self::Postgres(conn, state) => state
                .timed(conn.execute(sql.postgres()))
                .await?
                .rows_affected(),
            Self::Sqlite(conn, outage) => {
                let result = sql.sqlite().execute(conn).await;
                outage.record(&result);
                result?.rows_affected()
            }
        })
    }
}

/// Runs an operation, and once more after a transient error that isn't a timeout. Each try ends after [`STATEMENT`].
///
/// A macro, because a borrowing future can't be created twice and be `Send` at the same time.
macro_rules! retry_once {
    ($attempted:expr, $work:expr) => {{
        let result = match $crate::store::database::db::within($work).await {
            Err(error) if $crate::store::database::db::retries_after($attempted, &error).await => {
                $crate::store::database::db::within($work).await
            }
            other => other,
        };
        result.map_err(|error| $crate::store::StoreError::of($attempted, &error))
    }};
}
pub(in crate::store) use retry_once;

/// Returns whether the error is transient, after the retry delay.
pub(in crate::store) async fn retries_after(attempted: &'static str, error: &sqlx::Error) -> bool {
    let worth =
        is_transient(error) && !has_waited(error) && !matches!(error, sqlx::Error::PoolClosed);
    if worth {
        tracing::debug!(attempted, %error, "database statement failed, retrying once");
        tokio::time::sleep(RETRY_DELAY).await;
    }
    worth
}

/// Limits the duration of one try. Dropping the future drops its connection.
///
/// Not an `async fn`, which would store `work` in two places.
pub(in crate::store) fn within<T>(
    work: impl Future<Output = sqlx::Result<T>>,
) -> impl Future<Output = sqlx::Result<T>> {
    tokio::time::timeout(STATEMENT, work)
        .map(|ended| ended.unwrap_or_else(|_| Err(timed_out("waiting for the database"))))
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
    use crate::store::database::sql::sql;

    #[tokio::test(start_paused = true)]
    async fn unanswered_statement_times_out_as_transient() {
        let never = std::future::pending::<sqlx::Result<()>>();
        let error = within(never).await.unwrap_err();
        assert!(
            crate::store::database::error::is_transient(&error),
            "{error}"
        );
        assert!(error.to_string().contains("took too long"), "{error}");
    }

    #[test]
    fn statement_futures_stay_small() {
        // Every future that uses the database contains this one.
        let options = StoreOptions {
            url: "postgres://nobody@127.0.0.1/none".to_owned(),
            password_file: None,
            max_connections: 1,
            connect_timeout: Duration::from_secs(5),
        };
        let db = Db::new(&options).unwrap();
        let bytes = size_of_val(&db.read("reading", &sql!("select 1")));
        assert!(bytes < 2_048, "{bytes}");
    }

    #[tokio::test]
    async fn connection_recovers_from_a_full_disk() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("full.db");
        let options = StoreOptions {
            url: format!("sqlite://{}", file.display()),
            password_file: None,
            max_connections: 1,
            connect_timeout: Duration::from_secs(5),
        };
        let db = Db::new(&options).unwrap();
        let run = async |text: &'static str| {
            let mut conn = db.writer().await?;
            let mut tx = conn.begin().await?;
            tx.execute(&sql!(text)).await?;
            tx.commit().await
        };
        run("create table t (filler blob)").await.unwrap();
        assert_eq!(db.last_outage().current(), None);
        // Simulates a disk with room for this number of pages.
        let mut conn = db.writer().await.unwrap();
        conn.fetch(&sql!("pragma max_page_count = 10"))
            .await
            .unwrap();
        drop(conn);
        let error = run("insert into t values (zeroblob(1000000))")
            .await
            .unwrap_err();
        let told = StoreError::of("filling it", &error);
        let outage = crate::store::Outage::StorageFull;
        assert!(
            matches!(told, StoreError::Unavailable { outage: it, .. } if it == outage),
            "{told}"
        );
        assert_eq!(db.last_outage().current().map(|it| it.outage), Some(outage));
        // A new connection has no such limit.
        run("insert into t values (zeroblob(1000000))")
            .await
            .unwrap();
        db.close().await;
    }
}
