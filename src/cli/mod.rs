//! Command line: one file per command. Results go to stdout, messages to stderr; the exit code is the status. Contains no scoring rules:
//! commands use an embedded or a remote service through `client`.

mod analytics;
mod batches;
mod choice;
mod compare;
mod connection;
mod context;
mod criteria;
mod daemon;
mod demo;
mod doctor;
mod evaluate;
mod export;
mod healthcheck;
mod history_import;
mod import;
mod jobs;
mod judges;
mod outcome;
mod output;
mod print;
mod processes;
mod progress;
mod ratings;
mod report;
mod rescore;
mod score;
mod scoring;
mod sessions;
mod simulated;
mod store;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::config;

use outcome::{CliError, Exit};

/// Scores the work of AI agents with a judge LLM.
#[derive(Debug, Parser)]
#[command(
    name = "gavel",
    version,
    propagate_version = true,
    arg_required_else_help = true,
    max_term_width = 100,
    long_about = "Scores the work of AI agents with a judge LLM.\n\n\
        Settings, the first layer that has a key wins: flags, environment, the file of --config,\n\
        built-in defaults. The variable of a key is GAVEL_ and its path: worker.concurrency is\n\
        GAVEL_WORKER_CONCURRENCY. `.env` in the working folder is read; the real environment wins.\n\
        DATABASE_URL, REDIS_URL, DEFAULT_LLM_PROVIDER and RUST_LOG work too.",
    after_help = "Start with `gavel demo`: example sessions and a simulated judge, without installation.\n\nExit \
        codes: 0 done, 1 a gate failed, 2 usage or settings, 3 incomplete (a service or the\njudge is down), 4 no \
        work to do, 130 interrupted."
)]
pub(crate) struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Clone, Args)]
struct Global {
    /// Settings file (TOML); all keys are optional
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "GAVEL_CONFIG",
        help_heading = "Settings"
    )]
    config: Option<PathBuf>,
    /// Criteria file (YAML) instead of the built-in one [env: GAVEL_SCORING_CONFIG]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Settings")]
    scoring_config: Option<String>,
    /// Judges file (YAML) instead of the built-in one [env: GAVEL_LLM_PROVIDERS]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Settings")]
    llm_providers: Option<String>,
    /// Log format: text or json [env: GAVEL_LOG_FORMAT] [default: text]
    #[arg(long, global = true, value_name = "FORMAT", help_heading = "Settings")]
    log_format: Option<String>,
    /// Log filter, such as debug or info,gavel=debug [env: GAVEL_LOG_FILTER] [default: info; commands: warn]
    #[arg(long, global = true, value_name = "FILTER", help_heading = "Settings")]
    log: Option<String>,
}

// No doc comments on variants, because they would replace each command's own help and long help.
#[derive(Debug, Subcommand)]
enum Command {
    Up(processes::Up),
    Demo(demo::Demo),
    Serve(processes::Serve),
    Worker(processes::Worker),
    Migrate(store::Migrate),
    Prune(store::Prune),
    Score(score::Score),
    Evaluate(Box<evaluate::Evaluate>),
    Compare(compare::Compare),
    #[command(subcommand)]
    Sessions(sessions::Sessions),
    #[command(subcommand)]
    Criteria(criteria::CriteriaArgs),
    #[command(subcommand)]
    Ratings(ratings::Ratings),
    #[command(subcommand)]
    Jobs(jobs::Jobs),
    Rescore(Box<rescore::Rescore>),
    #[command(subcommand)]
    Batches(batches::Batches),
    Report(report::Report),
    #[command(subcommand)]
    Judges(judges::Judges),
    Costs(analytics::Costs),
    #[command(subcommand)]
    Analytics(analytics::Analytics),
    Export(export::Export),
    #[command(subcommand)]
    Queue(judges::Queue),
    Doctor(doctor::Doctor),
    #[command(subcommand)]
    Config(print::Config),
    #[command(subcommand)]
    Tokens(print::Tokens),
    Openapi(print::Openapi),
    Healthcheck(healthcheck::Healthcheck),
    SimulateJudge(simulated::SimulateJudge),
    Completions(print::Completions),
}

pub fn main() -> ExitCode {
    // Before any thread starts, because it changes the environment, and before flags are parsed, because their defaults come from it.
    let dotenv = config::read_dotenv(std::path::Path::new(".env"));
    let cli = Cli::parse();
    let _ = rustls::crypto::ring::default_provider().install_default();
    let outcome = dotenv.map_err(CliError::from).and_then(|()| {
        tokio::runtime::Runtime::new()
            .map_err(|error| CliError::incomplete(format!("starting the runtime: {error}")))?
            .block_on(run(cli))
    });
    match outcome {
        Ok(exit) => exit.into(),
        Err(error) => {
            output::error(&error);
            error.exit.into()
        }
    }
}

async fn run(cli: Cli) -> Result<Exit, CliError> {
    let global = cli.global;
    match cli.command {
        Command::Up(command) => command.run(&global).await,
        Command::Demo(command) => Box::pin(command.run(&global)).await,
        Command::Serve(command) => command.run(&global).await,
        Command::Worker(command) => command.run(&global).await,
        Command::Migrate(command) => command.run(&global).await,
        Command::Prune(command) => command.run(&global).await,
        Command::Score(command) => command.run(&global).await,
        Command::Evaluate(command) => command.run(&global).await,
        Command::Compare(command) => command.run(),
        Command::Sessions(command) => command.run(&global).await,
        Command::Criteria(command) => command.run(&global).await,
        Command::Ratings(command) => command.run(&global).await,
        Command::Jobs(command) => command.run(&global).await,
        Command::Rescore(command) => command.run(&global).await,
        Command::Batches(command) => command.run(&global).await,
        Command::Report(command) => command.run(&global).await,
        Command::Judges(command) => command.run(&global).await,
        Command::Costs(command) => command.run(&global).await,
        Command::Analytics(command) => command.run(&global).await,
        Command::Export(command) => command.run(&global).await,
        Command::Queue(command) => command.run(&global).await,
        Command::Doctor(command) => command.run(&global).await,
        Command::Config(command) => command.run(&global),
        Command::Tokens(command) => command.run(),
        Command::Openapi(command) => command.run(),
        Command::Healthcheck(command) => command.run(&global).await,
        Command::SimulateJudge(command) => command.run(&global).await,
        Command::Completions(command) => command.run(),
    }
}

#[cfg(test)]
mod tests {
    use clap::{Command, CommandFactory as _};

    use super::*;

    /// Lines of examples of a command and its subcommands that exceed the terminal width.
    fn too_long(command: &Command) -> Vec<String> {
        let help = command.get_after_help().map(ToString::to_string);
        let help = help.unwrap_or_default();
        let lines = help.lines().filter(|line| line.starts_with("  "));
        let long = lines.filter(|line| line.chars().count() > 80);
        let below = command.get_subcommands().flat_map(too_long);
        long.map(str::to_owned).chain(below).collect()
    }

    #[test]
    fn examples_fit_80_columns() {
        assert_eq!(too_long(&Cli::command()), Vec::<String>::new());
    }
}
