//! Reads the items of a batch file on a separate thread, in chunks. The file is read twice, first to validate and then to store.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use uuid::Uuid;

use super::{BatchError, Item, ItemFault, ReadItems, ScoreBatch};
use crate::enqueue::{Enqueue, EnqueueError, JudgeProblem, NewId, Pinned, ScoreCase};
use crate::job::{BatchPlace, Force, JobOptions, NewJob};
use crate::memory::lower_thread_priority;
use crate::score::{about, name_of};
use crate::store::{Added, BatchRow, Moved};

/// Maximum items per transaction.
const CHUNK: usize = 500;
/// Approximate payload bytes per transaction.
const CHUNK_BYTES: usize = 4 << 20;
/// Chunks read ahead.
const PREFETCHED: usize = 2;
/// Maximum reported errors.
pub const FAULTS: usize = 20;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SessionItem {
    session_id: Uuid,
    #[serde(default)]
    force_rescore: bool,
}

pub(super) struct Ready {
    pub(super) line: u64,
    name: Option<String>,
    pub(super) job: NewJob,
}

/// Message of the reader task.
type Chunk = Result<Vec<Ready>, Trouble>;

enum Trouble {
    Fault(ItemFault),
    Judge(JudgeProblem),
}

pub(super) struct Plan {
    pub(super) request: ScoreBatch,
    pub(super) batch_id: Uuid,
    pub(super) pinned: Pinned,
    pub(super) enqueue: Arc<Enqueue>,
    pub(super) read: ReadItems,
}

impl Plan {
    /// Reads and validates the file. No writes.
    pub(super) async fn check(self: &Arc<Self>) -> Result<(), BatchError> {
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
                    faults.extend(named_again(&ready, &mut lines));
                    faults.extend(self.enqueue.session_errors(&ready).await?);
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
                message: "no items: send at least one".to_owned(),
            });
        }
        if faults.is_empty() {
            return Ok(());
        }
        faults.sort_by_key(|fault| fault.line);
        faults.truncate(FAULTS);
        Err(BatchError::Items(faults))
    }

    /// Reads the file again, stores the items, and starts the batch.
    pub(super) async fn store(self: &Arc<Self>) -> Result<BatchRow, BatchError> {
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
            match store.batches().add_items(self.batch_id, &jobs).await? {
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
        match store.batches().start(self.batch_id).await? {
            Moved::Now(batch) | Moved::Already(batch) => Ok(batch),
            Moved::Refused(_) | Moved::Unknown => Err(BatchError::Broken(TOO_SLOW)),
        }
    }

    /// Reads the file on a thread that may block. The task ends once the receiver is dropped.
    fn read(self: &Arc<Self>) -> (mpsc::Receiver<Chunk>, JoinHandle<()>) {
        let (sender, receiver) = mpsc::channel(PREFETCHED);
        let plan = self.clone();
        (
            receiver,
            tokio::task::spawn_blocking(move || {
                lower_thread_priority();
                plan.send(&sender);
            }),
        )
    }

    fn send(&self, chunks: &mpsc::Sender<Chunk>) {
        let send = |chunk| match chunks.blocking_send(chunk) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        };
        let (mut ready, mut bytes, mut item_no) = (Vec::with_capacity(CHUNK), 0, 0);
        let read = (self.read)(&mut |item| {
            let one = match item {
                Ok(item) => {
                    bytes += rough_size(&item.payload);
                    self.ready(item, item_no)
                }
                Err(fault) => Err(vec![Trouble::Fault(fault)]),
            };
            item_no += 1;
            match one {
                Ok(one) => ready.push(one),
                Err(troubles) => troubles
                    .into_iter()
                    .try_for_each(|trouble| send(Err(trouble)))?,
            }
            if ready.len() == CHUNK || bytes >= CHUNK_BYTES {
                bytes = 0;
                send(Ok(std::mem::take(&mut ready)))?;
            }
            ControlFlow::Continue(())
        });
        if let Err(fault) = read {
            let _ = send(Err(Trouble::Fault(fault)));
        }
        if !ready.is_empty() {
            let _ = chunks.blocking_send(Ok(ready));
        }
    }

    fn ready(&self, item: Item, item_no: i64) -> Result<Ready, Vec<Trouble>> {
        let fields = item.payload.as_object();
        let name = fields.and_then(|fields| name_of(self.request.kind, fields));
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
        let job = match self.request.kind.is_case() {
            false => self.session_job(item.payload, place).map_err(|error| {
                let field = error.path().to_string();
                let field = (field != ".").then_some(field);
                vec![fault(field, error.inner().to_string())]
            })?,
            true => {
                let job = self.case_job(item.payload, place);
                job.map_err(|error| troubles_of(error, &fault))?
            }
        };
        Ok(Ready { line, name, job })
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
            options: self.options(self.request.force),
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
        let force = match item.force_rescore {
            true => Force::Yes,
            false => self.request.force,
        };
        let (judge, now) = (self.pinned.judge.clone(), self.enqueue.clock.now());
        Ok(NewJob {
            criteria_hash: self.pinned.hash.clone(),
            batch: Some(place),
            ..NewJob::of_session(item.session_id, judge, self.options(force), now)
        })
    }

    fn options(&self, force: Force) -> JobOptions {
        JobOptions {
            force,
            ..JobOptions::new(self.request.triggered_by.clone(), self.request.priority)
        }
    }
}

const TOO_SLOW: &str =
    "storing the items took too long, so the batch was dropped; send it again, in smaller parts";

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

/// Rejects items with the name of an earlier one. Concurrent scores of one session would overwrite each other, and cases with one name
/// could not be matched in a comparison of batches.
fn named_again(items: &[Ready], lines: &mut HashMap<String, u64>) -> Vec<ItemFault> {
    let mut faults = Vec::new();
    for item in items {
        let Some(name) = &item.name else {
            continue;
        };
        if let Some(first) = lines.get(name) {
            faults.push(ItemFault {
                line: Some(item.line),
                field: Some(about(item.job.kind).name.to_owned()),
                message: match item.job.kind.is_case() {
                    false => format!("is the same session as in row {first}"),
                    true => {
                        format!("is also the name of row {first}: use different names, or none")
                    }
                },
            });
        } else {
            lines.insert(name.clone(), item.line);
        }
    }
    faults
}

/// Waits for the reader. Fails if it panicked, because the file wasn't read completely.
async fn ended(reader: JoinHandle<()>) -> Result<(), BatchError> {
    reader
        .await
        .map_err(|_| BatchError::Broken("reading the items broke off"))
}

/// Estimates the bytes of a payload without serializing it.
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
