//! Summary as tables, for the first sheet of a workbook and the start of a Markdown report.

use std::borrow::Cow;

use super::columns::Cell;
use super::summary::{Basis, DefaultGate, Figures, NamedShare};
use super::{GateDecision, Judging, Meta, Simulated};
use crate::score::sql_metrics::calibration::Calibration;
use crate::score::sql_metrics::safety::SafetySuite;
use crate::wire::words;

const NAMED: usize = 20;

pub(super) struct Section {
    pub(super) title: &'static str,
    /// Column names; empty for a list of names and values.
    pub(super) head: Vec<&'static str>,
    pub(super) rows: Vec<Vec<Cell<'static>>>,
}

pub(super) fn sections(figures: &Figures, meta: &Meta) -> Vec<Section> {
    let mut sections = vec![whole(figures, meta)];
    let components = figures.components.iter().map(|component| {
        vec![
            text(component.title),
            Cell::count(component.n),
            Cell::number(component.mean),
        ]
    });
    sections.push(Section {
        title: "Components",
        head: vec!["Component", "Items", "Mean"],
        rows: components.collect(),
    });
    sections.push(groups("By difficulty", &figures.by_difficulty));
    sections.push(groups("By agent", &figures.by_agent));
    let errors = figures.errors.iter();
    sections.push(Section {
        title: "Errors",
        head: vec!["Class", "Items"],
        rows: errors
            .map(|(class, n)| vec![text(class.clone()), Cell::count(*n)])
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

pub(super) fn verdict(verdict: DefaultGate) -> &'static str {
    match verdict {
        DefaultGate::Pass => "PASS: every item was scored, and passed",
        DefaultGate::Fail => "FAIL: every item was scored, and some missed",
        DefaultGate::Incomplete => "INCOMPLETE: not every item has a score that counts",
        DefaultGate::Nothing => "NOTHING: no items",
    }
}

pub(super) fn gate(decision: GateDecision) -> &'static str {
    match decision {
        GateDecision::Passed => "PASSED: the gates of this run hold",
        GateDecision::Failed => "FAILED: a gate of this run does not hold",
        GateDecision::Incomplete => "INCOMPLETE: the gates of this run can't be evaluated",
        GateDecision::Nothing => "NOTHING TO RUN: no items",
    }
}

fn text(text: impl Into<Cow<'static, str>>) -> Cell<'static> {
    Cell::Text(text.into())
}

fn whole(figures: &Figures, meta: &Meta) -> Section {
    let all = &figures.all;
    let mut rows = vec![("Suite", text(meta.name.clone()))];
    rows.extend(meta.run.clone().map(|run| ("Run", text(run))));
    let made_at = meta
        .made_at
        .to_rfc3339_opts(chrono::SecondsFormat::Secs, true);
    rows.push(("Made at", text(made_at)));
    if !figures.judges.is_empty() {
        let names: Vec<&str> = figures.judges.keys().map(String::as_str).collect();
        rows.push(("Judge", text(names.join(", "))));
    }
    rows.extend(
        meta.criteria_hash
            .clone()
            .map(|hash| ("Criteria", text(hash))),
    );
    let decision = figures
        .gate
        .as_ref()
        .map(|gate_result| gate_result.decision);
    rows.extend(decision.map(|decision| ("Gate", text(gate(decision)))));
    rows.extend([
        ("Verdict", text(verdict(figures.verdict))),
        ("Items", Cell::count(all.n)),
        ("Scored", Cell::count(all.scored)),
        ("Incomplete", Cell::count(all.incomplete)),
        ("Failed", Cell::count(all.failed)),
        ("Unfinished", Cell::count(figures.unfinished)),
        ("Coverage", Cell::number(all.coverage)),
        ("Mean score", Cell::number(all.mean)),
        ("Pass rate", Cell::number(all.pass_rate)),
        ("Passed", Cell::count(all.passed)),
        ("Missed", Cell::count(all.missed)),
        ("Judge errors", Cell::count(figures.judge_errors)),
        ("Simulated scores", Cell::count(all.simulated)),
    ]);
    if let Some(apart) = &figures.simulated_apart {
        rows.push(("Mean of simulated scores", Cell::number(apart.mean)));
    }
    rows.extend([
        ("Tokens in", Cell::Count(figures.usage.tokens_in)),
        ("Tokens out", Cell::Count(figures.usage.tokens_out)),
        ("Cost USD", Cell::number(figures.usage.cost_usd)),
    ]);
    Section {
        title: "Summary",
        head: Vec::new(),
        rows: pairs(rows),
    }
}

fn items_have(n: u64) -> String {
    format!(
        "{} {}",
        words::counted(n, "item"),
        if n == 1 { "has" } else { "have" }
    )
}

fn pairs(rows: Vec<(&'static str, Cell<'static>)>) -> Vec<Vec<Cell<'static>>> {
    rows.into_iter()
        .map(|(name, value)| vec![text(name), value])
        .collect()
}

fn groups(title: &'static str, groups: &[NamedShare]) -> Section {
    let row = |group: &NamedShare| {
        vec![
            text(group.name.clone()),
            Cell::count(group.share.n),
            Cell::count(group.share.scored),
            Cell::number(group.share.coverage),
            Cell::number(group.share.mean),
            Cell::number(group.share.pass_rate),
        ]
    };
    Section {
        title,
        head: vec!["Group", "Items", "Scored", "Coverage", "Mean", "Pass rate"],
        rows: groups.iter().map(row).collect(),
    }
}

fn safety(suite: &SafetySuite) -> Section {
    let gate = if suite.gate_passed {
        "passed"
    } else {
        "failed: CRITICAL: unsafe queries were not caught"
    };
    let rows = vec![
        ("Recall of unsafe queries", Cell::number(suite.recall)),
        ("Gate", text(gate)),
        ("Unsafe, not caught", named(&suite.false_negatives)),
        ("Safe, blocked", named(&suite.false_positives)),
    ];
    Section {
        title: "Safety",
        head: Vec::new(),
        rows: pairs(rows),
    }
}

fn named(ids: &[String]) -> Cell<'static> {
    if ids.is_empty() {
        return Cell::Count(0);
    }
    let shown = ids.get(..NAMED).unwrap_or(ids).join(", ");
    let more = if ids.len() > NAMED { ", …" } else { "" };
    text(format!("{}: {shown}{more}", ids.len()))
}

fn calibration(calibration: &Calibration) -> Section {
    let mut rows = vec![("Calibration score", Cell::number(calibration.score))];
    rows.extend(
        calibration
            .interpretation
            .map(|words| ("Meaning", text(words))),
    );
    rows.extend(
        calibration
            .warnings
            .iter()
            .map(|words| ("Warning", text(*words))),
    );
    for (name, level) in ["High", "Medium", "Low"]
        .into_iter()
        .zip(&calibration.levels)
    {
        let accuracy = level.accuracy.map_or_else(
            || "no cases".to_owned(),
            |accuracy| {
                format!(
                    "{accuracy:.3} of {} cases, target {}",
                    level.n, level.target
                )
            },
        );
        rows.push((name, text(accuracy)));
    }
    rows.push(("Expected calibration error", Cell::number(calibration.ece)));
    rows.push(("Brier score", Cell::number(calibration.brier)));
    Section {
        title: "Confidence calibration",
        head: Vec::new(),
        rows: pairs(rows),
    }
}
