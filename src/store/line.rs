//! The connections that flushers keep for themselves.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sqlx::Connection as _;

use super::db::{Conn, Db, connect};
use super::error::is_passing;
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
                kept: Arc::clone(&kept),
                tables: &[],
            },
            kept,
        }
    }

    /// What can open it from outside, and make it ready for statements on these tables.
    pub(super) fn opener(&self, tables: &'static [&'static str]) -> Opener {
        Opener {
            tables,
            ..self.opener.clone()
        }
    }

    /// Takes the connection, or opens one. Whoever took it says with [`Line::give_back`] how it went; if
    /// the caller was cancelled half way, it is dropped.
    pub(super) async fn take(&mut self) -> sqlx::Result<Conn> {
        let kept = lock(&self.kept).take();
        match kept {
            Some(conn) => Ok(conn),
            None => self.opener.connect().await,
        }
    }

    /// Keeps a connection that is still good: one that worked, or on which the server refused a statement in good order.
    /// SQLite's goes back to its pool, for the next writer.
    pub(super) fn give_back<T>(&mut self, conn: Conn, result: &sqlx::Result<T>) {
        let good = result
            .as_ref()
            .err()
            .is_none_or(|error| error.as_database_error().is_some() && !is_passing(error));
        if good && matches!(conn, Conn::Own(_)) {
            *lock(&self.kept) = Some(conn);
        }
    }

    /// Closes the connection in good order.
    pub(super) async fn close(&mut self) {
        let kept = lock(&self.kept).take();
        if let Some(Conn::Own(conn)) = kept {
            // It is going away: an error in saying so changes nothing.
            let _ = conn.close().await;
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
            Db::Postgres { options, .. } => {
                let commit = match self.durability {
                    Durability::Full => "on",
                    Durability::Lazy => "off",
                };
                let options = options
                    .as_ref()
                    .clone()
                    .options([("enable_seqscan", "off"), ("synchronous_commit", commit)]);
                connect(options).await
            }
        }
    }
}

fn lock(kept: &Kept) -> MutexGuard<'_, Option<Conn>> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}
