//! Baseline of a run. Checked before the run, so that an incomparable baseline is reported before the run costs time and money.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;

use super::bench::find;
use super::mixed;
use crate::cli::outcome::CliError;
use crate::cli::output;
use crate::job::Kind;
use crate::report::{ResultLines, Simulated, Source as _};
use crate::suite::run::RunFolder;
use crate::suite::run::folder::RESULTS;
use crate::suite::run::{Plan, compare, thresholds};
use crate::wire::Judge;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Baseline {
    kinds: BTreeSet<Kind>,
    /// Whether a simulated judge contributed to any score.
    is_simulated: bool,
    /// Whether a real judge did.
    is_judged: bool,
    items: usize,
    /// Names that pair the items with a total.
    names: HashSet<String>,
}

impl Baseline {
    pub(super) fn read(dir: &Path) -> Result<Self, CliError> {
        let unreadable = |error| CliError::usage(format!("--baseline: {error}"));
        let lines = ResultLines::open(&dir.join(RESULTS)).map_err(unreadable)?;
        let mut baseline = Self {
            // Result folders made by other tools have no header. Their lines are checked in any case.
            kinds: RunFolder::header_of(dir)
                .map(|header| header.kind)
                .into_iter()
                .collect(),
            is_simulated: false,
            is_judged: false,
            items: 0,
            names: HashSet::new(),
        };
        let read = lines.each(&mut |item| {
            baseline.kinds.insert(item.kind);
            baseline.is_simulated |= item.simulated;
            baseline.is_judged |= !item.simulated && item.judge().is_some();
            baseline.items += 1;
            if item.measured().is_some() {
                baseline.names.insert(compare::name(item));
            }
            Ok(())
        });
        read.map_err(unreadable)?;
        Ok(baseline)
    }

    /// Totals of different kinds aren't comparable.
    pub(super) fn fits(&self, kind: Kind) -> Result<(), CliError> {
        match self.kinds.iter().find(|other| **other != kind) {
            None => Ok(()),
            Some(other) => Err(CliError::usage(format!(
                "--baseline: that is a run of kind {other}, and this suite is of kind {kind}: their scores don't measure the same"
            ))),
        }
    }

    /// Rejects a baseline without any common item, because the gate on the mean would have no effect.
    pub(super) fn pairs_with(&self, plan: &Plan) -> Result<(), CliError> {
        let is_paired = self.names.iter().any(|name| plan.has(name));
        if is_paired {
            return Ok(());
        }
        let what = match (self.items, self.names.iter().min()) {
            (0, _) => "that run has no items".to_owned(),
            (items, None) => format!("no total in that run's {items} items"),
            (_, Some(first)) => format!(
                "no item of this suite has a total in that run; its items have other ids, such as {first}"
            ),
        };
        Err(CliError::usage(output::clean(&format!(
            "--max-regression: {what}; name a run of this suite with --baseline, or leave both out"
        ))))
    }

    /// Rejects a baseline with the other type of judge. `simulated`: whether the run's judge is simulated.
    pub(super) fn fits_judge(
        &self,
        simulated: bool,
        gates: &thresholds::Gates,
    ) -> Result<(), CliError> {
        let is_mixed = match simulated {
            true => self.is_judged && !self.is_simulated,
            false => self.is_simulated,
        };
        match gates.simulated() {
            Simulated::Refused if is_mixed => Err(CliError::usage(mixed("--baseline"))),
            Simulated::Refused | Simulated::Allowed => Ok(()),
        }
    }
}

/// Whether any judge of a run is simulated. Simulated scores aren't comparable with real ones. `None` if the caller may not list judges.
pub(super) fn are_simulated(judges: &[Judge], named: &[&str]) -> Option<bool> {
    let is_simulated = |name: &str| find(judges, name).map(|judge| judge.simulated);
    let sorts: BTreeSet<Option<bool>> = named.iter().map(|judge| is_simulated(judge)).collect();
    if sorts.contains(&Some(true)) {
        Some(true)
    } else if sorts.contains(&None) {
        None
    } else {
        sorts.into_iter().next().flatten()
    }
}
