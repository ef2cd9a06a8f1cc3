//! A pooler that is set otherwise while a store works behind it.

use std::time::Duration;

use gavel::store::{Store, StoreError, StoreOptions};

use super::fixtures::new_job;
use crate::support;
use crate::support::pooler::Pooler;
use crate::support::wait::eventually;

#[tokio::test]
async fn a_pooler_that_begins_to_share_sessions_is_named() {
    let Some(test) = support::postgres().await else {
        eprintln!("NOT TESTED: DATABASE_URL names no Postgres");
        return;
    };
    let Some(pooler) = Pooler::start("pool_mode = session").await else {
        return;
    };
    let store = Store::connect(StoreOptions {
        url: pooler.url(&test.url),
        max_connections: 10,
        connect_timeout: Duration::from_secs(10),
    })
    .await
    .unwrap();
    let works = async || {
        let new = new_job(None);
        let id = new.job_id;
        store.jobs().accept(new).await?;
        store.jobs().get(id).await
    };
    works().await.unwrap();
    pooler.change("pool_mode = transaction");
    let end = "select pg_terminate_backend(pid) from pg_stat_activity
               where datname = current_database() and pid <> pg_backend_pid()";
    let error = eventually(Duration::from_secs(60), "it is told", || async {
        match works().await {
            Err(StoreError::Unavailable { .. }) => None,
            Err(error) => Some(error),
            Ok(_) => {
                // The sessions of before stay whole.
                support::execute(&test.url, end).await.unwrap();
                None
            }
        }
    })
    .await;
    assert!(matches!(error, StoreError::SharedSessions), "{error}");
    assert!(error.to_string().contains("pool_mode = session"), "{error}");
}
