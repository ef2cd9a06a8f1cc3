//! Summary as tables, for the first sheet of a workbook and the start of a Markdown report.

use serde_json::Value;

use super::summary::{Basis, Figures, NamedShare};
use super::{Judging, Meta, Simulated, Verdict};
use crate::score::sql_metrics::calibration::Calibration;
use crate::score::sql_metrics::safety::SafetySuite;
use crate::wire::words;

const NAMED: usize = 20;

pub(super) struct Section {
    pub(super) title: &'static str,
    /// Column names; empty for a list of names and values.
    pub(super) head: Vec<&'static str>,
    pub(super) rows: Vec<Vec<Value>>,
}

pub(super) fn sections(figures: &Figures, meta: &Meta) -> Vec<Section> {
    let mut sections = vec![summary(figures, meta)];
    let components = figures.components.iter();
    sections.push(Section {
        title: "Components",
        head: vec!["Component", "Items", "Mean"],
        rows: components
            .map(|part| vec![part.title.into(), part.n.into(), part.mean.into()])
            .collect(),
    });
    sections.push(groups("By difficulty", &figures.by_difficulty));
    sections.push(groups("By agent", &figures.by_agent));
    let errors = figures.errors.iter();
    sections.push(Section {
        title: "Errors",
        head: vec!["Class", "Items"],
        rows: errors
            .map(|(class, n)| vec![class.as_str().into(), (*n).into()])
            .collect(),
    });
    sections.extend(figures.safety.as_ref().map(safety));
    sections.extend(figures.calibration.as_ref().map(calibration));
    sections.retain(|section| !section.rows.is_empty());
    sections
}

/// Returns sentences that a reader must know before the numbers.
pub(super) fn notes(figures: &Figures, meta: &Meta) -> Vec<String> {
    let mut notes = Vec::new();
    match meta.judging {
        Judging::Asked => {}
        Judging::NotRun => notes.push(
            "No judge was used (--no-judge): only computed components are scored, and the run can't pass."
                .to_owned(),
        ),
    }
    if figures.gate.is_none() {
        notes.push(
            "The verdict ignores gates: it depends on whether every item was scored and passed."
                .to_owned(),
        );
    }
    if figures.unfinished > 0 {
        notes.push(format!(
            "{} not ended yet: in no row here, and this report will change.",
            items_have(figures.unfinished)
        ));
    }
    if figures.judge_errors > 0 {
        notes.push(format!(
            "{} no score because the judge failed, listed separately from the misses.",
            items_have(figures.judge_errors)
        ));
    }
    if figures.all.simulated > 0 {
        notes.push(match figures.basis {
            Basis::Simulated if figures.all.simulated < figures.all.scored => format!(
                "{} of {} scores are from a simulated judge: they are not meaningful. The others needed no judge.",
                figures.all.simulated, figures.all.scored
            ),
            Basis::Simulated => {
                "All scores are from a simulated judge: they are not meaningful.".to_owned()
            }
            Basis::Real => format!(
                "{} scores are from a simulated judge: they are counted separately, and means exclude them.",
                figures.all.simulated
            ),
        });
        if meta.simulated == Simulated::Refused {
            notes.push("Simulated scores pass no gate: --allow-simulated lets them.".to_owned());
        }
    }
    if figures.usage.unpriced > 0 {
        notes.push(format!(
            "The cost of {} is unknown, because llm_providers.yaml has no price for the model.",
            words::counted(figures.usage.unpriced, "item")
        ));
    }
    notes
}

pub(super) fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Passed => "PASS: every item was scored, and passed",
        Verdict::Failed => "FAIL: every item was scored, and some missed",
        Verdict::Incomplete => "INCOMPLETE: not every item has a score that counts",
        Verdict::Nothing => "NOTHING: no items",
    }
}

pub(super) fn gate(decision: Verdict) -> &'static str {
    match decision {
        Verdict::Passed => "PASSED: the gates of this run hold",
        Verdict::Failed => "FAILED: a gate of this run does not hold",
        Verdict::Incomplete => "INCOMPLETE: the gates of this run can't be evaluated",
        Verdict::Nothing => "NOTHING TO RUN: no items",
    }
}

fn summary(figures: &Figures, meta: &Meta) -> Section {
    let all = &figures.all;
    let made_at = meta
        .made_at
        .to_rfc3339_opts(chrono::SecondsFormat::Secs, true);
    let judges: Vec<&str> = figures.judges.keys().map(String::as_str).collect();
    let judges = (!judges.is_empty()).then(|| judges.join(", "));
    let decision = figures.gate.as_ref().map(|gate| gate.decision);
    let mut rows: Vec<(&str, Value)> = vec![("Suite", meta.name.as_str().into())];
    rows.extend(meta.run.as_deref().map(|run| ("Run", run.into())));
    rows.push(("Made at", made_at.into()));
    rows.extend(judges.map(|judges| ("Judge", judges.into())));
    let criteria = meta.criteria_hash.as_deref();
    rows.extend(criteria.map(|hash| ("Criteria", hash.into())));
    rows.extend(decision.map(|decision| ("Gate", gate(decision).into())));
    rows.extend([
        ("Verdict", verdict(figures.verdict).into()),
        ("Items", all.n.into()),
        ("Scored", all.scored.into()),
        ("Incomplete", all.incomplete.into()),
        ("Failed", all.failed.into()),
        ("Unfinished", figures.unfinished.into()),
        ("Coverage", all.coverage.into()),
        ("Mean score", all.mean.into()),
        ("Pass rate", all.pass_rate.into()),
        ("Passed", all.passed.into()),
        ("Missed", all.missed.into()),
        ("Judge errors", figures.judge_errors.into()),
        ("Simulated scores", all.simulated.into()),
    ]);
    let simulated = figures.simulated_apart.as_ref();
    rows.extend(simulated.map(|share| ("Mean of simulated scores", share.mean.into())));
    rows.extend([
        ("Tokens in", figures.usage.tokens_in.into()),
        ("Tokens out", figures.usage.tokens_out.into()),
        ("Cost USD", figures.usage.cost_usd.into()),
    ]);
    pairs("Summary", rows)
}

fn items_have(n: u64) -> String {
    format!(
        "{} {}",
        words::counted(n, "item"),
        if n == 1 { "has" } else { "have" }
    )
}

fn pairs(title: &'static str, rows: Vec<(&str, Value)>) -> Section {
    let rows = rows.into_iter();
    Section {
        title,
        head: Vec::new(),
        rows: rows.map(|(name, value)| vec![name.into(), value]).collect(),
    }
}

fn groups(title: &'static str, groups: &[NamedShare]) -> Section {
    let row = |NamedShare { name, share }: &NamedShare| {
        vec![
            name.as_str().into(),
            share.n.into(),
            share.scored.into(),
            share.coverage.into(),
            share.mean.into(),
            share.pass_rate.into(),
        ]
    };
    Section {
        title,
        head: vec!["Group", "Items", "Scored", "Coverage", "Mean", "Pass rate"],
        rows: groups.iter().map(row).collect(),
    }
}

fn safety(suite: &SafetySuite) -> Section {
    let gate = match suite.gate_passed {
        true => "passed",
        false => "failed: CRITICAL: unsafe queries were not caught",
    };
    pairs(
        "Safety",
        vec![
            ("Recall of unsafe queries", suite.recall.into()),
            ("Gate", gate.into()),
            ("Unsafe, not caught", named(&suite.false_negatives)),
            ("Safe, blocked", named(&suite.false_positives)),
        ],
    )
}

fn named(ids: &[String]) -> Value {
    if ids.is_empty() {
        return 0.into();
    }
    let shown = ids.get(..NAMED).unwrap_or(ids).join(", ");
    let more = if ids.len() > NAMED { ", …" } else { "" };
    format!("{}: {shown}{more}", ids.len()).into()
}

fn calibration(calibration: &Calibration) -> Section {
    let mut rows: Vec<(&str, Value)> = vec![("Calibration score", calibration.score.into())];
    let meaning = calibration.interpretation.iter();
    rows.extend(meaning.map(|text| ("Meaning", (*text).into())));
    let warnings = calibration.warnings.iter();
    rows.extend(warnings.map(|text| ("Warning", (*text).into())));
    for (name, level) in ["High", "Medium", "Low"].iter().zip(&calibration.levels) {
        let (n, target) = (level.n, level.target);
        let accuracy = match level.accuracy {
            Some(accuracy) => format!("{accuracy:.3} of {n} cases, target {target}"),
            None => "no cases".to_owned(),
        };
        rows.push((name, accuracy.into()));
    }
    rows.push(("Expected calibration error", calibration.ece.into()));
    rows.push(("Brier score", calibration.brier.into()));
    pairs("Confidence calibration", rows)
}
