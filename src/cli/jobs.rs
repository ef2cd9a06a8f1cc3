//! `gavel jobs`: list, show, cancel, retry.

use clap::{Args, Subcommand};
use serde_json::json;

use super::Global;
use super::connection::{Common, Connection, Needs};
use super::outcome::{CliError, Exit};
use super::output::{self, or_empty};
use super::scoring::waiting;
use crate::job::{JobId, JobState};
use crate::wire::{Job, JobDetail};

/// List, show, cancel and retry jobs
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  gavel jobs list --state failed\n  gavel jobs show 019ab2c3-7d1e-7000-8000-0123456789ab --calls\n  gavel jobs retry 019ab2c3-7d1e-7000-8000-0123456789ab"
)]
pub(super) struct Jobs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// List jobs, newest first
    List {
        /// queued, running, waiting, succeeded, failed or cancelled
        #[arg(long)]
        state: Option<JobState>,
        /// By the judge's name
        #[arg(long)]
        judge: Option<String>,
        /// At most this many
        #[arg(long, default_value_t = 50)]
        limit: usize,
        #[command(flatten)]
        common: Common,
    },
    /// Show one job
    Show {
        /// The job's id
        id: JobId,
        /// With the judge calls that were made for it, and their raw replies
        #[arg(long)]
        calls: bool,
        #[command(flatten)]
        common: Common,
    },
    /// Cancel an active job
    Cancel {
        /// The job's id
        id: JobId,
        #[command(flatten)]
        common: Common,
    },
    /// Run a failed job again: the same job, its counters reset
    Retry {
        /// The job's id
        id: JobId,
        #[command(flatten)]
        common: Common,
    },
}

impl Jobs {
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, CliError> {
        match &self.what {
            What::List {
                state,
                judge,
                limit,
                common,
            } => {
                let state = state.map(|state| ("state", state.as_str().to_owned()));
                let judge = judge.clone().map(|judge| ("judge", judge));
                let filter: Vec<_> = state.into_iter().chain(judge).collect();
                let command = async |connection: Connection<'_>| {
                    let items = connection.client.jobs(&filter, *limit).await?;
                    print_list(&items, common.json)
                };
                common
                    .connection
                    .run(global, Needs::Existing, command)
                    .await
            }
            What::Show { id, calls, common } => {
                let command = async |connection: Connection<'_>| {
                    if *calls {
                        let detail = connection.client.job_with_calls(*id).await?;
                        return print_detail(&detail, common.json);
                    }
                    print_job(connection.client.job(*id).await?, common.json)
                };
                common
                    .connection
                    .run(global, Needs::Existing, command)
                    .await
            }
            What::Cancel { id, common } => {
                let command = async |connection: Connection<'_>| {
                    let job = connection.client.cancel(*id).await?;
                    print_job(job, common.json)
                };
                common
                    .connection
                    .run(global, Needs::Existing, command)
                    .await
            }
            What::Retry { id, common } => {
                let command = async |connection: Connection<'_>| {
                    let job = connection.client.retry(*id).await?;
                    print_job(job, common.json)
                };
                common
                    .connection
                    .run(global, Needs::Existing, command)
                    .await
            }
        }
    }
}

fn print_list(items: &[Job], as_json: bool) -> Result<Exit, CliError> {
    if as_json {
        output::json(&json!({ "items": items }))?;
        return Ok(Exit::Done);
    }
    let row = |job: &Job| {
        vec![
            job.job_id.to_string(),
            job.state.to_string(),
            or_empty(job.subject_id),
            or_empty(job.judge.as_deref()),
            output::time(job.times.created_at),
            why(job),
        ]
    };
    let rows: Vec<Vec<String>> = items.iter().map(row).collect();
    let head = ["job", "state", "session", "judge", "created", "why"];
    output::table(&head, &rows)?;
    Ok(Exit::Done)
}

/// Why a job stands where it stands.
fn why(job: &Job) -> String {
    match &job.error {
        None => waiting(job),
        Some(error) => format!("{}: {}", error.class, error.message),
    }
}

fn print_job(job: Job, as_json: bool) -> Result<Exit, CliError> {
    print_detail(&JobDetail { job, calls: None }, as_json)
}

fn print_detail(detail: &JobDetail, as_json: bool) -> Result<Exit, CliError> {
    if as_json {
        output::json(detail)?;
        return Ok(Exit::Done);
    }
    let job = &detail.job;
    let (wait, error) = (job.wait.as_ref(), job.error.as_ref());
    output::facts(&[
        ("job", job.job_id.to_string()),
        ("kind", job.kind.to_string()),
        ("state", job.state.to_string()),
        ("session", or_empty(job.subject_id)),
        ("judge", or_empty(job.judge.as_deref())),
        ("priority", job.priority.to_string()),
        ("waits for", or_empty(wait.map(|wait| wait.reason))),
        ("", or_empty(wait.and_then(|wait| wait.judge.as_deref()))),
        (
            "until",
            or_empty(wait.and_then(|wait| wait.until).map(output::time)),
        ),
        (
            "judge said",
            or_empty(wait.and_then(|wait| wait.last_error.as_deref())),
        ),
        ("position", or_empty(wait.and_then(|wait| wait.position))),
        ("attempts", job.attempts.to_string()),
        ("retries", job.retries.to_string()),
        ("error", or_empty(error.map(|error| error.class))),
        ("", or_empty(error.map(|error| error.message.as_str()))),
        ("remedy", or_empty(error.map(|error| error.remedy.as_str()))),
        (
            "score",
            or_empty(job.score().map(|score| score.total_score)),
        ),
        ("simulated", job.simulated.to_string()),
        ("tokens in", job.usage.tokens_in.to_string()),
        ("tokens out", job.usage.tokens_out.to_string()),
        ("cost USD", or_empty(job.usage.cost_usd)),
        ("criteria", job.criteria_hash.clone()),
        ("asked by", job.triggered_by.clone()),
        ("created", output::time(job.times.created_at)),
        ("started", or_empty(job.times.started_at.map(output::time))),
        (
            "finished",
            or_empty(job.times.finished_at.map(output::time)),
        ),
    ])?;
    for (index, call) in detail.calls.iter().flatten().enumerate() {
        output::line(&format!("\ncall {}", index + 1))?;
        output::facts(&[
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
            ("  cost USD", or_empty(call.usage.cost_usd)),
            ("  reply", or_empty(call.reply.as_deref())),
        ])?;
    }
    Ok(Exit::Done)
}
