//! Repositories of the store, one per noun, with the statements about it.
//!
//! Each method fails with [`StoreError::Unavailable`] if the database is unavailable; methods document other errors only.

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use super::{
    Analytics, Batches, Budgets, Calls, CriteriaVersions, Holds, IdempotencyKeys, Imports, Jobs,
    Judges, ProviderBatches, Ratings, Retention, Scores, Sessions, SignIns, Store, Webhooks,
    Workers,
};
use crate::judge::{CacheKey, CallLog, CallRecord};

/// Defines the accessors of repositories: the fields that each borrows from the store and, after `;`, the repositories that it
/// uses.
macro_rules! repositories {
    ($($accessor:ident: $name:ident { $($field:ident),* $(; $noun:ident)* },)+) => {
        impl Store {$(
            pub fn $accessor(&self) -> $name<'_> {
                $name {
                    db: &self.db,
                    $($field: &self.$field,)*
                    $($noun: self.$noun(),)*
                }
            }
        )+}
    };
}

repositories! {
    jobs: Jobs { accepter, recorder, claimer, last_scan },
    sessions: Sessions { reader; analytics },
    scores: Scores {},
    batches: Batches { call_log },
    budgets: Budgets { call_log, spent },
    criteria: CriteriaVersions { ; analytics },
    judges: Judges {},
    holds: Holds {},
    calls: Calls { call_log, reader },
    workers: Workers {},
    imports: Imports {},
    ratings: Ratings {},
    idempotency_keys: IdempotencyKeys {},
    sign_ins: SignIns {},
    analytics: Analytics { call_log },
    provider_batches: ProviderBatches { ; calls },
    webhooks: Webhooks { ; batches },
    retention: Retention { call_log; batches; imports },
}

#[async_trait]
impl CallLog for Store {
    fn log(&self, call: CallRecord) {
        self.call_log.log(call);
    }

    async fn find(&self, key: CacheKey, since: DateTime<Utc>) -> Option<CallRecord> {
        self.calls().find(key, since).await
    }
}
