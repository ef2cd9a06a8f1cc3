//! `gavel sessions import --from URL`: starts an import from a TARSy and watches it to its end.
//!
//! The import runs in the service: the service in `--server`, otherwise a service in this process. An interrupted import
//! keeps its progress, and the same command resumes it.

use std::time::Duration;

use clap::Args;
use serde_json::json;
use uuid::Uuid;

use super::Global;
use super::connection::{Connection, ConnectionArgs, Needs};
use super::outcome::{CliError, Exit, is_interrupted};
use super::output;
use super::progress::Progress;
use crate::client::Client;
use crate::history::tarsy::Address;
use crate::wire::words;
use crate::wire::{Import, ImportBody, ImportCounts, ImportDetail, ImportState};

const POLL_INTERVAL: Duration = Duration::from_millis(500);
const MAX_NAMES: usize = 10;

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "From a TARSy")]
pub(super) struct FromTarsy {
    /// Address of a TARSy of either generation, without /api/v1. Its token is history.token (GAVEL_HISTORY_TOKEN)
    #[arg(long, value_name = "URL")]
    from: Option<String>,
    /// Only sessions with this status; may be repeated
    #[arg(long, value_name = "STATUS", requires = "from")]
    status: Vec<String>,
    /// Only sessions that started at or after: a time, a date (2026-01-31) or an age (30d)
    #[arg(long, value_name = "TIME", requires = "from")]
    since: Option<String>,
    /// Only sessions that started before [default: now]
    #[arg(long, value_name = "TIME", requires = "from")]
    until: Option<String>,
    /// HTTP requests per second; 0: no limit. Also applies to the same import if it is already running [default:
    /// history.requests_per_second, 2]
    #[arg(long, value_name = "N", requires = "from")]
    rps: Option<f64>,
    /// Also fetch sessions that have not changed since they were stored
    #[arg(long, requires = "from")]
    refresh: bool,
}

impl FromTarsy {
    pub(super) fn is_given(&self) -> bool {
        self.from.is_some()
    }

    /// Starts the import or finds the running one, and watches it.
    pub(super) async fn run(
        &self,
        global: &Global,
        connection: &ConnectionArgs,
        as_json: bool,
    ) -> Result<Exit, CliError> {
        let command = async |connection: Connection<'_>| {
            let started = connection.client.start_import(&self.body()).await?;
            let id = started.import_id;
            if started.counts.total > 0 {
                output::note(&format!(
                    "resuming import {id}: {} seen before",
                    words::counted(started.counts.total, "session")
                ));
            }
            print(&follow(connection.client, id).await?, as_json)
        };
        let from = self.from.clone().unwrap_or_default();
        Address::parse(&from).map_err(|fault| CliError::usage(format!("--from {fault}")))?;
        // The address must be configured so that the token is sent there. A configured address keeps its token.
        let adjust = |settings: &mut crate::config::Settings| {
            if settings.history.base_url.is_empty() {
                settings.history.base_url = from.into();
            }
        };
        let ended = connection
            .run_with(global, Needs::Imports, adjust, command)
            .await;
        if is_interrupted(&ended) {
            output::note(if connection.is_remote() {
                "the import continues at the service; repeat the command to follow it"
            } else {
                "the import isn't finished, and stored sessions stay: repeat the command to resume it"
            });
        }
        ended
    }

    fn body(&self) -> ImportBody {
        ImportBody {
            from: self.from.clone(),
            status: self.status.clone(),
            since: self.since.clone(),
            until: self.until.clone(),
            rps: self.rps,
            refresh: self.refresh,
        }
    }
}

async fn follow(client: &Client, id: Uuid) -> Result<ImportDetail, CliError> {
    let progress = Progress::growing("sessions");
    loop {
        let detail = client.import(id).await?;
        if detail.import.state != ImportState::Running {
            return Ok(detail);
        }
        let Import {
            counts, expected, ..
        } = &detail.import;
        let total = expected.unwrap_or(0).max(counts.total);
        progress.at([counts.total, counts.failed, total], &counts_text(counts));
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

fn print(detail: &ImportDetail, as_json: bool) -> Result<Exit, CliError> {
    let ImportDetail {
        import,
        failures,
        outdated,
    } = detail;
    for failure in failures.iter().take(MAX_NAMES) {
        let (id, reason) = (&failure.session_id, &failure.reason);
        output::note(&format!("session {id}: {reason}"));
    }
    let (counts, failed) = (&import.counts, import.counts.failed);
    let named = failures.len().min(MAX_NAMES) as u64;
    if failed > named {
        output::note(&format!("and {} more failed", failed - named));
    }
    if let Some(outdated) = outdated.as_ref().filter(|outdated| outdated.sessions > 0) {
        let sessions = words::counted(outdated.sessions, "stored session");
        let scores = words::counted(outdated.scores, "current score");
        let from = &import.from;
        output::note(&format!(
            "an older release read {sessions} differently ({scores} affected): fetch them again with \
             gavel sessions import --from {from} --refresh, then score them again"
        ));
    }
    match as_json {
        true => output::json(&json!({
            "new": counts.new, "updated": counts.updated, "unchanged": counts.unchanged, "failed": failed,
            "total": counts.total, "import_id": import.import_id, "state": import.state, "from": import.from,
            "generation": import.generation, "last_error": import.last_error, "failures": failures, "outdated": outdated,
        }))?,
        false => output::line(&counts_text(counts))?,
    }
    match import.state {
        ImportState::Completed if failed > 0 => Ok(Exit::Usage),
        ImportState::Completed => Ok(Exit::Done),
        ImportState::Cancelled => Err(CliError::incomplete("the import was cancelled")),
        ImportState::Running | ImportState::Failed => Err(CliError::incomplete(format!(
            "the import failed: {}\n  repeat the command to restart it; stored sessions that have ended aren't fetched again",
            import.last_error.as_deref().unwrap_or_default()
        ))),
    }
}

fn counts_text(counts: &ImportCounts) -> String {
    format!(
        "{} new, {} updated, {} unchanged, {} failed",
        counts.new, counts.updated, counts.unchanged, counts.failed
    )
}
