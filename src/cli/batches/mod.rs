//! `gavel batches`: lists, controls and watches batches, and changes their budgets.

mod push;
mod show;
mod spread;
mod watch;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use uuid::Uuid;

use super::Global;
use super::choice::choice;
use super::connection::{Common, Connection, Listing, Needs, One, given, id};
use super::outcome::{CliError, Exit, is_interrupted};
use super::output::{self, Printable, Text};
use crate::client::Client;
use crate::job::Kind;
use crate::wire::{Batch, BatchState};

pub(super) use push::{LabelArgs, push};
pub(super) use show::{dollars, nonzero};
pub(super) use watch::{exit_of, watch};

/// List, show, pause, resume, cancel, retry, watch and push batches
#[derive(Debug, Args)]
#[command(
    long_about = "List, show, pause, resume, cancel, retry, watch and push batches. A batch is an uploaded suite, a \
        run of `gavel evaluate` (push), or a rescore (see `gavel rescore`).\n\nExit codes of watch:\n  0 completed \
        and everything scored\n  3 an item failed, was cancelled or has no score, or the batch is paused\n  4 it has \
        no items\n  130 interrupted (the batch keeps running)",
    after_help = "Examples:\n  gavel batches list --state running\n  gavel batches watch 019ab2c3-7d1e-7000-8000-0123456789ab\n  gavel batches retry-errors 019ab2c3-7d1e-7000-8000-0123456789ab\n  gavel batches budget 019ab2c3-7d1e-7000-8000-0123456789ab 25\n  gavel batches push run --server https://gavel.example.com"
)]
pub(super) struct Batches {
    #[command(subcommand)]
    command: BatchesCommand,
}

#[derive(Debug, Subcommand)]
enum BatchesCommand {
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
    Spread {
        /// Id of the batch
        #[arg(value_parser = id)]
        id: Uuid,
        #[command(flatten)]
        list: Listing,
    },
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

/// Budget of a batch, USD; `None` is no budget.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Budget(Option<f64>);

fn budget(text: &str) -> Result<Budget, String> {
    if text.eq_ignore_ascii_case("none") {
        return Ok(Budget(None));
    }
    dollars(text).map(|usd| Budget(Some(usd)))
}

impl Batches {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, CliError> {
        match &self.command {
            BatchesCommand::List { state, kind, list } => {
                let filter = given([
                    ("state", state.map(|state| state.to_string())),
                    ("kind", kind.map(|kind| kind.to_string())),
                ]);
                list.print(global, async |client: &Client, limit| {
                    client.batches(&filter, limit).await
                })
                .await
            }
            BatchesCommand::Show(One { id, common }) => {
                let show = async |client: &Client| client.batch(*id).await;
                common.print(global, show).await
            }
            BatchesCommand::Pause(one) => moved(one, global, "pause").await,
            BatchesCommand::Resume(one) => moved(one, global, "resume").await,
            BatchesCommand::Cancel(one) => moved(one, global, "cancel").await,
            BatchesCommand::RetryErrors(One { id, common }) => {
                let retry = async |client: &Client| client.retry_errors(*id).await;
                common.print(global, retry).await
            }
            BatchesCommand::Budget { id, budget, common } => {
                let set = async |client: &Client| client.set_budget(*id, budget.0).await;
                common.print(global, set).await
            }
            BatchesCommand::Spread { id, list } => {
                let spread = async |client: &Client| client.spread(*id, list.limit).await;
                list.common.print(global, spread).await
            }
            BatchesCommand::Watch(one) => watched(one, global).await,
            BatchesCommand::Push { dir, label, common } => pushed(dir, label, common, global).await,
        }
    }
}

async fn moved(one: &One, global: &Global, verb: &str) -> Result<Exit, CliError> {
    let act = async |client: &Client| client.move_batch(one.id, verb).await;
    one.common.print(global, act).await
}

/// Sends a run and prints the address of its page.
async fn pushed(
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
async fn watched(one: &One, global: &Global) -> Result<Exit, CliError> {
    let command =
        async |connection: Connection<'_>| watch(connection.client, one.id).await.map(Ended);
    let ended = one.common.run(global, Needs::Worker, command).await;
    if is_interrupted(&ended) {
        output::note(&follow(one.id));
    }
    ended
}

#[derive(serde::Serialize)]
#[serde(transparent)]
pub(super) struct Ended(pub(super) Batch);

impl Printable for Ended {
    fn text(&self, out: &mut Text) {
        self.0.text(out);
    }

    fn exit(&self) -> Exit {
        exit_of(&self.0)
    }
}

pub(super) fn follow(id: Uuid) -> String {
    format!(
        "batch {id} runs on the workers (`gavel up` for a data folder); follow it with: gavel batches watch {id}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_is_an_amount_or_none() {
        assert_eq!(budget("12.5"), Ok(Budget(Some(12.5))));
        assert_eq!(budget("None"), Ok(Budget(None)));
        for bad in ["-1", "nan", "inf", "ten", ""] {
            assert!(budget(bad).is_err(), "{bad}");
        }
    }
}
