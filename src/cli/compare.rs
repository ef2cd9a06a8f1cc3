//! `gavel compare`: compares two runs of a suite.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use serde_json::json;

use super::evaluate::{mixed, share};
use super::outcome::{CliError, Exit};
use super::output::{self, Printable, Text};
use crate::job::Kind;
use crate::report::{GateResult, ReportError, ResultLines, Verdict};
use crate::suite::run::RunFolder;
use crate::suite::run::compare::{Change, RunComparison};
use crate::suite::run::folder::RESULTS;
use crate::suite::run::gate::decide_comparison;

/// Maximum number of printed items per list; `--json` has all.
const MAX_LISTED: usize = 50;

/// Compare two runs of `gavel evaluate`: changed items and the change of the mean
#[derive(Debug, Args)]
#[command(
    long_about = "Compare run B with run A. Items are paired by id, or by position if they have no id. The command \
        first prints the items that passed in A and failed in B, then the reverse, then the items that lost or \
        gained a score. Means include the items with a score in both runs. The interval is a bootstrap over the \
        pairs (95 %, deterministic). If judges or criteria differ between the runs, the command prints a warning \
        (`judging_differs` with --json).\n\nExit codes:\n  0 compared\n  1 the mean fell by more than \
        --max-regression\n  2 a folder is not a run, the kinds of the runs differ, or only one of them\n    has a \
        simulated judge\n  3 no item has a score in both; or, with --max-regression, more items lost\n    their \
        score than --max-errors allows",
    after_help = "Examples:\n  gavel compare reports/evaluation-runs/run-20260101T120000Z \\\n      \
                  reports/evaluation-runs/run-20260102T120000Z\n  gavel compare base new --max-regression 2%"
)]
pub(super) struct Compare {
    /// Folder of the earlier run
    #[arg(value_name = "A")]
    a: PathBuf,
    /// Folder of the later run
    #[arg(value_name = "B")]
    b: PathBuf,
    /// Maximum decrease of the mean from A to B, as 0.02 or 2%
    #[arg(long, value_name = "SHARE", value_parser = share)]
    max_regression: Option<f64>,
    /// Maximum number of items that have a score in A but not in B; they are in no mean
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        requires = "max_regression"
    )]
    max_errors: u64,
    /// Compare a simulated run with a real one
    #[arg(long)]
    allow_simulated: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Compare {
    pub(super) fn run(&self) -> Result<Exit, CliError> {
        let (a, b) = (open(&self.a)?, open(&self.b)?);
        let found = RunComparison::between(&a, &b).map_err(unreadable)?;
        self.of_one_kind(&found)?;
        let bench = |dir: &Path| RunFolder::header_of(dir).ok()?.judged_by;
        let found = found.under(bench(&self.a).as_ref(), bench(&self.b).as_ref());
        if found.mixes_simulated() && !self.allow_simulated {
            return Err(CliError::usage(mixed("gavel compare")));
        }
        let gate_result = decide_comparison(&found, self.max_regression, self.max_errors);
        let compared = Compared {
            asked: self,
            found,
            gate_result,
        };
        output::print(&compared, self.json)
    }

    /// Totals of different kinds aren't comparable.
    fn of_one_kind(&self, found: &RunComparison) -> Result<(), CliError> {
        let (Some(a), Some(b)) = (kinds(&found.kinds_a), kinds(&found.kinds_b)) else {
            return Ok(());
        };
        if a == b {
            return Ok(());
        }
        Err(CliError::usage(format!(
            "{} is a run of kind {a}, {} one of kind {b}: their scores don't measure the same",
            self.a.display(),
            self.b.display(),
        )))
    }
}

struct Compared<'a> {
    asked: &'a Compare,
    found: RunComparison,
    gate_result: GateResult,
}

impl Serialize for Compared<'_> {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let (found, gate_result) = (&self.found, &self.gate_result);
        json!({
            "a": self.asked.a.display().to_string(), "b": self.asked.b.display().to_string(), "comparison": found,
            "judging_differs": found.judged.otherwise(), "decision": gate_result.decision, "reasons": gate_result.reasons,
            "exit_code": self.exit().code(),
        })
        .serialize(to)
    }
}

impl Printable for Compared<'_> {
    fn text(&self, out: &mut Text) {
        self.found.text(out);
        if self.asked.max_regression.is_some() {
            out.decision(&self.gate_result);
        }
    }

    fn exit(&self) -> Exit {
        match self.gate_result.decision {
            Verdict::Passed | Verdict::Nothing => Exit::Done,
            Verdict::Failed => Exit::GateFailed,
            Verdict::Incomplete => Exit::Incomplete,
        }
    }
}

/// Formats the kinds of a run's items. `None` without items.
fn kinds(kinds: &BTreeSet<Kind>) -> Option<String> {
    let names: Vec<&str> = kinds.iter().map(|kind| kind.as_str()).collect();
    (!names.is_empty()).then(|| names.join(" and "))
}

fn open(dir: &Path) -> Result<ResultLines, CliError> {
    ResultLines::open(&dir.join(RESULTS)).map_err(unreadable)
}

fn unreadable(error: ReportError) -> CliError {
    CliError::usage(format!(
        "{error}; name the folders of two runs of `gavel evaluate`"
    ))
}

impl Printable for RunComparison {
    fn text(&self, out: &mut Text) {
        for (title, changes) in [
            ("passed, and misses now", &self.pass_to_fail),
            ("missed, and passes now", &self.fail_to_pass),
            ("has no score any more", &self.lost_score),
            ("has a score now", &self.gained_score),
        ] {
            if changes.is_empty() {
                continue;
            }
            out.line(format!("{title}: {}", changes.len()));
            for change in changes.iter().take(MAX_LISTED) {
                out.line(line_of(change));
            }
            rest(changes.len(), out);
        }
        for (title, ids) in [("only in B", &self.new), ("only in A", &self.gone)] {
            if ids.is_empty() {
                continue;
            }
            let (n, listed) = (
                ids.len(),
                output::joined(ids.get(..MAX_LISTED).unwrap_or(ids)),
            );
            out.line(format!("{title}: {n} ({listed})"));
            rest(n, out);
        }
        out.line(mean(self));
        for difference in self.judged.otherwise() {
            out.line(format!("NOTE     {difference}"));
        }
        if self.mixes_simulated() {
            out.line("SIMULATED: only one of the two runs was scored by a real judge");
        } else if self.simulated_a > 0 {
            out.line("SIMULATED: both runs were scored by a simulated judge");
        }
    }
}

fn mean(found: &RunComparison) -> String {
    let (Some(a), Some(b), Some(difference)) = (found.mean_a, found.mean_b, found.difference)
    else {
        return "no item has a score in both runs".to_owned();
    };
    let interval = found.interval.map_or(String::new(), |(low, high)| {
        format!(", 95 % interval {low:+.3} to {high:+.3}")
    });
    format!(
        "mean     {a:.3} -> {b:.3} ({difference:+.3}{interval}) over {} of {} common items",
        found.compared, found.common
    )
}

fn line_of(change: &Change) -> String {
    let share = |total: Option<f64>| total.map_or("-".to_owned(), |total| format!("{total:.3}"));
    format!(
        "  {}  {} -> {}",
        change.id,
        share(change.before),
        share(change.after)
    )
}

fn rest(n: usize, out: &mut Text) {
    if n > MAX_LISTED {
        out.line(format!(
            "  and {} more; --json lists them all",
            n - MAX_LISTED
        ));
    }
}
