//! An item in a few lines, for whoever watches a run.

use super::Item;
use super::body::{self, Status};
use super::plain::cut;
use crate::score::about;
use crate::wire::words;

/// The most of a question, characters.
const LONGEST: usize = 200;

/// `Query: …`, whether it was executed, the score with its threshold, and the components; a line each, without control characters.
pub fn lines(item: &Item) -> Vec<String> {
    let about = about(item.kind);
    let asked = match body::question(item) {
        "" => body::name(item),
        asked => asked.to_owned(),
    };
    let mut lines = vec![format!("{}: {}", about.title, cut(&asked, LONGEST))];
    if let Some(error) = body::execution_error(item) {
        lines.push(format!("Not executed: {}", cut(error, LONGEST)));
    } else if let Some(rows) = body::rows(item) {
        lines.push(format!("Query executed (results: {rows})"));
    }
    if let Some(error) = body::parse_error(item) {
        lines.push(format!("SQL can't be read: {}", cut(error, LONGEST)));
    }
    lines.push(score(item));
    let parts: Vec<String> = about
        .components
        .iter()
        .filter_map(|part| {
            Some(format!(
                "{}: {}",
                part.title,
                shown(item, part.score(item.result.as_ref())?)
            ))
        })
        .collect();
    if !parts.is_empty() && item.kind.is_case() {
        lines.push(parts.join(" | "));
    }
    lines
        .iter()
        .map(|line| line.replace(char::is_control, " "))
        .collect()
}

fn score(item: &Item) -> String {
    let status = Status::of(item);
    let mark = if item.simulated { ", simulated" } else { "" };
    let threshold = body::threshold(item).map_or_else(String::new, |threshold| {
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
        Status::Scored => format!("Score: {}{mark}", body::total(item)),
        Status::Incomplete => match body::fault(item) {
            (body::INCOMPLETE, why) => format!("Score: none (INCOMPLETE, {why})"),
            (class, why) => format!("Score: none (INCOMPLETE, {class}: {})", cut(&why, LONGEST)),
        },
    }
}

/// A share as its kind shows it.
fn shown(item: &Item, share: f64) -> String {
    match about(item.kind).is_in_percent {
        true => words::percent(share),
        false => body::short(share),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Kind, Usage};
    use crate::report::{ItemError, Outcome};
    use serde_json::{Value, json};

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
    fn a_query_reads_as_its_rules_say() {
        let payload = json!({ "prompt": "Errors of\nthe last hour", "generated_results": [1, 2] });
        assert_eq!(
            lines(&query(Some(0.925), Some(true), payload)),
            [
                "Query: Errors of the last hour",
                "Query executed (results: 2)",
                "Score: 92.5% (PASS ≥90%)",
                "Schema: 100% | Semantic: 85% | Results: 95% | LLM: 90%",
            ]
        );
    }

    #[test]
    fn what_failed_says_why() {
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
