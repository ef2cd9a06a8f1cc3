//! Collects the replies of batches through the batch endpoints of their judges, then starts the batches.
//!
//! One worker at a time processes a batch, and any worker can take over. [`chunk::next`] decides on each chunk. Each result is stored
//! before the next action, so that a step may be interrupted anywhere. Scoring is left to the pipeline, which finds the collected replies.

mod answers;
mod chunk;
mod send;
mod tries;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use self::chunk::{ChunkAction, ChunkObservation, ChunkStatus, is_given_up, is_over, next};
pub(super) use self::tries::FailureStreaks;
use super::process::Pipeline;
use crate::clock::Clock;
use crate::job::Job;
use crate::judge::{
    BatchEndpoint, ChunkLookup, ErrorClass, JudgeError, Judges, Progress, Question,
};
use crate::store::{BatchRow, ChunkRow, Ending, Store, StoreError};
use crate::wire::{BatchState, ChunkState};

/// Maximum pause of a batch, unless its provider asks for more.
const MAX_PAUSE: Duration = Duration::from_secs(600);

#[derive(Debug, Clone, Copy)]
pub struct ProviderBatchOptions {
    pub chunk: usize,
    /// Interval of polls of a provider's batches.
    pub poll: Duration,
}

pub(super) struct ChunkLoop {
    pub(super) store: Arc<Store>,
    pub(super) judges: Arc<Judges>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) pipeline: Pipeline,
    pub(super) worker_id: Uuid,
    pub(super) options: ProviderBatchOptions,
    /// Silence after which another worker takes over the batch.
    pub(super) silent: Duration,
    /// Batches that are paused, with the end of the pause.
    pub(super) rests: HashMap<Uuid, Instant>,
    pub(super) tries: FailureStreaks,
    /// Locked while a chunk is sent. If sending were interrupted, its arrival would be unknown, and it might be paid for twice.
    pub(super) sending: Arc<tokio::sync::Mutex<()>>,
}

enum ChunkError {
    Judge(JudgeError),
    Store(StoreError),
    /// A dependency of an item's run is unavailable.
    DependencyDown,
    /// The judge is stopped, for this reason.
    Stopped(String),
}

impl From<JudgeError> for ChunkError {
    fn from(error: JudgeError) -> Self {
        Self::Judge(error)
    }
}

impl From<StoreError> for ChunkError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl ChunkLoop {
    /// Runs until `stop`, then finishes sending the current chunk. Ends at once at `hard`.
    pub(super) async fn run(mut self, stop: CancellationToken, hard: CancellationToken) {
        let (poll, sending) = (self.options.poll, self.sending.clone());
        let cut = async {
            stop.cancelled().await;
            tokio::select! {
                _arrived = sending.lock() => {}
                () = hard.cancelled() => {}
            }
        };
        let rounds = async {
            loop {
                if let Err(error) = self.round().await {
                    tracing::warn!(%error, "failed to process provider batches; retrying");
                }
                tokio::time::sleep(poll).await;
            }
        };
        tokio::select! {
            () = rounds => {}
            () = cut => {}
        }
    }

    async fn round(&mut self) -> Result<(), StoreError> {
        let batches = self
            .store
            .provider_batches()
            .due(self.worker_id, self.silent)
            .await?;
        for id in batches {
            if self
                .rests
                .get(&id)
                .is_some_and(|until| *until > Instant::now())
                || !self.lease(id).await?
            {
                continue;
            }
            let lost = async {
                self.keep_lease(id).await;
                drop(self.sending.lock().await);
            };
            let done = tokio::select! {
                done = self.process_batch(id) => done,
                () = lost => {
                    tracing::warn!(batch_id = %id, "another worker took over a provider batch");
                    continue;
                }
            };
            let note = self.settle(id, done).await?;
            self.store
                .provider_batches()
                .leave(id, self.worker_id, note.as_deref())
                .await?;
        }
        Ok(())
    }

    /// Returns the batch's status text, or `None` if it only waits for its provider.
    async fn settle(
        &mut self,
        id: Uuid,
        done: Result<(), ChunkError>,
    ) -> Result<Option<String>, StoreError> {
        self.rests.remove(&id);
        let error = match done {
            Ok(()) => {
                self.tries.succeeded(id);
                return Ok(None);
            }
            Err(ChunkError::Judge(error)) => error,
            // No attempt was made, so the count of failures restarts.
            Err(ChunkError::Stopped(why)) => {
                self.tries.succeeded(id);
                return Ok(Some(why));
            }
            Err(ChunkError::DependencyDown) => {
                self.tries.succeeded(id);
                return Ok(Some(
                    "a service that its items need is unavailable".to_owned(),
                ));
            }
            Err(ChunkError::Store(error @ StoreError::Unavailable { .. })) => return Err(error),
            Err(ChunkError::Store(error)) => {
                tracing::error!(batch_id = %id, %error, "failed to process a provider batch");
                return Ok(Some(error.to_string()));
            }
        };
        tracing::warn!(batch_id = %id, %error, "batch waits for its judge's provider");
        let now = self.clock.now();
        let tried = self.tries.failed(id, now);
        if is_given_up(tried, now) {
            self.fall_back_to_calls(id, &error.message).await?;
        }
        // Wait as long as the provider asks, or double the last wait.
        let times = 1 << tried.count.saturating_sub(1).min(10);
        let doubled = self.options.poll.saturating_mul(times);
        let rest = doubled
            .min(MAX_PAUSE)
            .max(error.retry_after.unwrap_or_default());
        self.rests.insert(id, Instant::now() + rest);
        Ok(Some(error.message))
    }

    async fn lease(&self, id: Uuid) -> Result<bool, StoreError> {
        let leased = self
            .store
            .provider_batches()
            .lease(id, self.worker_id, self.silent);
        leased.await
    }

    /// Renews the lease of the batch. Returns once another worker owns it.
    async fn keep_lease(&self, id: Uuid) {
        loop {
            tokio::time::sleep(self.silent / 3).await;
            if let Ok(false) = self.lease(id).await {
                return;
            }
        }
    }

    /// Processes all chunks of a batch once.
    async fn process_batch(&self, id: Uuid) -> Result<(), ChunkError> {
        let Some(batch) = self.store.batches().get(id).await? else {
            return Ok(());
        };
        let mut trouble = None;
        for chunk in self.store.provider_batches().chunks(id).await? {
            if !chunk.is_open() {
                continue;
            }
            match self.advance_chunk(&batch, &chunk).await {
                Ok(()) => {}
                Err(ChunkError::Judge(error)) => trouble = Some(error),
                Err(other) => return Err(other),
            }
        }
        if let Some(error) = trouble {
            return Err(error.into());
        }
        let whole = match batch.state {
            BatchState::Running => self.hand_over(&batch).await?,
            BatchState::Cancelled | BatchState::Completed => true,
            BatchState::Expanding | BatchState::Paused => false,
        };
        let chunks = self.store.provider_batches().chunks(id).await?;
        if whole && !chunks.iter().any(ChunkRow::is_open) {
            self.store.provider_batches().end(id).await?;
            tracing::info!(batch_id = %id, chunks = chunks.len(), "received all replies of a batch");
        }
        Ok(())
    }

    async fn advance_chunk(&self, batch: &BatchRow, chunk: &ChunkRow) -> Result<(), ChunkError> {
        let endpoint = self.endpoint(&chunk.judge);
        let looked = match &endpoint {
            Ok(endpoint) => self.look(endpoint, chunk).await?,
            Err(error) => Err(error.clone()),
        };
        let seen = match &looked {
            Ok(seen) => seen.clone(),
            Err(error) if error.status == Some(404) && chunk.provider_id.is_some() => {
                ChunkObservation::Unknown(error.message.clone())
            }
            Err(error) => ChunkObservation::Trouble(error.message.clone()),
        };
        // A chunk that is sent again has a new chunk_id, so its batch counts the attempts.
        let tried = self.tries.get(match chunk.provider_id {
            Some(_) => chunk.chunk_id,
            None => chunk.batch_id,
        });
        let since = match (chunk.submitted_at, tried) {
            (Some(at), _) => at,
            (None, Some(tried)) => tried.since,
            (None, None) => chunk.made_at,
        };
        let now = self.clock.now();
        let status = ChunkStatus {
            since,
            tries: tried.map_or(0, |tried| tried.count),
            items: chunk.requests,
            is_cancelled: batch.state == BatchState::Cancelled,
        };
        let step = next(&status, seen, now);
        let (collects, tries_again) = (step == ChunkAction::Collect, step == ChunkAction::TryAgain);
        let nowhere = step.is_failed_attempt();
        let taken = match (step, endpoint) {
            (step, Ok(endpoint)) => {
                let over = is_over(since, now);
                self.take(step, &endpoint, chunk, over).await
            }
            (ChunkAction::GiveUp(why), Err(_)) => {
                self.fail(chunk, &why).await.map_err(ChunkError::from)
            }
            (_, Err(_)) => Ok(()),
        };
        if nowhere || (collects && taken.is_err()) {
            self.tries.failed(chunk.chunk_id, now);
        } else {
            self.tries.succeeded(chunk.chunk_id);
        }
        taken?;
        match looked {
            Err(error) if tries_again => Err(error.into()),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Advances a chunk by one step; `over`: its deadline has passed.
    async fn take(
        &self,
        step: ChunkAction,
        endpoint: &BatchEndpoint,
        chunk: &ChunkRow,
        over: bool,
    ) -> Result<(), ChunkError> {
        let chunk_id = chunk.chunk_id;
        match step {
            ChunkAction::Note(name) => {
                let now = self.clock.now();
                self.store
                    .provider_batches()
                    .chunk_submitted(chunk_id, &name, now)
                    .await?;
            }
            ChunkAction::PlanAgain => {
                tracing::warn!(%chunk_id, "arrival of a chunk is unconfirmed; replanning its items");
                self.store
                    .provider_batches()
                    .forget_chunk(chunk_id, self.worker_id)
                    .await?;
            }
            ChunkAction::Split(why) => {
                self.store
                    .provider_batches()
                    .turn_chunk_away(chunk_id, &why)
                    .await?;
                return Err(trouble(ErrorClass::Throttled, why).into());
            }
            ChunkAction::Wait | ChunkAction::TryAgain => {}
            ChunkAction::Cancel => {
                endpoint.cancel(theirs(chunk)).await?;
                if over {
                    let why =
                        "chunk timed out; requested its cancellation from the provider".to_owned();
                    return Err(trouble(ErrorClass::Transient, why).into());
                }
            }
            ChunkAction::Collect => self.collect(endpoint, chunk, theirs(chunk)).await?,
            ChunkAction::GiveUp(why) => {
                if chunk.provider_id.is_some() {
                    let cancelled = endpoint.cancel(theirs(chunk)).await;
                    let refused = cancelled.err().filter(|error| error.status != Some(404));
                    if let (Some(error), false) = (refused, over) {
                        return Err(error.into());
                    }
                }
                self.fail(chunk, &why).await?;
            }
            ChunkAction::Fail(why) => self.fail(chunk, &why).await?,
        }
        Ok(())
    }

    async fn look(
        &self,
        endpoint: &BatchEndpoint,
        chunk: &ChunkRow,
    ) -> Result<Result<ChunkObservation, JudgeError>, StoreError> {
        if chunk.state == ChunkState::Making {
            let found = endpoint.find(chunk.chunk_id).await;
            return Ok(found.map(|found| match found {
                ChunkLookup::As(name) => ChunkObservation::Arrived(name),
                ChunkLookup::Nowhere => ChunkObservation::Absent,
                ChunkLookup::CantTell => ChunkObservation::CantTell,
            }));
        }
        Ok(match endpoint.look(theirs(chunk)).await {
            Ok(Progress::Running { done }) => {
                self.store
                    .provider_batches()
                    .chunk_progress(chunk.chunk_id, done)
                    .await?;
                Ok(ChunkObservation::Running)
            }
            Ok(Progress::Ended) => Ok(ChunkObservation::Ended),
            Ok(Progress::Refused(why)) => Ok(ChunkObservation::Refused(why)),
            Ok(Progress::NoRoom(why)) => Ok(ChunkObservation::NoRoom(why)),
            Err(error) => Err(error),
        })
    }

    async fn fail(&self, chunk: &ChunkRow, why: &str) -> Result<(), StoreError> {
        tracing::warn!(chunk_id = %chunk.chunk_id, judge = chunk.judge, why, "chunk produced no results; its items are sent as single calls, at the full price");
        let failed =
            self.store
                .provider_batches()
                .end_chunk(chunk.chunk_id, ChunkState::Failed, Some(why));
        failed.await
    }

    /// Returns the question of an item as its run asks it, or `None` if its run fails.
    async fn question(&self, job: &Job) -> Result<Option<Question>, ChunkError> {
        match self.pipeline.question(job).await {
            Ok(question) => Ok(Some(question)),
            Err(Ending::Failed(_)) => Ok(None),
            Err(
                Ending::Waiting { .. }
                | Ending::Requeued
                | Ending::NotStarted
                | Ending::Scored { .. }
                | Ending::Evaluated { .. },
            ) => Err(ChunkError::DependencyDown),
        }
    }

    fn endpoint(&self, judge: &str) -> Result<BatchEndpoint, JudgeError> {
        let known = self.judges.get(judge).ok();
        known.and_then(|judge| judge.batch_endpoint()).ok_or_else(|| {
            trouble(
                ErrorClass::Misconfigured,
                format!(
                    "judge {judge:?} can't be called through its batch endpoint any more: restore the key and the batch_price_factor of its entry in llm_providers.yaml, or cancel the batch"
                ),
            )
        })
    }
}

fn theirs(chunk: &ChunkRow) -> &str {
    chunk.provider_id.as_deref().unwrap_or_default()
}

fn trouble(class: ErrorClass, message: String) -> JudgeError {
    JudgeError::new(class, message)
}
