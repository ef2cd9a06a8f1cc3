//! The schema goes up, down, and up again.

use gavel::store::{Dialect, Outage, Store, StoreError};
use sqlx::Connection as _;
use sqlx::Executor as _;

use super::fixtures::{accept, new_job};
use crate::support;

/// The schema is in the way, which is said in these words.
#[track_caller]
fn is_refused<T: std::fmt::Debug>(answer: Result<T, StoreError>, words: &str) {
    let error = answer.unwrap_err();
    assert!(matches!(error, StoreError::Schema(_)), "{error}");
    assert!(error.to_string().contains(words), "{error}");
}

async fn connect(url: &str) -> Store {
    Store::connect(support::options(url)).await.unwrap()
}

async fn unmigrated() -> Vec<(Store, Option<tempfile::TempDir>)> {
    let (sqlite, dir) = support::sqlite_database();
    let mut urls = vec![(sqlite, Some(dir)), ("sqlite::memory:".to_owned(), None)];
    if let Some(url) = support::postgres_database().await {
        urls.push((url, None));
    }
    let mut stores = Vec::new();
    for (url, dir) in urls {
        stores.push((connect(&url).await, dir));
    }
    stores
}

/// The versions that `migrations/` holds for a database, oldest first.
fn written(dialect: Dialect) -> Vec<i64> {
    let own = match dialect {
        Dialect::Postgres => "postgres",
        Dialect::Sqlite => "sqlite",
    };
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
    let files = [root.clone(), root.join(own)]
        .into_iter()
        .flat_map(|folder| std::fs::read_dir(folder).unwrap());
    let mut versions: Vec<i64> = files
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".up.sql"))
        .map(|name| name.split('_').next().unwrap().parse().unwrap())
        .collect();
    versions.sort_unstable();
    versions.dedup();
    versions
}

#[tokio::test]
async fn the_schema_goes_up_down_and_up_again() {
    for (store, _dir) in unmigrated().await {
        let versions = written(store.dialect());
        let backwards: Vec<i64> = versions.iter().rev().copied().collect();
        assert_eq!(store.pending_migrations().await.unwrap(), versions);
        assert_eq!(store.migrate().await.unwrap(), versions);
        assert!(store.pending_migrations().await.unwrap().is_empty());
        assert!(store.migrate().await.unwrap().is_empty());
        accept(&store, new_job(None)).await;
        assert_eq!(store.revert(1).await.unwrap(), backwards[..1]);
        assert_eq!(store.pending_migrations().await.unwrap(), backwards[..1]);
        assert_eq!(store.revert(99).await.unwrap(), backwards[1..]);
        assert_eq!(store.migrate().await.unwrap(), versions);
        accept(&store, new_job(None)).await;
        store.ping().await.unwrap();
        store.close().await;
    }
}

#[tokio::test]
async fn a_store_without_its_schema_says_what_to_do() {
    for (store, _dir) in unmigrated().await {
        let error = store.jobs().accept(new_job(None)).await.unwrap_err();
        let outage = Outage::MissingTable;
        assert!(
            matches!(error, StoreError::Unavailable { outage: it, .. } if it == outage),
            "{error}"
        );
        assert!(error.to_string().contains("gavel migrate"), "{error}");
    }
}

#[tokio::test]
async fn version_applied_with_another_text_is_rejected() {
    for test in support::stores().await {
        let other = "update schema_versions set checksum = 'x'";
        support::execute(&test.url, other).await.unwrap();
        is_refused(test.store.pending_migrations().await, "another text");
    }
}

#[tokio::test]
async fn a_migration_that_meets_a_table_of_its_name_says_what_failed() {
    for (url, _dir) in support::databases().await {
        let store = connect(&url).await;
        store.pending_migrations().await.unwrap();
        support::execute(&url, "create table alert_sessions (x text)")
            .await
            .unwrap();
        is_refused(store.migrate().await, "alert_sessions");
    }
}

#[tokio::test]
async fn unknown_newer_version_is_accepted_but_not_reverted() {
    for (url, _dir) in support::databases().await {
        let store = connect(&url).await;
        store.migrate().await.unwrap();
        let newer =
            "insert into schema_versions (version, description, success, checksum, execution_time)
                     values (9999, 'newer', true, 'x', 0)";
        support::execute(&url, newer).await.unwrap();
        assert!(store.pending_migrations().await.unwrap().is_empty());
        assert!(store.migrate().await.unwrap().is_empty());
        accept(&store, new_job(None)).await;
        let error = store.revert(1).await.unwrap_err();
        assert!(error.to_string().contains("9999"), "{error}");
        store.close().await;
    }
}

#[tokio::test]
async fn migration_that_waits_for_a_lock_does_not_block_other_statements() {
    let Some(url) = support::postgres_database().await else {
        return;
    };
    let store = connect(&url).await;
    store.migrate().await.unwrap();

    let mut reader = sqlx::PgConnection::connect(&url).await.unwrap();
    reader.execute("begin").await.unwrap();
    reader
        .execute("select * from scoring_jobs limit 1")
        .await
        .unwrap();
    let mut other = sqlx::PgConnection::connect(&url).await.unwrap();
    let mut migrating = std::pin::pin!(store.revert(1));
    let behind = async {
        let waits = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
        for _ in 0..2 {
            while sqlx::query_scalar::<_, i64>(waits)
                .fetch_one(&mut other)
                .await
                .unwrap()
                == 0
            {
                tokio::task::yield_now().await;
            }
            // It stands behind the migration, which would wait for the reader for ever.
            other
                .execute("select * from scoring_jobs limit 1")
                .await
                .unwrap();
        }
    };
    let behind = tokio::time::timeout(std::time::Duration::from_secs(30), behind);
    tokio::select! {
        done = &mut migrating => panic!("it can't be done yet: {done:?}"),
        behind = behind => behind.expect("others go on"),
    }
    reader.execute("rollback").await.unwrap();
    assert_eq!(migrating.await.unwrap(), written(store.dialect()));
    store.close().await;
}
