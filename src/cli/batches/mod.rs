//! `gavel batches`: lists, controls and watches batches, and changes their budgets.

mod push;
mod show;
mod spread;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Subcommand;
use uuid::Uuid;

use super::Global;
use super::choice::choice;
use super::connection::{Common, Connection, Listing, Needs, One, given, id};
use super::outcome::{CliError, Exit, is_interrupted};
use super::output;
use super::progress::{OUTAGE_TIMEOUT, Progress};
use crate::client::Client;
use crate::job::Kind;
use crate::wire::words::duration;
use crate::wire::{Batch, BatchState};

pub(super) use push::{LabelArgs, push};
pub(super) use show::{dollars, nonzero};
use show::{done, money, state_of};

/// List, show, pause, resume, cancel, retry, watch and push batches
#[derive(Debug, Subcommand)]
#[command(
    long_about = "List, show, pause, resume, cancel, retry, watch and push batches. A batch is an uploaded suite, a \
        run of `gavel evaluate` (push), or a rescore (see `gavel rescore`).\n\nExit codes of watch:\n  0 completed \
        and everything scored\n  3 an item failed, was cancelled or has no score, or the batch is paused\n  4 it has \
        no items\n  130 interrupted (the batch keeps running)",
    after_help = "Examples:\n  gavel batches list --state running\n  gavel batches watch 019ab2c3-7d1e-7000-8000-0123456789ab\n  gavel batches retry-errors 019ab2c3-7d1e-7000-8000-0123456789ab\n  gavel batches budget 019ab2c3-7d1e-7000-8000-0123456789ab 25\n  gavel batches push run --server https://gavel.example.com"
)]
pub(super) enum Batches {
    /// List batches, newest first
    List {
        /// Only batches in this state
        #[arg(long, value_parser = choice::<BatchState>(BatchState::ALL.iter().map(|state| state.as_str())))]
        state: Option<BatchState>,
        /// Only batches of this kind
        #[arg(long, value_parser = choice::<Kind>(Kind::ALL.iter().map(|kind| kind.as_str())))]
        kind: Option<Kind>,
        #[command(flatten)]
        list: Listing,
    },
    /// Show one batch with its state, results and cost
    Show(One),
    /// Pause a batch: start no more of its items; running items finish, and individually requested items are scored
    Pause(One),
    /// Resume a paused batch
    Resume(One),
    /// Cancel a batch and its unfinished items, except individually requested ones; results stay
    Cancel(One),
    /// Queue failed items again
    RetryErrors(One),
    /// Change the budget; a batch that its budget has paused resumes if the new one exceeds its cost
    Budget {
        /// Id of the batch
        #[arg(value_parser = id)]
        id: Uuid,
        /// USD, or none for no budget
        #[arg(value_name = "USD|none", value_parser = budget)]
        budget: Budget,
        #[command(flatten)]
        common: Common,
    },
    /// Show the spread of the scores of a batch of repeats or of a jury
    #[command(
        long_about = "Show the spread of the scores of a batch of repeats (`gavel rescore --repeat`) or of a jury \
            (`--judge` several times): of all sessions together, of each judge, and of each session. You can use it \
            while the batch runs; docs/trust.md explains the output.\n\nExit codes: 0 shown, 4 the batch scores no \
            session more than once."
    )]
    Spread(One),
    /// Watch a batch until it ends or is paused
    Watch(One),
    /// Send a run of `gavel evaluate` as a batch, to show it on the pages
    #[command(
        long_about = "Send a run of `gavel evaluate` as a batch, so that the pages show it.\n\nThe command sends the \
            cases of the run with the agents' answers, and the service scores them. It uses cached replies for cases \
            that it scored within a day, at no cost, such as those of `gavel evaluate --server`, which sends its run \
            automatically. It calls the judge for the others, so their scores may differ from the scores in the \
            folder. Items without an agent's answer are skipped. Sending the same run again within a day returns the \
            same batch.\n\nExit codes: 0 sent, 2 usage, 3 the service is down, 4 the run has no case."
    )]
    Push {
        /// Folder of the run
        #[arg(value_name = "DIR")]
        dir: PathBuf,
        #[command(flatten)]
        label: LabelArgs,
        #[command(flatten)]
        common: Common,
    },
}

const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of sessions in the output of `spread`.
const MAX_SPREAD_SESSIONS: usize = 50;

/// Budget of a batch, USD; `None` is no budget.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Budget(Option<f64>);

fn budget(text: &str) -> Result<Budget, String> {
    if text.eq_ignore_ascii_case("none") {
        return Ok(Budget(None));
    }
    dollars(text).map(|usd| Budget(Some(usd)))
}

impl Batches {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, CliError> {
        match self {
            Self::List { state, kind, list } => {
                let filter = given([
                    ("state", state.map(|state| state.to_string())),
                    ("kind", kind.map(|kind| kind.to_string())),
                ]);
                list.print(global, async |client: &Client, limit| {
                    client.batches(&filter, limit).await
                })
                .await
            }
            Self::Show(one) => one.print(global, Client::batch).await,
            Self::Pause(one) => transition(one, global, "pause").await,
            Self::Resume(one) => transition(one, global, "resume").await,
            Self::Cancel(one) => transition(one, global, "cancel").await,
            Self::RetryErrors(one) => one.print(global, Client::retry_errors).await,
            Self::Budget { id, budget, common } => {
                let set = async |client: &Client| client.set_budget(*id, budget.0).await;
                common.print(global, set).await
            }
            Self::Spread(one) => {
                let spread =
                    async |client: &Client, id| client.spread(id, MAX_SPREAD_SESSIONS).await;
                one.print(global, spread).await
            }
            Self::Watch(one) => watch_command(one, global).await,
            Self::Push { dir, label, common } => push_command(dir, label, common, global).await,
        }
    }
}

async fn transition(one: &One, global: &Global, verb: &str) -> Result<Exit, CliError> {
    let act = async |client: &Client, id| client.move_batch(id, verb).await;
    one.print(global, act).await
}

/// Sends a run and prints the address of its page.
async fn push_command(
    dir: &Path,
    label: &LabelArgs,
    common: &Common,
    global: &Global,
) -> Result<Exit, CliError> {
    let command = async |connection: Connection<'_>| {
        let client = connection.client;
        let Some(batch) = push(client, dir, &label.given()).await? else {
            output::note("no cases to send: the run has no case");
            return Ok(Exit::Nothing);
        };
        output::print(&batch, common.json)?;
        output::note(&match connection.is_remote {
            true => client.address(&format!("/batches/{}", batch.batch_id)),
            false => follow(batch.batch_id),
        });
        Ok(Exit::Done)
    };
    common.connection.run(global, Needs::Store, command).await
}

/// Watches the batch. On interrupt, prints the command to watch it again.
async fn watch_command(one: &One, global: &Global) -> Result<Exit, CliError> {
    let command = async |connection: Connection<'_>| {
        let batch = watch(connection.client, one.id).await?;
        output::print(&batch, one.common.json)?;
        Ok(exit_of(&batch))
    };
    let service = &one.common.connection;
    let ended = service.run(global, Needs::Worker, command).await;
    if is_interrupted(&ended) {
        output::note(&follow(one.id));
    }
    ended
}

pub(super) fn follow(id: Uuid) -> String {
    format!(
        "batch {id} runs on the workers (`gavel up` for a data folder); follow it with: gavel batches watch {id}"
    )
}

/// Returns the batch when it has ended or is paused. Tolerates an unavailable service for a minute.
pub(super) async fn watch(client: &Client, id: Uuid) -> Result<Batch, CliError> {
    let progress = Progress::growing("items");
    let client = progress.retrying(client, OUTAGE_TIMEOUT);
    loop {
        let batch = client.batch(id).await?;
        match batch.state {
            BatchState::Completed | BatchState::Cancelled | BatchState::Paused => return Ok(batch),
            BatchState::Expanding | BatchState::Running => {}
        }
        let counts = &batch.counts;
        let failed = counts.failed + counts.cancelled;
        let figures = [done(counts), failed, counts.total];
        let figures = figures.map(|n| u64::try_from(n).unwrap_or(0));
        progress.at(figures, &progress_text(&batch));
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

fn progress_text(batch: &Batch) -> String {
    let mut parts = vec![money(batch)];
    if batch.state == BatchState::Expanding || batch.stopped.is_some() {
        parts.insert(0, state_of(batch));
    }
    let eta = batch.progress.eta_s;
    parts.extend(eta.map(|eta| format!("about {} left", duration(eta))));
    parts.join("; ")
}

/// Exit code for a watched batch: done only if each item has a score.
pub(super) fn exit_of(batch: &Batch) -> Exit {
    let verdict = batch.verdict;
    let unscored = verdict.map_or(0, |verdict| verdict.incomplete + verdict.unscored);
    let counts = &batch.counts;
    match batch.state {
        BatchState::Completed if counts.total == 0 => Exit::Nothing,
        BatchState::Completed if counts.succeeded == counts.total && unscored == 0 => Exit::Done,
        BatchState::Completed
        | BatchState::Expanding
        | BatchState::Running
        | BatchState::Paused
        | BatchState::Cancelled => Exit::Incomplete,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::show::tests::batch;
    use super::*;

    #[test]
    fn budget_is_an_amount_or_none() {
        assert_eq!(budget("12.5"), Ok(Budget(Some(12.5))));
        assert_eq!(budget("None"), Ok(Budget(None)));
        for bad in ["-1", "nan", "inf", "ten", ""] {
            assert!(budget(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn watch_exits_done_only_if_all_items_have_scores() {
        let counts = |total: u64, succeeded: u64| json!({"total": total, "queued": 0, "running": 0, "waiting": 0, "succeeded": succeeded, "failed": total - succeeded, "cancelled": 0});
        let verdict = |incomplete: u64| json!({"passed": 0, "failed": 0, "incomplete": incomplete, "unscored": 0, "pass_rate": null, "mean": null, "coverage": 1.0, "simulated": false});
        for (state, counts, verdict, exit) in [
            ("completed", counts(2, 2), verdict(0), Exit::Done),
            ("completed", counts(2, 1), verdict(0), Exit::Incomplete),
            ("completed", counts(2, 2), verdict(1), Exit::Incomplete),
            ("paused", counts(2, 2), verdict(0), Exit::Incomplete),
            ("cancelled", counts(2, 2), verdict(0), Exit::Incomplete),
            ("completed", counts(0, 0), Value::Null, Exit::Nothing),
            ("completed", counts(1, 1), Value::Null, Exit::Done),
        ] {
            let found = batch(&json!({"state": state, "counts": counts, "verdict": verdict}));
            assert_eq!(exit_of(&found), exit, "{found:?}");
        }
    }
}
