//! Reads a batch's items from the store once, page by page, into a temporary file as the source of reports.

use serde_json::{Value, json};
use tokio::io::{AsyncSeekExt as _, AsyncWriteExt as _};
use uuid::Uuid;

use super::{Item, ItemError, Outcome, ReportError, ResultLines, line};
use crate::job::{Job, JobState};
use crate::memory::blocking;
use crate::store::{BatchItem, Store};
use crate::wire::ItemOutcome;

/// Items per page. Together they are at most as large as a batch's file.
const PAGE_ITEMS: u32 = 50;

/// Snapshot of the ended items of a batch.
#[derive(Debug)]
pub struct EndedItems {
    pub items: ResultLines,
    pub unfinished: u64,
}

impl EndedItems {
    /// Reads the items of a batch, optionally with one outcome only.
    pub async fn read(
        store: &Store,
        id: Uuid,
        of: Option<ItemOutcome>,
    ) -> Result<Self, ReportError> {
        let failed = |error: &dyn std::fmt::Display| {
            ReportError::writing("a batch's items into the temporary folder", error)
        };
        let file = tempfile::tempfile().map_err(|e| failed(&e))?;
        let mut spool = tokio::fs::File::from_std(file);
        let (mut after, mut unfinished) = (None, 0);
        loop {
            let page = store.batches().items(id, of, after, PAGE_ITEMS).await?;
            let Some(last) = page.last() else { break };
            after = last.job.batch.map(|place| place.item_no);
            let mut lines = String::new();
            for row in page {
                match outcome(&row) {
                    Some(outcome) => {
                        lines.push_str(&line::write(&item(row, outcome)));
                        lines.push('\n');
                    }
                    None => unfinished += 1,
                }
            }
            spool
                .write_all(lines.as_bytes())
                .await
                .map_err(|e| failed(&e))?;
        }
        spool.flush().await.map_err(|e| failed(&e))?;
        spool.rewind().await.map_err(|e| failed(&e))?;
        let file = spool.into_std().await;
        let items =
            blocking(move || ResultLines::from_file(file, "the batch's items".to_owned())).await?;
        Ok(Self { items, unfinished })
    }
}

impl From<BatchItem> for Item {
    /// Converts an item. An item that hasn't ended is incomplete.
    fn from(row: BatchItem) -> Self {
        let outcome = outcome(&row).unwrap_or(Outcome::Incomplete);
        item(row, outcome)
    }
}

fn outcome(row: &BatchItem) -> Option<Outcome> {
    Some(match row.outcome() {
        ItemOutcome::Open => return None,
        ItemOutcome::Passed | ItemOutcome::Missed | ItemOutcome::Scored => Outcome::Scored,
        ItemOutcome::Cancelled => Outcome::Failed,
        ItemOutcome::Unscored if row.job.state == JobState::Succeeded => Outcome::Incomplete,
        ItemOutcome::Unscored if row.job.kind.is_case() && row.job.result.is_some() => {
            Outcome::Incomplete
        }
        ItemOutcome::Unscored => Outcome::Failed,
    })
}

fn item(row: BatchItem, outcome: Outcome) -> Item {
    let error = error(&row.job);
    let item_no = row.job.batch.map_or(0, |place| place.item_no);
    let BatchItem {
        job,
        total,
        passed,
        reasoning,
    } = row;
    let payload = job.payload.value();
    let id = line::id_of(job.kind, &payload);
    Item {
        item_no: u64::try_from(item_no).unwrap_or_default(),
        kind: job.kind,
        id,
        outcome,
        total,
        passed,
        result: job.result.map(|result| with_reasoning(result, reasoning)),
        payload: match (job.kind, job.subject_id) {
            (kind, Some(id)) if !kind.is_case() => {
                json!({ "session_id": id, "judge": job.judge })
            }
            (_, _) => payload,
        },
        error,
        simulated: job.simulated,
        usage: job.usage,
        job_id: Some(job.job_id.0),
    }
}

fn error(job: &Job) -> Option<ItemError> {
    if job.state == JobState::Cancelled {
        return Some(ItemError {
            class: "cancelled".to_owned(),
            message: "the job was cancelled".to_owned(),
        });
    }
    let failure = job.failure.as_ref()?;
    Some(ItemError {
        class: failure.class.as_str().to_owned(),
        message: failure.message.clone(),
    })
}

/// Adds the judge's reasoning, which is stored with the score, to a session's result.
fn with_reasoning(mut result: Value, reasoning: Option<String>) -> Value {
    if let (Value::Object(body), Some(words)) = (&mut result, reasoning) {
        body.entry("score_reasoning").or_insert(words.into());
    }
    result
}
