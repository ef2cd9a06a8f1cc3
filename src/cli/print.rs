//! Commands that print information without a service: settings, tokens, the API's document, shell completions.

use clap::{Args, CommandFactory as _, Subcommand};
use clap_complete::{Shell, generate};
use serde_json::{Value, json};
use uuid::Uuid;

use super::context::sources;
use super::outcome::{CliError, Exit};
use super::{Cli, Global, output};
use crate::config::{self, ShownSetting};

/// Show the effective settings
#[derive(Debug, Subcommand)]
#[command(after_help = "Example:\n  gavel config show --origin")]
pub(super) enum Config {
    /// Print all settings with their values
    #[command(
        long_about = "Print every setting with its value, without passwords and tokens. With --origin each line includes \
            the source of the value: a flag, an environment or .env variable, a line of the settings file, or the \
            default. Exit 2: settings are invalid.",
        after_help = "Examples:\n  gavel config show --origin\n  gavel config show --json | jq '.items[] | select(.origin != \"default\")'"
    )]
    Show {
        /// Print the source of each value
        #[arg(long)]
        origin: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

impl Config {
    pub(super) fn run(&self, global: &Global) -> Result<Exit, CliError> {
        let Self::Show { origin, json } = self;
        let loaded = config::load(&sources(global, []))?;
        for warning in &loaded.warnings {
            output::note(&format!("warning: {warning}"));
        }
        if *json {
            let item = |one: &ShownSetting| json!({ "key": one.key, "value": one.value, "origin": one.origin });
            let items: Vec<Value> = loaded.values.iter().map(item).collect();
            output::json(&json!({ "items": items }))?;
            return Ok(Exit::Done);
        }
        for ShownSetting {
            key,
            value,
            origin: source,
        } in &loaded.values
        {
            let source = match origin {
                true => format!("  # {source}"),
                false => String::new(),
            };
            output::line(&output::clean(&format!("{key} = {value}{source}")))?;
        }
        Ok(Exit::Done)
    }
}

/// Create tokens for the API
#[derive(Debug, Subcommand)]
#[command(after_help = TOKEN_EXAMPLES)]
pub(super) enum Tokens {
    /// Print a new token as name:scope:token
    #[command(
        long_about = "Print a new token as name:scope:token: a line for the file of auth.tokens_file, or an entry of \
            auth.tokens (GAVEL_AUTH_TOKENS). Clients send the last part. The command doesn't store the token.",
        after_help = TOKEN_EXAMPLES
    )]
    New {
        /// Name of the owner, stored with their requests
        #[arg(value_parser = token_name)]
        name: String,
        /// Scope; each includes those before it
        #[arg(long, default_value = "read", value_parser = ["read", "enqueue", "admin"])]
        scope: String,
    },
}

const TOKEN_EXAMPLES: &str = "Examples:\n  gavel tokens new ci --scope enqueue >> tokens\n  \
     echo \"GAVEL_AUTH_TOKENS=$(gavel tokens new ops --scope admin)\" >> .env";

fn token_name(text: &str) -> Result<String, &'static str> {
    let is_invalid = |c: char| c == ':' || c.is_control() || c.is_whitespace();
    match text.is_empty() || text.contains(is_invalid) {
        true => Err("must be printable, without spaces and colons"),
        false => Ok(text.to_owned()),
    }
}

impl Tokens {
    pub(super) fn run(&self) -> Result<Exit, CliError> {
        let Self::New { name, scope } = self;
        output::line(&format!("{name}:{scope}:{}", secret()))?;
        Ok(Exit::Done)
    }
}

/// Returns 244 random bits of the system.
pub(super) fn secret() -> String {
    format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple())
}

/// Print shell completions
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  gavel completions bash > /etc/bash_completion.d/gavel\n  gavel completions zsh > \"${fpath[1]}/_gavel\"\n  gavel completions fish > ~/.config/fish/completions/gavel.fish"
)]
pub(super) struct Completions {
    /// Shell
    shell: Shell,
}

impl Completions {
    pub(super) fn run(&self) -> Result<Exit, CliError> {
        let mut script = Vec::new();
        generate(self.shell, &mut Cli::command(), "gavel", &mut script);
        output::line(String::from_utf8_lossy(&script).trim_end())?;
        Ok(Exit::Done)
    }
}

/// Print the API's OpenAPI 3.1 document
#[derive(Debug, Args)]
#[command(
    long_about = "Print the API's OpenAPI 3.1 document, as /openapi.json serves it.",
    after_help = "Example:\n  gavel openapi > openapi.json"
)]
pub(super) struct Openapi {}

impl Openapi {
    pub(super) fn run(&self) -> Result<Exit, CliError> {
        output::line(crate::app::openapi_json().trim_end())?;
        Ok(Exit::Done)
    }
}
