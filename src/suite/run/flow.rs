//! Main loop of a run: reads rows in order, processes several items concurrently, and writes each item's line at once.

use std::ops::ControlFlow;
use std::path::PathBuf;

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use serde_json::Value;
use tokio::sync::mpsc;

use super::agents::{AgentFault, Agents};
use super::folder::RunFolder;
use super::plan::read_rows;
use super::work::{AgentQuestion, Work};
use super::{CaseToScore, RunError, Scorer};
use crate::job::Kind;
use crate::report::line::id_of;
use crate::report::{Item, Outcome};
use crate::score::{Fault, read_case};
use crate::suite::{SuiteError, SuiteRow};

const PREFETCHED: usize = 16;

pub struct Run<'a> {
    pub folder: &'a RunFolder,
    pub agents: &'a Agents,
    pub scorer: &'a dyn Scorer,
    pub at_once: usize,
    /// Whether to retry items without a score.
    pub retry_errors: bool,
}

/// Returns whether an item of the suite must be run.
pub fn wanted(folder: &RunFolder, retry_errors: bool, item_no: u64) -> bool {
    let only = folder.header().only.as_ref();
    let done = folder.done(item_no);
    done.is_none_or(|done| retry_errors && done.outcome != Outcome::Scored)
        && only.is_none_or(|only| only.contains(&item_no))
}

/// Runs the remaining items. Calls `seen` with each item once its line is written.
pub async fn run(run: &Run<'_>, seen: &(dyn Fn(&Item) + Sync)) -> Result<(), RunError> {
    let header = run.folder.header();
    // Fixed before the run starts, so that its own lines don't reselect an item.
    let suite = &header.suite;
    let wanted: std::collections::HashSet<u64> = (0..suite.items)
        .filter(|item_no| wanted(run.folder, run.retry_errors, *item_no))
        .collect();
    let (reader, rows) = prefetch(suite.path.clone(), header.kind, header.options.limit);
    let items = rows
        .try_filter(|row| std::future::ready(wanted.contains(&row.item_no)))
        .map(|row| async move { run.one(row?).await })
        .buffer_unordered(run.at_once.max(1));
    let mut items = std::pin::pin!(items);
    while let Some(item) = items.try_next().await? {
        seen(&item);
    }
    reader.await.map_err(|error| {
        RunError::Stopped(super::Stopped::Down(format!(
            "reading the suite broke off: {error}"
        )))
    })
}

/// Reads rows on a separate thread, a few ahead, until the receiver is dropped.
fn prefetch(
    path: PathBuf,
    kind: Kind,
    limit: Option<u64>,
) -> (
    tokio::task::JoinHandle<()>,
    impl stream::Stream<Item = Result<SuiteRow, SuiteError>>,
) {
    let (give, get) = mpsc::channel(PREFETCHED);
    let reader = tokio::task::spawn_blocking(move || {
        let read = read_rows(
            &path,
            kind,
            limit,
            &mut |row| match give.blocking_send(row) {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            },
        );
        if let Err(error) = read {
            let _ = give.blocking_send(Err(error)); // the receiver may be dropped
        }
    });
    let rows = stream::unfold(get, |mut get| async move {
        let row = get.recv().await?;
        Some((row, get))
    });
    (reader, rows)
}

impl Run<'_> {
    async fn one(&self, row: SuiteRow) -> Result<Item, RunError> {
        let (item_no, kind) = (row.item_no, self.folder.header().kind);
        let work = Work::read(kind, row).map_err(first)?;
        let attempt = self.folder.done(item_no).map_or(0, |done| done.lines);
        let payload = match work {
            Work::Case { payload, .. } => Ok(payload),
            Work::Question(question) => self.answered(&question).await?,
        };
        let item = match payload {
            Ok(payload) => {
                let case = CaseToScore {
                    item_no,
                    kind,
                    id: id_of(kind, &payload),
                    payload,
                    attempt,
                };
                self.scorer.score(case).await?
            }
            Err(unanswered) => *unanswered,
        };
        self.folder.keep(&item)?;
        Ok(item)
    }

    /// Returns the case of a question with its answer, or an item with the error.
    async fn answered(
        &self,
        question: &AgentQuestion,
    ) -> Result<Result<Value, Box<Item>>, RunError> {
        let kind = self.folder.header().kind;
        let answer = match self.folder.answer(question.item_no)? {
            Some(answer) => answer,
            None => match self.agents.ask(question).await {
                Ok(answer) => {
                    self.folder.keep_answer(question, Ok(&answer))?;
                    answer
                }
                Err(AgentFault::Down(stopped)) => return Err(RunError::Stopped(stopped)),
                Err(AgentFault::Question(message)) => {
                    self.folder.keep_answer(question, Err(&message))?;
                    return Ok(Err(Box::new(unanswered(kind, question, message))));
                }
            },
        };
        let payload = question.payload(&answer);
        match read_case(kind, &payload) {
            Ok(_) => Ok(Ok(payload)),
            Err(faults) => {
                let message = format!("its answer can't be scored: {}", Fault::in_words(&faults));
                // Stored as a failure, so that a later attempt calls the agent again.
                self.folder.keep_answer(question, Err(&message))?;
                Ok(Err(Box::new(unanswered(kind, question, message))))
            }
        }
    }
}

fn unanswered(kind: Kind, question: &AgentQuestion, message: String) -> Item {
    let payload = question.payload(&super::agents::AgentAnswer::default());
    let case = CaseToScore {
        item_no: question.item_no,
        kind,
        id: id_of(kind, &payload),
        payload,
        attempt: 0,
    };
    case.failed("agent", message)
}

/// Returns the first error of a row that was valid when the suite was planned.
fn first(faults: Vec<SuiteError>) -> RunError {
    let fault = faults.into_iter().next().unwrap_or(SuiteError {
        line: None,
        column: None,
        message: "a row can't be read any more".to_owned(),
    });
    RunError::Suite(fault)
}
