//! `gavel jobs`: list, show, cancel, retry.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::Global;
use super::outcome::{CliError, Exit};
use super::output::{self, cell};
use super::reach::{Common, Needs, Reached};
use super::scoring::waiting;
use crate::client::list;
use crate::job::{JobId, JobState};

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
                let command = async |reached: Reached<'_>| {
                    let items = reached.client.jobs(&filter, *limit).await?;
                    print_list(&items, common.json)
                };
                common.reach.run(global, Needs::Existing, command).await
            }
            What::Show { id, calls, common } => {
                let command = async |reached: Reached<'_>| {
                    let job = if *calls {
                        reached.client.job_with_calls(*id).await?
                    } else {
                        reached.client.job(*id).await?
                    };
                    print_job(&job, common.json)
                };
                common.reach.run(global, Needs::Existing, command).await
            }
            What::Cancel { id, common } => {
                let command = async |reached: Reached<'_>| {
                    let job = reached.client.cancel(*id).await?;
                    print_job(&job, common.json)
                };
                common.reach.run(global, Needs::Existing, command).await
            }
            What::Retry { id, common } => {
                let command = async |reached: Reached<'_>| {
                    let job = reached.client.retry(*id).await?;
                    print_job(&job, common.json)
                };
                common.reach.run(global, Needs::Existing, command).await
            }
        }
    }
}

fn print_list(items: &[Value], as_json: bool) -> Result<Exit, CliError> {
    if as_json {
        output::json(&json!({ "items": items }))?;
        return Ok(Exit::Done);
    }
    let rows: Vec<Vec<String>> = items
        .iter()
        .map(|job| {
            vec![
                cell(job, "/job_id"),
                cell(job, "/state"),
                cell(job, "/subject_id"),
                cell(job, "/judge"),
                cell(job, "/times/created_at"),
                why(job),
            ]
        })
        .collect();
    let head = ["job", "state", "session", "judge", "created", "why"];
    output::table(&head, &rows)?;
    Ok(Exit::Done)
}

/// Why a job stands where it stands.
fn why(job: &Value) -> String {
    match cell(job, "/error/class").as_str() {
        "" => waiting(job),
        class => format!("{class}: {}", cell(job, "/error/message")),
    }
}

fn print_job(job: &Value, as_json: bool) -> Result<Exit, CliError> {
    if as_json {
        output::json(job)?;
        return Ok(Exit::Done);
    }
    output::fields(
        job,
        &[
            ("job", "/job_id"),
            ("kind", "/kind"),
            ("state", "/state"),
            ("session", "/subject_id"),
            ("judge", "/judge"),
            ("priority", "/priority"),
            ("waits for", "/wait/reason"),
            ("", "/wait/judge"),
            ("until", "/wait/until"),
            ("judge said", "/wait/last_error"),
            ("position", "/wait/position"),
            ("attempts", "/attempts"),
            ("retries", "/retries"),
            ("error", "/error/class"),
            ("", "/error/message"),
            ("remedy", "/error/remedy"),
            ("score", "/result/total_score"),
            ("simulated", "/simulated"),
            ("tokens in", "/usage/tokens_in"),
            ("tokens out", "/usage/tokens_out"),
            ("cost USD", "/usage/cost_usd"),
            ("criteria", "/criteria_hash"),
            ("asked by", "/triggered_by"),
            ("created", "/times/created_at"),
            ("started", "/times/started_at"),
            ("finished", "/times/finished_at"),
        ],
    )?;
    for (index, call) in list(job, "/calls").iter().enumerate() {
        output::line(&format!("\ncall {}", index + 1))?;
        if let Some(fields) = call.as_object() {
            for (name, value) in fields {
                let text = value
                    .as_str()
                    .map_or_else(|| value.to_string(), str::to_owned);
                if !value.is_null() {
                    output::line(&output::clean(&format!("  {name}: {text}")))?;
                }
            }
        }
    }
    Ok(Exit::Done)
}
