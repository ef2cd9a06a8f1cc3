//! How a batch reads: where it stands in words, what it came to, what it cost.

use serde_json::Value;

use crate::cli::costs::without_price;
use crate::cli::outcome::CliError;
use crate::cli::output::{self, cell};
use crate::client::{list, text};

/// Sessions that were being scored elsewhere which are named.
const NAMED: usize = 5;

/// Prints a table of batches.
pub(super) fn print_list(items: &[Value]) -> Result<(), CliError> {
    let rows: Vec<Vec<String>> = items
        .iter()
        .map(|batch| {
            vec![
                cell(batch, "/batch_id"),
                cell(batch, "/name"),
                cell(batch, "/kind"),
                brief(batch),
                format!("{} of {}", done(batch), count(batch, "total")),
                count(batch, "failed").to_string(),
                money(batch),
                cell(batch, "/times/created_at"),
            ]
        })
        .collect();
    let head = [
        "batch", "name", "kind", "state", "done", "failed", "spent", "created",
    ];
    output::table(&head, &rows)?;
    Ok(())
}

/// Prints one batch for people.
pub(in crate::cli) fn print_batch(batch: &Value) -> Result<(), CliError> {
    output::fields(
        batch,
        &[
            ("batch", "/batch_id"),
            ("name", "/name"),
            ("kind", "/kind"),
            ("purpose", "/purpose"),
            ("criteria", "/criteria_hash"),
            ("asked by", "/created_by"),
            ("created", "/times/created_at"),
            ("finished", "/times/finished_at"),
        ],
    )?;
    for (name, words) in [
        ("state", standing(batch)),
        ("items", items(batch)),
        ("skipped", skipped(batch)),
        ("verdict", verdict(batch)),
        ("spent", money(batch)),
        ("left", left(batch)),
        ("economy", economy(batch)),
    ] {
        if !words.is_empty() {
            output::line(&output::clean(&format!("{name:8}  {words}")))?;
        }
    }
    for part in list(batch, "/economy/parts") {
        output::line(&output::clean(&format!("          {}", part_words(part))))?;
    }
    let busy = list(batch, "/in_progress");
    for session in busy.iter().take(NAMED) {
        output::line(&output::clean(&format!(
            "          session {} was being scored by job {}",
            cell(session, "/session_id"),
            cell(session, "/job_id")
        )))?;
    }
    if busy.len() > NAMED {
        output::line("          and others; --json lists them")?;
    }
    Ok(())
}

/// Where a batch stands, in a word or two.
fn brief(batch: &Value) -> String {
    match (text(batch, "/state"), text(batch, "/paused/by")) {
        ("running" | "expanding", _) if batch["stopped"].is_object() => {
            "running, stopped".to_owned()
        }
        ("paused", "") => "paused".to_owned(),
        ("paused", by) => format!("paused ({by})"),
        (state, _) => state.to_owned(),
    }
}

/// Where a batch stands, in words.
pub(super) fn standing(batch: &Value) -> String {
    match (text(batch, "/state"), text(batch, "/origin")) {
        ("running", _) | ("expanding", "rescore") if batch["stopped"].is_object() => stopped(batch),
        ("expanding", "rescore") => "running, and still collecting its sessions".to_owned(),
        ("expanding", _) => "its items are being stored".to_owned(),
        ("paused", _) => paused(batch),
        (state, _) => state.to_owned(),
    }
}

/// What stops the judges of a batch that isn't paused itself.
fn stopped(batch: &Value) -> String {
    let until = match text(batch, "/stopped/until") {
        "" => String::new(),
        until => format!("; it goes on at {until}"),
    };
    format!(
        "running, but stopped: {}{until}",
        text(batch, "/stopped/message")
    )
}

fn paused(batch: &Value) -> String {
    let by = match text(batch, "/paused/by") {
        "budget" => "paused by its budget",
        "operator" => "paused by an operator",
        _ => "paused",
    };
    match text(batch, "/paused/reason") {
        "" => by.to_owned(),
        reason => format!("{by}: {reason}"),
    }
}

/// How many of a batch's items have ended.
pub(super) fn done(batch: &Value) -> u64 {
    ["succeeded", "failed", "cancelled"]
        .iter()
        .map(|state| count(batch, state))
        .sum()
}

/// How many of a batch's items stand there.
pub(super) fn count(batch: &Value, state: &str) -> u64 {
    batch["counts"][state].as_u64().unwrap_or(0)
}

fn items(batch: &Value) -> String {
    let parts: Vec<String> = [
        ("succeeded", "scored"),
        ("failed", "failed"),
        ("cancelled", "cancelled"),
        ("running", "running"),
        ("waiting", "waiting"),
        ("queued", "queued"),
    ]
    .iter()
    .filter(|(state, _)| count(batch, state) > 0)
    .map(|(state, word)| format!("{} {word}", count(batch, state)))
    .collect();
    let (done, total) = (done(batch), count(batch, "total"));
    match parts.is_empty() {
        true => format!("{done} of {total} done"),
        false => format!("{done} of {total} done: {}", parts.join(", ")),
    }
}

/// What a rescore passed over.
pub(in crate::cli) fn skipped(batch: &Value) -> String {
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
        let n = batch["skipped"][*name].as_u64().filter(|n| *n > 0)?;
        Some(format!("{n} {words}"))
    })
    .collect();
    parts.join(", ")
}

fn verdict(batch: &Value) -> String {
    let verdict = &batch["verdict"];
    let figure = |name: &str| verdict[name].as_u64().unwrap_or(0);
    if !verdict.is_object() {
        return String::new();
    }
    let mut parts = vec![format!(
        "{} passed, {} did not",
        figure("passed"),
        figure("failed")
    )];
    if let Some(mean) = verdict["mean"].as_f64() {
        parts.push(format!("mean {mean:.3}"));
    }
    for (name, words) in [
        ("incomplete", "incomplete"),
        ("unscored", "without a score that counts"),
    ] {
        match figure(name) {
            0 => {}
            n => parts.push(format!("{n} {words}")),
        }
    }
    if verdict["simulated"] == Value::Bool(true) {
        parts.push("SIMULATED".to_owned());
    }
    parts.join(", ")
}

/// What it cost so far, and what it may.
pub(super) fn money(batch: &Value) -> String {
    let spent = ["/spent_usd", "/cost_usd"]
        .iter()
        .find_map(|pointer| batch.pointer(pointer)?.as_f64());
    let budget = batch["budget_usd"]
        .as_f64()
        .map_or(String::new(), |usd| format!(" of {usd} USD at most"));
    let unpriced = batch["unpriced_calls"].as_u64().unwrap_or(0);
    match (spent, unpriced) {
        (None, _) => format!("unknown, a model has no price{budget}"),
        (Some(spent), 0) => format!("{spent:.4} USD{budget}"),
        (Some(spent), n) if spent <= 0.0 => format!("unknown{}{budget}", without_price(n)),
        (Some(spent), _) => {
            format!("at least {spent:.4} USD{budget}, some calls have no price")
        }
    }
}

/// What is left to do, and how long that takes.
fn left(batch: &Value) -> String {
    let Some(eta) = batch.pointer("/progress/eta_s").and_then(Value::as_f64) else {
        return String::new();
    };
    let rate = batch
        .pointer("/progress/rate_per_s")
        .and_then(Value::as_f64);
    let rate = rate.map_or(String::new(), |rate| format!(" at {rate:.1} items/s"));
    format!("about {}{rate}", duration(eta))
}

/// How its replies are fetched ahead, and what that waits for.
fn economy(batch: &Value) -> String {
    let count = |name: &str| batch["economy"][name].as_u64().unwrap_or(0);
    let mut words = match text(batch, "/economy/state") {
        "" => return String::new(),
        "asked" => "its replies are being fetched".to_owned(),
        "collected" => "its replies are here".to_owned(),
        other => other.to_owned(),
    };
    let (replied, failed) = (count("replied"), count("failed"));
    if replied + failed > 0 {
        words = format!("{words}: {replied} fetched, {failed} to be asked at the full price");
    }
    match text(batch, "/economy/waits_for") {
        "" => words,
        reason => format!("{words}; it waits: {reason}"),
    }
}

/// One of the provider's batches.
fn part_words(part: &Value) -> String {
    let name = match text(part, "/provider_id") {
        "" => "a part".to_owned(),
        id => format!("part {id}"),
    };
    let count = |name: &str| part[name].as_u64().unwrap_or(0);
    let mut words = format!(
        "{name}: {}, {} of {} answered",
        text(part, "/state"),
        count("done"),
        count("requests")
    );
    if !text(part, "/submitted_at").is_empty() {
        words = format!("{words}, handed over {}", text(part, "/submitted_at"));
    }
    match text(part, "/error") {
        "" => words,
        why => format!("{words}: {why}"),
    }
}

/// Seconds as people say them.
pub(in crate::cli) fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 90.0 => format!("{:.0} s", s.max(1.0)),
        s if s < 5_400.0 => format!("{:.0} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.1} h", s / 3_600.0),
        s => format!("{:.1} days", s / 86_400.0),
    }
}

/// An amount of money on the command line.
pub(in crate::cli) fn dollars(text: &str) -> Result<f64, String> {
    let usd = text.trim().parse::<f64>().ok();
    usd.filter(|usd| usd.is_finite() && *usd >= 0.0)
        .ok_or_else(|| "give an amount of USD, such as 12.5".to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_batch_says_where_it_stands_and_why() {
        for (batch, words) in [
            (json!({"state": "running"}), "running"),
            (
                json!({"state": "expanding", "origin": "rescore"}),
                "running, and still collecting its sessions",
            ),
            (
                json!({"state": "paused", "paused": {"by": "budget", "reason": "1.01 of 1 USD are spent"}}),
                "paused by its budget: 1.01 of 1 USD are spent",
            ),
            (json!({"state": "paused", "paused": null}), "paused"),
            (
                json!({"state": "running", "stopped": {"message": "judge a is paused", "until": null}}),
                "running, but stopped: judge a is paused",
            ),
        ] {
            assert_eq!(standing(&batch), words);
        }
    }

    #[test]
    fn a_list_says_it_in_a_word_or_two() {
        for (batch, words) in [
            (json!({"state": "expanding"}), "expanding"),
            (
                json!({"state": "paused", "paused": {"by": "budget", "reason": "1.01 of 1 USD are spent"}}),
                "paused (budget)",
            ),
            (json!({"state": "paused", "paused": null}), "paused"),
            (
                json!({"state": "running", "stopped": {"message": "judge a is paused"}}),
                "running, stopped",
            ),
        ] {
            assert_eq!(brief(&batch), words);
        }
    }

    #[test]
    fn what_is_not_priced_is_never_free() {
        let money = |batch: Value| money(&batch);
        assert_eq!(money(json!({"cost_usd": 0.0})), "0.0000 USD");
        assert_eq!(
            money(json!({"cost_usd": null})),
            "unknown, a model has no price"
        );
        assert_eq!(
            money(json!({"spent_usd": 1.5, "budget_usd": 2.0, "unpriced_calls": 3})),
            "at least 1.5000 USD of 2 USD at most, some calls have no price"
        );
        assert_eq!(
            money(json!({"spent_usd": 0.0, "cost_usd": null, "unpriced_calls": 3})),
            "unknown (3 calls without a price)"
        );
    }

    #[test]
    fn items_and_what_is_skipped_are_told_where_there_are_any() {
        let batch = json!({
            "counts": {"total": 9, "queued": 2, "running": 0, "waiting": 0, "succeeded": 6, "failed": 1, "cancelled": 0},
            "skipped": {"already_current": 3, "in_progress": 0},
        });
        assert_eq!(items(&batch), "7 of 9 done: 6 scored, 1 failed, 2 queued");
        assert_eq!(skipped(&batch), "3 scored by these criteria already");
        assert_eq!(items(&json!({"counts": {"total": 0}})), "0 of 0 done");
    }

    #[test]
    fn how_replies_are_fetched_is_told_with_what_it_waits_for_and_its_parts() {
        let batch = json!({"economy": {"state": "asked", "replied": 3, "failed": 1, "waits_for": "the queue is stopped (paused)"}});
        assert_eq!(
            economy(&batch),
            "its replies are being fetched: 3 fetched, 1 to be asked at the full price; it waits: the queue is stopped (paused)"
        );
        assert_eq!(economy(&json!({"economy": null})), "");
        let part = json!({"state": "submitted", "provider_id": "batch_7", "requests": 9, "done": 4,
            "submitted_at": "2026-01-01T00:00:00Z", "error": null});
        assert_eq!(
            part_words(&part),
            "part batch_7: submitted, 4 of 9 answered, handed over 2026-01-01T00:00:00Z"
        );
        let part = json!({"state": "failed", "provider_id": null, "requests": 2, "done": 0, "error": "no"});
        assert_eq!(part_words(&part), "a part: failed, 0 of 2 answered: no");
    }

    #[test]
    fn durations_are_told_in_the_unit_that_fits() {
        for (seconds, words) in [
            (0.0, "1 s"),
            (0.4, "1 s"),
            (89.0, "89 s"),
            (600.0, "10 min"),
            (9_000.0, "2.5 h"),
            (259_200.0, "3.0 days"),
        ] {
            assert_eq!(duration(seconds), words);
        }
    }
}
