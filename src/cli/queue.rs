//! `gavel queue`: contents of the queue, and the hold on all judges.

use clap::{Args, Subcommand};

use super::connection::Common;
use super::outcome::{CliError, Exit};
use super::output::{Column, OneLine, Printable, Row, Text, or_empty, time};
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

#[derive(serde::Serialize)]
struct Status {
    queue: wire::Queue,
    workers: Vec<wire::Worker>,
    judges: Vec<wire::Judge>,
}

impl Printable for Status {
    fn text(&self, out: &mut Text) {
        let queue = &self.queue;
        out.line(match &queue.hold {
            None => "the queue is open".to_owned(),
            Some(hold) => format!("the queue is {} {}", hold.reason, hold.text()),
        });
        let counts = &queue.counts;
        out.line(format!(
            "jobs: {} queued, {} running, {} waiting; in the last 24 h {} succeeded, {} failed, {} cancelled",
            counts.queued,
            counts.running,
            counts.waiting,
            counts.succeeded_24h,
            counts.failed_24h,
            counts.cancelled_24h,
        ));
        out.rows(&self.workers);
        judges::text(&self.judges, out);
    }
}

impl Row for wire::Worker {
    const COLUMNS: &'static [Column<Self>] = &[
        ("worker", |it| it.name.clone()),
        ("state", |it| {
            // The jobs of a silent worker have been claimed by others.
            match it.alive || it.state == WorkerState::Stopped {
                true => it.state.to_string(),
                false => "silent".to_owned(),
            }
        }),
        ("in hand", |it| or_empty(it.alive.then_some(it.in_hand))),
        ("heard", |it| time(it.heartbeat_at)),
        ("version", |it| it.version.clone()),
    ];
}
