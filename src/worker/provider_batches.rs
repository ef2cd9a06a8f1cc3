//! Collects the replies of batches, by their judges' batch endpoints, and then lets the batches run.
//!
//! One worker at a time looks after a batch; any takes over. [`chunk::next`] says what becomes of each chunk. What was done is in
//! the store before the next thing is tried, so that a step may be cut off anywhere. It never scores: the pipeline does, with
//! the replies that it finds.

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

use self::chunk::{ChunkStatus, Seen, Step, is_given_up, is_over, next};
pub(super) use self::tries::Tries;
use super::process::Pipeline;
use crate::clock::Clock;
use crate::job::Job;
use crate::judge::{
    BatchEndpoint, ChunkLookup, ErrorClass, JudgeError, Judges, Progress, Question,
};
use crate::store::{BatchRow, ChunkRow, Ending, Store, StoreError};
use crate::wire::{BatchState, ChunkState};

/// The longest time that a batch is left alone, unless its provider asks for more.
const LONGEST_REST: Duration = Duration::from_secs(600);

/// How replies are collected.
#[derive(Debug, Clone, Copy)]
pub struct ProviderBatchOptions {
    /// Questions in one chunk.
    pub chunk: usize,
    /// How long between two looks at a provider's batches.
    pub poll: Duration,
}

/// Looks after batches whose replies are collected, until told to stop.
pub(super) struct ChunkLoop {
    pub(super) store: Arc<Store>,
    pub(super) judges: Arc<Judges>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) pipeline: Pipeline,
    pub(super) worker_id: Uuid,
    pub(super) options: ProviderBatchOptions,
    /// After this silence another worker takes the batch over.
    pub(super) silent: Duration,
    /// Batches that are left alone until then.
    pub(super) rests: HashMap<Uuid, Instant>,
    /// What led nowhere, by batch and by chunk.
    pub(super) tries: Tries,
    /// Held while a chunk is sent: cut off, nobody would hear that it arrived, and it might be paid twice.
    pub(super) sending: Arc<tokio::sync::Mutex<()>>,
}

enum Trouble {
    /// The judge's provider: what it said.
    Judge(JudgeError),
    Store(StoreError),
    /// The run of an item would rest now, since something that it needs is away.
    Rests,
    /// Nobody may ask the judge now: why.
    Stopped(String),
}

impl From<JudgeError> for Trouble {
    fn from(error: JudgeError) -> Self {
        Self::Judge(error)
    }
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl ChunkLoop {
    /// Works until `stop`, and on until a chunk that is being sent then has arrived; at `hard` it ends at once.
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
                    tracing::warn!(%error, "provider batches could not be looked after; it tries again");
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
                done = self.look_after(id) => done,
                () = lost => {
                    tracing::warn!(batch_id = %id, "another worker looks after a batch's replies now");
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

    /// What a look came to, in words; `None`: the batch waits for nothing but its provider's answers.
    async fn settle(
        &mut self,
        id: Uuid,
        done: Result<(), Trouble>,
    ) -> Result<Option<String>, StoreError> {
        self.rests.remove(&id);
        let error = match done {
            Ok(()) => {
                self.tries.succeeded(id);
                return Ok(None);
            }
            Err(Trouble::Judge(error)) => error,
            // Nothing was tried, so the count of failures in a row starts again.
            Err(Trouble::Stopped(why)) => {
                self.tries.succeeded(id);
                return Ok(Some(why));
            }
            Err(Trouble::Rests) => {
                self.tries.succeeded(id);
                return Ok(Some("something that its items need is away".to_owned()));
            }
            Err(Trouble::Store(error @ StoreError::Unavailable { .. })) => return Err(error),
            Err(Trouble::Store(error)) => {
                tracing::error!(batch_id = %id, %error, "a batch's replies can't be looked after");
                return Ok(Some(error.to_string()));
            }
        };
        tracing::warn!(batch_id = %id, %error, "a batch waits for its judge's provider");
        let now = self.clock.now();
        let tried = self.tries.failed(id, now);
        if is_given_up(tried, now) {
            self.ask_the_rest(id, &error.message).await?;
        }
        // As long as the provider asks to wait, or twice as long as the last time.
        let times = 1 << tried.count.saturating_sub(1).min(10);
        let doubled = self.options.poll.saturating_mul(times);
        let rest = doubled
            .min(LONGEST_REST)
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

    /// Says that this worker still looks after the batch; ends when it doesn't any more.
    async fn keep_lease(&self, id: Uuid) {
        loop {
            tokio::time::sleep(self.silent / 3).await;
            if let Ok(false) = self.lease(id).await {
                return;
            }
        }
    }

    /// One look at everything that a batch waits for.
    async fn look_after(&self, id: Uuid) -> Result<(), Trouble> {
        let Some(batch) = self.store.batches().get(id).await? else {
            return Ok(());
        };
        let mut trouble = None;
        for chunk in self.store.provider_batches().chunks(id).await? {
            if !chunk.is_open() {
                continue;
            }
            match self.go_on(&batch, &chunk).await {
                Ok(()) => {}
                Err(Trouble::Judge(error)) => trouble = Some(error),
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
            tracing::info!(batch_id = %id, chunks = chunks.len(), "the replies of a batch are here");
        }
        Ok(())
    }

    async fn go_on(&self, batch: &BatchRow, chunk: &ChunkRow) -> Result<(), Trouble> {
        let endpoint = self.endpoint(&chunk.judge);
        let looked = match &endpoint {
            Ok(endpoint) => self.look(endpoint, chunk).await?,
            Err(error) => Err(error.clone()),
        };
        let seen = match &looked {
            Ok(seen) => seen.clone(),
            Err(error) if error.status == Some(404) && chunk.provider_id.is_some() => {
                Seen::Unknown(error.message.clone())
            }
            Err(error) => Seen::Trouble(error.message.clone()),
        };
        // Sent anew, it has another chunk_id: its batch knows how often that was.
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
        let (collects, tries_again) = (step == Step::Collect, step == Step::TryAgain);
        let nowhere = step.leads_nowhere();
        let taken = match (step, endpoint) {
            (step, Ok(endpoint)) => {
                let over = is_over(since, now);
                self.take(step, &endpoint, chunk, over).await
            }
            (Step::GiveUp(why), Err(_)) => self.fail(chunk, &why).await.map_err(Trouble::from),
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

    /// Takes a step with a chunk; `over`: its deadline has passed.
    async fn take(
        &self,
        step: Step,
        endpoint: &BatchEndpoint,
        chunk: &ChunkRow,
        over: bool,
    ) -> Result<(), Trouble> {
        let chunk_id = chunk.chunk_id;
        match step {
            Step::Note(name) => {
                let now = self.clock.now();
                self.store
                    .provider_batches()
                    .chunk_submitted(chunk_id, &name, now)
                    .await?;
            }
            Step::PlanAgain => {
                tracing::warn!(%chunk_id, "a chunk isn't known to have arrived; its items are planned anew");
                self.store
                    .provider_batches()
                    .forget_chunk(chunk_id, self.worker_id)
                    .await?;
            }
            Step::Split(why) => {
                self.store
                    .provider_batches()
                    .turn_chunk_away(chunk_id, &why)
                    .await?;
                return Err(trouble(ErrorClass::Throttled, why).into());
            }
            Step::Wait | Step::TryAgain => {}
            Step::Cancel => {
                endpoint.cancel(theirs(chunk)).await?;
                if over {
                    let why =
                        "its provider was asked to end a chunk that takes too long".to_owned();
                    return Err(trouble(ErrorClass::Transient, why).into());
                }
            }
            Step::Collect => self.collect(endpoint, chunk, theirs(chunk)).await?,
            Step::GiveUp(why) => {
                if chunk.provider_id.is_some() {
                    let cancelled = endpoint.cancel(theirs(chunk)).await;
                    let refused = cancelled.err().filter(|error| error.status != Some(404));
                    if let (Some(error), false) = (refused, over) {
                        return Err(error.into());
                    }
                }
                self.fail(chunk, &why).await?;
            }
            Step::Fail(why) => self.fail(chunk, &why).await?,
        }
        Ok(())
    }

    async fn look(
        &self,
        endpoint: &BatchEndpoint,
        chunk: &ChunkRow,
    ) -> Result<Result<Seen, JudgeError>, StoreError> {
        if chunk.state == ChunkState::Making {
            let found = endpoint.find(chunk.chunk_id).await;
            return Ok(found.map(|found| match found {
                ChunkLookup::As(name) => Seen::Arrived(name),
                ChunkLookup::Nowhere => Seen::Absent,
                ChunkLookup::CantTell => Seen::CantTell,
            }));
        }
        Ok(match endpoint.look(theirs(chunk)).await {
            Ok(Progress::Running { done }) => {
                self.store
                    .provider_batches()
                    .chunk_progress(chunk.chunk_id, done)
                    .await?;
                Ok(Seen::Running)
            }
            Ok(Progress::Ended) => Ok(Seen::Ended),
            Ok(Progress::Refused(why)) => Ok(Seen::Refused(why)),
            Ok(Progress::NoRoom(why)) => Ok(Seen::NoRoom(why)),
            Err(error) => Err(error),
        })
    }

    async fn fail(&self, chunk: &ChunkRow, why: &str) -> Result<(), StoreError> {
        tracing::warn!(chunk_id = %chunk.chunk_id, judge = chunk.judge, why, "nothing came of a chunk; its items are asked one by one, at the full price");
        let failed =
            self.store
                .provider_batches()
                .end_chunk(chunk.chunk_id, ChunkState::Failed, Some(why));
        failed.await
    }

    /// The question of an item, as its run asks it; `None`: its run fails.
    async fn question(&self, job: &Job) -> Result<Option<Question>, Trouble> {
        match self.pipeline.question(job).await {
            Ok(question) => Ok(Some(question)),
            Err(Ending::Failed(_)) => Ok(None),
            Err(
                Ending::Waiting { .. }
                | Ending::Requeued
                | Ending::NotStarted
                | Ending::Scored { .. }
                | Ending::Evaluated { .. },
            ) => Err(Trouble::Rests),
        }
    }

    /// A judge's batch endpoint.
    fn endpoint(&self, judge: &str) -> Result<BatchEndpoint, JudgeError> {
        let known = self.judges.get(judge).ok();
        known.and_then(|judge| judge.batch_endpoint()).ok_or_else(|| {
            trouble(
                ErrorClass::Misconfigured,
                format!(
                    "judge {judge:?} can't be asked by its batch endpoint any more: give its entry in llm_providers.yaml its key and its batch_price_factor back, or cancel the batch"
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
