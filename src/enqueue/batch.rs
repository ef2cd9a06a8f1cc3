//! Asking for many scores at once: all items are checked before the first is stored, and stored before the first runs.
//!
//! The items are read twice, so that none of them is kept in memory but for its name: once to be checked, once to be stored. Never leaves
//! half of a batch: what a process that died had stored is removed by `rescue`, and nothing of it ever ran.

mod plan;

use std::sync::Arc;

use serde_json::Value;
use uuid::Uuid;

pub use self::plan::FAULTS;
use self::plan::{Plan, Ready};
use super::{Enqueue, EnqueueError, NewId};
use crate::events::{Event, EventType};
use crate::job::{Force, Kind, Priority, Requester};
use crate::queue::Push;
use crate::store::{BatchRow, DueJob, Moved, NewBatch, StoreError};
use crate::wire::{BatchOrigin, BatchState};

/// How many items are pushed at once, as many as lie in the queue by default; `rescue` pushes the rest as there is room.
const PUSHED: u32 = 10_000;

/// A request to score many items of one kind.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoreBatch {
    pub kind: Kind,
    /// What its maker calls it.
    pub name: Option<String>,
    /// It is paused once its calls cost this, USD.
    pub budget_usd: Option<f64>,
    /// Written into each payload that names none; for kinds whose payload has one.
    pub threshold: Option<f64>,
    /// The criteria asked for; `None`: the current ones.
    pub criteria_hash: Option<String>,
    pub priority: Priority,
    /// Whether cached replies are skipped.
    pub force: Force,
    pub triggered_by: Requester,
    /// What the batch is called, and whether an earlier try of the same request may have made it.
    pub new_id: NewId,
}

/// One item of a batch, as its file has it.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// Where it stands in its file, as people count.
    pub line: u64,
    pub payload: Value,
}

/// Why an item, or the file, can't be taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemFault {
    /// Where the item stands, as in [`Item::line`]; `None`: the file as a whole.
    pub line: Option<u64>,
    /// The column, or the JSON pointer of a field.
    pub field: Option<String>,
    /// What is wrong, and the remedy.
    pub message: String,
}

/// The items of a file, in its order.
pub type ItemStream = Box<dyn Iterator<Item = Result<Item, ItemFault>> + Send>;
/// Opens the file from its beginning; called twice.
pub type OpenItems = Arc<dyn Fn() -> Result<ItemStream, ItemFault> + Send + Sync>;

/// Why a batch was not accepted. Nothing of it is left.
#[derive(Debug, thiserror::Error)]
pub enum BatchError {
    /// Items can't be taken; the first 20 faults.
    #[error("{} of the items can't be taken", .0.len())]
    Items(Vec<ItemFault>),
    /// The request as a whole.
    #[error(transparent)]
    Enqueue(#[from] EnqueueError),
    /// Storing the items took so long that the batch was given up, or the reader broke off.
    #[error("{0}")]
    Broken(&'static str),
}

impl From<StoreError> for BatchError {
    fn from(error: StoreError) -> Self {
        Self::Enqueue(EnqueueError::Store(error))
    }
}

impl Enqueue {
    /// Asks for the scores of all items of a file, or of none: answers the batch, which runs.
    ///
    /// # Errors
    /// `Items` with up to 20 faults; those of [`Enqueue::pin`]; `Broken` when storing took too long.
    pub async fn batch(
        self: &Arc<Self>,
        request: ScoreBatch,
        open: OpenItems,
    ) -> Result<BatchRow, BatchError> {
        let batch_id = request.new_id.id(self.clock.now()).0;
        if matches!(request.new_id, NewId::Repeated(_))
            && let Some(batch) = self.store.batches().get(batch_id).await?
        {
            if batch.state != BatchState::Expanding {
                return Ok(batch);
            }
            // The process that began it died with its key.
            self.store.batches().remove_expanding(batch_id).await?;
        }
        let pinned = self
            .pin(request.kind, request.criteria_hash.as_deref())
            .await?;
        if !request.kind.is_case() {
            self.check_judge(&pinned.judge)
                .map_err(EnqueueError::JudgeNotConfigured)?;
        }
        if request.budget_usd.is_some() {
            self.check_price(&pinned.judge)?;
        }
        let plan = Arc::new(Plan {
            request,
            batch_id,
            pinned,
            enqueue: self.clone(),
            open,
        });
        plan.check().await?;
        let new = NewBatch {
            batch_id,
            name: plan.request.name.clone(),
            kind: plan.request.kind,
            origin: BatchOrigin::Suite,
            threshold: plan.request.threshold,
            criteria_hash: plan.pinned.hash.clone(),
            budget_usd: plan.request.budget_usd,
            created_by: plan.request.triggered_by.clone(),
            created_at: self.clock.now(),
        };
        self.store.batches().begin(&new).await?;
        match plan.store().await {
            Ok(batch) => {
                self.begun(&batch).await;
                Ok(batch)
            }
            Err(error) => {
                if let Err(error) = self.store.batches().remove_expanding(batch_id).await {
                    tracing::warn!(%batch_id, %error, "a batch that failed is left to rescue");
                }
                Err(error)
            }
        }
    }

    /// Tells of a new batch and pushes its first items.
    pub(super) async fn begun(&self, batch: &BatchRow) {
        self.tell_batch(EventType::BatchCreated, batch);
        self.push_batch(batch.batch_id).await;
    }

    /// Pushes the first queued items of a batch; without a queue or a database `rescue` does.
    pub async fn push_batch(&self, batch_id: Uuid) {
        match self.store.batches().first_items(batch_id, PUSHED).await {
            Ok(items) => self.push_due(&items),
            Err(error) => tracing::debug!(%batch_id, %error, "not pushed; rescue will push it"),
        }
    }

    /// Queues the failed items of a batch again, in groups, and pushes them. Answers how many, and what the batch is now.
    ///
    /// # Errors
    /// `Unavailable` when the database is away: some may be queued again, and another call goes on from there.
    pub async fn retry_batch(&self, batch_id: Uuid) -> Result<(Moved, u64), StoreError> {
        let before = self.clock.now();
        let (mut queued, mut last) = (0, None);
        loop {
            let now = self.clock.now();
            let (moved, items) = self
                .store
                .batches()
                .retry_failed_items(batch_id, before, now)
                .await?;
            self.push_due(&items);
            queued += items.len() as u64;
            let done = items.is_empty();
            let moved = match (last.take(), moved) {
                // Nothing is left to be queued again, which is no refusal of what was.
                (Some(Moved::Now(_)), Moved::Already(batch) | Moved::Refused(batch)) => {
                    Moved::Now(batch)
                }
                (_, moved) => moved,
            };
            if done {
                return Ok((moved, queued));
            }
            last = Some(moved);
        }
    }

    /// Tells what became of a batch.
    pub fn tell_batch(&self, event: EventType, batch: &BatchRow) {
        let now = self.clock.now();
        let event = Event::of_batch(event, batch.batch_id, batch.kind, now);
        self.events.announce(event);
    }

    fn push_due(&self, items: &[DueJob]) {
        for item in items {
            let push = Push {
                id: item.job_id,
                lane: item.lane.clone(),
                priority: item.priority,
                due_at: None,
            };
            if self.pushes.try_send(push).is_err() {
                tracing::debug!("not pushed: the queue is behind; rescue will push the rest");
                return;
            }
        }
    }

    /// Why these sessions can't be scored as items, each by its line.
    async fn session_faults(&self, items: &[Ready]) -> Result<Vec<ItemFault>, BatchError> {
        let ids: Vec<Uuid> = items
            .iter()
            .filter_map(|item| item.job.subject_id)
            .collect();
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let known = self.store.sessions().scoring_facts_of(&ids).await?;
        let mut faults = Vec::new();
        for item in items {
            let Some(session_id) = item.job.subject_id else {
                continue;
            };
            let message = match known.get(&session_id) {
                None => Some(format!(
                    "session {session_id} is not stored: put or import it first"
                )),
                Some(facts) => match (self.check_subject(session_id, facts), &facts.active_job) {
                    (Err(error), _) => Some(error.to_string()),
                    (Ok(()), Some(job)) => Some(format!(
                        "job {} is {} for session {session_id}: wait for its end, or cancel it",
                        job.job_id, job.state
                    )),
                    (Ok(()), None) => None,
                },
            };
            faults.extend(message.map(|message| ItemFault {
                line: Some(item.line),
                field: Some("session_id".to_owned()),
                message,
            }));
        }
        Ok(faults)
    }
}
