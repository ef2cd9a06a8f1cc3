//! Asking for many scores at once: all items are checked before the first is stored, and stored before the first runs.
//!
//! The items are read twice, so that none of them is kept in memory: once to be checked, once to be stored. Never leaves
//! half of a batch: what a process that died had stored is removed by `rescue`, and nothing of it ever ran.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use uuid::Uuid;

use super::{Enqueue, EnqueueError, JudgeProblem, NewId, Pinned, ScoreCase};
use crate::events::{Event, EventType};
use crate::job::{BatchPlace, JobId, Kind, NewJob, Priority, Purpose};
use crate::queue::Push;
use crate::store::{
    Added, BatchOrigin, BatchRow, BatchState, DueJob, Force, Moved, NewBatch, StoreError,
};

/// How many items are stored in one transaction, at most.
const CHUNK: usize = 500;
/// How many bytes of payloads are stored in one transaction, about.
const CHUNK_BYTES: usize = 4 << 20;
/// How many chunks are read ahead.
const AHEAD: usize = 2;
/// How many faults are told at once.
const FAULTS: usize = 20;
/// How many items are pushed at once; `rescue` pushes the rest as there is room.
const PUSHED: u32 = 1_000;

/// A request to score many items of one kind.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoreBatch {
    /// The kind.
    pub kind: Kind,
    /// What its maker calls it.
    pub name: Option<String>,
    /// Written into each payload that names none; for kinds whose payload has one.
    pub threshold: Option<f64>,
    /// The criteria asked for; `None`: the current ones.
    pub criteria_hash: Option<String>,
    /// Who waits.
    pub priority: Priority,
    /// Whether cached replies are passed over.
    pub force: Force,
    /// Who asks.
    pub triggered_by: String,
    /// What the batch is called, and whether an earlier try of the same request may have made it.
    pub new_id: NewId,
}

/// One item of a batch, as its file has it.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// Where it stands in its file, as people count.
    pub line: u64,
    /// Its payload.
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
pub type Items = Box<dyn Iterator<Item = Result<Item, ItemFault>> + Send>;
/// Opens the file from its beginning; called twice.
pub type OpenItems = Arc<dyn Fn() -> Result<Items, ItemFault> + Send + Sync>;

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

/// The payload of kind `session`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SessionItem {
    session_id: Uuid,
    #[serde(default)]
    force_rescore: bool,
}

/// One item, ready to be stored.
struct Ready {
    line: u64,
    job: NewJob,
}

/// What the reading task hands on.
type Chunk = Result<Vec<Ready>, Trouble>;

/// Why an item isn't ready.
enum Trouble {
    /// It is the item's fault.
    Fault(ItemFault),
    /// Its judge can't be asked: no item's fault.
    Judge(JudgeProblem),
}

/// What all items of a batch have in common.
struct Plan {
    request: ScoreBatch,
    batch_id: Uuid,
    pinned: Pinned,
    enqueue: Arc<Enqueue>,
    open: OpenItems,
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
        let (batch_id, repeated) = match request.new_id {
            NewId::Any => (Uuid::now_v7(), false),
            NewId::Reserved(id) => (id.0, false),
            NewId::Repeated(id) => (id.0, true),
        };
        if repeated && let Some(batch) = self.store.batch(batch_id).await? {
            if batch.state != BatchState::Expanding {
                return Ok(batch);
            }
            // The process that began it died with its key.
            self.store.remove_expanding(batch_id).await?;
        }
        let pinned = self
            .pin(request.kind, request.criteria_hash.as_deref())
            .await?;
        if request.kind == Kind::Session {
            self.check_judge(&pinned.judge)
                .map_err(EnqueueError::JudgeNotConfigured)?;
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
            created_by: plan.request.triggered_by.clone(),
            created_at: self.clock.now(),
        };
        self.store.begin_batch(&new).await?;
        match plan.store().await {
            Ok(batch) => {
                self.begun(&batch).await;
                Ok(batch)
            }
            Err(error) => {
                if let Err(error) = self.store.remove_expanding(batch_id).await {
                    tracing::warn!(%batch_id, %error, "a batch that failed is left to rescue");
                }
                Err(error)
            }
        }
    }

    /// Tells of a new batch and pushes its first items.
    async fn begun(&self, batch: &BatchRow) {
        self.tell_batch(EventType::BatchCreated, batch);
        self.push_batch(batch.batch_id).await;
    }

    /// Pushes the first queued items of a batch; without a queue or a database `rescue` does.
    pub async fn push_batch(&self, batch_id: Uuid) {
        match self.store.first_items(batch_id, PUSHED).await {
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
            let (moved, items) = self.store.retry_failed_items(batch_id, before, now).await?;
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
        let mut faults = Vec::new();
        for item in items {
            let Some(session_id) = item.job.subject_id else {
                continue;
            };
            let message = match self.store.scoring_view(session_id).await? {
                None => Some(format!(
                    "session {session_id} is not stored: put or import it first"
                )),
                Some(view) => match (self.check_subject(session_id, &view), view.active_job) {
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

impl Plan {
    /// Reads the whole file and stores nothing.
    async fn check(self: &Arc<Self>) -> Result<(), BatchError> {
        let (mut chunks, reader) = self.read();
        let (mut faults, mut items, mut lines) = (Vec::new(), 0_usize, HashMap::new());
        while let Some(chunk) = chunks.recv().await {
            match chunk {
                Err(Trouble::Fault(fault)) => faults.push(fault),
                Err(Trouble::Judge(problem)) => {
                    return Err(EnqueueError::JudgeNotConfigured(problem).into());
                }
                Ok(ready) => {
                    items += ready.len();
                    faults.extend(twice_named(&ready, &mut lines));
                    faults.extend(self.enqueue.session_faults(&ready).await?);
                }
            }
            if faults.len() >= FAULTS {
                break;
            }
        }
        drop(chunks);
        ended(reader).await?;
        if faults.is_empty() && items == 0 {
            faults.push(ItemFault {
                line: None,
                field: None,
                message: "there are no items: send at least one".to_owned(),
            });
        }
        if faults.is_empty() {
            return Ok(());
        }
        faults.sort_by_key(|fault| fault.line);
        faults.truncate(FAULTS);
        Err(BatchError::Items(faults))
    }

    /// Reads it again, stores the items, and lets the batch run.
    async fn store(self: &Arc<Self>) -> Result<BatchRow, BatchError> {
        let (mut chunks, reader) = self.read();
        let store = &self.enqueue.store;
        while let Some(chunk) = chunks.recv().await {
            let ready = chunk.map_err(|trouble| match trouble {
                Trouble::Fault(fault) => BatchError::Items(vec![fault]),
                Trouble::Judge(problem) => EnqueueError::JudgeNotConfigured(problem).into(),
            })?;
            let lines: HashMap<Uuid, u64> = ready
                .iter()
                .filter_map(|ready| Some((ready.job.subject_id?, ready.line)))
                .collect();
            let jobs: Vec<NewJob> = ready.into_iter().map(|ready| ready.job).collect();
            match store.add_items(self.batch_id, &jobs).await? {
                Added::All => {}
                Added::Gone => return Err(BatchError::Broken(TOO_SLOW)),
                Added::Active(subjects) => {
                    let fault = |session_id: Uuid| ItemFault {
                        line: lines.get(&session_id).copied(),
                        field: Some("session_id".to_owned()),
                        message: format!("a job is active for session {session_id} by now"),
                    };
                    let faults = subjects.into_iter().take(FAULTS).map(fault);
                    return Err(BatchError::Items(faults.collect()));
                }
            }
        }
        ended(reader).await?;
        match store.start_batch(self.batch_id).await? {
            Moved::Now(batch) | Moved::Already(batch) => Ok(batch),
            Moved::Refused(_) | Moved::Unknown => Err(BatchError::Broken(TOO_SLOW)),
        }
    }

    /// Reads the file on a thread that may block; the task ends when nobody receives any more.
    fn read(self: &Arc<Self>) -> (mpsc::Receiver<Chunk>, JoinHandle<()>) {
        let (sender, receiver) = mpsc::channel(AHEAD);
        let plan = self.clone();
        (
            receiver,
            tokio::task::spawn_blocking(move || plan.send(&sender)),
        )
    }

    fn send(&self, chunks: &mpsc::Sender<Chunk>) {
        let items = match (self.open)() {
            Ok(items) => items,
            Err(fault) => {
                // Whoever receives may be gone, and needs no fault then.
                let _ = chunks.blocking_send(Err(Trouble::Fault(fault)));
                return;
            }
        };
        let (mut ready, mut bytes) = (Vec::with_capacity(CHUNK), 0);
        for (item_no, item) in (0_i64..).zip(items) {
            let read = match item {
                Ok(item) => {
                    bytes += rough_size(&item.payload);
                    self.ready(item, item_no)
                }
                Err(fault) => Err(vec![Trouble::Fault(fault)]),
            };
            match read {
                Ok(one) => ready.push(one),
                Err(troubles) => {
                    for trouble in troubles {
                        if chunks.blocking_send(Err(trouble)).is_err() {
                            return;
                        }
                    }
                }
            }
            if ready.len() == CHUNK || bytes >= CHUNK_BYTES {
                bytes = 0;
                if chunks
                    .blocking_send(Ok(std::mem::take(&mut ready)))
                    .is_err()
                {
                    return;
                }
            }
        }
        if !ready.is_empty() {
            let _ = chunks.blocking_send(Ok(ready));
        }
    }

    fn ready(&self, item: Item, item_no: i64) -> Result<Ready, Vec<Trouble>> {
        let line = item.line;
        let fault = |field: Option<String>, message: String| {
            Trouble::Fault(ItemFault {
                line: Some(line),
                field,
                message,
            })
        };
        let place = BatchPlace {
            batch_id: self.batch_id,
            item_no,
        };
        let job = match self.request.kind {
            Kind::Session => self.session_job(item.payload, place).map_err(|error| {
                let field = error.path().to_string();
                let field = (field != ".").then_some(field);
                vec![fault(field, error.inner().to_string())]
            })?,
            Kind::Query | Kind::Qas | Kind::SqlMetrics => {
                let job = self.case_job(item.payload, place);
                job.map_err(|error| troubles_of(error, &fault))?
            }
        };
        Ok(Ready { line, job })
    }

    fn case_job(&self, mut payload: Value, place: BatchPlace) -> Result<NewJob, EnqueueError> {
        if let (Some(threshold), Value::Object(fields)) = (self.request.threshold, &mut payload) {
            let own = fields.entry("threshold").or_insert(Value::Null);
            if own.is_null() {
                *own = Value::from(threshold);
            }
        }
        let request = ScoreCase {
            kind: self.request.kind,
            payload,
            force: self.request.force,
            triggered_by: self.request.triggered_by.clone(),
            priority: self.request.priority,
            new_id: NewId::Any,
            batch: Some(place),
        };
        self.enqueue.case_job(request, &self.pinned)
    }

    fn session_job(
        &self,
        payload: Value,
        place: BatchPlace,
    ) -> Result<NewJob, serde_path_to_error::Error<serde_json::Error>> {
        let item: SessionItem = serde_path_to_error::deserialize(payload)?;
        let force_rescore = item.force_rescore || self.request.force == Force::Yes;
        Ok(NewJob {
            job_id: JobId::new(),
            kind: Kind::Session,
            subject_id: Some(item.session_id),
            purpose: Purpose::Score,
            payload: serde_json::json!({
                "session_id": item.session_id,
                "force_rescore": force_rescore,
            }),
            judge: Some(self.pinned.judge.clone()),
            priority: self.request.priority,
            criteria_hash: self.pinned.hash.clone(),
            force_rescore,
            triggered_by: self.request.triggered_by.clone(),
            batch: Some(place),
            created_at: self.enqueue.clock.now(),
        })
    }
}

const TOO_SLOW: &str =
    "storing the items took so long that the batch was given up; send it again, in smaller parts";

/// What is wrong with a payload: each of its faults, or its judge.
fn troubles_of(
    error: EnqueueError,
    fault: &impl Fn(Option<String>, String) -> Trouble,
) -> Vec<Trouble> {
    if let EnqueueError::JudgeNotConfigured(problem) = error {
        return vec![Trouble::Judge(problem)];
    }
    if let EnqueueError::BadPayload(faults) = error {
        let field = |pointer: &str| pointer.strip_prefix('/').map(str::to_owned);
        let faults = faults.into_iter();
        return faults
            .map(|found| fault(field(&found.pointer), found.message))
            .collect();
    }
    vec![fault(None, error.to_string())]
}

/// Sessions that an earlier item names too.
fn twice_named(items: &[Ready], lines: &mut HashMap<Uuid, u64>) -> Vec<ItemFault> {
    let mut faults = Vec::new();
    for item in items {
        let Some(session_id) = item.job.subject_id else {
            continue;
        };
        if let Some(first) = lines.get(&session_id) {
            faults.push(ItemFault {
                line: Some(item.line),
                field: Some("session_id".to_owned()),
                message: format!("names the session of row {first} again"),
            });
        } else {
            lines.insert(session_id, item.line);
        }
    }
    faults
}

/// The reader's end; a reader that panicked has read nothing to its end.
async fn ended(reader: JoinHandle<()>) -> Result<(), BatchError> {
    reader
        .await
        .map_err(|_| BatchError::Broken("reading the items broke off"))
}

/// About how many bytes a payload takes, without writing it out.
fn rough_size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => 2 + items.iter().map(rough_size).sum::<usize>(),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| name.len() + 4 + rough_size(value))
            .sum(),
    }
}
