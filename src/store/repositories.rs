//! The store by noun: each repository holds the statements about one of them, and all share the store's connections.
//!
//! Every method fails with [`StoreError::Unavailable`](super::StoreError::Unavailable) while the database is away; only other
//! errors stand at the method.

use std::ops::Deref;

use super::Store;

macro_rules! repositories {
    ($($(#[$about:meta])* $accessor:ident: $name:ident,)+) => {$(
        $(#[$about])*
        #[derive(Clone, Copy)]
        pub struct $name<'a>(&'a Store);

        impl Deref for $name<'_> {
            type Target = Store;

            fn deref(&self) -> &Store {
                self.0
            }
        }

        impl Store {
            $(#[$about])*
            pub fn $accessor(&self) -> $name<'_> {
                $name(self)
            }
        }
    )+};
}

repositories! {
    /// Jobs: accepted, claimed, recorded, rescued.
    jobs: Jobs,

    /// What agents did.
    sessions: Sessions,

    /// Scores of sessions.
    scores: Scores,

    /// Batches and their items.
    batches: Batches,

    /// What calls cost, and where it stops batches.
    budgets: Budgets,

    criteria: CriteriaVersions,

    /// What is known of judges.
    judges: Judges,

    /// Judges and lanes that are closed.
    holds: Holds,

    /// The log of judge calls.
    calls: Calls,

    /// Who works, and who leads.
    workers: Workers,

    /// Imports of sessions.
    imports: Imports,

    /// Ratings by people.
    ratings: Ratings,

    /// Keys of requests that are sent again.
    idempotency_keys: IdempotencyKeys,

    /// Browsers that are signed in.
    sign_ins: SignIns,

    /// Scores, counted.
    analytics: Analytics,

    /// Batches that a provider answers.
    provider_batches: ProviderBatches,

    /// Who is told of what.
    webhooks: Webhooks,

    /// What is past its time, and what somebody wants gone.
    retention: Retention,
}
