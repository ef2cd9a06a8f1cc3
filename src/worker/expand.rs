//! Continues the expansion of rescores in short steps, in one worker at a time.
//!
//! Each step is followed by a pause of the same length, because on SQLite no other writer proceeds during a step.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::leadership::Leadership;
use super::to_push;
use crate::clock::Clock;
use crate::queue::{Push, Queue};
use crate::store::{Dialect, StepOutcome, Store, StoreError};

/// Interval while no rescore expands.
const PERIOD: Duration = Duration::from_secs(1);
/// Minimum pause between two rounds.
const PAUSE: Duration = Duration::from_millis(5);

/// Number of a batch's first items that are pushed at once. `refill.rs` pushes the others as the queue has room.
const PUSHED: u32 = 1_000;

pub struct Expansion {
    store: Arc<Store>,
    queue: Arc<dyn Queue>,
    clock: Arc<dyn Clock>,
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
                    tracing::warn!(%error, "failed to expand a rescore; retrying");
                    PERIOD
                }
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = stop.cancelled() => return,
            }
        }
    }

    /// Does one step of each rescore, so that a large one doesn't block the others. Errors: the database's, if it is
    /// unavailable. A rescore that can't be read is skipped and logged.
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
                    tracing::info!(%batch_id, items = batch.total, "rescore fully expanded");
                    self.push(batch_id).await?;
                }
                Ok(StepOutcome::Stopped) => {}
                Err(error @ StoreError::Unavailable { .. }) => return Err(error),
                // An unreadable rescore must not block those behind it.
                Err(error) => {
                    tracing::error!(%batch_id, %error, "failed to expand a rescore; not retried")
                }
            }
        }
        Ok(round)
    }

    /// Pushes the first items of a batch once, because rescue skips recently inserted rows.
    async fn push(&mut self, batch_id: Uuid) -> Result<(), StoreError> {
        if !self.pushed.insert(batch_id) {
            return Ok(());
        }
        let items = self.store.batches().first_items(batch_id, PUSHED).await?;
        let pushes: Vec<Push> = items.into_iter().map(to_push).collect();
        if !pushes.is_empty()
            && let Err(error) = self.queue.push(&pushes).await
        {
            tracing::debug!(%batch_id, %error, "not pushed; rescue will push it");
        }
        Ok(())
    }

    /// Returns the approximate number of jobs inserted by a step.
    fn step(&self) -> u32 {
        match self.store.dialect() {
            Dialect::Postgres => 1_000,
            Dialect::Sqlite => 250,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpansionOutcome {
    /// A step was done, and a rescore is still incomplete.
    More,
    /// No rescore expands, or all are complete.
    Nothing,
}
