//! Text output of a rescore's plan: number of sessions, cost, duration.

use crate::cli::batches::nonzero;
use crate::cli::output::{Printable, Text, clean};
use crate::wire::RescorePlan;
use crate::wire::words::duration;

impl Printable for RescorePlan {
    fn text(&self, out: &mut Text) {
        out.line(lines(self).join("\n"));
    }
}

pub(super) fn lines(plan: &RescorePlan) -> Vec<String> {
    let mut lines = vec![format!(
        "{} sessions match, {} to score{}",
        plan.matching,
        plan.to_score,
        skipped(plan)
    )];
    if plan.to_score > 0 {
        lines.extend(figures(plan));
    }
    let warnings = plan.warnings.iter();
    lines.extend(warnings.map(|warning| format!("warning: {warning}")));
    lines.iter().map(|line| clean(line)).collect()
}

fn figures(plan: &RescorePlan) -> [String; 6] {
    let judges = plan.judges.iter().map(|judge| match judge.priced {
        true => judge.judge.clone(),
        false => format!("{} (no price)", judge.judge),
    });
    let judges: Vec<String> = judges.collect();
    let tokens = |range: crate::wire::TokenRange| {
        let [about, low, high] = [range.expected, range.low, range.high].map(count);
        format!("about {about} ({low} to {high})")
    };
    let cost = plan.cost_usd.map(|range| {
        let [about, low, high] = [range.expected, range.low, range.high].map(usd);
        format!("about {about} ({low} to {high}) USD")
    });
    let pace = plan.pace.map_or_else(String::new, |pace| {
        format!(" at {:.2} jobs/s ({})", pace.jobs_per_s, pace.of)
    });
    let time = plan
        .duration_s
        .map(|seconds| format!("about {}{pace}", duration(seconds)));
    [
        format!("criteria  {}", plan.criteria_hash),
        format!("jobs      {}, by {}", plan.items, judges.join(", ")),
        format!(
            "tokens    {} in, {} out",
            tokens(plan.tokens_in),
            tokens(plan.tokens_out)
        ),
        format!(
            "cost      {}",
            cost.as_deref()
                .unwrap_or("unknown: a judge has no price (`prices` in llm_providers.yaml)")
        ),
        format!("time      {}", time.as_deref().unwrap_or("unknown")),
        format!(
            "          estimated from {} sessions and {} earlier jobs",
            plan.estimate.sampled_sessions, plan.estimate.history_jobs
        ),
    ]
}

fn skipped(plan: &RescorePlan) -> String {
    match nonzero(&plan.skipped.reasons()) {
        none if none.is_empty() => none,
        parts => format!("; skipped: {parts}"),
    }
}

fn usd(amount: f64) -> String {
    match amount {
        small if small < 1.0 => format!("{small:.4}"),
        amount => format!("{amount:.2}"),
    }
}

fn count(tokens: u64) -> String {
    match tokens {
        t if t >= 1_000_000 => format!("{}.{}M", t / 1_000_000, t % 1_000_000 / 100_000),
        t if t >= 10_000 => format!("{}k", t / 1_000),
        t => t.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn plan(changes: &Value) -> RescorePlan {
        let mut plan = json!({
            "matching": 1200, "to_score": 1000, "items": 1000, "criteria_hash": "9f2c",
            "skipped": {"already_current": 196, "in_progress": 4, "not_scorable": 0, "unknown": 0, "not_sampled": 0, "beyond_max": 0},
            "judges": [{"judge": "a", "priced": true}],
            "tokens_in": {"expected": 12_300_000, "low": 9_225_000, "high": 15_375_000},
            "tokens_out": {"expected": 900, "low": 675, "high": 1125},
            "cost_usd": {"expected": 41.2, "low": 0.5, "high": 52.8},
            "duration_s": 2100.0, "pace": {"jobs_per_s": 0.5, "of": "last 10 minutes"},
            "estimate": {"sampled_sessions": 200, "history_jobs": 0},
            "warnings": ["old\u{1b}"],
        });
        for (name, value) in changes.as_object().unwrap() {
            plan[name] = value.clone();
        }
        serde_json::from_value(plan).unwrap()
    }

    #[test]
    fn unknown_plan_cost_is_not_zero() {
        let unpriced = json!({"cost_usd": null, "judges": [{"judge": "a", "priced": false}]});
        let lines = lines(&plan(&unpriced)).join("\n");
        assert!(lines.contains("by a (no price)"), "{lines}");
        assert!(
            lines.contains("cost      unknown: a judge has no price"),
            "{lines}"
        );
    }
}
