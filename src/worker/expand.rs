//! Goes on with rescores that expand: a step at a time, in any worker, from where the last step ended.
//!
//! Steps are short and have pauses as long as themselves between them: on SQLite nobody else writes during one.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::store::{Dialect, Expanded, Store, StoreError};

/// How often it looks while nothing expands.
const PERIOD: Duration = Duration::from_secs(1);
/// The shortest pause between two rounds of steps.
const PAUSE: Duration = Duration::from_millis(5);

/// Expands until told to stop.
pub(super) struct Expansion {
    pub(super) store: Arc<Store>,
    pub(super) clock: Arc<dyn Clock>,
}

impl Expansion {
    pub(super) async fn run(self, stop: CancellationToken) {
        loop {
            let began = Instant::now();
            let pause = match self.round().await {
                Ok(Round::More) => began.elapsed().max(PAUSE),
                Ok(Round::Nothing) => PERIOD,
                Err(error) => {
                    tracing::warn!(%error, "a rescore could not be expanded; it is tried again");
                    PERIOD
                }
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = stop.cancelled() => return,
            }
        }
    }

    /// One step of each, so that a large one doesn't hold up the others.
    async fn round(&self) -> Result<Round, StoreError> {
        let mut round = Round::Nothing;
        for batch_id in self.store.expanding_backlogs().await? {
            let stepped = self.store.expand(batch_id, self.step(), self.clock.now());
            match stepped.await {
                Ok(Expanded::Part(_)) => round = Round::More,
                Ok(Expanded::Whole(batch)) => {
                    tracing::info!(%batch_id, items = batch.total, "a rescore has all its items");
                }
                Ok(Expanded::Stopped) => {}
                Err(error @ StoreError::Unavailable { .. }) => return Err(error),
                // One that can't be read mustn't hold up those behind it.
                Err(error) => tracing::error!(%batch_id, %error, "a rescore can't be expanded"),
            }
        }
        Ok(round)
    }

    /// About how many jobs a step inserts.
    fn step(&self) -> u32 {
        match self.store.dialect() {
            Dialect::Postgres => 1_000,
            Dialect::Sqlite => 250,
        }
    }
}

/// Whether something is left to be expanded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Round {
    More,
    Nothing,
}
