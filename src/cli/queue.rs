//! `gavel queue`: what is in it, and the hold of all judges at once.

use clap::{Args, Subcommand};

use super::connection::Common;
use super::outcome::{CliError, Exit};
use super::output::{self, OneLine, Printed, after_colon, or_empty, time};
use super::{Global, judges};
use crate::client::Client;
use crate::wire::{self, WorkerState};

/// Show, pause and resume the queue
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  gavel queue status\n  gavel queue pause    # running jobs finish, no other starts\n  gavel queue resume"
)]
pub(super) struct Queue {
    #[command(subcommand)]
    command: QueueCommand,
}

#[derive(Debug, Subcommand)]
enum QueueCommand {
    /// Show the queue's hold, its jobs by state, workers and judges
    #[command(visible_alias = "show")]
    Status(Common),
    /// Start no more jobs; running ones finish
    Pause(Common),
    /// Start jobs again
    Resume(Common),
}

impl Queue {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, CliError> {
        match &self.command {
            QueueCommand::Status(common) => {
                let ask = async |client: &Client| {
                    let (queue, workers, judges) =
                        tokio::try_join!(client.queue(), client.workers(), client.judges())?;
                    Ok(Status {
                        queue,
                        workers: workers.items,
                        judges: judges.items,
                    })
                };
                common.print(global, ask).await
            }
            QueueCommand::Pause(common) => {
                let pause = async |client: &Client| {
                    let said = OneLine::done("queue: paused; every worker knows within a second");
                    client.pause_queue().await.map(said)
                };
                common.print(global, pause).await
            }
            QueueCommand::Resume(common) => {
                let resume = async |client: &Client| {
                    client.resume_queue().await.map(OneLine::resumed("queue"))
                };
                common.print(global, resume).await
            }
        }
    }
}

/// The queue, and what works on it.
#[derive(serde::Serialize)]
struct Status {
    queue: wire::Queue,
    workers: Vec<wire::Worker>,
    judges: Vec<wire::Judge>,
}

impl Printed for Status {
    fn print(&self) -> Result<(), CliError> {
        let queue = &self.queue;
        match &queue.hold {
            None => output::line("the queue is open")?,
            Some(hold) => {
                let since = time(hold.since);
                let why = after_colon(&hold.message);
                let said = format!(
                    "the queue is {} by {} since {since}{why}",
                    hold.reason, hold.set_by
                );
                output::line(&output::clean(&said))?;
            }
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
        let row = |worker: &wire::Worker| {
            // Whoever died says nothing: what it had is another's by now.
            let is_silent = !worker.alive && worker.state != WorkerState::Stopped;
            vec![
                worker.name.clone(),
                match is_silent {
                    true => "silent".to_owned(),
                    false => worker.state.to_string(),
                },
                or_empty(worker.alive.then_some(worker.in_hand)),
                time(worker.heartbeat_at),
                worker.version.clone(),
            ]
        };
        let head = ["worker", "state", "in hand", "heard", "version"];
        output::table(&head, self.workers.iter().map(row))?;
        judges::print(&self.judges)
    }
}
