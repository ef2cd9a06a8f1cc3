//! Goes on with rescores that expand: a step at a time, in one worker at a time, from where the last step ended.
//!
//! Steps are short and have pauses as long as themselves between them: on SQLite nobody else writes during one.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::leadership::Leadership;
use super::push_of;
use crate::clock::Clock;
use crate::queue::{Push, Queue};
use crate::store::{Dialect, StepOutcome, Store, StoreError};

/// How often it looks while nothing expands.
const PERIOD: Duration = Duration::from_secs(1);
/// The shortest pause between two rounds of steps.
const PAUSE: Duration = Duration::from_millis(5);

/// How many of a batch's first items are pushed at once; `refill.rs` pushes the others, as the queue has room for them.
const PUSHED: u32 = 1_000;

/// Expands the rescores of a store, in one worker of any number.
pub struct Expansion {
    store: Arc<Store>,
    queue: Arc<dyn Queue>,
    clock: Arc<dyn Clock>,
    /// Batches whose first items this worker has pushed.
    pushed: HashSet<Uuid>,
}

impl Expansion {
    pub fn new(store: Arc<Store>, queue: Arc<dyn Queue>, clock: Arc<dyn Clock>) -> Self {
        Self {
            store,
            queue,
            clock,
            pushed: HashSet::new(),
        }
    }

    /// Expands until told to stop.
    pub(super) async fn run(mut self, leadership: Leadership, stop: CancellationToken) {
        loop {
            let began = Instant::now();
            let round = match leadership.leads() {
                true => self.round().await,
                false => Ok(ExpansionOutcome::Nothing),
            };
            let pause = match round {
                Ok(ExpansionOutcome::More) => began.elapsed().max(PAUSE),
                Ok(ExpansionOutcome::Nothing) => PERIOD,
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
    ///
    /// # Errors
    /// The database's, where it is away; a rescore that can't be read is left out, and logged.
    pub async fn round(&mut self) -> Result<ExpansionOutcome, StoreError> {
        let mut round = ExpansionOutcome::Nothing;
        let expanding = self.store.batches().expanding_backlogs().await?;
        self.pushed.retain(|batch_id| expanding.contains(batch_id));
        for batch_id in expanding {
            let stepped = self
                .store
                .batches()
                .expand(batch_id, self.step(), self.clock.now());
            match stepped.await {
                Ok(StepOutcome::Part(items)) => {
                    round = ExpansionOutcome::More;
                    if items > 0 {
                        self.push(batch_id).await?;
                    }
                }
                Ok(StepOutcome::Whole(batch)) => {
                    tracing::info!(%batch_id, items = batch.total, "a rescore has all its items");
                    self.push(batch_id).await?;
                }
                Ok(StepOutcome::Stopped) => {}
                Err(error @ StoreError::Unavailable { .. }) => return Err(error),
                // One that can't be read mustn't hold up those behind it.
                Err(error) => tracing::error!(%batch_id, %error, "a rescore can't be expanded"),
            }
        }
        Ok(round)
    }

    /// Pushes the first items of a batch, once: rescue leaves young rows to such a push.
    async fn push(&mut self, batch_id: Uuid) -> Result<(), StoreError> {
        if !self.pushed.insert(batch_id) {
            return Ok(());
        }
        let items = self.store.batches().first_items(batch_id, PUSHED).await?;
        let pushes: Vec<Push> = items.into_iter().map(push_of).collect();
        if !pushes.is_empty()
            && let Err(error) = self.queue.push(&pushes).await
        {
            tracing::debug!(%batch_id, %error, "not pushed; rescue will push it");
        }
        Ok(())
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
pub enum ExpansionOutcome {
    /// A rescore made a step, and isn't whole.
    More,
    /// Nothing expands, or all that did is whole.
    Nothing,
}
