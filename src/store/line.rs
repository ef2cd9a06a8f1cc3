//! The connections that flushers keep for themselves.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::db::{Conn, Db};
use super::pool::Bound;
use super::sql::sql;

/// How durable a line's commits are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Durability {
    /// A commit is on the disk when it is answered.
    Full,
    /// A commit may be lost in a crash of the database (never in one of ours); nothing is torn.
    Lazy,
}

/// A connection that one task keeps for itself: on Postgres a session of its own, opened when first needed and again
/// after an error; on SQLite a turn of the one writing connection.
///
/// On Postgres sequential scans are off here: a plan made while a table was empty must not outlive its emptiness.
pub(super) struct Line {
    opener: Opener,
    kept: Kept,
}

type Kept = Arc<Mutex<Option<Conn>>>;

/// Opens a line before it is needed.
#[derive(Clone)]
pub(super) struct Opener {
    db: Db,
    durability: Durability,
    bound: Bound,
    kept: Kept,
    tables: &'static [&'static str],
}

impl Line {
    pub(super) fn new(db: Db, durability: Durability) -> Self {
        let kept = Kept::default();
        Self {
            opener: Opener {
                db,
                durability,
                bound: Bound::Ordinary,
                kept: Arc::clone(&kept),
                tables: &[],
            },
            kept,
        }
    }

    /// The same, for statements that may read many rows.
    pub(super) fn long(mut self) -> Self {
        self.opener.bound = Bound::Long;
        self
    }

    /// The same, for statements that others wait behind: it doesn't wait for a lock for long.
    pub(super) fn brief(mut self) -> Self {
        self.opener.bound = Bound::Brief;
        self
    }

    /// What can open it from outside, and make it ready for statements on these tables.
    pub(super) fn opener(&self, tables: &'static [&'static str]) -> Opener {
        Opener {
            tables,
            ..self.opener.clone()
        }
    }

    /// Takes the connection, or opens one. Whoever took it brings it with [`Line::give_back`]; if the caller was
    /// cancelled half way, it is dropped.
    pub(super) async fn take(&mut self) -> sqlx::Result<Conn> {
        let kept = lock(&self.kept).take();
        if let Some(Conn::Own(mut session)) = kept
            && session.is_alive().await
        {
            return Ok(Conn::Own(session));
        }
        self.opener.connect().await
    }

    /// Keeps a connection that is still good: one that worked, or on which the server refused a statement in good order.
    /// SQLite's goes back to its pool, for the next writer.
    pub(super) fn give_back(&mut self, conn: Conn) {
        if let Conn::Own(session) = conn
            && session.is_good()
        {
            *lock(&self.kept) = Some(Conn::Own(session));
        }
    }

    /// Closes the connection in good order.
    pub(super) async fn close(&mut self) {
        let kept = lock(&self.kept).take();
        if let Some(Conn::Own(session)) = kept {
            session.close().await;
        }
    }
}

impl Opener {
    /// Opens the line's connection, if it has none: the first of many requests needn't wait for it.
    pub(super) async fn open(&self) {
        if matches!(self.db, Db::Sqlite { .. }) || lock(&self.kept).is_some() {
            return;
        }
        match self.ready().await {
            // The line may have opened one meanwhile; either will do.
            Ok(conn) => *lock(&self.kept) = Some(conn),
            Err(error) => tracing::debug!(%error, "a connection couldn't be opened ahead"),
        }
    }

    async fn ready(&self) -> sqlx::Result<Conn> {
        let mut conn = self.connect().await?;
        for table in self.tables {
            // A new session of Postgres reads the catalogue for each table that it meets, which takes milliseconds.
            let mut meet = sql!("select 1 as one from ");
            meet.push(table).push(" limit 0");
            conn.fetch(&meet).await?;
        }
        Ok(conn)
    }

    async fn connect(&self) -> sqlx::Result<Conn> {
        match &self.db {
            Db::Sqlite { .. } => self.db.writer().await,
            Db::Postgres { pool, .. } => {
                let commit = match self.durability {
                    Durability::Full => "on",
                    Durability::Lazy => "off",
                };
                let settings = [("enable_seqscan", "off"), ("synchronous_commit", commit)];
                Ok(Conn::Own(pool.open(self.bound, settings).await?))
            }
        }
    }
}

fn lock(kept: &Kept) -> MutexGuard<'_, Option<Conn>> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}
