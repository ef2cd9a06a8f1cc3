//! Connections and transactions of both databases.

use sqlx::pool::PoolConnection;
use sqlx::{Executor as _, PgConnection, Postgres, Sqlite, SqliteConnection, Transaction};

use super::dialect::Dialect;
use super::last_outage::LastOutage;
use super::pool::Pooled;
use super::row::DbRow;
use super::session::State;
use super::sql::Sql;

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
