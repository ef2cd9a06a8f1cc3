//! The store by noun: each repository holds the statements about one of them, and what they need of the store.
//!
//! Every method fails with [`StoreError::Unavailable`] while the database is away; only other errors stand at the method.

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use super::{
    Analytics, Batches, Budgets, Calls, CriteriaVersions, Holds, IdempotencyKeys, Imports, Jobs,
    Judges, ProviderBatches, Ratings, Retention, Scores, Sessions, SignIns, Store, Webhooks,
    Workers,
};
use crate::judge::{CacheKey, CallLog, CallRecord};

/// How each noun is reached: what it borrows of the store, and behind `;` the nouns that it asks itself.
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
    jobs: Jobs { accepter, recorder, claimer, looked_at },
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
