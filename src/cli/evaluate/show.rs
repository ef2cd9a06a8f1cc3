//! How a run reads: a line for each item while it runs, and the summary at its end.

use std::path::Path;

use serde_json::{Value, json};

use crate::cli::compare;
use crate::cli::outcome::{CliError, Exit};
use crate::cli::output;
use crate::job::Kind;
use crate::report::shown::parts;
use crate::report::summary::{Basis, Figures, Share};
use crate::report::{Item, Judgement, Outcome};
use crate::suite::run::compare::Comparison;
use crate::suite::run::folder::RunHeader;

/// Characters of a question or a query that a line shows.
const SHOWN: usize = 100;
/// The files that a run's folder holds in the end, beside its own two.
const REPORTS: [&str; 5] = [
    "report.json",
    "report.xlsx",
    "report.csv",
    "junit.xml",
    "summary.md",
];

/// One item in a line: what was asked, whether it ran, what it came to.
pub(super) fn live(item: &Item) -> String {
    let parts = match item.kind {
        Kind::Query => query(item),
        Kind::Qas => qas(item),
        Kind::SqlMetrics | Kind::Session => metrics(item),
    };
    parts.join(" / ")
}

fn query(item: &Item) -> Vec<String> {
    let asked = ["prompt", "generated_kql"].iter().find_map(|field| {
        item.payload[*field]
            .as_str()
            .filter(|text| !text.is_empty())
    });
    let ran = match item.payload["generated_error"].as_str() {
        Some(error) if !error.is_empty() => format!("Query failed: {}", cut(error)),
        Some(_) | None => {
            let rows = item.payload["generated_results"]
                .as_array()
                .map_or(0, Vec::len);
            format!("Query executed (results: {rows})")
        }
    };
    vec![
        format!("Query: {}", cut(asked.unwrap_or_default())),
        ran,
        score(item),
        components(item),
    ]
}

fn qas(item: &Item) -> Vec<String> {
    let asked = item.payload["question"].as_str().unwrap_or_default();
    let unanswered = item.error.as_ref().is_some_and(|e| e.class == "agent");
    let ran = match item.payload["success"].as_bool() {
        _ if unanswered => "Agent gave no answer".to_owned(),
        Some(false) => "Agent failed".to_owned(),
        Some(true) | None => match &item.payload["actual_results"] {
            Value::Array(rows) => format!("Agent answered (results: {})", rows.len()),
            Value::Null => "Agent answered (no results)".to_owned(),
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
                "Agent answered (one value)".to_owned()
            }
        },
    };
    vec![
        format!("Question: {}", cut(asked)),
        ran,
        score(item),
        components(item),
    ]
}

fn metrics(item: &Item) -> Vec<String> {
    let asked = ["generated_sql", "generatedSql"]
        .iter()
        .find_map(|field| item.payload[*field].as_str());
    let mut parts = vec![format!("SQL: {}", cut(asked.unwrap_or_default()))];
    let parse_error = item.result.as_ref().map(|result| &result["parse_error"]);
    if let Some(why) = parse_error.and_then(Value::as_str) {
        parts.push(format!("can't be read: {}", cut(why)));
    }
    parts.extend([score(item), components(item)]);
    parts
}

/// `Score: 92.5% (PASS ≥90%)`, or why there is none.
fn score(item: &Item) -> String {
    let mark = if item.simulated { " SIMULATED" } else { "" };
    let missing = |word: &str| match &item.error {
        Some(error) => format!("Score: {word} ({}: {})", error.class, cut(&error.message)),
        None => format!("Score: {word}"),
    };
    match (item.outcome, item.total) {
        (Outcome::Scored, Some(total)) => {
            let word = match item.passed {
                Some(true) => "PASS",
                Some(false) => "FAIL",
                None => "no verdict",
            };
            let threshold = item
                .result
                .as_ref()
                .and_then(|result| result["threshold"].as_f64());
            let against = threshold.map_or(String::new(), |share| format!(" ≥{}", percent(share)));
            format!("Score: {} ({word}{against}){mark}", percent(total))
        }
        (Outcome::Scored | Outcome::Incomplete, _) => missing("INCOMPLETE"),
        (Outcome::Failed, _) => missing("none"),
    }
}

/// `Schema: 100% | Semantic: 85%`; what is absent is left out, what is missing or failed is a dash.
fn components(item: &Item) -> String {
    if item.result.is_none() {
        return "no components".to_owned();
    }
    let shown: Vec<String> = parts(item)
        .filter(|part| part.is_there)
        .map(|part| {
            let share = part.score.map_or("-".to_owned(), percent);
            format!("{}: {share}", part.title)
        })
        .collect();
    shown.join(" | ")
}

/// A share in per cent, with one decimal where it has one.
fn percent(share: f64) -> String {
    let text = format!("{:.1}", share * 100.0);
    format!("{}%", text.strip_suffix(".0").unwrap_or(&text))
}

/// The beginning of a text, in one line.
fn cut(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(SHOWN) {
        None => line,
        Some((end, _)) => format!("{}…", &line[..end]),
    }
}

/// A run at its end.
pub(super) struct Shown<'a> {
    /// What it is.
    pub(super) header: &'a RunHeader,
    /// Its folder.
    pub(super) path: &'a Path,
    /// What it amounts to.
    pub(super) figures: &'a Figures,
    /// Whether that is good enough.
    pub(super) judgement: &'a Judgement,
    /// Against the baseline, if one was given.
    pub(super) against: Option<&'a Comparison>,
    /// The exit code.
    pub(super) exit: Exit,
}

impl Shown<'_> {
    /// For `--json`: one object.
    pub(super) fn to_json(&self) -> Value {
        json!({
            "run": self.path.display().to_string(), "run_id": self.header.run_id, "suite": self.header.suite, "kind": self.header.kind,
            "decision": self.judgement.decision, "reasons": self.judgement.reasons, "exit_code": self.exit.code(),
            "figures": self.figures, "comparison": self.against,
            "judged_otherwise": self.against.map(|against| against.judged.otherwise()),
            "reports": REPORTS.map(|name| self.path.join(name).display().to_string()),
        })
    }

    /// For people.
    pub(super) fn print(&self) -> Result<(), CliError> {
        let figures = self.figures;
        let mut rows = vec![row("all", &figures.all)];
        let groups = [
            ("difficulty", &figures.by_difficulty),
            ("agent", &figures.by_agent),
        ];
        for (of, groups) in groups {
            rows.extend(
                groups
                    .iter()
                    .map(|group| row(&format!("{of} {}", group.name), &group.share)),
            );
        }
        if let Some(apart) = &figures.simulated_apart {
            rows.push(row("simulated, apart", apart));
        }
        output::table(
            &["", "items", "scored", "coverage", "mean", "pass rate"],
            &rows,
        )?;
        self.print_parts()?;
        if let Some(against) = self.against {
            output::line("")?;
            compare::print(against)?;
        }
        output::line("")?;
        output::line(&format!("run      {}", self.path.display()))?;
        output::line(&format!("reports  {}", REPORTS.join(", ")))?;
        output::line(&format!("\n{}", self.judgement.decision.as_str()))?;
        for reason in &self.judgement.reasons {
            output::line(&output::clean(&format!("  {reason}")))?;
        }
        Ok(())
    }

    /// Means of components, errors, cost, and what only suites of SQL have.
    fn print_parts(&self) -> Result<(), CliError> {
        let figures = self.figures;
        let means: Vec<String> = figures
            .components
            .iter()
            .filter_map(|part| Some(format!("{} {:.3}", part.title, part.mean?)))
            .collect();
        if !means.is_empty() {
            output::line(&format!("\nmeans    {}", means.join(" · ")))?;
        }
        let errors: Vec<String> = figures
            .errors
            .iter()
            .map(|(class, n)| format!("{n} {class}"))
            .collect();
        if !errors.is_empty() {
            output::line(&output::clean(&format!("errors   {}", errors.join(" · "))))?;
        }
        let usage = figures.usage;
        if usage.tokens_in + usage.tokens_out > 0 {
            let cost = match (usage.cost_usd, usage.unpriced) {
                (Some(usd), 0) => format!("{usd:.4} USD"),
                (Some(usd), n) => format!(
                    "{usd:.4} USD, and what {} without a price cost",
                    output::counted(n, "item")
                ),
                (None, n) => format!(
                    "what it cost is not known: {} without a price",
                    output::counted(n, "item")
                ),
            };
            let (tokens_in, tokens_out) = (usage.tokens_in, usage.tokens_out);
            output::line(&format!(
                "judge    {tokens_in} tokens in, {tokens_out} out; {cost}"
            ))?;
        }
        if let Some(safety) = &figures.safety {
            let recall = safety
                .recall
                .map_or("-".to_owned(), |recall| format!("{recall:.3}"));
            let (blocked, missed) = (safety.false_positives.len(), safety.false_negatives.len());
            output::line(&format!(
                "safety   recall of unsafe {recall}, {blocked} safe blocked, {missed} unsafe passed"
            ))?;
        }
        if let Some(calibration) = &figures.calibration {
            let score = calibration
                .score
                .map_or("-".to_owned(), |score| format!("{score:.3}"));
            output::line(&format!("calibration {score}"))?;
        }
        match figures.basis {
            Basis::Simulated if figures.all.simulated > 0 => {
                output::line("\nSIMULATED: these scores were made up by a simulated judge")?;
            }
            Basis::Simulated | Basis::Real => {}
        }
        Ok(())
    }
}

fn row(name: &str, share: &Share) -> Vec<String> {
    let or_dash = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    vec![
        name.to_owned(),
        share.n.to_string(),
        share.scored.to_string(),
        or_dash(share.coverage.map(percent)),
        or_dash(share.mean.map(|mean| format!("{mean:.3}"))),
        or_dash(share.pass_rate.map(percent)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Usage;
    use crate::report::ItemError;

    fn item(total: Option<f64>) -> Item {
        Item {
            item_no: 0,
            kind: Kind::Query,
            id: None,
            payload: json!({
                "prompt": "failed\n  sign-ins", "generated_kql": "T", "generated_results": [{"n": 1}, {"n": 2}],
            }),
            outcome: match total {
                Some(_) => Outcome::Scored,
                None => Outcome::Incomplete,
            },
            total,
            passed: total.map(|total| total >= 0.9),
            result: Some(json!({
                "threshold": 0.9,
                "components": {
                    "schema_match": {"score": 1.0}, "semantic_similarity": {"score": 0.85},
                    "results_match": {"score": 0.95}, "llm_grading": {"score": total.map(|_| 0.9)},
                },
            })),
            error: None,
            simulated: false,
            usage: Usage::default(),
            job_id: None,
        }
    }

    #[test]
    fn the_live_line_of_a_query_is_that_of_the_rules() {
        assert_eq!(
            live(&item(Some(0.925))),
            "Query: failed sign-ins / Query executed (results: 2) / Score: 92.5% (PASS ≥90%) / Schema: 100% | \
             Semantic: 85% | Results: 95% | LLM: 90%"
        );
    }

    #[test]
    fn an_incomplete_query_says_why_and_has_no_number() {
        let mut open = item(None);
        open.error = Some(ItemError {
            class: "transient".to_owned(),
            message: "503".to_owned(),
        });
        let line = live(&open);
        assert!(
            line.contains("Score: INCOMPLETE (transient: 503)"),
            "{line}"
        );
        assert!(line.ends_with("Results: 95% | LLM: -"), "{line}");
    }

    #[test]
    fn a_simulated_score_and_an_unanswered_question_say_so() {
        let mut made_up = item(Some(0.5));
        made_up.simulated = true;
        assert!(live(&made_up).contains("Score: 50% (FAIL ≥90%) SIMULATED"));
        let mut unanswered = item(None);
        unanswered.kind = Kind::Qas;
        unanswered.outcome = Outcome::Failed;
        unanswered.payload = json!({"question": "How many?", "success": false});
        unanswered.result = None;
        assert_eq!(
            live(&unanswered),
            "Question: How many? / Agent failed / Score: none / no components"
        );
        unanswered.payload = json!({"question": "How many?"});
        unanswered.error = Some(ItemError {
            class: "agent".to_owned(),
            message: "it timed out".to_owned(),
        });
        assert_eq!(
            live(&unanswered),
            "Question: How many? / Agent gave no answer / Score: none (agent: it timed out) / no components"
        );
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let text = "é".repeat(150);
        assert_eq!(cut(&text), format!("{}…", "é".repeat(100)));
    }
}
