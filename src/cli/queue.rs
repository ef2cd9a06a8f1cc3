//! `gavel queue`: what is in it, and the brake of all judges at once.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::outcome::{CliError, Exit};
use super::output::{self, cell};
use super::reach::{Needs, ReachArgs, Reached};
use super::{Global, judges};
use crate::client::list;

/// Show, pause and resume the queue
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  gavel queue status\n  gavel queue pause    # running jobs finish, no other starts\n  gavel queue resume"
)]
pub(super) struct Queue {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Show workers, judges and what is queued
    Status(Common),
    /// Start no more jobs; running ones finish
    Pause(Common),
    /// Start jobs again
    Resume(Common),
}

#[derive(Debug, Args)]
struct Common {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    reach: ReachArgs,
}

impl Queue {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, CliError> {
        match &self.what {
            What::Status(common) => {
                let command = async |reached: Reached<'_>| status(&reached, common.json).await;
                common.reach.run(global, Needs::Existing, command).await
            }
            What::Pause(common) => brake(global, common, "pause").await,
            What::Resume(common) => brake(global, common, "resume").await,
        }
    }
}

async fn brake(global: &Global, common: &Common, verb: &str) -> Result<Exit, CliError> {
    let command = async |reached: Reached<'_>| {
        let answer = reached.client.brake_queue(verb).await?;
        if common.json {
            output::json(&answer)?;
        } else {
            output::line(&format!("queue {verb}d"))?;
        }
        Ok(Exit::Done)
    };
    common.reach.run(global, Needs::Existing, command).await
}

async fn status(reached: &Reached<'_>, as_json: bool) -> Result<Exit, CliError> {
    let (queue, workers, known) = tokio::try_join!(
        reached.client.queue(),
        reached.client.workers(),
        reached.client.judges()
    )?;
    if as_json {
        output::json(
            &json!({ "queue": queue, "workers": workers["items"], "judges": known["items"] }),
        )?;
        return Ok(Exit::Done);
    }
    if let Some(fields) = queue.as_object() {
        for (name, value) in fields {
            match value {
                Value::Object(counts) => {
                    let counts: Vec<String> = counts
                        .iter()
                        .map(|(name, n)| format!("{name} {n}"))
                        .collect();
                    output::line(&format!("{name}: {}", counts.join(", ")))?;
                }
                Value::Null => {}
                other
                @ (Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
                    output::line(&format!("{name}: {}", cell(other, "")))?
                }
            }
        }
    }
    let rows: Vec<Vec<String>> = list(&workers, "/items")
        .iter()
        .map(|worker| {
            vec![
                cell(worker, "/name"),
                cell(worker, "/state"),
                cell(worker, "/alive"),
                cell(worker, "/in_hand"),
                cell(worker, "/heartbeat_at"),
                cell(worker, "/version"),
            ]
        })
        .collect();
    let head = ["worker", "state", "alive", "in hand", "heard", "version"];
    output::table(&head, &rows)?;
    judges::print(&known)?;
    Ok(Exit::Done)
}
