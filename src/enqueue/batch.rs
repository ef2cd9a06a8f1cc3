//! Enqueues a batch of items. All items are validated before the first is stored, and all are stored before the first runs.
//!
//! The items are read twice, once for validation and once for storage, so that only their ids stay in memory. If the process dies in
//! between, `rescue` removes the partial batch.

mod plan;

use std::ops::ControlFlow;
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

/// Items pushed at once; equal to the default bulk window. `rescue` pushes the others as the queue has room.
const PUSHED: u32 = 10_000;

#[derive(Debug, Clone, PartialEq)]
pub struct ScoreBatch {
    pub kind: Kind,
    pub name: Option<String>,
    /// The batch is paused once its calls cost this, USD.
    pub budget_usd: Option<f64>,
    /// Added to each payload without a threshold, for kinds that have one.
    pub threshold: Option<f64>,
    /// `None`: the current criteria.
    pub criteria_hash: Option<String>,
    pub priority: Priority,
    /// Whether cached replies are skipped.
    pub force: Force,
    pub triggered_by: Requester,
    /// Id of the batch, and whether an earlier attempt of the same request may have created it.
    pub new_id: NewId,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// Line in the file, from 1.
    pub line: u64,
    pub payload: Value,
}

/// Validation error of an item or of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemFault {
    /// Line as in [`Item::line`]; `None`: the whole file.
    pub line: Option<u64>,
    /// Column, or JSON pointer of a field.
    pub field: Option<String>,
    pub message: String,
}

type VisitItem<'a> = dyn FnMut(Result<Item, ItemFault>) -> ControlFlow<()> + 'a;
/// Calls a visitor with each item of the file, or the error of its row, until it breaks. Called twice. Errors: of the file.
pub type ReadItems = Arc<dyn Fn(&mut VisitItem<'_>) -> Result<(), ItemFault> + Send + Sync>;

/// Error of a rejected batch. No part of it is stored.
#[derive(Debug, thiserror::Error)]
pub enum BatchError {
    /// Invalid items; the first 20 errors.
    #[error("{} of the items are invalid", .0.len())]
    Items(Vec<ItemFault>),
    #[error(transparent)]
    Enqueue(#[from] EnqueueError),
    /// Storing the items took too long, or reading them failed.
    #[error("{0}")]
    Broken(&'static str),
}

impl From<StoreError> for BatchError {
    fn from(error: StoreError) -> Self {
        Self::Enqueue(EnqueueError::Store(error))
    }
}

impl Enqueue {
    /// Creates and starts a batch of all items of a file, or fails without storing any. Errors: `Items` with up to 20 errors; those of
    /// [`Enqueue::pin`]; `Broken` if storing took too long.
    pub async fn batch(
        self: &Arc<Self>,
        request: ScoreBatch,
        read: ReadItems,
    ) -> Result<BatchRow, BatchError> {
        let batch_id = request.new_id.id(self.clock.now()).0;
        if matches!(request.new_id, NewId::Repeated(_))
            && let Some(batch) = self.store.batches().get(batch_id).await?
        {
            if batch.state != BatchState::Expanding {
                return Ok(batch);
            }
            // An earlier attempt died before it finished.
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
            read,
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
                    tracing::warn!(%batch_id, %error, "failed to delete a failed batch; rescue will delete it");
                }
                Err(error)
            }
        }
    }

    pub(super) async fn begun(&self, batch: &BatchRow) {
        self.tell_batch(EventType::BatchCreated, batch);
        self.push_batch(batch.batch_id).await;
    }

    /// Pushes the first queued items of a batch. If the queue or the database is unavailable, `rescue` does it later.
    pub async fn push_batch(&self, batch_id: Uuid) {
        match self.store.batches().first_items(batch_id, PUSHED).await {
            Ok(items) => self.push_due(&items),
            Err(error) => tracing::debug!(%batch_id, %error, "not pushed; rescue will push it"),
        }
    }

    /// Requeues the failed items of a batch in groups and pushes them. Returns the batch and the number of items. Errors: `Unavailable` if
    /// the database is; some items may be requeued already, and the next call continues from there.
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
                // The last group was empty, but earlier groups were requeued, so the call succeeded.
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

    /// Returns the errors of sessions that can't be scored as items, with their lines.
    async fn session_errors(&self, items: &[Ready]) -> Result<Vec<ItemFault>, BatchError> {
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
