//! The schema's versions, embedded in the binary: one text for both databases, and what either says in its own words.
//!
//! Never runs by itself, and never on a pool: one connection applies or reverts, and no other does so meanwhile.
//!
//! Old and new processes run side by side. Versions up to 22 are listed in `_sqlx_migrations`; a binary of that time
//! refuses any that it doesn't know. Later ones are listed in `schema_versions`, each with the oldest binary that still
//! works with it: `compatible_since` is the newest version which that binary knows, and 0 means any. A binary accepts
//! versions that it doesn't know as long as that holds for all of them.
//!
//! A migration must not stop the traffic. It waits two seconds for a table's lock and lets those behind it through
//! before it tries again. An index on a table that is in use has a file in `postgres/` that begins with
//! `-- no-transaction`: its statements run one by one, first `drop index concurrently if exists`, then
//! `create index concurrently`, so that what broke off can be run again.

use std::collections::HashMap;
use std::time::Duration;

use sqlx::migrate::{Migrate, MigrateError, Migration, Migrator};
use sqlx::{AssertSqlSafe, PgConnection, Row as _, SqliteConnection};

use crate::store::{Dialect, StoreError};

/// The newest version that `_sqlx_migrations` lists.
const LAST_OF_OLD: i64 = 22;
const OLD_LIST: &str = "_sqlx_migrations";
const LIST: &str = "schema_versions";
/// How often a lock is tried for, and how long those behind us have in between.
const TRIES: u32 = 30;
const PAUSE: Duration = Duration::from_secs(1);

/// Versions that an older binary can't work with, each with the newest version that a binary must at least know. All
/// others only add.
const COMPATIBLE_SINCE: &[(i64, i64)] = &[];

/// What `migrations/` says to both databases, and what its folders say to either. A text is never edited once merged.
static COMMON: Migrator = sqlx::migrate!("./migrations");
static POSTGRES: Migrator = sqlx::migrate!("./migrations/postgres");
static SQLITE: Migrator = sqlx::migrate!("./migrations/sqlite");

/// What the two databases say differently about a schema.
pub(in crate::store) trait Schema: Migrate + Send {
    /// Makes the list of versions; waits for whoever migrates at this moment.
    async fn begin(&mut self) -> sqlx::Result<()>;
    /// Whether a list of versions is there. Makes none: a role that only works with the tables may not create any.
    async fn has_list(&mut self, list: &'static str) -> sqlx::Result<bool>;
    /// The versions of the list: number, checksum, oldest binary.
    async fn listed(&mut self) -> sqlx::Result<Vec<(i64, Vec<u8>, i64)>>;
    async fn run(&mut self, statement: String) -> sqlx::Result<()>;
}

/// The same text for both databases.
const MAKE_LIST: &str = "create table if not exists schema_versions (
    version bigint primary key,
    description text not null,
    installed_on timestamptz not null default current_timestamp,
    success boolean not null,
    checksum bytea not null,
    execution_time bigint not null,
    compatible_since bigint not null default 0)";
const READ_LIST: &str = "select version, checksum, compatible_since from schema_versions";

impl Schema for PgConnection {
    async fn begin(&mut self) -> sqlx::Result<()> {
        // Tried for rather than waited for: an index that is built concurrently waits for every open statement.
        const OURS: &str = "select pg_try_advisory_lock(hashtext('gavel schema'))";
        for statement in ["set lock_timeout = '2s'", "set statement_timeout = 0"] {
            self.run(statement.to_owned()).await?;
        }
        while !sqlx::query_scalar::<_, bool>(OURS)
            .fetch_one(&mut *self)
            .await?
        {
            tokio::time::sleep(PAUSE).await;
        }
        Ok(())
    }

    async fn has_list(&mut self, list: &'static str) -> sqlx::Result<bool> {
        let known = sqlx::query_scalar("select to_regclass($1) is not null");
        known.bind(list).fetch_one(self).await
    }

    async fn listed(&mut self) -> sqlx::Result<Vec<(i64, Vec<u8>, i64)>> {
        let rows = sqlx::query(READ_LIST).fetch_all(self).await?;
        rows.iter()
            .map(|row| Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?)))
            .collect()
    }

    async fn run(&mut self, statement: String) -> sqlx::Result<()> {
        sqlx::raw_sql(AssertSqlSafe(statement))
            .execute(self)
            .await?;
        Ok(())
    }
}

impl Schema for SqliteConnection {
    async fn begin(&mut self) -> sqlx::Result<()> {
        Ok(())
    }

    async fn has_list(&mut self, list: &'static str) -> sqlx::Result<bool> {
        let known = sqlx::query_scalar("select count(*) > 0 from sqlite_master where name = ?1");
        known.bind(list).fetch_one(self).await
    }

    async fn listed(&mut self) -> sqlx::Result<Vec<(i64, Vec<u8>, i64)>> {
        let rows = sqlx::query(READ_LIST).fetch_all(self).await?;
        rows.iter()
            .map(|row| Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?)))
            .collect()
    }

    async fn run(&mut self, statement: String) -> sqlx::Result<()> {
        sqlx::raw_sql(AssertSqlSafe(statement))
            .execute(self)
            .await?;
        Ok(())
    }
}

/// Applies what is pending; answers the versions applied.
pub(in crate::store) async fn run<C: Schema>(
    dialect: Dialect,
    conn: &mut C,
) -> Result<Vec<i64>, StoreError> {
    conn.begin()
        .await
        .map_err(|e| schema("locking the schema", e.into()))?;
    conn.ensure_migrations_table(OLD_LIST)
        .await
        .map_err(|e| schema("listing the schema's versions", e))?;
    conn.run(MAKE_LIST.to_owned())
        .await
        .map_err(|e| schema("listing the schema's versions", e.into()))?;
    let pending = pending(dialect, conn).await?;
    for migration in migrations(dialect) {
        if migration.migration_type.is_up_migration() && pending.contains(&migration.version) {
            apply(dialect, conn, &migration).await?;
        }
    }
    for (version, since) in COMPATIBLE_SINCE {
        conn.run(format!(
            "update schema_versions set compatible_since = {since} where version = {version}"
        ))
        .await
        .map_err(|e| schema("listing the schema's versions", e.into()))?;
    }
    Ok(pending)
}

/// Applies one version. A lock that others hold is tried for again and again, so that they and those behind us go on.
async fn apply<C: Schema>(
    dialect: Dialect,
    conn: &mut C,
    migration: &Migration,
) -> Result<(), StoreError> {
    let applying = "applying migrations";
    for tried in 1.. {
        let applied = if migration.no_tx && dialect == Dialect::Postgres {
            one_by_one(conn, migration).await
        } else {
            conn.apply(list_of(migration.version), migration)
                .await
                .map(drop)
        };
        match applied {
            Ok(()) => break,
            Err(error) if is_locked(&error) && tried < TRIES => {
                tracing::warn!(
                    version = migration.version,
                    tried,
                    "a table is in use: waiting for its lock without holding up others"
                );
                tokio::time::sleep(PAUSE).await;
            }
            Err(error) if is_locked(&error) => {
                return Err(StoreError::no_answer(
                    applying,
                    format!(
                        "version {} got no lock in {TRIES} tries; end the long transactions (pg_stat_activity) and run it again",
                        migration.version
                    ),
                ));
            }
            Err(error) => return Err(schema(applying, error)),
        }
    }
    Ok(())
}

/// Statements that may not be in a transaction; the version is listed when all have run.
async fn one_by_one<C: Schema>(conn: &mut C, migration: &Migration) -> Result<(), MigrateError> {
    let failed = |error| MigrateError::ExecuteMigration(error, migration.version);
    // An index waits for the transactions that were there before it, and holds up nobody meanwhile.
    conn.run("set lock_timeout = '60s'".to_owned())
        .await
        .map_err(failed)?;
    let mut ran = Ok(());
    for statement in migration.sql.as_str().split(";\n") {
        let text: Vec<&str> = statement
            .lines()
            .filter(|line| !line.trim_start().starts_with("--"))
            .collect();
        let text = text.join("\n");
        if !text.trim().is_empty() && ran.is_ok() {
            ran = conn.run(text).await.map_err(failed);
        }
    }
    conn.run("set lock_timeout = '2s'".to_owned())
        .await
        .map_err(failed)?;
    ran?;
    conn.skip(list_of(migration.version), migration).await
}

fn is_locked(error: &MigrateError) -> bool {
    let (MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _)) = error else {
        return false;
    };
    let code = error.as_database_error().and_then(|error| error.code());
    // lock_not_available, deadlock_detected
    code.is_some_and(|code| matches!(code.as_ref(), "55P03" | "40P01"))
}

/// The versions that are not applied; an error if the database has some that this binary can't work with, or other texts.
pub(in crate::store) async fn pending<C: Schema>(
    dialect: Dialect,
    conn: &mut C,
) -> Result<Vec<i64>, StoreError> {
    let migrations = migrations(dialect);
    let applied = applied(conn).await?;
    let newest = migrations.iter().map(|m| m.version).max().unwrap_or(0);
    for (version, listed) in &applied {
        let known = migrations
            .iter()
            .find(|m| m.version == *version && m.migration_type.is_up_migration());
        match known {
            None if listed.compatible_since.is_some_and(|since| since <= newest) => {}
            None => {
                return Err(StoreError::Schema(format!(
                    "the database is at version {version}, which this binary doesn't know and can't work with: it knows versions up to \
                     {newest}; run a newer gavel"
                )));
            }
            Some(m) if m.checksum.as_ref() != listed.checksum.as_slice() => {
                return Err(StoreError::Schema(format!(
                    "version {version} was applied with another text than this binary's: the database was made by a build from between \
                     releases; run that build, or begin with an empty database"
                )));
            }
            Some(_) => {}
        }
    }
    Ok(migrations
        .iter()
        .filter(|m| m.migration_type.is_up_migration() && !applied.contains_key(&m.version))
        .map(|m| m.version)
        .collect())
}

/// The newest version that is applied; 0 if none is.
pub(in crate::store) async fn version<C: Schema>(conn: &mut C) -> Result<i64, StoreError> {
    Ok(applied(conn).await?.into_keys().max().unwrap_or(0))
}

/// Reverts the newest `n` versions; answers them, newest first.
pub(in crate::store) async fn revert<C: Schema>(
    dialect: Dialect,
    conn: &mut C,
    n: u32,
) -> Result<Vec<i64>, StoreError> {
    conn.begin()
        .await
        .map_err(|e| schema("locking the schema", e.into()))?;
    let mut migrations = migrations(dialect);
    migrations.retain(|m| m.migration_type.is_down_migration());
    let mut versions: Vec<i64> = applied(conn).await?.into_keys().collect();
    versions.sort_unstable_by(|a, b| b.cmp(a));
    versions.truncate(n as usize);
    for version in &versions {
        let Some(down) = migrations.iter().find(|m| m.version == *version) else {
            return Err(StoreError::Schema(format!(
                "version {version} is a newer binary's: take it back with that one"
            )));
        };
        conn.revert(list_of(*version), down)
            .await
            .map_err(|e| schema("reverting a migration", e))?;
    }
    Ok(versions)
}

/// Names of the tables that the versions make on Postgres.
pub(in crate::store) fn tables() -> Vec<String> {
    let versions = COMMON.iter().chain(POSTGRES.iter());
    let made = versions.flat_map(|version| version.sql.as_str().split("create table ").skip(1));
    let name = |rest: &str| rest.split([' ', '(']).next().unwrap_or_default().to_owned();
    made.map(name).collect()
}

/// Every version, oldest first, up and down.
fn migrations(dialect: Dialect) -> Vec<Migration> {
    let own = match dialect {
        Dialect::Postgres => &POSTGRES,
        Dialect::Sqlite => &SQLITE,
    };
    let mut migrations: Vec<Migration> = COMMON.iter().chain(own.iter()).cloned().collect();
    migrations.sort_by_key(|migration| migration.version);
    migrations
}

fn list_of(version: i64) -> &'static str {
    if version <= LAST_OF_OLD {
        OLD_LIST
    } else {
        LIST
    }
}

/// A version as the database lists it.
struct Listed {
    checksum: Vec<u8>,
    /// The newest version that the oldest fitting binary knows; `None` in the old list, which doesn't say.
    compatible_since: Option<i64>,
}

async fn applied<C: Schema>(conn: &mut C) -> Result<HashMap<i64, Listed>, StoreError> {
    let reading = "reading the schema's version";
    let failed = |error: sqlx::Error| StoreError::of(reading, &error);
    let (mut old, mut listed) = (Vec::new(), Vec::new());
    if conn.has_list(OLD_LIST).await.map_err(failed)? {
        let read = conn.list_applied_migrations(OLD_LIST).await;
        old = read.map_err(|e| schema(reading, e))?;
    }
    if conn.has_list(LIST).await.map_err(failed)? {
        listed = conn.listed().await.map_err(failed)?;
    }
    let old = old.into_iter().map(|m| {
        let listed = Listed {
            checksum: m.checksum.into_owned(),
            compatible_since: None,
        };
        (m.version, listed)
    });
    let listed = listed.into_iter().map(|(version, checksum, since)| {
        let listed = Listed {
            checksum,
            compatible_since: Some(since),
        };
        (version, listed)
    });
    Ok(old.chain(listed).collect())
}

fn schema(attempted: &'static str, error: MigrateError) -> StoreError {
    if let MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) = &error
        && super::error::Outage::of(error).is_some()
    {
        return StoreError::of(attempted, error);
    }
    StoreError::Schema(format!("{attempted}: {error}"))
}

#[cfg(test)]
mod tests {
    use sqlx::SqlSafeStr as _;
    use sqlx::migrate::MigrationType;

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

    #[test]
    fn a_lock_that_others_hold_is_told_from_other_faults() {
        for error in [
            MigrateError::ExecuteMigration(sqlx::Error::PoolTimedOut, 1),
            MigrateError::VersionMissing(1),
        ] {
            assert!(!is_locked(&error), "{error}");
        }
    }

    /// The only test beside its code that needs a server: no version that is merged builds an index in this way yet.
    #[tokio::test]
    async fn an_index_is_built_beside_the_traffic_and_again_after_it_broke_off() {
        use sqlx::Connection as _;
        let Some(url) = std::env::var("DATABASE_URL")
            .ok()
            .filter(|url| !url.is_empty())
        else {
            return;
        };
        let mut conn = PgConnection::connect(&url).await.unwrap();
        let place = format!("t{}", uuid::Uuid::now_v7().simple());
        let make = format!(
            "create schema {place}; set search_path = {place}; create table things (x bigint)"
        );
        conn.run(make).await.unwrap();
        conn.run(MAKE_LIST.to_owned()).await.unwrap();
        let text = "-- no-transaction\ndrop index concurrently if exists things_x;\n\
                    -- Why it is there.\ncreate index concurrently things_x on things (x);\n";
        let version = Migration::new(
            9001,
            "index".into(),
            MigrationType::ReversibleUp,
            text.into_sql_str(),
            true,
        );
        for _ in 0..2 {
            apply(Dialect::Postgres, &mut conn, &version).await.unwrap();
            assert_eq!(conn.listed().await.unwrap().len(), 1);
            // As if it had ended before it was listed.
            conn.run("delete from schema_versions".to_owned())
                .await
                .unwrap();
        }
        let valid = "select indisvalid from pg_index where indexrelid = 'things_x'::regclass";
        assert!(
            sqlx::query_scalar::<_, bool>(valid)
                .fetch_one(&mut conn)
                .await
                .unwrap()
        );
        conn.run(format!("drop schema {place} cascade"))
            .await
            .unwrap();
    }
}
