//! `gavel tokens new`: prints a random token as a line for the settings, without storing it.

use clap::{Args, Subcommand};
use uuid::Uuid;

use super::outcome::{CliError, Exit};
use super::output;

/// Create tokens for the API
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Tokens {
    #[command(subcommand)]
    command: TokensCommand,
}

#[derive(Debug, Subcommand)]
enum TokensCommand {
    New(New),
}

const EXAMPLES: &str = "Examples:\n  gavel tokens new ci --scope enqueue >> tokens\n  \
     echo \"GAVEL_AUTH_TOKENS=$(gavel tokens new ops --scope admin)\" >> .env";

/// Print a new token as name:scope:token
#[derive(Debug, Args)]
#[command(
    long_about = "Print a new token as name:scope:token: a line for the file of auth.tokens_file, or an entry of \
        auth.tokens (GAVEL_AUTH_TOKENS). Clients send the last part. The command doesn't store the token.",
    after_help = EXAMPLES
)]
struct New {
    /// Name of the owner, stored with their requests
    #[arg(value_parser = name)]
    name: String,
    /// Scope; each includes those before it
    #[arg(long, default_value = "read", value_parser = ["read", "enqueue", "admin"])]
    scope: String,
}

fn name(text: &str) -> Result<String, &'static str> {
    match text.is_empty()
        || text.contains(|c: char| c == ':' || c.is_control() || c.is_whitespace())
    {
        true => Err("must be printable, without spaces and colons"),
        false => Ok(text.to_owned()),
    }
}

impl Tokens {
    pub(super) fn run(&self) -> Result<Exit, CliError> {
        let TokensCommand::New(New { name, scope }) = &self.command;
        output::line(&format!("{name}:{scope}:{}", secret()))?;
        Ok(Exit::Done)
    }
}

/// Returns 244 random bits of the system.
pub(super) fn secret() -> String {
    format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple())
}
