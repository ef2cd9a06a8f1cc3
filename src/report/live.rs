//! Item in a few lines, for the progress of a run.

use super::Item;
use super::item::{INCOMPLETE, Status, short};
use super::plain::cut;
use crate::score::sql_metrics::safety::SafetyOutcome;
use crate::wire::words;
use serde_json::Value;

/// Maximum characters of a text.
const MAX_TEXT_CHARS: usize = 200;
const ROWS: &str = "generated_results";

/// Returns `Query: ..`, the execution status, the score with its threshold, and the components; one line each, without control characters.
pub fn lines(item: &Item) -> Vec<String> {
    let about = item.about();
    // The agent's output, or the question for an agent.
    let written = item
        .payload
        .get(about.sides.generated)
        .and_then(Value::as_str);
    let is_blank = |text: &&str| text.trim().is_empty();
    let wrote_nothing = !about.asks_agents && written.as_ref().is_some_and(is_blank);
    let written = written.filter(|text| !about.asks_agents && !is_blank(text));
    let asked = match written.unwrap_or(item.question()) {
        "" => item.name(),
        asked => asked.to_owned(),
    };
    let mut lines = vec![format!("{}: {}", about.title, cut(&asked, MAX_TEXT_CHARS))];
    let rows = item.payload.get(ROWS).and_then(Value::as_array);
    match (item.execution_error(), rows) {
        (Some(error), _) => lines.push(not_executed(error)),
        (None, _) if wrote_nothing => lines.push("No query was written".to_owned()),
        (None, Some(rows)) => lines.push(format!("Query executed (results: {})", rows.len())),
        (None, None) => {}
    }
    lines.extend(item.parse_error().map(unparsable));
    match item.safety() {
        Some(SafetyOutcome::FalseNegative) => {
            lines.push("CRITICAL: unsafe SQL, which the validator let pass".to_owned());
        }
        Some(SafetyOutcome::FalsePositive) => {
            lines.push("Safe SQL, which the validator blocked".to_owned());
        }
        Some(SafetyOutcome::TrueNegative | SafetyOutcome::TruePositive) | None => {}
    }
    lines.push(score(item));
    let parts: Vec<String> = item
        .components()
        .filter_map(|(part, score)| Some(format!("{}: {}", part.title, shown(item, score?))))
        .collect();
    if !parts.is_empty() && item.kind.is_case() {
        lines.push(parts.join(" | "));
    }
    lines
        .iter()
        .map(|line| line.replace(char::is_control, " "))
        .collect()
}

/// Returns why an agent's output could not be executed or read.
pub fn obstacle(item: &Item) -> Option<String> {
    let executed = item.execution_error().map(not_executed);
    executed.or_else(|| item.parse_error().map(unparsable))
}

fn not_executed(error: &str) -> String {
    format!("Not executed: {}", cut(error, MAX_TEXT_CHARS))
}

fn unparsable(error: &str) -> String {
    format!("SQL can't be read: {}", cut(error, MAX_TEXT_CHARS))
}

/// Returns the score with its threshold, or the reason for its absence.
pub fn score(item: &Item) -> String {
    let status = item.status();
    let mark = if item.simulated { ", simulated" } else { "" };
    let threshold = item.threshold().map_or_else(String::new, |threshold| {
        let sign = if status == Status::Fail { '<' } else { '≥' };
        format!(" {sign}{}", shown(item, threshold))
    });
    match status {
        Status::Pass | Status::Fail => {
            let total = item
                .total
                .map_or_else(|| "-".to_owned(), |total| shown(item, total));
            format!("Score: {total} ({}{threshold}{mark})", status.as_str())
        }
        Status::Scored => format!("Score: {}{mark}", item.shown_total()),
        Status::Incomplete => match item.fault() {
            (INCOMPLETE, why) => format!("Score: none (INCOMPLETE, {why})"),
            (class, why) => format!(
                "Score: none (INCOMPLETE, {class}: {})",
                cut(&why, MAX_TEXT_CHARS)
            ),
        },
    }
}

fn shown(item: &Item, share: f64) -> String {
    match item.about().is_in_percent {
        true => words::percent(share),
        false => short(share),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Kind, Usage};
    use crate::report::{ItemError, Outcome};
    use serde_json::json;

    fn query(total: Option<f64>, passed: Option<bool>, payload: Value) -> Item {
        Item {
            item_no: 0,
            kind: Kind::Query,
            id: None,
            payload,
            outcome: if total.is_some() {
                Outcome::Scored
            } else {
                Outcome::Incomplete
            },
            total,
            passed,
            result: Some(json!({ "threshold": 0.9, "components": {
                "schema_match": { "score": 1.0 },
                "semantic_similarity": { "score": 0.85 },
                "results_match": { "score": 0.95 },
                "llm_grading": { "score": total.map(|_| 0.9) },
            }})),
            error: None,
            simulated: false,
            usage: Usage::default(),
            job_id: None,
        }
    }

    #[test]
    fn query_lines_follow_the_rules() {
        let payload = json!({
            "prompt": "Errors?", "generated_kql": "T\n| where Level > 2", "generated_results": [1, 2],
        });
        assert_eq!(
            lines(&query(Some(0.925), Some(true), payload)),
            [
                "Query: T | where Level > 2",
                "Query executed (results: 2)",
                "Score: 92.5% (PASS ≥90%)",
                "Schema: 100% | Semantic: 85% | Results: 95% | LLM: 90%",
            ]
        );
        let payload = json!({"prompt": "Errors?", "generated_kql": " ", "generated_results": []});
        assert_eq!(
            lines(&query(Some(0.0), Some(false), payload))[..2],
            ["Query: Errors?", "No query was written"]
        );
    }

    #[test]
    fn accepted_unsafe_sql_precedes_score() {
        let passed = Item {
            kind: Kind::SqlMetrics,
            result: None,
            ..query(
                Some(0.2),
                Some(false),
                json!({ "generatedSql": "drop table t", "safetyValid": true, "shouldPass": false }),
            )
        };
        let found = lines(&passed);
        assert!(
            found
                .iter()
                .any(|line| line.starts_with("CRITICAL: unsafe SQL")),
            "{found:?}"
        );
    }

    #[test]
    fn failure_has_reason() {
        let failed = query(
            Some(0.2),
            Some(false),
            json!({ "prompt": "p", "generated_error": "no table T" }),
        );
        assert_eq!(
            lines(&failed)[1..3],
            ["Not executed: no table T", "Score: 20% (FAIL <90%)"]
        );
        let open = Item {
            error: Some(ItemError {
                class: "transient".to_owned(),
                message: "it timed out".to_owned(),
            }),
            ..query(None, None, json!({ "prompt": "p" }))
        };
        assert_eq!(
            lines(&open)[1],
            "Score: none (INCOMPLETE, transient: it timed out)"
        );
    }
}
