//! Pools of both databases and their connections.
//!
//! [`retry_once`] repeats a statement after a transient error; this module doesn't retry longer.

use std::path::PathBuf;
use std::str::FromStr as _;
use std::time::Duration;

use futures::FutureExt as _;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions as _, SqlitePool};

use super::conn::Conn;
use super::connect::PgAddress;
use super::dialect::Dialect;
use super::error::{StoreError, has_waited, is_transient, timed_out};
use super::last_outage::LastOutage;
use super::pool::Pool;
use super::row::{DbRow, Decoded, Field, column, decoded, first};
use super::session::Purpose;
use super::sql::Statement;

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

    /// Runs a reading statement and decodes its rows.
    pub(in crate::store) async fn read<T: Decoded>(
        &self,
        statement: &Statement,
    ) -> Result<Vec<T>, StoreError> {
        statement.decode(&self.rows(statement).await?)
    }

    /// Runs a reading statement and decodes its rows by a function, for types of other crates.
    pub(in crate::store) async fn read_with<T>(
        &self,
        statement: &Statement,
        decode: impl Fn(&DbRow) -> sqlx::Result<T>,
    ) -> Result<Vec<T>, StoreError> {
        let rows = self.rows(statement).await?;
        let decoded: sqlx::Result<_> = rows.iter().map(decode).collect();
        decoded.map_err(|error| statement.error(&error))
    }

    /// Runs a reading statement and decodes its first row, if there is one.
    pub(in crate::store) async fn read_one<T: Decoded>(
        &self,
        statement: &Statement,
    ) -> Result<Option<T>, StoreError> {
        statement.decode_first(&self.rows(statement).await?)
    }

    /// Runs a reading statement and decodes its only column.
    pub(in crate::store) async fn read_column<T: Field, C: FromIterator<T>>(
        &self,
        statement: &Statement,
    ) -> Result<C, StoreError>
    where
        (T,): Decoded,
    {
        let rows = self.rows(statement).await?;
        column(&rows).map_err(|error| statement.error(&error))
    }

    /// Runs a reading statement and decodes the only column of its first row, if there is one.
    pub(in crate::store) async fn read_value<T: Field>(
        &self,
        statement: &Statement,
    ) -> Result<Option<T>, StoreError>
    where
        (T,): Decoded,
    {
        Ok(self.read_one::<(T,)>(statement).await?.map(|one| one.0))
    }

    /// Runs a reading statement that counts rows.
    pub(in crate::store) async fn count(&self, statement: &Statement) -> Result<u64, StoreError> {
        let count = self.read_value::<i64>(statement).await?;
        Ok(count.unwrap_or_default().unsigned_abs())
    }

    /// Runs a reading statement; returns its rows.
    pub(in crate::store) async fn rows(
        &self,
        statement: &Statement,
    ) -> Result<Vec<DbRow>, StoreError> {
        retry_once!(statement.name, async {
            self.reader(statement.purpose).await?.fetch(statement).await
        })
    }

    /// Returns the plan of a statement, for tests. Doesn't run it.
    pub(in crate::store) async fn explain(
        &self,
        statement: Statement,
    ) -> Result<Vec<String>, StoreError> {
        let (prefix, plan) = self.dialect().explain();
        let statement = statement.with_prefix(prefix);
        let rows = self.written(&statement).await?;
        let lines: sqlx::Result<_> = rows.iter().map(|row| row.get(plan)).collect();
        lines.map_err(|error| statement.error(&error))
    }

    /// Runs a writing statement and decodes the rows that it returns.
    pub(in crate::store) async fn write<T: Decoded>(
        &self,
        statement: &Statement,
    ) -> Result<Vec<T>, StoreError> {
        statement.decode(&self.written(statement).await?)
    }

    /// Runs a writing statement and decodes the first row that it returns, if there is one.
    pub(in crate::store) async fn write_one<T: Decoded>(
        &self,
        statement: &Statement,
    ) -> Result<Option<T>, StoreError> {
        statement.decode_first(&self.written(statement).await?)
    }

    /// Runs a writing statement; returns its rows.
    pub(in crate::store) async fn written(
        &self,
        statement: &Statement,
    ) -> Result<Vec<DbRow>, StoreError> {
        retry_once!(statement.name, async {
            self.writer(statement.purpose).await?.fetch(statement).await
        })
    }

    /// Runs a writing statement; returns the number of rows that it changed.
    pub(in crate::store) async fn execute(&self, statement: &Statement) -> Result<u64, StoreError> {
        retry_once!(statement.name, async {
            self.writer(statement.purpose)
                .await?
                .execute(statement)
                .await
        })
    }

    pub(in crate::store) async fn reader(&self, purpose: Purpose) -> sqlx::Result<Conn> {
        match self {
            Self::Sqlite { read, outage, .. } => {
                Ok(Conn::Sqlite(read.acquire().await?, outage.clone()))
            }
            Self::Postgres(_) => self.writer(purpose).await,
        }
    }

    /// Acquires a connection. A caller must not take a second one, because a process must work with one session.
    pub(in crate::store) async fn writer(&self, purpose: Purpose) -> sqlx::Result<Conn> {
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

impl Statement {
    fn decode<T: Decoded>(&self, rows: &[DbRow]) -> Result<Vec<T>, StoreError> {
        decoded(rows).map_err(|error| self.error(&error))
    }

    fn decode_first<T: Decoded>(&self, rows: &[DbRow]) -> Result<Option<T>, StoreError> {
        first(rows).map_err(|error| self.error(&error))
    }

    pub(in crate::store) fn error(&self, error: &sqlx::Error) -> StoreError {
        StoreError::of(self.name, error)
    }
}

/// Runs an operation and retries it once after a transient error that isn't a timeout. Each try ends after [`STATEMENT`].
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

/// `transact!(db, "storing sessions", |tx| { .. })`: runs a block in a transaction and commits it, with one retry as
/// [`retry_once`]. Returns the block's value. An early `return` rolls the transaction back.
macro_rules! transact {
    ($db:expr, $attempted:expr, |$tx:ident| $work:expr) => {
        $crate::store::database::db::transact!(
            $db,
            $attempted,
            $crate::store::database::session::Purpose::Many,
            |$tx| $work
        )
    };
    ($db:expr, $attempted:expr, $purpose:expr, |$tx:ident| $work:expr) => {
        $crate::store::database::db::retry_once!($attempted, async {
            let mut conn: $crate::store::database::conn::Conn = $db.writer($purpose).await?;
            let mut $tx = conn.begin().await?;
            let done = $work;
            $tx.commit().await?;
            Ok(done)
        })
    };
}
pub(in crate::store) use transact;

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
    use crate::store::database::sql::{sql, step};

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
        let bytes = size_of_val(&db.read::<(i64,)>(&sql!("reading", "select 1")));
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
            let mut conn = db.writer(Purpose::Any).await?;
            let mut tx = conn.begin().await?;
            tx.execute(&step!(text)).await?;
            tx.commit().await
        };
        run("create table t (filler blob)").await.unwrap();
        assert_eq!(db.last_outage().current(), None);
        // Simulates a disk with room for this number of pages.
        let mut conn = db.writer(Purpose::Any).await.unwrap();
        conn.fetch(&step!("pragma max_page_count = 10"))
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
