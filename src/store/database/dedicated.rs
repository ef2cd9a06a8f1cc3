//! The connections that flushers keep for themselves.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::db::{Conn, Db};
use super::pool::{Bound, ConnectionPermit};
use super::sql::sql;

/// How durable a connection's commits are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum Durability {
    /// A commit is on the disk when it is answered.
    Full,
    /// A commit may be lost in a crash of the database (never in one of ours); nothing is torn.
    Lazy,
}

/// A connection that one task keeps for itself: on Postgres a session of its own, opened when first needed and again
/// after an error; on SQLite a turn of the one writing connection. A dedicated connection that was used once keeps its permit among the
/// process's sessions: it waits for nobody when it must connect anew.
///
/// On Postgres sequential scans are off here: a plan made while a table was empty must not outlive its emptiness.
pub(in crate::store) struct DedicatedConnection {
    opener: Opener,
    kept: Kept,
}

type Kept = Arc<Mutex<Option<Conn>>>;

/// Opens a dedicated connection before it is needed.
#[derive(Clone)]
pub(in crate::store) struct Opener {
    db: Db,
    durability: Durability,
    bound: Bound,
    /// Held while the session is opened.
    permit: Arc<tokio::sync::Mutex<Option<ConnectionPermit>>>,
    kept: Kept,
    tables: &'static [&'static str],
}

impl DedicatedConnection {
    pub(in crate::store) fn new(db: Db, durability: Durability) -> Self {
        let kept = Kept::default();
        Self {
            opener: Opener {
                db,
                durability,
                bound: Bound::Ordinary,
                permit: Arc::default(),
                kept: Arc::clone(&kept),
                tables: &[],
            },
            kept,
        }
    }

    /// The same, for statements that may read many rows.
    pub(in crate::store) fn long(mut self) -> Self {
        self.opener.bound = Bound::Long;
        self
    }

    /// The same, for statements that others wait behind: it doesn't wait for a lock for long.
    pub(in crate::store) fn brief(mut self) -> Self {
        self.opener.bound = Bound::Brief;
        self
    }

    /// What can open it from outside, and make it ready for statements on these tables.
    pub(in crate::store) fn opener(&self, tables: &'static [&'static str]) -> Opener {
        Opener {
            tables,
            ..self.opener.clone()
        }
    }

    /// Takes the connection, or opens one. Whoever took it brings it with [`DedicatedConnection::give_back`]; if the caller was
    /// cancelled half way, it is dropped.
    pub(in crate::store) async fn take(&mut self) -> sqlx::Result<Conn> {
        // What opens it ahead is waited for.
        let mut permit = self.opener.permit.lock().await;
        let kept = lock(&self.kept).take();
        if let Some(Conn::Own(mut session)) = kept
            && session.is_alive().await
        {
            return Ok(Conn::Own(session));
        }
        self.opener.connect(&mut permit).await
    }

    /// Keeps a connection that is still good: one that worked, or on which the server refused a statement in good order.
    /// SQLite's goes back to its pool, for the next writer.
    pub(in crate::store) fn give_back(&mut self, conn: Conn) {
        if let Conn::Own(session) = conn
            && session.is_good()
        {
            *lock(&self.kept) = Some(Conn::Own(session));
        }
    }

    /// Closes the connection in good order.
    pub(in crate::store) async fn close(&mut self) {
        let kept = lock(&self.kept).take();
        if let Some(Conn::Own(session)) = kept {
            session.close().await;
        }
    }
}

impl Opener {
    /// Opens the connection, if it never had one: the first of many requests needn't wait for it.
    pub(in crate::store) async fn open(&self) {
        let mut permit = self.permit.lock().await;
        if matches!(self.db, Db::Sqlite { .. }) || permit.is_some() {
            return;
        }
        match self.ready(&mut permit).await {
            Ok(conn) => *lock(&self.kept) = Some(conn),
            Err(error) => tracing::debug!(%error, "a connection couldn't be opened ahead"),
        }
    }

    async fn ready(&self, permit: &mut Option<ConnectionPermit>) -> sqlx::Result<Conn> {
        let mut conn = self.connect(permit).await?;
        for table in self.tables {
            // A new session of Postgres reads the catalogue for each table that it meets, which takes milliseconds.
            let mut meet = sql!("select 1 as one from ");
            meet.push(table).push(" limit 0");
            conn.fetch(&meet).await?;
        }
        Ok(conn)
    }

    async fn connect(&self, permit: &mut Option<ConnectionPermit>) -> sqlx::Result<Conn> {
        match &self.db {
            Db::Sqlite { .. } => self.db.writer().await,
            Db::Postgres { pool, .. } => {
                let permit = match permit {
                    Some(permit) => permit,
                    None => permit.insert(pool.reserve().await?),
                };
                let settings = match self.durability {
                    Durability::Full => "set enable_seqscan = off; set synchronous_commit = on",
                    Durability::Lazy => "set enable_seqscan = off; set synchronous_commit = off",
                };
                Ok(Conn::Own(pool.open(permit, self.bound, settings).await?))
            }
        }
    }
}

fn lock(kept: &Kept) -> MutexGuard<'_, Option<Conn>> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}
