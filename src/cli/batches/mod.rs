//! `gavel batches`: list, show, move, pay for and watch what was asked for together.

mod show;
mod spread;
mod watch;

use clap::{Args, Subcommand};
use serde_json::json;
use uuid::Uuid;

use super::Global;
use super::connection::{Common, Connection, ConnectionArgs, Needs};
use super::outcome::{CliError, Exit};
use super::output;
use crate::job::Kind;
use crate::wire::words;
use crate::wire::{Batch, BatchState};

pub(super) use show::{dollars, print_batch};
pub(super) use spread::print_spread;
pub(super) use watch::{exit_of, watch};

/// List, show, pause, resume, cancel, retry and watch batches
#[derive(Debug, Args)]
#[command(
    long_about = "List, show, pause, resume, cancel, retry and watch batches: suites that were sent whole, and rescores \
                  (see `gavel rescore`).\n\nExit codes of watch: 0 completed and everything scored, 3 something failed, \
                  was cancelled or has no score, or the batch is paused, 4 it has no items, 130 interrupted (the \
                  batch goes on).",
    after_help = "Examples:\n  gavel batches list --state running\n  gavel batches watch 019ab2c3-7d1e-7000-8000-0123456789ab\n  gavel batches retry-errors 019ab2c3-7d1e-7000-8000-0123456789ab\n  gavel batches budget 019ab2c3-7d1e-7000-8000-0123456789ab 25"
)]
pub(super) struct Batches {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// List batches, newest first
    List {
        /// expanding, running, paused, completed or cancelled
        #[arg(long)]
        state: Option<BatchState>,
        /// session, query, qas or sql_metrics
        #[arg(long)]
        kind: Option<Kind>,
        /// At most this many
        #[arg(long, default_value_t = 50)]
        limit: usize,
        #[command(flatten)]
        common: Common,
    },
    /// Show one batch: where it stands, what it came to, what it cost
    Show {
        #[command(flatten)]
        one: One,
    },
    /// Let none of its items begin; those that run end, and what somebody asks for by itself is scored
    Pause {
        #[command(flatten)]
        one: One,
    },
    /// Let a paused batch go on
    Resume {
        #[command(flatten)]
        one: One,
    },
    /// End a batch with all its items that haven't ended, but for what somebody asked for by itself; what it came to stays
    Cancel {
        #[command(flatten)]
        one: One,
    },
    /// Queue its failed items again
    RetryErrors {
        #[command(flatten)]
        one: One,
    },
    /// Change what it may cost; one that its budget has paused goes on if the new one is above what was spent
    Budget {
        /// The batch's id
        id: Uuid,
        /// USD, or none for no budget
        #[arg(value_name = "USD|none", value_parser = budget)]
        budget: Budget,
        #[command(flatten)]
        common: Common,
    },
    /// Show how far the scores of a batch of repeats, or of a jury, lie apart
    #[command(
        long_about = "Show how far the scores of a batch of repeats (`gavel rescore --repeat`), or of a jury (`--judge` several \
                      times), lie apart: all sessions together, each judge, and each session. May be asked while the batch \
                      runs; docs/trust.md says how to read it.\n\nExit codes: 0 shown, 4 the batch asks nothing twice."
    )]
    Spread {
        /// The batch's id
        id: Uuid,
        /// At most this many sessions
        #[arg(long, default_value_t = 50)]
        limit: usize,
        #[command(flatten)]
        common: Common,
    },
    /// Follow a batch until it ends or is paused
    Watch {
        #[command(flatten)]
        one: One,
    },
}

#[derive(Debug, Args)]
struct One {
    /// The batch's id
    id: Uuid,
    #[command(flatten)]
    common: Common,
}

/// What a batch may cost.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Budget {
    Usd(f64),
    None,
}

fn budget(text: &str) -> Result<Budget, String> {
    if text.eq_ignore_ascii_case("none") {
        return Ok(Budget::None);
    }
    dollars(text).map(Budget::Usd)
}

impl Batches {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, CliError> {
        match &self.what {
            What::List {
                state,
                kind,
                limit,
                common,
            } => {
                let state = state.map(|state| ("state", state.as_str().to_owned()));
                let kind = kind.map(|kind| ("kind", kind.as_str().to_owned()));
                let filter: Vec<_> = state.into_iter().chain(kind).collect();
                let command = async |connection: Connection<'_>| {
                    let items = connection.client.batches(&filter, *limit).await?;
                    match common.json {
                        true => output::json(&json!({ "items": items }))?,
                        false => show::print_list(&items)?,
                    }
                    Ok(Exit::Done)
                };
                common
                    .connection
                    .run(global, Needs::Existing, command)
                    .await
            }
            What::Show { one } => {
                one.run(global, async |connection: Connection<'_>, id| {
                    Ok(connection.client.batch(id).await?)
                })
                .await
            }
            What::Pause { one } => one.moved(global, "pause").await,
            What::Resume { one } => one.moved(global, "resume").await,
            What::Cancel { one } => one.moved(global, "cancel").await,
            What::RetryErrors { one } => one.retried(global).await,
            What::Budget { id, budget, common } => {
                let usd = match budget {
                    Budget::Usd(usd) => Some(*usd),
                    Budget::None => None,
                };
                let command = async |connection: Connection<'_>| {
                    let batch = connection.client.set_budget(*id, usd).await?;
                    print(&batch, common.json)
                };
                common
                    .connection
                    .run(global, Needs::Existing, command)
                    .await
            }
            What::Spread { id, limit, common } => {
                let command = async |connection: Connection<'_>| {
                    let report = connection.client.spread(*id, *limit).await?;
                    match common.json {
                        true => output::json(&report)?,
                        false => print_spread(&report)?,
                    }
                    Ok(match report.purpose {
                        None => Exit::Nothing,
                        Some(_) => Exit::Done,
                    })
                };
                common
                    .connection
                    .run(global, Needs::Existing, command)
                    .await
            }
            What::Watch { one } => one.watched(global).await,
        }
    }
}

impl One {
    /// Gets the batch in some way, and prints it.
    async fn run(
        &self,
        global: &Global,
        get: impl AsyncFnOnce(Connection<'_>, Uuid) -> Result<Batch, CliError>,
    ) -> Result<Exit, CliError> {
        let command = async |connection: Connection<'_>| {
            let batch = get(connection, self.id).await?;
            print(&batch, self.common.json)
        };
        let connection = &self.common.connection;
        connection.run(global, Needs::Existing, command).await
    }

    async fn moved(&self, global: &Global, verb: &str) -> Result<Exit, CliError> {
        self.run(global, async |connection: Connection<'_>, id| {
            Ok(connection.client.move_batch(id, verb).await?)
        })
        .await
    }

    /// Queues failed items again; none: nothing to do.
    async fn retried(&self, global: &Global) -> Result<Exit, CliError> {
        let command = async |connection: Connection<'_>| {
            let answer = connection.client.retry_errors(self.id).await?;
            let again = answer.queued_again;
            if self.common.json {
                output::json(&answer)?;
            } else {
                output::line(&format!("{} queued again", words::counted(again, "item")))?;
                print_batch(&answer.batch)?;
            }
            Ok(match again {
                0 => Exit::Nothing,
                _ => Exit::Done,
            })
        };
        let connection = &self.common.connection;
        connection.run(global, Needs::Existing, command).await
    }

    /// Follows the batch, and says how to go on where that is broken off.
    async fn watched(&self, global: &Global) -> Result<Exit, CliError> {
        let command = async |connection: Connection<'_>| {
            let batch = watch(connection.client, self.id).await?;
            print(&batch, self.common.json)?;
            Ok(exit_of(&batch))
        };
        let connection = &self.common.connection;
        let ended = connection.run(global, Needs::Worker, command).await;
        if let Err(error) = &ended
            && error.exit == Exit::Interrupted
        {
            output::note(&goes_on(self.id, connection, global));
        }
        ended
    }
}

/// What becomes of a batch that nobody watches any more.
pub(super) fn goes_on(id: Uuid, connection: &ConnectionArgs, global: &Global) -> String {
    let again = connection.again(global);
    if connection.is_remote() {
        format!("batch {id} goes on; watch it again with: gavel batches watch {id}{again}")
    } else {
        format!(
            "batch {id} stays as it is, and goes on wherever workers run (`gavel up` for a data folder); watch it again \
             with: gavel batches watch {id}{again}"
        )
    }
}

fn print(batch: &Batch, as_json: bool) -> Result<Exit, CliError> {
    match as_json {
        true => output::json(batch)?,
        false => print_batch(batch)?,
    }
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_dollars_or_none() {
        assert_eq!(budget("12.5"), Ok(Budget::Usd(12.5)));
        assert_eq!(budget("None"), Ok(Budget::None));
        for bad in ["-1", "nan", "inf", "ten", ""] {
            assert!(budget(bad).is_err(), "{bad}");
        }
    }
}
