//! `gavel config show`: effective settings with their sources, without secrets.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::Global;
use super::context::sources;
use super::outcome::{CliError, Exit};
use super::output;
use crate::config::{self, ShownSetting};

/// Show the effective settings
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Example:\n  gavel config show --origin"
)]
pub(super) struct ConfigCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Show(Show),
}

/// Print all settings with their values
#[derive(Debug, Args)]
#[command(
    long_about = "Print every setting with its value, without passwords and tokens. With --origin each line includes \
        the source of the value: a flag, an environment or .env variable, a line of the settings file, or the \
        default. Exit 2: settings are invalid.",
    after_help = "Examples:\n  gavel config show --origin\n  gavel config show --json | jq '.items[] | select(.origin != \"default\")'"
)]
struct Show {
    /// Print the source of each value
    #[arg(long)]
    origin: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl ConfigCommand {
    pub(super) fn run(&self, global: &Global) -> Result<Exit, CliError> {
        let Action::Show(show) = &self.action;
        let loaded = config::load(&sources(global, Vec::new()))?;
        for warning in &loaded.warnings {
            output::note(&format!("warning: {warning}"));
        }
        if show.json {
            let item = |one: &ShownSetting| json!({ "key": one.key, "value": one.value, "origin": one.origin });
            let items: Vec<Value> = loaded.values.iter().map(item).collect();
            output::json(&json!({ "items": items }))?;
            return Ok(Exit::Done);
        }
        for one in &loaded.values {
            let line = format!("{} = {}", one.key, one.value);
            let line = if show.origin {
                format!("{line}  # {}", one.origin)
            } else {
                line
            };
            output::line(&output::clean(&line))?;
        }
        Ok(Exit::Done)
    }
}
