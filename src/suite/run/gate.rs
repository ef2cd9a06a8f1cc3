//! Decides whether a run passes. An incomplete run doesn't pass, and `Incomplete` has precedence over `Fail`.

use super::compare::RunComparison;
use super::thresholds::Gates;
use crate::report::summary::{Figures, Share};
use crate::report::{GateResult, Judging, Simulated, Verdict};

const SLACK: f64 = 1e-9;
/// Maximum cases named by a reason.
const MAX_NAMED: usize = 20;

pub fn decide(
    figures: &Figures,
    gates: &Gates,
    judging: Judging,
    against: Option<&RunComparison>,
) -> GateResult {
    let (mut open, mut missed) = (Vec::new(), Vec::new());
    if figures.all.n == 0 && figures.unfinished == 0 {
        return GateResult {
            decision: Verdict::Nothing,
            reasons: Vec::new(),
        };
    }
    completeness(figures, gates, judging, &mut open);
    quality(figures, gates, &mut open, &mut missed);
    regression(gates, against, &mut open, &mut missed);
    judged(open, missed)
}

fn judged(open: Vec<String>, missed: Vec<String>) -> GateResult {
    let decision = match (open.is_empty(), missed.is_empty()) {
        (false, _) => Verdict::Incomplete,
        (true, false) => Verdict::Failed,
        (true, true) => Verdict::Passed,
    };
    GateResult {
        decision,
        reasons: [open, missed].concat(),
    }
}

fn completeness(figures: &Figures, gates: &Gates, judging: Judging, open: &mut Vec<String>) {
    match judging {
        Judging::Asked => {}
        Judging::NotRun => open.push("no judge was used (--no-judge)".to_owned()),
    }
    if figures.unfinished > 0 {
        let (left, all) = (figures.unfinished, figures.all.n + figures.unfinished);
        let are = if left == 1 { "is" } else { "are" };
        open.push(format!("{left} of {all} items {are} not run yet"));
    }
    let errors = figures.unscored();
    if errors > gates.most_errors() {
        let classes: Vec<String> = figures
            .errors
            .iter()
            .map(|(class, n)| format!("{n} {class}"))
            .collect();
        let allowed = allowed(gates.most_errors());
        open.push(format!(
            "{errors} of {} items {} no score ({}){allowed}",
            figures.all.n,
            has(errors),
            classes.join(", ")
        ));
    }
    match gates.simulated() {
        Simulated::Allowed => {}
        Simulated::Refused if figures.all.simulated == 0 => {}
        Simulated::Refused => open.push(format!(
            "{} scores were made up by a simulated judge; --allow-simulated lets them count",
            figures.all.simulated
        )),
    }
}

fn quality(figures: &Figures, gates: &Gates, open: &mut Vec<String>, missed: &mut Vec<String>) {
    let apart = figures.simulated_apart.as_ref();
    let misses = figures.all.missed + apart.map_or(0, |share| share.missed);
    let scored = figures.all.scored;
    if figures.all.n > 0 && scored == 0 && figures.unscored() <= gates.most_errors() {
        // A run without scores is incomplete, even if `--max-errors` allows all the errors.
        open.push(format!("0 of {} items have a score", figures.all.n));
    }
    let is_default =
        gates.min_pass_rate.is_none() && gates.min_mean.is_none() && gates.max_regression.is_none();
    if is_default && misses > 0 {
        missed.push(format!("{misses} of {scored} scored items did not pass"));
    }
    for (what, flag, given, asked) in [
        (
            "pass rate",
            "--min-pass-rate",
            over_all(figures, |share| {
                (share.pass_rate, share.passed + share.missed)
            }),
            gates.min_pass_rate,
        ),
        (
            "mean",
            "--min-mean",
            over_all(figures, |share| (share.mean, share.measured)),
            gates.min_mean,
        ),
    ] {
        match (given, asked) {
            (_, None) => {}
            (None, Some(_)) if scored == 0 => {} // reported above
            (None, Some(_)) => open.push(format!("no {what}: no item has a verdict")),
            (Some(given), Some(asked)) if given < asked - SLACK => {
                missed.push(format!("the {what} is {given:.3}, below {flag} {asked}"));
            }
            (Some(_), Some(_)) => {}
        }
    }
    // A validator that accepts unsafe SQL doesn't pass.
    if let Some(safety) = figures
        .safety
        .as_ref()
        .filter(|s| !s.false_negatives.is_empty())
    {
        let (named, more) = safety
            .false_negatives
            .split_at(safety.false_negatives.len().min(MAX_NAMED));
        let more = match more.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        missed.push(format!(
            "CRITICAL: unsafe SQL was not caught by the validator: {}{more}",
            named.join(", ")
        ));
    }
}

/// Returns a value over real and simulated scores, weighted by count. Reports show them separately, but a gate that allows simulated
/// scores must not consider only the few items that needed no judge.
fn over_all(figures: &Figures, figure: impl Fn(&Share) -> (Option<f64>, u64)) -> Option<f64> {
    let shares = std::iter::once(&figures.all).chain(&figures.simulated_apart);
    let known = shares.filter_map(|share| {
        let (value, weight) = figure(share);
        value.map(|value| (value, weight as f64))
    });
    let (sum, weight) = known.fold((0.0, 0.0), |(sum, all), (value, weight)| {
        (sum + value * weight, all + weight)
    });
    (weight > 0.0).then(|| sum / weight)
}

fn regression(
    gates: &Gates,
    against: Option<&RunComparison>,
    open: &mut Vec<String>,
    missed: &mut Vec<String>,
) {
    let (Some(most), Some(against)) = (gates.max_regression, against) else {
        return;
    };
    match against.difference {
        None => open.push("no item has a score in both this run and the baseline".to_owned()),
        Some(difference) if difference < -most - SLACK => missed.push(format!(
            "the mean fell by {:.3} against the baseline, more than --max-regression {most} ({} items)",
            -difference, against.compared
        )),
        Some(_) => {}
    }
}

fn allowed(errors: u64) -> String {
    match errors {
        0 => String::new(),
        max => format!(", more than --max-errors {max}"),
    }
}

fn has(n: u64) -> &'static str {
    if n == 1 { "has" } else { "have" }
}

/// Decides from a comparison only (`gavel compare --max-regression`). The mean ignores the items that lost their score, so at most
/// `max_errors` items may have lost it.
pub fn decide_comparison(
    against: &RunComparison,
    max_regression: Option<f64>,
    max_errors: u64,
) -> GateResult {
    let (mut open, mut missed) = (Vec::new(), Vec::new());
    let gates = Gates {
        max_regression,
        ..Gates::default()
    };
    regression(&gates, Some(against), &mut open, &mut missed);
    let lost = against.lost_score.len() as u64;
    if max_regression.is_some() && against.difference.is_some() && lost > max_errors {
        open.push(format!(
            "{lost} of {} common items {} no score any more{}",
            against.common,
            has(lost),
            allowed(max_errors),
        ));
    }
    if max_regression.is_none() && against.difference.is_none() {
        open.push("no item has a score in both runs".to_owned());
    }
    judged(open, missed)
}

#[cfg(test)]
mod tests;
