//! A pooler with changing settings in front of a store.

use std::time::Duration;

use gavel::store::{Store, StoreError};

use super::fixtures::new_job;
use crate::support::pooler::Pooler;
use crate::support::wait::eventually;
use crate::support::{self, END_SESSIONS};

#[tokio::test]
async fn pooler_that_starts_sharing_sessions_is_named() {
    let Some(test) = support::postgres().await else {
        return;
    };
    let Some(pooler) = Pooler::start("pool_mode = session").await else {
        return;
    };
    let options = support::options(&pooler.url(&test.url));
    let store = Store::connect(options).await.unwrap();
    let works = async || {
        let new = new_job(None);
        let id = new.job_id;
        store.jobs().accept(new).await?;
        store.jobs().get(id).await
    };
    works().await.unwrap();
    pooler.change("pool_mode = transaction");
    let error = eventually(Duration::from_secs(60), "it is told", || async {
        match works().await {
            Err(StoreError::Unavailable { .. }) => None,
            Err(error) => Some(error),
            Ok(_) => {
                // Existing sessions aren't affected.
                support::execute(&test.url, END_SESSIONS).await.unwrap();
                None
            }
        }
    })
    .await;
    assert!(matches!(error, StoreError::SharedSessions), "{error}");
    assert!(error.to_string().contains("pool_mode = session"), "{error}");
}
