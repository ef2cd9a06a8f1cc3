//! A rescore's plan as people read it: how many sessions, what it will cost, how long it takes.

use crate::cli::output::clean;
use crate::wire::words::duration;
use crate::wire::{CostRange, PlannedJudge, RescorePlan, SkippedPlan, TokenRange};

/// The plan, line by line.
pub(super) fn lines(plan: &RescorePlan) -> Vec<String> {
    let mut lines = vec![format!(
        "{} sessions match, {} to score{}",
        plan.matching,
        plan.to_score,
        skipped(&plan.skipped)
    )];
    if plan.to_score > 0 {
        let judges: Vec<String> = plan.judges.iter().map(judge).collect();
        lines.push(format!("criteria  {}", plan.criteria_hash));
        lines.push(format!(
            "jobs      {}, by {}",
            plan.items,
            judges.join(", ")
        ));
        lines.push(format!(
            "tokens    {} in, {} out",
            tokens(&plan.tokens_in),
            tokens(&plan.tokens_out)
        ));
        lines.push(match &plan.cost_usd {
            Some(CostRange {
                expected,
                low,
                high,
            }) => format!(
                "cost      about {} ({} to {}) USD",
                usd(*expected),
                usd(*low),
                usd(*high)
            ),
            None => "cost      unknown: a judge has no price (`prices` in llm_providers.yaml)"
                .to_owned(),
        });
        let pace = plan.pace.as_ref().map_or_else(String::new, |pace| {
            format!(" at {:.2} jobs/s ({})", pace.jobs_per_s, pace.of)
        });
        lines.push(match plan.duration_s {
            Some(seconds) => format!("time      about {}{pace}", duration(seconds)),
            None => "time      unknown".to_owned(),
        });
        let from = &plan.estimate;
        lines.push(format!(
            "          estimated from {} sessions and {} earlier jobs: tokens of prompts {}, of replies {}",
            from.sampled_sessions, from.history_jobs, from.tokens_in, from.tokens_out
        ));
    }
    let warnings = plan.warnings.iter();
    lines.extend(warnings.map(|warning| format!("warning: {warning}")));
    lines.iter().map(|line| clean(line)).collect()
}

/// What would be passed over; empty for nothing.
fn skipped(skipped: &SkippedPlan) -> String {
    let found = &skipped.found;
    let whole = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    let reasons = [
        (found.already_current, "scored by these criteria already"),
        (found.in_progress, "being scored"),
        (found.not_scorable, "can't be scored"),
        (found.unknown, "unknown"),
        (whole(skipped.not_sampled), "not in the sample"),
        (whole(skipped.beyond_max), "beyond --max"),
    ];
    let parts = reasons.iter().filter(|(n, _)| *n > 0);
    let parts: Vec<String> = parts.map(|(n, words)| format!("{n} {words}")).collect();
    match parts.is_empty() {
        true => String::new(),
        false => format!("; skipped: {}", parts.join(", ")),
    }
}

fn judge(judge: &PlannedJudge) -> String {
    let price = if judge.priced { "" } else { " (no price)" };
    format!("{}{price}", judge.judge)
}

/// What is expected, and between what it lies.
fn tokens(range: &TokenRange) -> String {
    let [expected, low, high] = [range.expected, range.low, range.high].map(count);
    format!("about {expected} ({low} to {high})")
}

fn usd(amount: f64) -> String {
    match amount {
        small if small < 1.0 => format!("{small:.4}"),
        amount => format!("{amount:.2}"),
    }
}

#[expect(clippy::cast_precision_loss, reason = "it is rounded for people")]
fn count(tokens: u64) -> String {
    match tokens as f64 {
        t if t >= 1e6 => format!("{:.1}M", t / 1e6),
        t if t >= 1e4 => format!("{:.0}k", t / 1e3),
        t => format!("{t:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn plan(to_score: u64) -> RescorePlan {
        let plan = json!({
            "matching": 1200, "to_score": to_score, "items": 1000, "criteria_hash": "9f2c",
            "skipped": {"already_current": 196, "in_progress": 4, "not_scorable": 0, "unknown": 0, "not_sampled": 0, "beyond_max": 0},
            "judges": [{"judge": "a", "priced": true}],
            "tokens_in": {"expected": 12_300_000, "low": 11_900_000, "high": 12_700_000},
            "tokens_out": {"expected": 900, "low": 450, "high": 1800},
            "cost_usd": {"expected": 41.2, "low": 0.5, "high": 52.8},
            "duration_s": 2100.0, "pace": {"jobs_per_s": 0.5, "of": "last 10 minutes"},
            "estimate": {"sampled_sessions": 200, "history_jobs": 0, "tokens_in": "counted", "tokens_out": "assumed"},
            "warnings": ["old\u{1b}"],
        });
        serde_json::from_value(plan).unwrap()
    }

    #[test]
    fn a_plan_reads_as_counts_cost_and_time() {
        assert_eq!(
            lines(&plan(1000)),
            [
                "1200 sessions match, 1000 to score; skipped: 196 scored by these criteria already, 4 being scored",
                "criteria  9f2c",
                "jobs      1000, by a",
                "tokens    about 12.3M (11.9M to 12.7M) in, about 900 (450 to 1800) out",
                "cost      about 41.20 (0.5000 to 52.80) USD",
                "time      about 35 min at 0.50 jobs/s (last 10 minutes)",
                "          estimated from 200 sessions and 0 earlier jobs: tokens of prompts counted, of replies assumed",
                "warning: old ",
            ]
        );
    }

    #[test]
    fn a_cost_that_nobody_knows_is_not_nothing() {
        let mut plan = plan(1);
        plan.cost_usd = None;
        plan.judges[0].priced = false;
        let lines = lines(&plan).join("\n");
        assert!(lines.contains("by a (no price)"), "{lines}");
        assert!(
            lines.contains("cost      unknown: a judge has no price"),
            "{lines}"
        );
    }

    #[test]
    fn nothing_to_score_needs_no_estimate() {
        let mut plan = plan(0);
        plan.warnings.clear();
        assert_eq!(
            lines(&plan),
            [
                "1200 sessions match, 0 to score; skipped: 196 scored by these criteria already, 4 being scored"
            ]
        );
    }
}
