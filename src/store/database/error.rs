//! What can go wrong in the store, by what the caller does next.

use std::sync::Arc;

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
    /// The schema's versions are not those that this binary needs: `gavel migrate`.
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
         pool_mode = session for this database, with a pool_size of at least 3 for each process, or \
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
    /// It has no connection left for this process; those that are open work.
    NoFreeConnection,
    /// It accepts no connection from this process: password, role, `pg_hba.conf` or the database itself.
    Rejected,
    /// Its disk is full: it can be read, and nothing can be written.
    StorageFull,
    /// The role lacks a privilege.
    MissingPrivilege,
    /// A table is missing, or the role can't see its schema.
    MissingTable,
}

impl Outage {
    /// Returns why a statement failed for a reason that others share; `None` if the statement or its rows are at fault.
    pub(in crate::store) fn of(error: &sqlx::Error) -> Option<Self> {
        let error = cause(error);
        if rejection(error).is_some() {
            return Some(Self::Rejected);
        }
        if inner::<NoneToSpare>(error).is_some() {
            return Some(Self::NoFreeConnection);
        }
        let Some(said) = error.as_database_error() else {
            return is_lost_connection(error).then_some(Self::NoAnswer);
        };
        match &*said.code().unwrap_or_default() {
            "53300" => Some(Self::NoFreeConnection),
            // SQLITE_FULL, disk_full
            "13" | "53100" => Some(Self::StorageFull),
            "42501" => Some(Self::MissingPrivilege),
            _ if is_missing_table(error) => Some(Self::MissingTable),
            code => is_passing_code(code).then_some(Self::NoAnswer),
        }
    }

    /// Whether the database does no more for a process that has connections, so that claimed jobs couldn't be recorded.
    pub fn stops_claims(self) -> bool {
        match self {
            Self::NoAnswer | Self::NoFreeConnection => false,
            Self::Rejected | Self::StorageFull | Self::MissingPrivilege | Self::MissingTable => {
                true
            }
        }
    }

    /// Whether the same statement may work a moment later without an operator.
    pub(in crate::store) fn is_passing(self) -> bool {
        match self {
            Self::NoAnswer | Self::NoFreeConnection | Self::StorageFull => true,
            Self::Rejected | Self::MissingPrivilege | Self::MissingTable => false,
        }
    }
}

/// The server's answer to a connection that it doesn't accept.
#[derive(Debug, thiserror::Error)]
#[error("{message} (SQLSTATE {code})")]
pub(in crate::store) struct Rejection {
    pub(in crate::store) code: String,
    pub(in crate::store) message: String,
    pub(in crate::store) role: String,
    pub(in crate::store) database: String,
}

impl Rejection {
    /// Returns cause and remedy, without the server's own words: they may name hosts.
    fn remedy(&self) -> String {
        let Self {
            code,
            role,
            database,
            ..
        } = self;
        let remedy = match code.as_str() {
            "28P01" => {
                "its password is wrong; set the right one in DATABASE_URL (database.url) and restart, or write it to database.password_file, which is read for each connection"
            }
            "28000" => {
                "it may not log in from here; `alter role .. login`, or add a line for it to pg_hba.conf"
            }
            "3D000" => {
                "there is no such database; create it, or correct DATABASE_URL (database.url)"
            }
            "55000" => {
                "the database accepts no connections; `alter database .. allow_connections true`"
            }
            "42501" => "it lacks a privilege; `grant connect on database .. to ..`",
            _ => "see the log",
        };
        format!(
            "the server rejects connections of role {role:?} to database {database:?} (SQLSTATE {code}): {remedy}"
        )
    }
}

/// Returns cause and remedy of an outage, for operators.
pub(in crate::store) fn remedy(outage: Outage, error: &sqlx::Error) -> String {
    match (outage, rejection(error)) {
        (_, Some(rejection)) => rejection.remedy(),
        (Outage::NoFreeConnection, None) => {
            "the server has no connection left, and this process waits or uses those that it has; raise max_connections of the server (or the role's connection limit), or lower database.max_connections of the processes".to_owned()
        }
        (Outage::StorageFull, None) => "its disk is full; make room on it".to_owned(),
        (Outage::MissingPrivilege, None) => words(error),
        (Outage::MissingTable, None) => format!(
            "{}; run `gavel migrate`, or `grant usage on schema .. to ..`",
            words(error)
        ),
        (Outage::NoAnswer | Outage::Rejected, None) => "it does not answer".to_owned(),
    }
}

/// The server has few slots left, which are for processes without a connection.
#[derive(Debug, thiserror::Error)]
#[error("the server has few connections left")]
pub(in crate::store) struct NoneToSpare;

impl From<NoneToSpare> for sqlx::Error {
    fn from(error: NoneToSpare) -> Self {
        Self::Io(std::io::Error::other(error))
    }
}

/// An error that several callers get.
#[derive(Debug, Clone, thiserror::Error)]
#[error(transparent)]
pub(in crate::store) struct SharedError(Arc<sqlx::Error>);

impl SharedError {
    pub(in crate::store) fn new(error: sqlx::Error) -> Self {
        Self(Arc::new(error))
    }
}

impl From<SharedError> for sqlx::Error {
    fn from(error: SharedError) -> Self {
        Self::Io(std::io::Error::other(error))
    }
}

/// Returns what the callers share, or the error itself.
fn cause(error: &sqlx::Error) -> &sqlx::Error {
    inner::<SharedError>(error).map_or(error, |shared| &shared.0)
}

fn inner<T: std::error::Error + 'static>(error: &sqlx::Error) -> Option<&T> {
    let sqlx::Error::Io(error) = error else {
        return None;
    };
    error.get_ref()?.downcast_ref()
}

fn rejection(error: &sqlx::Error) -> Option<&Rejection> {
    inner(cause(error))
}

impl StoreError {
    /// Sorts a driver's error into one of ours. The driver numbers a session's prepared statements itself: one that is
    /// there already, or isn't there any more, is another session's.
    pub(in crate::store) fn of(attempted: &'static str, error: &sqlx::Error) -> Self {
        if let Some(outage) = Outage::of(error) {
            let reason = match outage {
                Outage::NoAnswer | Outage::StorageFull | Outage::MissingPrivilege => words(error),
                Outage::Rejected => format!("{error}; {}", remedy(outage, error)),
                Outage::NoFreeConnection | Outage::MissingTable => remedy(outage, error),
            };
            return Self::Unavailable {
                attempted,
                reason,
                outage,
            };
        }
        if has_state(error, &["42P05", "26000"]) {
            return Self::SharedSessions;
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
    let error = cause(error);
    match error.as_database_error() {
        Some(said) => said.message().to_owned(),
        None => error.to_string(),
    }
}

/// Whether the same statement may work a moment later: a lost connection, a conflict between transactions, a busy file.
pub(in crate::store) fn is_passing(error: &sqlx::Error) -> bool {
    Outage::of(error).is_some_and(Outage::is_passing)
}

/// Whether the statement waited for its whole bound, for a lock or to finish: the next try would wait as long.
pub(in crate::store) fn has_waited(error: &sqlx::Error) -> bool {
    has_state(error, &["55P03", "57014"])
}

/// Whether an error that isn't the database's own is a lost connection, or none to be had.
fn is_lost_connection(error: &sqlx::Error) -> bool {
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

/// Whether a code is of those that pass. SQLite's are short numbers: busy, locked, I/O error, full, can't open; the low
/// byte is the class.
fn is_passing_code(code: &str) -> bool {
    match code.parse::<u32>() {
        Ok(number) if code.len() < 5 => matches!(number & 0xff, 5 | 6 | 10 | 13 | 14),
        Ok(_) | Err(_) => is_passing_sqlstate(code),
    }
}

/// What a write that failed says of those to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum Failed {
    /// The database is away, or rejects all writes: none would work now.
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
            Some(_) | None => match Outage::of(error) {
                Some(_) => Self::Away,
                None => Self::Refused,
            },
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

pub(in crate::store) fn is_missing_table(error: &sqlx::Error) -> bool {
    let said = error.as_database_error();
    has_state(error, &["42P01"]) || said.is_some_and(|e| e.message().contains("no such table"))
}

fn has_state(error: &sqlx::Error, states: &[&str]) -> bool {
    let code = error.as_database_error().and_then(|error| error.code());
    code.is_some_and(|code| states.contains(&&*code))
}
