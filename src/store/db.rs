//! The pool of either kind, migrations, and the macro that runs one SQL text on both. (Skeleton.)

use std::time::Duration;

use super::StoreError;

/// Which database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// Postgres 13 or newer.
    Postgres,
    /// SQLite, embedded.
    Sqlite,
}

/// How to open a store.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// `postgres://…`, `sqlite:///path/file.db` or `sqlite::memory:`.
    pub url: String,
    /// Connections of the general pool (the flushers have their own).
    pub max_connections: u32,
    /// How long to keep trying to reach the database at start.
    pub connect_timeout: Duration,
}

/// The store.
pub struct Store {
    _todo: (),
}

impl Store {
    /// Opens the pool, trying for `connect_timeout`. Doesn't look at the schema.
    pub async fn connect(_options: StoreOptions) -> Result<Self, StoreError> {
        unimplemented!()
    }
    /// Which database this is.
    pub fn dialect(&self) -> Dialect {
        unimplemented!()
    }
    /// Applies what is pending; answers the versions applied.
    pub async fn migrate(&self) -> Result<Vec<i64>, StoreError> {
        unimplemented!()
    }
    /// Takes back the newest `n` migrations; answers their versions.
    pub async fn revert(&self, _n: u32) -> Result<Vec<i64>, StoreError> {
        unimplemented!()
    }
    /// The versions that are not applied yet; an error if the database knows newer ones than this binary.
    pub async fn pending_migrations(&self) -> Result<Vec<i64>, StoreError> {
        unimplemented!()
    }
    /// Whether the database answers.
    pub async fn ping(&self) -> Result<(), StoreError> {
        unimplemented!()
    }
    /// Writes what the groupers hold, ends their tasks and closes the pool. Later calls fail as unavailable.
    pub async fn close(&self) {
        unimplemented!()
    }
}
