//! Errors of the store, grouped by the caller's reaction.

use std::path::Path;
use std::sync::Arc;

#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// The database can't be used for a reason that concerns all statements: 503 + Retry-After at the API, back off in a worker.
    #[error("{} while {attempted}: {reason}", outage.summary())]
    Unavailable {
        attempted: &'static str,
        reason: String,
        outage: Outage,
    },
    /// The schema doesn't match this binary: run `gavel migrate`.
    #[error("database schema: {0}")]
    Schema(String),
    /// A stored value can't be decoded, or a statement is invalid: a bug, or a manual change of a table.
    #[error("unexpected database response while {attempted}: {reason}")]
    Unexpected {
        attempted: &'static str,
        reason: String,
    },
    /// A pooler shares sessions between clients and must be reconfigured.
    #[error(
        "the address leads through a pooler that gives each transaction another session (PgBouncer: pool_mode = transaction or \
         statement), but prepared statements, time limits and the lock of `gavel migrate` belong to a session: set \
         pool_mode = session for this database, with a pool_size of at least 3 for each process, or \
         name the Postgres server itself in DATABASE_URL (database.url)"
    )]
    SharedSessions,
    #[error("cursor: {0}")]
    BadCursor(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outage {
    /// It didn't answer, or failed for a transient reason.
    NoAnswer,
    /// It has no free connection for this process; open connections work.
    NoFreeConnection,
    /// It rejects connections of this process: password, role, `pg_hba.conf` or the database itself.
    Rejected,
    /// The disk is full: reads work, writes fail.
    StorageFull,
    MissingPrivilege,
    /// A table is missing, or the role can't see its schema.
    MissingTable,
}

impl Outage {
    /// Returns the outage that caused an error; `None` if the statement or its rows caused it.
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
            code => is_transient_code(code).then_some(Self::NoAnswer),
        }
    }

    fn summary(self) -> &'static str {
        match self {
            Self::NoAnswer => "database unavailable",
            Self::NoFreeConnection => "no database connection available",
            Self::Rejected => "database connection rejected",
            Self::StorageFull => "database disk full",
            Self::MissingPrivilege => "missing database privilege",
            Self::MissingTable => "missing database table",
        }
    }

    /// Whether claims must stop, because open connections are affected and claimed jobs couldn't be recorded.
    pub fn stops_claims(self) -> bool {
        match self {
            Self::NoAnswer | Self::NoFreeConnection => false,
            Self::Rejected | Self::StorageFull | Self::MissingPrivilege | Self::MissingTable => {
                true
            }
        }
    }

    /// Whether a retry may succeed without an operator.
    pub(in crate::store) fn is_transient(self) -> bool {
        match self {
            Self::NoAnswer | Self::NoFreeConnection | Self::StorageFull => true,
            Self::Rejected | Self::MissingPrivilege | Self::MissingTable => false,
        }
    }
}

/// Why no connection can be opened until an operator acts.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub(in crate::store) struct Rejection {
    pub(in crate::store) reason: String,
    /// Cause and remedy without the server's message, because that may name hosts.
    pub(in crate::store) remedy: String,
}

impl Rejection {
    /// Rejection by the server.
    pub(in crate::store) fn by_server(
        error: &dyn sqlx::error::DatabaseError,
        role: &str,
        database: &str,
    ) -> Self {
        let code = error.code().unwrap_or_default();
        let remedy = match code.as_ref() {
            "28P01" => {
                "its password is wrong; set the right one in DATABASE_URL (database.url) and restart, or write it to database.password_file, which is read for each connection"
            }
            "28000" => {
                "it may not log in from here; `alter role .. login`, or add a line for it to pg_hba.conf"
            }
            "3D000" => {
                "the database doesn't exist; create it, or correct DATABASE_URL (database.url)"
            }
            "55000" => {
                "the database accepts no connections; `alter database .. allow_connections true`"
            }
            "42501" => "the role has no connect privilege; `grant connect on database .. to ..`",
            _ => "see the log",
        };
        Self {
            reason: format!("{} (SQLSTATE {code})", error.message()),
            remedy: format!(
                "the server rejects connections of role {role:?} to database {database:?} (SQLSTATE {code}): {remedy}"
            ),
        }
    }

    /// The password file can't be read.
    pub(in crate::store) fn by_password_file(path: &Path, error: &std::io::Error) -> Self {
        Self {
            reason: format!("database.password_file {}: {error}", path.display()),
            remedy: "write the role's password to that file, or correct database.password_file; the file is read for each connection".to_owned(),
        }
    }
}

/// Returns cause and remedy of an outage, for operators.
pub(in crate::store) fn remedy(outage: Outage, error: &sqlx::Error) -> String {
    match (outage, rejection(error)) {
        (_, Some(rejection)) => rejection.remedy.clone(),
        (Outage::NoFreeConnection, None) => {
            "the server has no free connection, so this process waits or shares its open ones; raise max_connections of the server (or the role's connection limit), or lower database.max_connections of the processes".to_owned()
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

/// The server's last free slots are reserved for processes without a connection.
#[derive(Debug, thiserror::Error)]
#[error("the server has few connections left")]
pub(in crate::store) struct NoneToSpare;

impl From<NoneToSpare> for sqlx::Error {
    fn from(error: NoneToSpare) -> Self {
        Self::Io(std::io::Error::other(error))
    }
}

/// An error that several callers receive.
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

/// Returns the shared error, or the error itself.
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
    /// Classifies an error of the driver. The driver numbers prepared statements per session, so a duplicate or unknown one
    /// shows that a pooler shares sessions.
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

    /// A retry may succeed.
    pub(crate) fn no_answer(attempted: &'static str, reason: impl Into<String>) -> Self {
        Self::Unavailable {
            attempted,
            reason: reason.into(),
            outage: Outage::NoAnswer,
        }
    }
}

/// The database's message. The driver would add a line of the server's source.
fn words(error: &sqlx::Error) -> String {
    let error = cause(error);
    match error.as_database_error() {
        Some(said) => said.message().to_owned(),
        None => error.to_string(),
    }
}

/// Whether a retry may succeed: a lost connection, a conflict between transactions, a busy file.
pub(in crate::store) fn is_transient(error: &sqlx::Error) -> bool {
    Outage::of(error).is_some_and(Outage::is_transient)
}

/// Whether the statement reached its timeout for a lock or its execution, so that a retry would wait as long.
pub(in crate::store) fn has_waited(error: &sqlx::Error) -> bool {
    has_state(error, &["55P03", "57014"])
}

/// Whether a non-database error is a lost connection or a failure to get one.
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

/// Whether a code is transient. SQLite's codes are short numbers, with the class in the low byte: busy, locked, I/O error,
/// full, can't open.
fn is_transient_code(code: &str) -> bool {
    match code.parse::<u32>() {
        Ok(number) if code.len() < 5 => matches!(number & 0xff, 5 | 6 | 10 | 13 | 14),
        Ok(_) | Err(_) => is_transient_sqlstate(code),
    }
}

/// Effect of a failed write on later writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum WriteFailure {
    /// The database is unavailable or rejects all writes.
    Unavailable,
    /// The rows met a lock or took too long. Others may succeed now, and these later.
    Blocked,
    /// The server rejects these rows permanently.
    Refused,
}

impl WriteFailure {
    pub(in crate::store) fn of(error: &sqlx::Error) -> Self {
        let code = error.as_database_error().and_then(|said| said.code());
        // Cancelled, also by `statement_timeout`; lock not available; conflicts between transactions.
        match code.as_deref() {
            Some("57014" | "55P03" | "40001" | "40P01") => Self::Blocked,
            Some(_) | None => match Outage::of(error) {
                Some(_) => Self::Unavailable,
                None => Self::Refused,
            },
        }
    }
}

/// Whether the server or the network is lost, so that no open connection can be trusted. Includes a server that has become
/// read-only, because its sessions stay read-only.
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

pub(in crate::store) fn is_unique_violation(error: &sqlx::Error) -> bool {
    error
        .as_database_error()
        .is_some_and(sqlx::error::DatabaseError::is_unique_violation)
}

/// Connection exceptions, rollbacks (serialization, deadlock), resources, operator intervention, lock not available, and a
/// server that has become read-only (a failover).
fn is_transient_sqlstate(code: &str) -> bool {
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
