//! `gavel queue`: what is in it, and the brake of all judges at once.

use clap::{Args, Subcommand};
use serde_json::json;

use super::connection::{Common, Connection, Needs};
use super::outcome::{CliError, Exit};
use super::output::{self, time};
use super::{Global, judges};
use crate::wire;

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
                let command =
                    async |connection: Connection<'_>| status(&connection, common.json).await;
                common
                    .connection
                    .run(global, Needs::Existing, command)
                    .await
            }
            What::Pause(common) => brake(global, common, "pause").await,
            What::Resume(common) => brake(global, common, "resume").await,
        }
    }
}

async fn brake(global: &Global, common: &Common, verb: &str) -> Result<Exit, CliError> {
    let command = async |connection: Connection<'_>| {
        let answer = connection.client.brake_queue(verb).await?;
        if common.json {
            output::json(&answer)?;
        } else {
            output::line(&format!("queue {verb}d"))?;
        }
        Ok(Exit::Done)
    };
    common
        .connection
        .run(global, Needs::Existing, command)
        .await
}

async fn status(connection: &Connection<'_>, as_json: bool) -> Result<Exit, CliError> {
    let client = &connection.client;
    let (queue, workers, known): (wire::Queue, wire::Workers, wire::Judges) =
        tokio::try_join!(client.queue(), client.workers(), client.judges())?;
    if as_json {
        output::json(&json!({
            "queue": queue,
            "workers": workers.items,
            "judges": known.items,
        }))?;
        return Ok(Exit::Done);
    }
    match &queue.brake {
        None => output::line("the queue is open")?,
        Some(brake) => output::line(&output::clean(&format!(
            "the queue is {} by {} since {}: {}",
            brake.reason,
            brake.set_by,
            time(brake.since),
            brake.message
        )))?,
    }
    let counts = &queue.counts;
    output::line(&format!(
        "jobs: {} queued, {} running, {} waiting; in the last 24 h {} succeeded, {} failed, {} cancelled",
        counts.queued,
        counts.running,
        counts.waiting,
        counts.succeeded_24h,
        counts.failed_24h,
        counts.cancelled_24h,
    ))?;
    let row = |worker: wire::Worker| {
        vec![
            worker.name,
            worker.state.to_string(),
            worker.alive.to_string(),
            worker.in_hand.to_string(),
            time(worker.heartbeat_at),
            worker.version,
        ]
    };
    let rows: Vec<Vec<String>> = workers.items.into_iter().map(row).collect();
    let head = ["worker", "state", "alive", "in hand", "heard", "version"];
    output::table(&head, &rows)?;
    judges::print(&known.items)?;
    Ok(Exit::Done)
}
