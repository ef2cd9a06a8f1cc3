//! Fetches the replies of economy batches ahead, by their judges' batch endpoints, and then lets the batches run.
//!
//! One worker at a time looks after a batch; any takes over. Everything that was done is in the store before the next thing is
//! tried, so that a step may be cut off anywhere: what was handed over is looked for, what was collected is counted once. It
//! never scores: the pipeline does, with the replies that it finds.

mod answers;
mod missing;
mod on_its_way;
mod parts;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

pub(super) use self::missing::Missing;
pub(super) use self::on_its_way::Way;
use super::process::Pipeline;
use crate::clock::Clock;
use crate::job::Job;
use crate::judge::{Economy, ErrorClass, Found, JudgeError, Judges, Progress, Question};
use crate::store::{BatchRow, Ending, ProviderPart, Store, StoreError};
use crate::wire::{BatchState, PartState};

/// A part that the provider hasn't ended after this long is cancelled: its items are asked as ever.
const LONGEST: TimeDelta = TimeDelta::hours(25);
/// One that hasn't ended after this long either, or can't be looked at any more, is given up.
const GIVEN_UP: TimeDelta = TimeDelta::hours(30);
/// A provider that has turned away so many parts, each half as large as the one before, won't take any.
const MOST_TURNED_AWAY: u32 = 16;
/// A part that its provider didn't know in so many looks in a row, each after twice the rest of the one before, is given up.
const MOST_MISSED: u32 = 6;
/// Of so many parts of a batch that may have been handed over it is kept that nobody heard of them; further ones are forgotten.
const MOST_LOST: u32 = 16;
/// The longest time that a batch is left alone, unless its provider asks for more.
const LONGEST_REST: Duration = Duration::from_secs(600);

/// How replies are fetched ahead.
#[derive(Debug, Clone, Copy)]
pub struct EconomyOptions {
    /// Questions in one part.
    pub part: usize,
    /// How long between two looks at a provider's batches.
    pub poll: Duration,
}

/// Looks after economy batches, until told to stop.
pub(super) struct EconomyLane {
    pub(super) store: Arc<Store>,
    pub(super) judges: Arc<Judges>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) pipeline: Pipeline,
    pub(super) worker_id: Uuid,
    pub(super) options: EconomyOptions,
    /// Who wasn't heard for this long looks after nothing any more.
    pub(super) silent: Duration,
    /// Batches whose provider is in trouble.
    pub(super) rests: Rests,
    /// Parts that their provider says it doesn't know.
    pub(super) missing: Missing,
    /// Whether a part is being handed over.
    pub(super) way: Way,
}

/// Batches that are left alone until then, and how often in a row their provider was in trouble: a part of many MB isn't handed
/// over every minute in vain.
pub(super) type Rests = HashMap<Uuid, (Instant, u32)>;

/// Why a step wasn't done.
enum Trouble {
    /// The judge's provider: what it said.
    Judge(JudgeError),
    /// The store.
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

impl EconomyLane {
    /// Works until `stop`, and on until a part that is on its way then has arrived; at `hard` it ends at once.
    pub(super) async fn run(mut self, stop: CancellationToken, hard: CancellationToken) {
        let poll = self.options.poll;
        loop {
            let clear = self.way.clear();
            let cut = async {
                stop.cancelled().await;
                tokio::select! {
                    () = clear => {}
                    () = hard.cancelled() => {}
                }
            };
            let round = async {
                if let Err(error) = self.round().await {
                    tracing::warn!(%error, "economy batches could not be looked after; it tries again");
                }
                tokio::time::sleep(poll).await;
            };
            tokio::select! {
                () = round => {}
                () = cut => return,
            }
        }
    }

    async fn round(&mut self) -> Result<(), StoreError> {
        let batches = self.store.economy_batches(self.worker_id, self.silent);
        for id in batches.await? {
            let rest = self.rests.get(&id).copied();
            if rest.is_some_and(|(until, _)| until > Instant::now()) {
                continue;
            }
            let held = self.store.hold_economy(id, self.worker_id, self.silent);
            if !held.await? {
                continue;
            }
            let lost = async {
                self.hold_on(id).await;
                self.way.clear().await;
            };
            let done = tokio::select! {
                done = self.look_after(id) => done,
                () = lost => {
                    tracing::warn!(batch_id = %id, "another worker looks after an economy batch now");
                    continue;
                }
            };
            self.rests.remove(&id);
            let note = match done {
                Ok(()) => None,
                Err(Trouble::Judge(error)) => {
                    tracing::warn!(batch_id = %id, %error, "an economy batch waits for its judge's provider");
                    let tries = rest.map_or(0, |(_, tries)| tries);
                    let until = Instant::now() + self.rest_after(&error, tries);
                    self.rests.insert(id, (until, tries.saturating_add(1)));
                    Some(error.message)
                }
                Err(Trouble::Stopped(why)) => Some(why),
                Err(Trouble::Rests) => Some("something that its items need is away".to_owned()),
                Err(Trouble::Store(error @ StoreError::Unavailable { .. })) => return Err(error),
                Err(Trouble::Store(error)) => {
                    tracing::error!(batch_id = %id, %error, "an economy batch can't be looked after");
                    Some(error.to_string())
                }
            };
            let left = self
                .store
                .leave_economy(id, self.worker_id, note.as_deref());
            left.await?;
        }
        Ok(())
    }

    /// As long as the provider asks to wait, or twice as long as the last time.
    fn rest_after(&self, error: &JudgeError, tries: u32) -> Duration {
        let doubled = self.options.poll.saturating_mul(1 << tries.min(10));
        doubled
            .min(LONGEST_REST)
            .max(error.retry_after.unwrap_or_default())
    }

    /// Says that this worker still looks after the batch; ends when it doesn't any more.
    async fn hold_on(&self, id: Uuid) {
        loop {
            tokio::time::sleep(self.silent / 3).await;
            match self
                .store
                .hold_economy(id, self.worker_id, self.silent)
                .await
            {
                Ok(true) | Err(_) => {}
                Ok(false) => return,
            }
        }
    }

    /// One look at everything that a batch waits for.
    async fn look_after(&self, id: Uuid) -> Result<(), Trouble> {
        let Some(batch) = self.store.batch(id).await? else {
            return Ok(());
        };
        let mut trouble = None;
        let parts = self.store.provider_parts(id).await?;
        let turned_away = count(&parts, ProviderPart::was_turned_away);
        let lost = count(&parts, ProviderPart::is_lost);
        for part in parts {
            let done = match part.state {
                PartState::Making => self.resolve(&part, lost).await,
                PartState::Submitted => self.follow(&batch, &part, turned_away).await,
                PartState::Collected | PartState::Failed => Ok(()),
            };
            match done {
                Ok(()) => {}
                Err(Trouble::Judge(error)) => trouble = Some(error),
                Err(other) => return Err(other),
            }
        }
        let whole = match (batch.state, trouble.is_none()) {
            (BatchState::Running, true) => self.hand_over(&batch).await?,
            (BatchState::Cancelled | BatchState::Completed, _) => true,
            (BatchState::Expanding | BatchState::Running | BatchState::Paused, _) => false,
        };
        let parts = self.store.provider_parts(id).await?;
        if whole && count(&parts, ProviderPart::is_open) == 0 {
            self.store.end_economy(id).await?;
            tracing::info!(batch_id = %id, parts = parts.len(), "the replies of an economy batch are here");
            return Ok(());
        }
        match trouble {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }

    /// A part that may have been handed over: it is found, or made anew. Where the provider can't tell it may be paid twice.
    async fn resolve(&self, part: &ProviderPart, lost: u32) -> Result<(), Trouble> {
        let Some(economy) = self.economy(part).await? else {
            return Ok(());
        };
        match economy.find(part.tag).await? {
            Found::As(batch) => {
                let now = self.clock.now();
                self.store.part_submitted(part.tag, &batch, now).await?;
            }
            // A provider that is away for long doesn't fill the list of parts.
            Found::Nowhere | Found::CantTell if lost >= MOST_LOST => {
                self.store.forget_part(part.tag, self.worker_id).await?;
            }
            Found::Nowhere => self.store.unmake_part(part.tag, "it never arrived").await?,
            Found::CantTell => {
                tracing::warn!(tag = %part.tag, "a part may have been handed over, and its provider can't tell; it is handed over again");
                let why = "it may not have arrived, and its provider can't tell";
                self.store.unmake_part(part.tag, why).await?;
            }
        }
        Ok(())
    }

    /// Looks how far a part is, and collects it once it has ended.
    async fn follow(
        &self,
        batch: &BatchRow,
        part: &ProviderPart,
        turned_away: u32,
    ) -> Result<(), Trouble> {
        let Some(economy) = self.economy(part).await? else {
            return Ok(());
        };
        let theirs = part.provider_id.as_deref().unwrap_or_default();
        let looked = economy.look(theirs).await;
        if looked.is_ok() {
            self.missing.found(part.tag);
        }
        match looked {
            Ok(Progress::Running { done, .. }) => {
                self.store.part_progress(part.tag, done).await?;
                if self.age(part) > GIVEN_UP {
                    return self.fail(part, "its provider didn't end it").await;
                }
                if self.age(part) > LONGEST || batch.state == BatchState::Cancelled {
                    economy.cancel(theirs).await?;
                }
                Ok(())
            }
            Ok(Progress::Ended) => self.collect(&economy, part, theirs).await,
            Ok(Progress::Refused(why)) => self.fail(part, &why).await,
            Ok(Progress::NoRoom(why)) if turned_away < MOST_TURNED_AWAY => {
                // Its items go into smaller parts, later.
                self.store.unmake_part(part.tag, &why).await?;
                Err(Trouble::Judge(no_room(why)))
            }
            Ok(Progress::NoRoom(why)) => self.fail(part, &why).await,
            Err(error) if error.status == Some(404) => self.missed(&economy, part, error).await,
            Err(error) => Err(error.into()),
        }
    }

    /// The provider says that it doesn't know a part. One that is in trouble says so too: it is looked for again, and before it is
    /// given up the provider is told to answer no more of it, since its items are then asked at the full price.
    async fn missed(
        &self,
        economy: &Economy,
        part: &ProviderPart,
        error: JudgeError,
    ) -> Result<(), Trouble> {
        if self.missing.again(part.tag) < MOST_MISSED && self.age(part) < GIVEN_UP {
            return Err(error.into());
        }
        let theirs = part.provider_id.as_deref().unwrap_or_default();
        match economy.cancel(theirs).await {
            // It isn't known there either, or it is told.
            Ok(()) => {}
            Err(refused) if refused.status == Some(404) => {}
            Err(refused) if self.age(part) < GIVEN_UP => return Err(refused.into()),
            Err(_) => {}
        }
        self.missing.found(part.tag);
        self.fail(part, &error.message).await
    }

    async fn fail(&self, part: &ProviderPart, why: &str) -> Result<(), Trouble> {
        tracing::warn!(tag = %part.tag, judge = part.judge, why, "nothing came of a part; its items are asked one by one, at the full price");
        Ok(self
            .store
            .end_part(part.tag, PartState::Failed, Some(why))
            .await?)
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

    /// The lane of a part's judge. Where there is none any more the part waits for one, and is given up in the end.
    async fn economy(&self, part: &ProviderPart) -> Result<Option<Economy>, Trouble> {
        let judge = self.judges.get(&part.judge).ok();
        match judge.and_then(|judge| judge.economy()) {
            Some(economy) => Ok(Some(economy)),
            None if self.age(part) > GIVEN_UP => {
                self.fail(part, &no_endpoint(&part.judge).message).await?;
                Ok(None)
            }
            None => Err(no_endpoint(&part.judge).into()),
        }
    }

    fn age(&self, part: &ProviderPart) -> TimeDelta {
        self.clock.now() - part.submitted_at.unwrap_or(part.made_at)
    }
}

fn count(parts: &[ProviderPart], which: fn(&ProviderPart) -> bool) -> u32 {
    let count = parts.iter().filter(|part| which(part)).count();
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn no_endpoint(judge: &str) -> JudgeError {
    trouble(
        ErrorClass::Misconfigured,
        format!(
            "judge {judge:?} can't be asked by its batch endpoint any more: give its entry in llm_providers.yaml its key and its batch_price_factor back, or cancel the batch"
        ),
    )
}

fn no_room(why: String) -> JudgeError {
    trouble(ErrorClass::Throttled, why)
}

fn trouble(class: ErrorClass, message: String) -> JudgeError {
    JudgeError {
        class,
        message,
        status: None,
        retry_after: None,
        raw_reply: None,
        unasked: None,
    }
}
