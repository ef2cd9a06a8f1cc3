//! A rescore's plan as people read it: how many sessions, what it will cost, how long it takes.

use serde_json::Value;

use crate::cli::batches::duration;
use crate::cli::output::{cell, clean};
use crate::client::list;

/// How many sessions would be scored.
pub(super) fn to_score(plan: &Value) -> u64 {
    plan["to_score"].as_u64().unwrap_or(0)
}

/// The plan, line by line.
pub(super) fn lines(plan: &Value) -> Vec<String> {
    let mut lines = vec![format!(
        "{} sessions match, {} to score{}",
        number(plan, "/matching"),
        number(plan, "/to_score"),
        match skipped(plan) {
            skipped if skipped.is_empty() => skipped,
            skipped => format!("; skipped: {skipped}"),
        }
    )];
    if to_score(plan) > 0 {
        let judges: Vec<String> = list(plan, "/judges").iter().map(judge).collect();
        lines.push(format!("criteria  {}", cell(plan, "/criteria_hash")));
        lines.push(format!(
            "jobs      {}, by {}",
            number(plan, "/items"),
            judges.join(", ")
        ));
        lines.push(format!(
            "tokens    {} in, {} out",
            range(plan, "/tokens_in", count),
            range(plan, "/tokens_out", count)
        ));
        lines.push(match plan["cost_usd"].is_object() {
            true => format!("cost      {} USD", range(plan, "/cost_usd", usd)),
            false => "cost      unknown: a judge has no price (`prices` in llm_providers.yaml)"
                .to_owned(),
        });
        lines.push(match plan["duration_s"].as_f64() {
            Some(seconds) => format!("time      about {}{}", duration(seconds), pace(plan)),
            None => "time      unknown".to_owned(),
        });
    }
    if to_score(plan) > 0 {
        lines.push(format!("          {}", estimate(plan)));
    }
    for warning in list(plan, "/warnings") {
        lines.push(format!("warning: {}", warning.as_str().unwrap_or_default()));
    }
    lines.iter().map(|line| clean(line)).collect()
}

/// What would be passed over.
fn skipped(plan: &Value) -> String {
    let parts: Vec<String> = [
        ("already_current", "scored by these criteria already"),
        ("in_progress", "being scored"),
        ("not_scorable", "can't be scored"),
        ("unknown", "unknown"),
        ("not_sampled", "not in the sample"),
        ("beyond_max", "beyond --max"),
    ]
    .iter()
    .filter_map(|(name, words)| {
        let n = plan["skipped"][*name].as_u64().filter(|n| *n > 0)?;
        Some(format!("{n} {words}"))
    })
    .collect();
    parts.join(", ")
}

fn judge(judge: &Value) -> String {
    let price = match judge["priced"].as_bool() {
        Some(false) => " (no price)",
        Some(true) | None => "",
    };
    format!("{}{price}", cell(judge, "/judge"))
}

/// How the figures were come by.
fn estimate(plan: &Value) -> String {
    let from = |name: &str| cell(plan, &format!("/estimate/{name}"));
    format!(
        "estimated from {} sessions and {} earlier jobs: tokens of prompts {}, of replies {}",
        number(plan, "/estimate/sampled_sessions"),
        number(plan, "/estimate/history_jobs"),
        from("tokens_in"),
        from("tokens_out")
    )
}

fn pace(plan: &Value) -> String {
    match plan.pointer("/pace/jobs_per_s").and_then(Value::as_f64) {
        None => String::new(),
        Some(rate) => format!(" at {rate:.2} jobs/s ({})", cell(plan, "/pace/of")),
    }
}

/// What is expected, and between what it lies.
fn range(plan: &Value, pointer: &str, shown: impl Fn(f64) -> String) -> String {
    let of = |name: &str| {
        plan.pointer(&format!("{pointer}/{name}"))
            .and_then(Value::as_f64)
    };
    match (of("expected"), of("low"), of("high")) {
        (Some(expected), Some(low), Some(high)) => {
            format!(
                "about {} ({} to {})",
                shown(expected),
                shown(low),
                shown(high)
            )
        }
        (Some(expected), _, _) => format!("about {}", shown(expected)),
        (None, _, _) => "unknown".to_owned(),
    }
}

fn usd(amount: f64) -> String {
    match amount {
        small if small < 1.0 => format!("{small:.4}"),
        amount => format!("{amount:.2}"),
    }
}

fn count(tokens: f64) -> String {
    match tokens {
        t if t >= 1e6 => format!("{:.1}M", t / 1e6),
        t if t >= 1e4 => format!("{:.0}k", t / 1e3),
        t => format!("{t:.0}"),
    }
}

fn number(plan: &Value, pointer: &str) -> u64 {
    plan.pointer(pointer).and_then(Value::as_u64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_plan_reads_as_counts_cost_and_time() {
        let plan = json!({
            "matching": 1200, "to_score": 1000, "items": 1000, "criteria_hash": "9f2c",
            "skipped": {"already_current": 196, "in_progress": 4, "not_scorable": 0, "unknown": 0},
            "judges": [{"judge": "a", "priced": true}],
            "tokens_in": {"expected": 12_300_000.0, "low": 11_900_000.0, "high": 12_700_000.0},
            "tokens_out": {"expected": 900.0, "low": 450.0, "high": 1800.0},
            "cost_usd": {"expected": 41.2, "low": 0.5, "high": 52.8},
            "duration_s": 2100.0, "pace": {"jobs_per_s": 0.5, "of": "last 10 minutes"},
            "estimate": {"sampled_sessions": 200, "history_jobs": 0, "tokens_in": "counted", "tokens_out": "assumed"},
            "warnings": ["old\u{1b}"],
        });
        assert_eq!(
            lines(&plan),
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
        let plan =
            json!({"to_score": 1, "cost_usd": null, "judges": [{"judge": "a", "priced": false}]});
        let lines = lines(&plan).join("\n");
        assert!(lines.contains("by a (no price)"), "{lines}");
        assert!(
            lines.contains("cost      unknown: a judge has no price"),
            "{lines}"
        );
    }

    #[test]
    fn nothing_to_score_needs_no_estimate() {
        let plan = json!({"matching": 3, "to_score": 0, "skipped": {"already_current": 3}});
        assert_eq!(
            lines(&plan),
            ["3 sessions match, 0 to score; skipped: 3 scored by these criteria already"]
        );
    }
}
