use clap::Subcommand;
use uuid::Uuid;

use super::Global;
use super::connection::{Listing, One, given};
use super::outcome::{CliError, Exit};
use super::output::{self, Column, Printable, Row, Text, optional_time, or_empty};
use super::scoring::waiting;
use crate::client::Client;
use crate::job::{JobId, JobState};
use crate::wire::{Call, Job, JobDetail};

/// List, show, cancel and retry jobs
#[derive(Debug, Subcommand)]
#[command(
    after_help = "Examples:\n  gavel jobs list --state failed\n  gavel jobs show 019ab2c3-7d1e-7000-8000-0123456789ab --calls\n  gavel jobs retry 019ab2c3-7d1e-7000-8000-0123456789ab"
)]
pub(super) enum Jobs {
    /// List jobs, newest first
    List {
        /// Only jobs in this state: queued, running, waiting, succeeded, failed or cancelled
        #[arg(long)]
        state: Option<JobState>,
        /// Only jobs of this judge
        #[arg(long)]
        judge: Option<String>,
        /// Only items of this batch
        #[arg(long, value_name = "ID")]
        batch: Option<Uuid>,
        #[command(flatten)]
        list: Listing,
    },
    /// Show one job
    Show {
        /// Include its judge calls and their raw replies
        #[arg(long)]
        calls: bool,
        #[command(flatten)]
        one: One,
    },
    /// Cancel an active job
    Cancel(One),
    /// Run a failed job again: the same job, its counters reset
    Retry(One),
}

impl Jobs {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, CliError> {
        match self {
            Self::List {
                state,
                judge,
                batch,
                list,
            } => {
                let filter = given([
                    ("state", state.map(|state| state.to_string())),
                    ("judge", judge.clone()),
                    ("batch_id", batch.map(|batch| batch.to_string())),
                ]);
                list.print(global, async |client: &Client, limit| {
                    if let Some(batch) = batch {
                        client.batch(*batch).await?; // an unknown batch is an error, not an empty list
                    }
                    client.jobs(&filter, limit).await
                })
                .await
            }
            Self::Show { calls, one } => {
                let show = async |client: &Client, id| match calls {
                    true => client.job_with_calls(JobId(id)).await,
                    false => client.job(JobId(id)).await.map(JobDetail::from),
                };
                one.print(global, show).await
            }
            Self::Cancel(one) => {
                let cancel = async |client: &Client, id| client.cancel(JobId(id)).await;
                one.print(global, cancel).await
            }
            Self::Retry(one) => {
                let retry = async |client: &Client, id| client.retry(JobId(id)).await;
                one.print(global, retry).await
            }
        }
    }
}

impl Row for Job {
    const COLUMNS: &'static [Column<Self>] = &[
        ("job", |job| job.job_id.to_string()),
        ("state", |job| job.state.to_string()),
        ("session", |job| or_empty(job.subject_id)),
        ("judge", |job| or_empty(job.judge.as_deref())),
        ("created", |job| output::time(job.times.created_at)),
        ("why", |job| match &job.error {
            None => waiting(job),
            Some(error) => format!("{}: {}", error.class, error.message),
        }),
    ];
}

impl Printable for Job {
    fn text(&self, out: &mut Text) {
        let (job, wait, error) = (self, self.wait.as_ref(), self.error.as_ref());
        out.facts(&[
            ("job", job.job_id.to_string()),
            ("kind", job.kind.to_string()),
            ("state", job.state.to_string()),
            ("session", or_empty(job.subject_id)),
            ("judge", or_empty(job.judge.as_deref())),
            ("priority", job.priority.to_string()),
            ("waits for", or_empty(wait.map(|wait| wait.reason))),
            ("", waiting(job)),
            ("position", or_empty(wait.and_then(|wait| wait.position))),
            ("deaths as a suspect", job.attempts.to_string()),
            ("retries", job.retries.to_string()),
            ("error", or_empty(error.map(|error| error.class))),
            ("", or_empty(error.map(|error| &error.message))),
            ("remedy", or_empty(error.map(|error| &error.remedy))),
            (
                "score",
                or_empty(job.score().map(|score| score.total_score)),
            ),
            ("simulated", job.simulated.to_string()),
            ("tokens in", job.usage.tokens_in.to_string()),
            ("tokens out", job.usage.tokens_out.to_string()),
            ("cost USD", output::rounded(job.usage.cost_usd, 6)),
            ("criteria", job.criteria_hash.clone()),
            ("asked by", job.triggered_by.clone()),
            ("created", output::time(job.times.created_at)),
            ("started", optional_time(job.times.started_at)),
            ("finished", optional_time(job.times.finished_at)),
        ]);
    }
}

impl Printable for JobDetail {
    fn text(&self, out: &mut Text) {
        self.job.text(out);
        for (index, call) in self.calls.iter().flatten().enumerate() {
            out.line(format!("\ncall {}", index + 1));
            call_text(call, out);
        }
    }
}

fn call_text(call: &Call, out: &mut Text) {
    out.facts(&[
        ("  judge", call.judge.clone()),
        ("  model", call.model.clone()),
        ("  at", output::time(call.at)),
        ("  latency ms", call.latency_ms.to_string()),
        ("  HTTP status", or_empty(call.status)),
        ("  error", or_empty(call.error.as_deref())),
        ("  message", or_empty(call.message.as_deref())),
        ("  tokens in", call.usage.tokens_in.to_string()),
        ("  of them cached", call.tokens_in_cached.to_string()),
        ("  tokens out", call.usage.tokens_out.to_string()),
        ("  cost USD", output::rounded(call.usage.cost_usd, 6)),
        ("  reply", or_empty(call.reply.as_deref())),
    ])
}
