//! Text output of a finished run.

use std::path::Path;

use serde::Serialize;
use serde_json::json;

use crate::cli::outcome::Exit;
use crate::cli::output::{Printable, TableRow, Text, or_dash};
use crate::report::GateResult;
use crate::report::summary::{Basis, Figures, Share};
use crate::suite::run::compare::RunComparison;
use crate::suite::run::folder::RunHeader;
use crate::wire::words;

/// Report files in a run's folder, in addition to its two own files.
const REPORTS: [&str; 5] = [
    "report.json",
    "report.xlsx",
    "report.csv",
    "junit.xml",
    "summary.md",
];

pub(super) struct RunSummary<'a> {
    pub(super) header: &'a RunHeader,
    pub(super) path: &'a Path,
    pub(super) figures: &'a Figures,
    pub(super) gate_result: &'a GateResult,
    pub(super) against: Option<&'a RunComparison>,
    /// The first items that did not pass, one line each.
    pub(super) missed: &'a [String],
    /// Address of the batch's page.
    pub(super) page: Option<&'a str>,
    pub(super) exit: Exit,
}

impl Serialize for RunSummary<'_> {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        json!({
            "run": self.path.display().to_string(), "run_id": self.header.run_id, "suite": self.header.suite, "kind": self.header.kind,
            "decision": self.gate_result.decision, "reasons": self.gate_result.reasons, "exit_code": self.exit.code(),
            "figures": self.figures, "comparison": self.against,
            "judging_differs": self.against.map(|against| against.judged.otherwise()),
            "page": self.page,
            "reports": REPORTS.map(|name| self.path.join(name).display().to_string()),
        })
        .serialize(to)
    }
}

impl Printable for RunSummary<'_> {
    fn text(&self, out: &mut Text) {
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
        let head = ["", "items", "scored", "coverage", "mean", "pass rate"];
        out.table(&head, rows);
        self.print_parts(out);
        if let Some(against) = self.against {
            out.line("");
            against.text(out);
        }
        if !self.missed.is_empty() {
            out.line("\ndid not pass");
        }
        for line in self.missed {
            out.line(format!("  {line}"));
        }
        out.line("");
        out.line(format!("run      {}", self.path.display()));
        out.line(format!("reports  {}", REPORTS.join(", ")));
        out.decision(self.gate_result);
        if let Some(page) = self.page {
            out.line(format!("\npage     {page}"));
        }
    }

    fn exit(&self) -> Exit {
        self.exit
    }
}

impl RunSummary<'_> {
    /// Prints the means of components, errors, cost, and the numbers of SQL suites.
    fn print_parts(&self, out: &mut Text) {
        let figures = self.figures;
        let means: Vec<String> = figures
            .components
            .iter()
            .filter_map(|part| Some(format!("{} {:.3}", part.title, part.mean?)))
            .collect();
        if !means.is_empty() {
            out.line(format!("\nmeans    {}", means.join(" · ")));
        }
        let errors: Vec<String> = figures
            .errors
            .iter()
            .map(|(class, n)| format!("{n} {class}"))
            .collect();
        if !errors.is_empty() {
            out.line(format!("errors   {}", errors.join(" · ")));
        }
        let usage = figures.usage;
        if usage.tokens_in + usage.tokens_out > 0 {
            let unpriced = words::counted(usage.unpriced, "item");
            let cost = match (usage.cost_usd, usage.unpriced) {
                (Some(usd), 0) => format!("{usd:.4} USD"),
                (Some(usd), _) => format!("{usd:.4} USD, and what {unpriced} without a price cost"),
                (None, _) => format!("the cost is unknown: {unpriced} without a price"),
            };
            let (tokens_in, tokens_out) = (usage.tokens_in, usage.tokens_out);
            out.line(format!(
                "judge    {tokens_in} tokens in, {tokens_out} out; {cost}"
            ));
        }
        if let Some(safety) = &figures.safety {
            let recall = or_dash(safety.recall.map(|recall| format!("{recall:.3}")));
            let (blocked, missed) = (safety.false_positives.len(), safety.false_negatives.len());
            out.line(format!(
                "safety   recall of unsafe {recall}, {blocked} safe blocked, {missed} unsafe passed"
            ));
        }
        if let Some(calibration) = &figures.calibration {
            let score = or_dash(calibration.score.map(|score| format!("{score:.3}")));
            let means = calibration.interpretation.unwrap_or_default();
            out.line(format!("calibration {score}  {means}").trim_end());
            for warning in &calibration.warnings {
                out.line(format!("            {warning}"));
            }
        }
        match figures.basis {
            Basis::Simulated if figures.all.simulated > 0 => {
                out.line("\nSIMULATED: these scores were made up by a simulated judge");
            }
            Basis::Simulated | Basis::Real => {}
        }
    }
}

fn row(name: &str, share: &Share) -> TableRow {
    vec![
        name.to_owned(),
        share.n.to_string(),
        share.scored.to_string(),
        or_dash(share.coverage.map(words::percent)),
        or_dash(share.mean.map(|mean| format!("{mean:.3}"))),
        or_dash(share.pass_rate.map(words::percent)),
    ]
}
