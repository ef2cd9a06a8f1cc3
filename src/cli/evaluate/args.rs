//! Flags of `gavel evaluate`.

use std::path::PathBuf;

use clap::Args;

use crate::cli::batches::LabelArgs;
use crate::cli::choice::choice;
use crate::cli::connection::ConnectionArgs;
use crate::job::Kind;
use crate::suite::run::thresholds;

/// Flags stored in `run.json`, which a resumed run keeps. The last three are groups of flags.
const RUN_FLAGS: [&str; 12] = [
    "kind",
    "limit",
    "output",
    "only_failed",
    "no_judge",
    "simulate",
    "allow_simulated",
    "criteria_hash",
    "force",
    "AgentArgs",
    "GateArgs",
    "LabelArgs",
];

/// Run a suite against agents and a judge, and gate on the result
#[derive(Debug, Args)]
#[command(
    long_about = "Run the items of a suite, and write each result as soon as it is available. The exit code can gate \
        a pipeline.\n\nA suite is a .json, .jsonl, .csv or .xlsx file: cases of one kind (--kind), or questions for \
        agents. The agents in the settings answer questions over HTTP (agents.sql.url, agents.docking.url). Use \
        --agent-command to get answers from a command, --agent-results to read them from a file. The command \
        validates the suite before it runs an item.\n\nWithout --server and without a database, or with --simulate, \
        the jobs run in this process and are stored in the data folder. Use --resume to continue a run that was \
        stopped or killed. It keeps the flags and gates of the run, and scores no item again.\n\nWith --server the \
        command also sends the finished run as a batch, so that the pages show it, and prints the page's address. \
        Use `gavel batches push` to send a run that was made without a server.\n\nExit codes:\n  0 passed\n  1 a \
        gate failed\n  2 usage or settings\n  3 incomplete (an agent, the judge or the service is down, scores are\n    \
        simulated, or --no-judge)\n  4 no items to run\n  130 interrupted\n\nWithout a gate flag every scored item \
        must pass.",
    after_help = "Examples:\n  gavel evaluate examples/queries/kql-suite.jsonl\n  gavel evaluate questions.json \\\n      \
                  --agent-command 'python3 agent.py' --min-pass-rate 0.9\n  gavel evaluate --resume \\\n      \
                  reports/evaluation-runs/run-20260101T120000Z --retry-errors\n  gavel evaluate suite.jsonl --max-regression 0.02 \\\n      \
                  --baseline reports/evaluation-runs/run-20260101T120000Z"
)]
pub(in crate::cli) struct Evaluate {
    /// Suite: a .json, .jsonl, .csv or .xlsx file. With --resume only needed if the run's own file has moved
    #[arg(value_name = "SUITE", required_unless_present = "resume")]
    pub(super) suite: Option<PathBuf>,
    /// Kind of the items; use `gavel score` for sessions [default: guessed from their fields]
    #[arg(long, value_name = "KIND", value_parser = choice::<Kind>(cases()))]
    pub(super) kind: Option<Kind>,
    /// Only the first N items; the others are not checked
    #[arg(long, value_name = "N")]
    pub(super) limit: Option<u64>,
    /// Maximum number of concurrent items. In a data folder also of judge calls, up to the judge's max_concurrency
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pub(super) concurrency: u16,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
    /// Print the result of each item
    #[arg(long, short)]
    pub(super) verbose: bool,
    #[command(flatten)]
    pub(super) agents: AgentArgs,
    #[command(flatten)]
    pub(super) place: RunArgs,
    #[command(flatten)]
    pub(super) judge: JudgeArgs,
    #[command(flatten)]
    pub(super) gates: GateArgs,
    #[command(flatten)]
    pub(super) label: LabelArgs,
    #[command(flatten)]
    pub(super) connection: ConnectionArgs,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Agents")]
pub(super) struct AgentArgs {
    /// Read the answers to questions from this file, such as a run's test-results.jsonl
    #[arg(long, value_name = "FILE", conflicts_with = "agent_command")]
    pub(super) agent_results: Option<PathBuf>,
    /// Answer each question with this shell command: the question on stdin, JSON with sql, results, success on stdout
    #[arg(long, value_name = "CMD")]
    pub(super) agent_command: Option<String>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Run")]
pub(super) struct RunArgs {
    /// Folder of the run; must be empty [default: reports/evaluation-runs/run-{timestamp}]
    #[arg(long, value_name = "DIR")]
    pub(super) output: Option<PathBuf>,
    /// Resume the run in this folder with its original flags (run.json). Items with a result are not run again
    #[arg(long, value_name = "DIR", conflicts_with_all = RUN_FLAGS)]
    pub(super) resume: Option<PathBuf>,
    /// With --resume: retry items without a score
    #[arg(long, requires = "resume")]
    pub(super) retry_errors: bool,
    /// Run only the items that did not pass in the run of this folder; pass the same SUITE again
    #[arg(long, value_name = "DIR")]
    pub(super) only_failed: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Judge")]
pub(super) struct JudgeArgs {
    /// Don't call judges, and compute only the scores that need none. The run is incomplete. Needs no service
    #[arg(long)]
    pub(super) no_judge: bool,
    /// Use a simulated judge, to try a suite without a key. It runs in this process with the data folder (DATABASE_URL and REDIS_URL are
    /// ignored). Its scores don't measure the agents
    #[arg(long, conflicts_with = "no_judge")]
    pub(super) simulate: bool,
    /// Let scores of a simulated judge pass gates
    #[arg(long)]
    pub(super) allow_simulated: bool,
    /// Use other criteria than the current ones (see `gavel criteria list`)
    #[arg(long, value_name = "HASH")]
    pub(super) criteria_hash: Option<String>,
    /// Call the judge even if its reply is cached
    #[arg(long)]
    pub(super) force: bool,
    /// Maximum wait for an unavailable judge (down, paused, out of quota). After it, compute the scores that need no judge. If the jobs run
    /// in this process, don't wait for a judge that rejects its key or model
    #[arg(long, value_name = "SECONDS", default_value = "300")]
    pub(super) max_wait: u64,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Gates")]
pub(super) struct GateArgs {
    /// Minimum share of scored items that pass: 0.9 or 90%
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub(super) min_pass_rate: Option<f64>,
    /// Minimum mean of the totals: 0.85 or 85%
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub(super) min_mean: Option<f64>,
    /// Maximum number of items without a score [default: 0]
    #[arg(long, value_name = "N")]
    pub(super) max_errors: Option<u64>,
    /// Compare with the run in this folder and print the changes. --max-regression makes it a gate
    #[arg(long, value_name = "DIR")]
    pub(super) baseline: Option<PathBuf>,
    /// With --baseline: maximum decrease of the mean, as 0.02 or 2%. Items with a total in the baseline must have one
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub(super) max_regression: Option<f64>,
}

impl Evaluate {
    pub(super) fn gates(&self) -> thresholds::Gates {
        thresholds::Gates {
            min_pass_rate: self.gates.min_pass_rate,
            min_mean: self.gates.min_mean,
            max_errors: self.gates.max_errors,
            baseline: self.gates.baseline.clone(),
            max_regression: self.gates.max_regression,
            allow_simulated: self.judge.allow_simulated,
        }
    }
}

fn cases() -> impl Iterator<Item = &'static str> {
    let kinds = Kind::ALL.iter().filter(|kind| kind.is_case());
    kinds.map(|kind| kind.as_str())
}

/// Converts percent to a share without binary rounding errors: 66.67 is 0.6667.
fn of_hundred(percent: f64) -> f64 {
    (percent * 1e10).round() / 1e12
}

/// Parses a share: `0.9` or `90%`.
pub(in crate::cli) fn share(text: &str) -> Result<f64, String> {
    let number = match text.trim().strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map(of_hundred),
        None => text.trim().parse::<f64>(),
    };
    number
        .ok()
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| {
            "give a share from 0 to 1, such as 0.9, or a percentage, such as 90%".to_owned()
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_shares_and_percentages() {
        assert_eq!(share("0.9"), Ok(0.9));
        assert_eq!(share("90%"), Ok(0.9));
        assert_eq!(share("66.67%").unwrap().to_string(), "0.6667");
        assert_eq!(share(" 100 %"), Ok(1.0));
        for bad in ["90", "-0.1", "nan", "", "ninety", "101%"] {
            assert!(share(bad).is_err(), "{bad}");
        }
    }
}
