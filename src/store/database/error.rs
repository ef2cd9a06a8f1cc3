//! What can go wrong in the store, by what the caller does next.

#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// The database can't be reached or failed for a passing reason, twice: 503 + Retry-After at the API, back off in a worker.
    #[error("database unavailable while {attempted}: {reason}")]
    Unavailable {
        attempted: &'static str,
        /// The driver's words.
        reason: String,
        outage: Outage,
    },
    /// The schema is not the one this binary needs: `gavel migrate`.
    #[error("database schema: {0}")]
    Schema(String),
    /// A stored value doesn't read back, or a statement is wrong: a bug, or a hand in the tables.
    #[error("database answered unexpectedly while {attempted}: {reason}")]
    Unexpected {
        attempted: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// A pooler is in between whose clients share sessions: somebody must set it otherwise.
    #[error(
        "the address leads through a pooler that gives each transaction another session (PgBouncer: pool_mode = transaction or \
         statement), but prepared statements, time limits and the lock of `gavel migrate` belong to a session: set \
         pool_mode = session for this database, with a pool_size of at least database.max_connections for each process, or \
         name the Postgres server itself in DATABASE_URL (database.url)"
    )]
    SharedSessions,
    /// A cursor that this list didn't give.
    #[error("cursor: {0}")]
    BadCursor(String),
}

/// Why the database can't be used for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outage {
    /// It didn't answer, or failed for a passing reason.
    NoAnswer,
    /// Its disk is full: it can be read, and nothing can be written.
    StorageFull,
}

impl StoreError {
    /// Sorts a driver's error into one of ours. A missing table is a schema that wasn't migrated. The driver numbers a
    /// session's prepared statements itself: one that is there already, or isn't there any more, is another session's.
    pub(in crate::store) fn of(attempted: &'static str, error: &sqlx::Error) -> Self {
        if is_passing(error) {
            return Self::Unavailable {
                attempted,
                reason: words(error),
                outage: match is_storage_full(error) {
                    true => Outage::StorageFull,
                    false => Outage::NoAnswer,
                },
            };
        }
        if has_state(error, &["42P05", "26000"]) {
            return Self::SharedSessions;
        }
        if is_missing_table(error) {
            return Self::Schema(format!(
                "{attempted}: {error}; run `gavel migrate` on this database"
            ));
        }
        Self::Unexpected {
            attempted,
            reason: words(error),
        }
    }

    pub(in crate::store) fn closed(attempted: &'static str) -> Self {
        Self::no_answer(attempted, "the store is closed")
    }

    /// The database may do it a moment later.
    pub(crate) fn no_answer(attempted: &'static str, reason: impl Into<String>) -> Self {
        Self::Unavailable {
            attempted,
            reason: reason.into(),
            outage: Outage::NoAnswer,
        }
    }
}

/// The database's own words; the driver adds a line of the server's source to them.
fn words(error: &sqlx::Error) -> String {
    match error.as_database_error() {
        Some(said) => said.message().to_owned(),
        None => error.to_string(),
    }
}

/// Whether the same statement may work a moment later: a lost connection, a conflict between transactions, a busy file.
pub(in crate::store) fn is_passing(error: &sqlx::Error) -> bool {
    if let Some(error) = error.as_database_error() {
        let code = error.code().unwrap_or_default();
        return match code.parse::<u32>() {
            // SQLite's codes are short numbers: busy, locked, I/O error, full, can't open; the low byte is the class.
            Ok(number) if code.len() < 5 => matches!(number & 0xff, 5 | 6 | 10 | 13 | 14),
            Ok(_) | Err(_) => is_passing_sqlstate(&code),
        };
    }
    matches!(
        error,
        sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed
            | sqlx::Error::BeginFailed
    )
}

/// What a write that failed says of those to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum Failed {
    /// The database is away: none would work now.
    Away,
    /// The server gave these rows up: they met a lock, or took too long. Others may work now, and these later.
    HeldUp,
    /// The server refuses these rows for good.
    Refused,
}

impl Failed {
    pub(in crate::store) fn of(error: &sqlx::Error) -> Self {
        let code = error.as_database_error().and_then(|said| said.code());
        // Cancelled, also by `statement_timeout`; a lock not to be had; conflicts between transactions.
        match code.as_deref() {
            Some("57014" | "55P03" | "40001" | "40P01") => Self::HeldUp,
            Some(_) | None if is_passing(error) => Self::Away,
            Some(_) | None => Self::Refused,
        }
    }
}

/// Whether the server, or the way to it, is gone: no other connection that was opened before is to be trusted. A server
/// that has become read-only counts, since its sessions stay so.
pub(in crate::store) fn is_lost(error: &sqlx::Error) -> bool {
    match error.as_database_error() {
        Some(error) => {
            let code = error.code().unwrap_or_default();
            code.starts_with("08")
                || matches!(
                    &*code,
                    "57P01" | "57P02" | "57P03" | "57P04" | "57P05" | "25006" | "25P03"
                )
        }
        None => matches!(error, sqlx::Error::Io(_) | sqlx::Error::Tls(_)),
    }
}

/// Whether a write was refused because the disk is full: SQLITE_FULL, or Postgres' disk_full.
pub(in crate::store) fn is_storage_full(error: &sqlx::Error) -> bool {
    error
        .as_database_error()
        .is_some_and(|error| matches!(error.code().as_deref(), Some("13" | "53100")))
}

pub(in crate::store) fn timed_out(what: &str) -> sqlx::Error {
    sqlx::Error::Io(std::io::Error::new(
        std::io::ErrorKind::TimedOut,
        format!("{what} took too long"),
    ))
}

/// Whether a unique index refused the row.
pub(in crate::store) fn is_unique_violation(error: &sqlx::Error) -> bool {
    error
        .as_database_error()
        .is_some_and(sqlx::error::DatabaseError::is_unique_violation)
}

/// Connection exceptions, rollbacks (serialization, deadlock), resources, operator intervention, a lock not to be had,
/// and a server that has become read-only (a failover).
fn is_passing_sqlstate(code: &str) -> bool {
    ["08", "40", "53", "57"]
        .iter()
        .any(|class| code.starts_with(class))
        || matches!(code, "55P03" | "25006" | "25P03")
}

fn is_missing_table(error: &sqlx::Error) -> bool {
    let said = error.as_database_error();
    has_state(error, &["42P01"]) || said.is_some_and(|e| e.message().contains("no such table"))
}

fn has_state(error: &sqlx::Error, states: &[&str]) -> bool {
    let code = error.as_database_error().and_then(|error| error.code());
    code.is_some_and(|code| states.contains(&&*code))
}
