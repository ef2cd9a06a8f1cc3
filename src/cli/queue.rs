//! `gavel queue`: what is in it, and the brake of all judges at once.

use clap::{Args, Subcommand};
use serde_json::json;

use super::outcome::{CliError, Exit};
use super::output::{self, cell};
use super::reach::{Common, Needs, Reached};
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
    /// Show the queue's brake, its jobs by state, workers and judges
    Status(Common),
    /// Start no more jobs; running ones finish
    Pause(Common),
    /// Start jobs again
    Resume(Common),
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
    let client = &reached.client;
    let (queue, workers, known) =
        tokio::try_join!(client.queue(), client.workers(), client.judges())?;
    if as_json {
        output::json(&json!({
            "queue": queue,
            "workers": workers["items"],
            "judges": known["items"],
        }))?;
        return Ok(Exit::Done);
    }
    match cell(&queue, "/brake/reason").as_str() {
        "" => output::line("the queue is open")?,
        reason => output::line(&output::clean(&format!(
            "the queue is {reason} by {} since {}: {}",
            cell(&queue, "/brake/set_by"),
            cell(&queue, "/brake/since"),
            cell(&queue, "/brake/message")
        )))?,
    }
    let count = |state: &str| cell(&queue, &format!("/counts/{state}"));
    output::line(&format!(
        "jobs: {} queued, {} running, {} waiting; in the last 24 h {} succeeded, {} failed, {} cancelled",
        count("queued"),
        count("running"),
        count("waiting"),
        count("succeeded_24h"),
        count("failed_24h"),
        count("cancelled_24h"),
    ))?;
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
