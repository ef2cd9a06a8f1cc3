//! The pools of either kind, and the connections that come from them.
//!
//! A statement that fails for a passing reason is tried once more by [`retry_once`]; nothing here retries longer than that.

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
use super::error::{StoreError, has_waited, is_passing, timed_out};
use super::last_outage::LastOutage;
use super::pool::{Pool, Pooled};
use super::session::{Purpose, State};
use super::sql::{DbRow, Sql, all};

/// How long a writer waits for SQLite's one writing connection, or for another process's lock.
const BUSY: Duration = Duration::from_secs(10);
/// How long one try of whatever is attempted may take before its connection is given up. Each statement has a bound of
/// its own, see [`Purpose`].
pub(in crate::store) const STATEMENT: Duration = Duration::from_secs(60);
/// The pause before the second try.
const PAUSE: Duration = Duration::from_millis(50);

/// How to open a store.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// `postgres://…`, `sqlite:///path/file.db` or `sqlite::memory:`.
    pub url: String,
    /// A file with the password of Postgres' role, read for each connection; in place of the address's.
    pub password_file: Option<PathBuf>,
    /// The most sessions with Postgres at once. On SQLite: connections that read.
    pub max_connections: u32,
    /// How long to keep trying to reach the database at start.
    pub connect_timeout: Duration,
}

/// The pools of one database.
#[derive(Clone)]
pub(in crate::store) enum Db {
    Postgres(Pool),
    Sqlite {
        /// One connection: SQLite has one writer.
        write: SqlitePool,
        /// The same pool for a database in memory.
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
            .busy_timeout(BUSY)
            .foreign_keys(true)
            // What is deleted leaves the file, and not its table alone.
            .pragma("secure_delete", "on")
            .disable_statement_logging();
        let pool = |connections: u32, options: SqliteConnectOptions| {
            SqlitePoolOptions::new()
                .max_connections(connections)
                .acquire_timeout(BUSY * 3)
                .idle_timeout(None)
                .max_lifetime(None)
                // A full disk ends a transaction by itself, and the driver goes on to think that it is open: nothing could be
                // begun on that connection any more.
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

    /// Runs a statement that only reads.
    pub(in crate::store) async fn read(
        &self,
        attempted: &'static str,
        sql: &Sql,
    ) -> Result<Vec<DbRow>, StoreError> {
        retry_once!(attempted, async { self.reader().await?.fetch(sql).await })
    }

    /// Runs a statement that only reads, and decodes its rows.
    pub(in crate::store) async fn read_all<T>(
        &self,
        attempted: &'static str,
        sql: &Sql,
        decode: impl Fn(&DbRow) -> sqlx::Result<T>,
    ) -> Result<Vec<T>, StoreError> {
        all(attempted, &self.read(attempted, sql).await?, decode)
    }

    /// Runs a statement that only reads, and may read many rows.
    pub(in crate::store) async fn read_long(
        &self,
        attempted: &'static str,
        sql: &Sql,
    ) -> Result<Vec<DbRow>, StoreError> {
        retry_once!(attempted, async {
            self.reader_for(Purpose::Many).await?.fetch(sql).await
        })
    }

    /// Runs a statement that writes; answers what it returns.
    pub(in crate::store) async fn write(
        &self,
        attempted: &'static str,
        sql: &Sql,
    ) -> Result<Vec<DbRow>, StoreError> {
        retry_once!(attempted, async { self.writer().await?.fetch(sql).await })
    }

    /// Runs a statement that writes many rows; answers what it returns.
    pub(in crate::store) async fn write_long(
        &self,
        attempted: &'static str,
        sql: &Sql,
    ) -> Result<Vec<DbRow>, StoreError> {
        retry_once!(attempted, async {
            self.long_writer().await?.fetch(sql).await
        })
    }

    /// Runs a statement that writes; answers how many rows it touched.
    pub(in crate::store) async fn execute(
        &self,
        attempted: &'static str,
        sql: &Sql,
    ) -> Result<u64, StoreError> {
        retry_once!(attempted, async { self.writer().await?.execute(sql).await })
    }

    /// Runs a statement that writes many rows; answers how many.
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

    /// For statements that may touch many rows.
    pub(in crate::store) async fn long_writer(&self) -> sqlx::Result<Conn> {
        self.writer_for(Purpose::Many).await
    }

    /// Takes a connection. Whoever has one takes no other: a process must work with one session.
    pub(in crate::store) async fn writer_for(&self, purpose: Purpose) -> sqlx::Result<Conn> {
        Ok(match self {
            Self::Postgres(pool) => Conn::Pooled(pool.take(purpose).await?),
            Self::Sqlite { write, outage, .. } => {
                Conn::Sqlite(write.acquire().await?, outage.clone())
            }
        })
    }

    /// Why the database can't be used, if that is known.
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

/// One connection, wherever it came from.
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

    /// Begins a transaction, which is rolled back when dropped. On SQLite it takes the write lock at once, since a
    /// transaction that reads first can't take it later without failing.
    pub(in crate::store) async fn begin(&mut self) -> sqlx::Result<Tx<'_>> {
        let session = match self {
            Self::Pooled(pooled) => pooled.session()?,
            Self::Sqlite(conn, outage) => {
                let begun = sqlx::Connection::begin_with(&mut **conn, "begin immediate").await;
                outage.heard(&begun);
                return Ok(Tx::Sqlite(begun?, outage));
            }
        };
        let (tx, state) = session.begin().await?;
        Ok(Tx::Postgres(tx, state))
    }
}

/// A transaction of either kind.
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
                outage.heard(&result);
                result
            }
        }
    }
}

enum Link<'c> {
    Postgres(&'c mut PgConnection, &'c mut State),
    Sqlite(&'c mut SqliteConnection, &'c LastOutage),
}

// Postgres goes by the connection's own methods: their futures are boxed, so that `timed` holds a pointer and no query.
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
                outage.heard(&result);
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
                outage.heard(&result);
                result?.rows_affected()
            }
        })
    }
}

/// Does something, and once more if it failed for a passing reason other than a long wait. Each try ends after [`STATEMENT`].
///
/// A macro, since a future that borrows can't be both made twice and proved `Send` today.
macro_rules! retry_once {
    ($attempted:expr, $work:expr) => {{
        let result = match $crate::store::database::db::within($work).await {
            Err(error)
                if $crate::store::database::db::worth_another_try($attempted, &error).await =>
            {
                $crate::store::database::db::within($work).await
            }
            other => other,
        };
        result.map_err(|error| $crate::store::StoreError::of($attempted, &error))
    }};
}
pub(in crate::store) use retry_once;

/// Whether an error may pass; if so, after the pause that it takes.
pub(in crate::store) async fn worth_another_try(
    attempted: &'static str,
    error: &sqlx::Error,
) -> bool {
    let worth =
        is_passing(error) && !has_waited(error) && !matches!(error, sqlx::Error::PoolClosed);
    if worth {
        tracing::debug!(attempted, %error, "a database statement failed, trying once more");
        tokio::time::sleep(PAUSE).await;
    }
    worth
}

/// Bounds one try in time; the future that is dropped takes its connection with it.
///
/// An `async fn` would hold `work` twice: as its argument, and in what it awaits.
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
    async fn a_statement_without_an_answer_ends_and_may_be_tried_again() {
        let never = std::future::pending::<sqlx::Result<()>>();
        let error = within(never).await.unwrap_err();
        assert!(crate::store::database::error::is_passing(&error), "{error}");
        assert!(error.to_string().contains("took too long"), "{error}");
    }

    #[test]
    fn a_statement_has_no_room_for_what_is_seldom_needed() {
        // Every future that asks the database holds this one.
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
    async fn a_full_disk_is_told_and_its_connection_is_of_use_again_when_there_is_room() {
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
        // As a disk that has room for so many pages.
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
        // A connection that is opened anew knows no such bound.
        run("insert into t values (zeroblob(1000000))")
            .await
            .unwrap();
        db.close().await;
    }
}
