//! How a run reads at its end.

use std::path::Path;

use serde_json::{Value, json};

use crate::cli::compare;
use crate::cli::outcome::{CliError, Exit};
use crate::cli::output;
use crate::report::Judgement;
use crate::report::summary::{Basis, Figures, Share};
use crate::suite::run::compare::Comparison;
use crate::suite::run::folder::RunHeader;
use crate::wire::words;

/// The files that a run's folder holds in the end, beside its own two.
const REPORTS: [&str; 5] = [
    "report.json",
    "report.xlsx",
    "report.csv",
    "junit.xml",
    "summary.md",
];

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
                    words::counted(n, "item")
                ),
                (None, n) => format!(
                    "what it cost is not known: {} without a price",
                    words::counted(n, "item")
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
        or_dash(share.coverage.map(words::percent)),
        or_dash(share.mean.map(|mean| format!("{mean:.3}"))),
        or_dash(share.pass_rate.map(words::percent)),
    ]
}
