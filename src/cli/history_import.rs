//! `gavel sessions import --from URL`: an import from a TARSy, begun and followed to its end.
//!
//! The service runs it: the one of `--server`, else the one that this command opens over the store. Interrupted, the
//! import stays as it is, and the same command goes on with it.

use std::io::{IsTerminal as _, stderr};
use std::time::{Duration, Instant};

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use uuid::Uuid;

use super::Global;
use super::connection::{Connection, ConnectionArgs, Needs};
use super::outcome::{CliError, Exit};
use super::output;
use crate::client::Client;
use crate::history::tarsy::Address;
use crate::wire::words;
use crate::wire::{Import, ImportBody, ImportCounts, ImportDetail, ImportState};

/// How often the import is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How often a plain line is written.
const SAY_EVERY: Duration = Duration::from_secs(15);
/// Failures that are named.
const NAMED: usize = 10;

/// Flags of an import from a TARSy.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "From a TARSy")]
pub(super) struct FromTarsy {
    /// Address of a TARSy of either generation, without /api/v1. Its token is history.token (GAVEL_HISTORY_TOKEN)
    #[arg(long, value_name = "URL")]
    from: Option<String>,
    /// Only sessions of this status; may be repeated
    #[arg(long, value_name = "STATUS", requires = "from")]
    status: Vec<String>,
    /// Only sessions that began then or later: a time, a date (2026-01-31) or an age (30d)
    #[arg(long, value_name = "TIME", requires = "from")]
    since: Option<String>,
    /// Only sessions that began before [default: now]
    #[arg(long, value_name = "TIME", requires = "from")]
    until: Option<String>,
    /// HTTP requests a second; 0: as fast as it goes. Holds for the same import if it runs already [default:
    /// history.requests_per_second, 2]
    #[arg(long, value_name = "N", requires = "from")]
    rps: Option<f64>,
    /// Fetch sessions that are listed as they are stored, too
    #[arg(long, requires = "from")]
    refresh: bool,
}

impl FromTarsy {
    /// Whether it is asked for.
    pub(super) fn is_given(&self) -> bool {
        self.from.is_some()
    }

    /// Begins the import, or finds it running, and follows it.
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
                    "going on with import {id}: {} seen before",
                    words::counted(started.counts.total, "session")
                ));
            }
            print(&follow(connection.client, id).await?, as_json)
        };
        let from = self.from.clone().unwrap_or_default();
        Address::parse(&from).map_err(|fault| CliError::usage(format!("--from {fault}")))?;
        // What this process imports from is its TARSy, so that the token goes there; a configured one keeps its token.
        let adjust = |settings: &mut crate::config::Settings| {
            if settings.history.base_url.is_empty() {
                settings.history.base_url = from;
            }
        };
        let ended = connection
            .run_with(global, Needs::Imports, adjust, command)
            .await;
        if let Err(error) = &ended
            && error.exit == Exit::Interrupted
        {
            output::note(if connection.is_remote() {
                "the import goes on at the service; the same command follows it again"
            } else {
                "the import isn't finished, and what it has stored stays: the same command goes on with it"
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

/// Looks at the import until it has ended.
async fn follow(client: &Client, id: Uuid) -> Result<ImportDetail, CliError> {
    let mut shown = Shown::new();
    loop {
        let detail = client.import(id).await?;
        if detail.import.state != ImportState::Running {
            return Ok(detail);
        }
        shown.at(&detail.import);
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn print(detail: &ImportDetail, as_json: bool) -> Result<Exit, CliError> {
    let ImportDetail { import, failures } = detail;
    for failure in failures.iter().take(NAMED) {
        output::note(&format!(
            "session {}: {}",
            failure.session_id, failure.reason
        ));
    }
    let failed = import.counts.failed;
    let named = failures.len().min(NAMED) as u64;
    if failed > named {
        output::note(&format!("and {} more failed", failed - named));
    }
    if as_json {
        let mut whole = json!(import.counts);
        if let Value::Object(whole) = &mut whole {
            whole.extend([
                ("import_id".to_owned(), json!(import.import_id)),
                ("state".to_owned(), json!(import.state)),
                ("from".to_owned(), json!(import.from)),
                ("generation".to_owned(), json!(import.generation)),
                ("last_error".to_owned(), json!(import.last_error)),
                ("failures".to_owned(), json!(failures)),
            ]);
        }
        output::json(&whole)?;
    } else {
        output::line(&counts(&import.counts))?;
    }
    match import.state {
        ImportState::Completed if failed > 0 => Ok(Exit::Usage),
        ImportState::Completed => Ok(Exit::Done),
        ImportState::Cancelled => Err(CliError::incomplete("the import was cancelled")),
        ImportState::Running | ImportState::Failed => Err(CliError::incomplete(format!(
            "the import failed: {}\n  the same command begins it again; what is stored and has ended isn't fetched twice",
            import.last_error.as_deref().unwrap_or_default()
        ))),
    }
}

fn counts(counts: &ImportCounts) -> String {
    format!(
        "{} new, {} updated, {} unchanged, {} failed",
        counts.new, counts.updated, counts.unchanged, counts.failed
    )
}

/// A bar on a terminal, a plain line every 15 s elsewhere.
struct Shown {
    bar: Option<ProgressBar>,
    said: Instant,
}

impl Shown {
    fn new() -> Self {
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} {elapsed_precise}");
        let bar = style.ok().filter(|_| stderr().is_terminal());
        Self {
            bar: bar.map(|style| ProgressBar::new(0).with_style(style)),
            said: Instant::now(),
        }
    }

    fn at(&mut self, import: &Import) {
        let (total, expected) = (import.counts.total, import.expected);
        if let Some(bar) = &self.bar {
            bar.set_length(expected.unwrap_or(total).max(total));
            bar.set_position(total);
            bar.set_message(counts(&import.counts));
        } else if self.said.elapsed() >= SAY_EVERY {
            self.said = Instant::now();
            let of = expected.map_or_else(String::new, |expected| format!(" of about {expected}"));
            output::note(&format!(
                "{total}{of} sessions seen: {}",
                counts(&import.counts)
            ));
        }
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
