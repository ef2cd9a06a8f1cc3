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
use super::outcome::{CliError, Exit};
use super::output::{self, cell};
use super::reach::{Needs, ReachArgs, Reached};
use crate::client::{Client, list, text};
use crate::history::tarsy::Address;
use crate::wire::words;

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
        reach: &ReachArgs,
        as_json: bool,
    ) -> Result<Exit, CliError> {
        let command = async |reached: Reached<'_>| {
            let started = reached.client.start_import(&self.body()).await?;
            let id = text(&started, "/import_id").parse().map_err(|_| {
                CliError::incomplete("the service answered an import without its id")
            })?;
            if started["counts"]["total"] != json!(0) {
                output::note(&format!(
                    "going on with import {id}: {} seen before",
                    words::counted(started["counts"]["total"].as_u64().unwrap_or(0), "session")
                ));
            }
            print(&follow(reached.client, id).await?, as_json)
        };
        let from = self.from.clone().unwrap_or_default();
        Address::parse(&from).map_err(|fault| CliError::usage(format!("--from {fault}")))?;
        // What this process imports from is its TARSy, so that the token goes there; a configured one keeps its token.
        let adjust = |settings: &mut crate::config::Settings| {
            if settings.history.base_url.is_empty() {
                settings.history.base_url = from;
            }
        };
        let ended = reach
            .run_with(global, Needs::Imports, adjust, command)
            .await;
        if let Err(error) = &ended
            && error.exit == Exit::Interrupted
        {
            output::note(if reach.is_remote() {
                "the import goes on at the service; the same command follows it again"
            } else {
                "the import isn't finished, and what it has stored stays: the same command goes on with it"
            });
        }
        ended
    }

    fn body(&self) -> Value {
        let mut body = json!({ "from": self.from, "status": self.status, "refresh": self.refresh });
        if let Some(since) = &self.since {
            body["since"] = json!(since);
        }
        if let Some(until) = &self.until {
            body["until"] = json!(until);
        }
        if let Some(rps) = self.rps {
            body["rps"] = json!(rps);
        }
        body
    }
}

/// Looks at the import until it has ended.
async fn follow(client: &Client, id: Uuid) -> Result<Value, CliError> {
    let mut shown = Shown::new();
    loop {
        let import = client.import(id).await?;
        if text(&import, "/state") != "running" {
            return Ok(import);
        }
        shown.at(&import);
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn print(import: &Value, as_json: bool) -> Result<Exit, CliError> {
    let failures = list(import, "/failures");
    for failure in failures.iter().take(NAMED) {
        output::note(&format!(
            "session {}: {}",
            text(failure, "/session_id"),
            text(failure, "/reason")
        ));
    }
    let failed = import["counts"]["failed"].as_u64().unwrap_or(0);
    let named = u64::try_from(failures.len().min(NAMED)).unwrap_or(0);
    if failed > named {
        output::note(&format!("and {} more failed", failed - named));
    }
    if as_json {
        let mut whole = import["counts"].clone();
        for name in [
            "import_id",
            "state",
            "from",
            "generation",
            "last_error",
            "failures",
        ] {
            whole[name] = import[name].clone();
        }
        output::json(&whole)?;
    } else {
        output::line(&counts(import))?;
    }
    match text(import, "/state") {
        "completed" if failed > 0 => Ok(Exit::Usage),
        "completed" => Ok(Exit::Done),
        "cancelled" => Err(CliError::incomplete("the import was cancelled")),
        _ => Err(CliError::incomplete(format!(
            "the import failed: {}\n  the same command begins it again; what is stored and has ended isn't fetched twice",
            text(import, "/last_error")
        ))),
    }
}

fn counts(import: &Value) -> String {
    let count = |name: &str| cell(import, &format!("/counts/{name}"));
    format!(
        "{} new, {} updated, {} unchanged, {} failed",
        count("new"),
        count("updated"),
        count("unchanged"),
        count("failed")
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

    fn at(&mut self, import: &Value) {
        let total = import["counts"]["total"].as_u64().unwrap_or(0);
        let expected = import["expected"].as_u64();
        if let Some(bar) = &self.bar {
            bar.set_length(expected.unwrap_or(total).max(total));
            bar.set_position(total);
            bar.set_message(counts(import));
        } else if self.said.elapsed() >= SAY_EVERY {
            self.said = Instant::now();
            let of = expected.map_or_else(String::new, |expected| format!(" of about {expected}"));
            output::note(&format!("{total}{of} sessions seen: {}", counts(import)));
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
