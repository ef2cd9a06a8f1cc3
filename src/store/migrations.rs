//! The schema's versions, embedded in the binary: one text for both databases, and what either says in its own words.
//!
//! Never runs by itself, and never on a pool: one connection applies or reverts, under sqlx's advisory lock on Postgres.

use std::collections::HashMap;

use sqlx::SqlSafeStr as _;
use sqlx::migrate::{Migrate, MigrateError, Migration, MigrationType, Migrator};

use super::{Dialect, StoreError};

/// One version: number, name, and its two texts. Never edited once merged.
type Version = (i64, &'static str, &'static str, &'static str);

macro_rules! version {
    ($number:literal, $name:literal, $path:literal) => {
        (
            $number,
            $name,
            include_str!(concat!("../../migrations/", $path, ".up.sql")),
            include_str!(concat!("../../migrations/", $path, ".down.sql")),
        )
    };
}

const COMMON: &[Version] = &[
    version!(1, "sessions", "0001_sessions"),
    version!(2, "jobs", "0002_jobs"),
    version!(3, "scores", "0003_scores"),
    version!(4, "judges", "0004_judges"),
    version!(6, "judge_pace", "0006_judge_pace"),
    version!(7, "imports", "0007_imports"),
    version!(8, "idempotency", "0008_idempotency"),
    version!(9, "evaluations", "0009_evaluations"),
    version!(10, "backlogs", "0010_backlogs"),
    version!(11, "ratings", "0011_ratings"),
    version!(12, "usage", "0012_usage"),
    version!(13, "provider_batches", "0013_provider_batches"),
    version!(14, "indexes", "0014_indexes"),
    version!(15, "asked_keys", "0015_asked_keys"),
    version!(16, "days", "0016_days"),
    version!(19, "latency", "0019_latency"),
    version!(20, "on_demand", "0020_on_demand"),
    version!(21, "judge_errors", "0021_judge_errors"),
    version!(22, "job_lists", "0022_job_lists"),
    version!(23, "liveness", "0023_liveness"),
];

const POSTGRES: &[Version] = &[
    version!(5, "storage", "postgres/0005_storage"),
    version!(18, "marks", "postgres/0018_marks"),
];

const SQLITE: &[Version] = &[version!(18, "marks", "sqlite/0018_marks")];

/// Applies what is pending; answers the versions applied.
pub(super) async fn run<C: Migrate>(
    dialect: Dialect,
    conn: &mut C,
) -> Result<Vec<i64>, StoreError> {
    let pending = pending(dialect, conn).await?;
    migrator(dialect)
        .run_direct(None, conn, false)
        .await
        .map_err(|e| schema("applying migrations", e))?;
    Ok(pending)
}

/// The versions that are not applied; an error if the database has some that this binary doesn't know, or other texts.
pub(super) async fn pending<C: Migrate>(
    dialect: Dialect,
    conn: &mut C,
) -> Result<Vec<i64>, StoreError> {
    let migrator = migrator(dialect);
    let applied = applied(&migrator, conn).await?;
    for (version, checksum) in &applied {
        let known = migrator
            .iter()
            .find(|m| m.version == *version && m.migration_type.is_up_migration());
        match known {
            None => {
                return Err(StoreError::Schema(format!(
                    "the database is at version {version}, which this binary doesn't know; run a newer gavel"
                )));
            }
            Some(m) if m.checksum.as_ref() != checksum.as_slice() => {
                return Err(StoreError::Schema(format!(
                    "version {version} was applied with another text than this binary's: the database was made by a build from between \
                     releases; run that build, or begin with an empty database"
                )));
            }
            Some(_) => {}
        }
    }
    Ok(migrator
        .iter()
        .filter(|m| m.migration_type.is_up_migration() && !applied.contains_key(&m.version))
        .map(|m| m.version)
        .collect())
}

/// Reverts the newest `n` versions; answers them, newest first.
pub(super) async fn revert<C: Migrate>(
    dialect: Dialect,
    conn: &mut C,
    n: u32,
) -> Result<Vec<i64>, StoreError> {
    let migrator = migrator(dialect);
    conn.lock()
        .await
        .map_err(|e| schema("locking the schema", e))?;
    let mut versions: Vec<i64> = applied(&migrator, conn).await?.into_keys().collect();
    versions.sort_unstable_by(|a, b| b.cmp(a));
    let keep = versions.get(n as usize).copied().unwrap_or(0);
    versions.truncate(n as usize);
    for down in migrator.iter().rev().filter(|m| {
        m.migration_type.is_down_migration() && m.version > keep && versions.contains(&m.version)
    }) {
        conn.revert(&migrator.table_name, down)
            .await
            .map_err(|e| schema("reverting a migration", e))?;
    }
    conn.unlock()
        .await
        .map_err(|e| schema("unlocking the schema", e))?;
    Ok(versions)
}

fn migrator(dialect: Dialect) -> Migrator {
    let own: &[Version] = match dialect {
        Dialect::Postgres => POSTGRES,
        Dialect::Sqlite => SQLITE,
    };
    let migrations = COMMON
        .iter()
        .chain(own)
        .flat_map(|(number, name, up, down)| {
            let one = |kind, text: &'static str| {
                Migration::new(*number, (*name).into(), kind, text.into_sql_str(), false)
            };
            [
                one(MigrationType::ReversibleUp, up),
                one(MigrationType::ReversibleDown, down),
            ]
        })
        .collect();
    Migrator::with_migrations(migrations)
}

async fn applied<C: Migrate>(
    migrator: &Migrator,
    conn: &mut C,
) -> Result<HashMap<i64, Vec<u8>>, StoreError> {
    conn.ensure_migrations_table(&migrator.table_name)
        .await
        .map_err(|e| schema("reading the schema's version", e))?;
    let applied = conn
        .list_applied_migrations(&migrator.table_name)
        .await
        .map_err(|e| schema("reading the schema's version", e))?;
    Ok(applied
        .into_iter()
        .map(|m| (m.version, m.checksum.into_owned()))
        .collect())
}

fn schema(attempted: &'static str, error: MigrateError) -> StoreError {
    if let MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) = &error
        && super::error::is_passing(error)
    {
        return StoreError::Unavailable {
            attempted,
            reason: error.to_string(),
        };
    }
    StoreError::Schema(format!("{attempted}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_migration_that_fails_for_a_passing_reason_is_no_fault_of_the_schema() {
        for error in [
            MigrateError::Execute(sqlx::Error::PoolTimedOut),
            MigrateError::ExecuteMigration(sqlx::Error::PoolTimedOut, 1),
        ] {
            let error = schema("applying migrations", error);
            assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
        }
        let broken = schema("applying migrations", MigrateError::VersionMissing(3));
        assert!(matches!(broken, StoreError::Schema(_)), "{broken}");
    }
}
