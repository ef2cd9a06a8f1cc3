//! Schema versions, embedded in the binary, and the table `schema_versions` with the applied ones.
//!
//! A version has a file in `migrations/`, in the folder of the database, or in both; these run in one transaction. Migrations
//! run on a connection outside the pools. They must not stop traffic, so each waits two seconds for a table's lock, then lets
//! others through and retries.
//!
//! Versions only add. So old and new processes run side by side, and a binary accepts versions that it doesn't know.

use std::time::Duration;

use sqlx::migrate::{Migrate, MigrateError, Migration, Migrator};
use sqlx::{AssertSqlSafe, Executor as _, PgConnection, SqlSafeStr as _, SqliteConnection};

use super::error::{Outage, is_missing_table};
use crate::store::{Dialect, StoreError};

const TABLE: &str = "schema_versions";
/// Maximum number of tries to get a lock, and the delay in between.
const MAX_TRIES: u32 = 30;
const RETRY_DELAY: Duration = Duration::from_secs(1);

static COMMON: Migrator = sqlx::migrate!("./migrations");
static POSTGRES: Migrator = sqlx::migrate!("./migrations/postgres");
static SQLITE: Migrator = sqlx::migrate!("./migrations/sqlite");

pub(in crate::store) trait Schema: Migrate + Send {
    fn limit_waits(&mut self) -> impl Future<Output = sqlx::Result<()>> + Send;
}

impl Schema for PgConnection {
    async fn limit_waits(&mut self) -> sqlx::Result<()> {
        let limits = "set lock_timeout = '2s'; set statement_timeout = 0";
        self.execute(sqlx::raw_sql(limits)).await.map(drop)
    }
}

impl Schema for SqliteConnection {
    async fn limit_waits(&mut self) -> sqlx::Result<()> {
        Ok(())
    }
}

/// A change of the schema; returns the versions in order.
#[derive(Clone, Copy)]
pub(in crate::store) enum Change {
    /// Applies the pending versions.
    Apply,
    /// Reverts this number of versions, newest first.
    Revert(usize),
}

pub(in crate::store) async fn change<C: Schema>(
    dialect: Dialect,
    conn: &mut C,
    change: Change,
) -> Result<Vec<i64>, StoreError> {
    let attempted = match change {
        Change::Apply => "applying migrations",
        Change::Revert(_) => "reverting migrations",
    };
    let mut done = Vec::new();
    let mut tries = 0;
    loop {
        tries += 1;
        match try_change(dialect, conn, change, &mut done).await {
            Err(error) if is_locked(&error) && tries < MAX_TRIES => {
                tracing::warn!(tries, %error, "migration waits for a lock, without blocking other statements");
                tokio::time::sleep(RETRY_DELAY).await;
            }
            Err(error) if is_locked(&error) => {
                let reason = format!(
                    "no lock in {MAX_TRIES} tries; end the long transactions (pg_stat_activity) and run it again"
                );
                return Err(StoreError::no_answer(attempted, reason));
            }
            Err(error) => return Err(schema(attempted, error)),
            Ok(()) => return Ok(done),
        }
    }
}

/// Adds each version to `done` once it is committed.
async fn try_change<C: Schema>(
    dialect: Dialect,
    conn: &mut C,
    change: Change,
    done: &mut Vec<i64>,
) -> Result<(), MigrateError> {
    conn.limit_waits().await?;
    conn.lock().await?;
    match change {
        Change::Apply => {
            conn.ensure_migrations_table(TABLE).await?;
            for migration in pending_of(dialect, conn).await? {
                conn.apply(TABLE, &migration).await?;
                done.push(migration.version);
            }
        }
        Change::Revert(n) => {
            let mut migrations = migrations(dialect);
            migrations.retain(|migration| migration.migration_type.is_down_migration());
            let applied = applied(conn).await?.into_iter().rev();
            for (version, _) in applied.take(n - done.len()) {
                let down = migrations.iter().find(|m| m.version == version);
                let down = down.ok_or(MigrateError::VersionMissing(version))?;
                conn.revert(TABLE, down).await?;
                done.push(version);
            }
        }
    }
    Ok(())
}

/// Returns versions that are not applied.
///
/// # Errors
/// `Schema` if a version was applied with another text.
pub(in crate::store) async fn pending<C: Schema>(
    dialect: Dialect,
    conn: &mut C,
) -> Result<Vec<i64>, StoreError> {
    let pending = pending_of(dialect, conn).await;
    let pending = pending.map_err(|error| schema("reading the schema's version", error))?;
    Ok(pending.iter().map(|migration| migration.version).collect())
}

async fn pending_of<C: Schema>(
    dialect: Dialect,
    conn: &mut C,
) -> Result<Vec<Migration>, MigrateError> {
    let applied = applied(conn).await?;
    let mut pending = migrations(dialect);
    pending.retain(|migration| migration.migration_type.is_up_migration());
    for (version, checksum) in applied {
        if let Some(at) = pending.iter().position(|m| m.version == version)
            && pending.remove(at).checksum != checksum
        {
            return Err(MigrateError::VersionMismatch(version));
        }
    }
    Ok(pending)
}

/// Returns the newest applied version; 0 if there is none.
pub(in crate::store) async fn version<C: Schema>(conn: &mut C) -> Result<i64, StoreError> {
    let applied = applied(conn).await;
    let applied = applied.map_err(|error| schema("reading the schema's version", error))?;
    Ok(applied.last().map_or(0, |(version, _)| *version))
}

pub(in crate::store) fn tables() -> Vec<String> {
    let versions = COMMON.iter().chain(POSTGRES.iter());
    let made = versions.flat_map(|version| version.sql.as_str().split("create table ").skip(1));
    let name = |rest: &str| rest.split([' ', '(']).next().unwrap_or_default().to_owned();
    made.map(name).collect()
}

/// Returns the up and down texts of all versions, oldest first. The database's own text runs after the shared one, and is
/// reverted before it.
fn migrations(dialect: Dialect) -> Vec<Migration> {
    let own = match dialect {
        Dialect::Postgres => &POSTGRES,
        Dialect::Sqlite => &SQLITE,
    };
    let mut migrations: Vec<Migration> = COMMON.iter().cloned().collect();
    for own in own.iter() {
        let Some(shared) = migrations.iter_mut().find(|shared| *shared == own) else {
            migrations.push(own.clone());
            continue;
        };
        let mut texts = [shared.sql.as_str(), own.sql.as_str()];
        if own.migration_type.is_down_migration() {
            texts.reverse();
        }
        *shared = Migration::new(
            own.version,
            own.description.clone(),
            own.migration_type,
            AssertSqlSafe(texts.concat()).into_sql_str(),
            shared.no_tx || own.no_tx,
        );
    }
    migrations.sort();
    migrations
}

/// Returns the applied versions with the checksums of their texts, oldest first. Doesn't create the table, because a process that
/// doesn't migrate may lack the privilege.
async fn applied<C: Schema>(conn: &mut C) -> Result<Vec<(i64, Vec<u8>)>, MigrateError> {
    match conn.list_applied_migrations(TABLE).await {
        Ok(applied) => Ok(applied
            .into_iter()
            .map(|migration| (migration.version, migration.checksum.into_owned()))
            .collect()),
        Err(MigrateError::Execute(error)) if is_missing_table(&error) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn is_locked(error: &MigrateError) -> bool {
    let (MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _)) = error else {
        return false;
    };
    let code = error.as_database_error().and_then(|error| error.code());
    // lock_not_available, deadlock_detected
    code.is_some_and(|code| matches!(code.as_ref(), "55P03" | "40P01"))
}

fn schema(attempted: &'static str, error: MigrateError) -> StoreError {
    if let MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) = &error
        && Outage::of(error).is_some()
    {
        return StoreError::of(attempted, error);
    }
    StoreError::Schema(if let MigrateError::VersionMismatch(version) = error {
        format!(
            "version {version} was applied with another text than this binary's, by a build from between releases; use that build, or \
             start with an empty database"
        )
    } else if let MigrateError::VersionMissing(version) = error {
        format!(
            "version {version} is unknown to this binary: revert it with the release that applied it"
        )
    } else {
        format!("{attempted}: {error}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transient_error_of_a_migration_is_unavailable() {
        for error in [
            MigrateError::Execute(sqlx::Error::PoolTimedOut),
            MigrateError::ExecuteMigration(sqlx::Error::PoolTimedOut, 1),
        ] {
            assert!(!is_locked(&error), "{error}");
            let error = schema("applying migrations", error);
            assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
        }
        let broken = schema("reverting migrations", MigrateError::VersionMissing(3));
        assert!(matches!(broken, StoreError::Schema(_)), "{broken}");
    }
}
