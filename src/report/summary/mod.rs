//! Summary of a suite: counts, means, errors, cost, and the verdict of the default gate.
//!
//! Items are added in sequence and not stored. Items without a score are excluded from means and lower the coverage. Real and simulated
//! scores are not mixed: if there are both, means use the real ones. Items without a judge count with either.

mod tally;

use std::collections::BTreeMap;

use serde::Serialize;

use super::item::Status;
use super::{GateResult, Item, Judging, Meta, Outcome, Simulated, Verdict};
use crate::job::Kind;
use crate::score::about;
use crate::score::sql_metrics::calibration::{Calibration, Confidence, Promises, calibrate};
use crate::score::sql_metrics::safety::{SafetyOutcome, SafetySuite, suite};

pub use tally::{Basis, Share};
use tally::{Mean, RealAndSimulated, Tally};

/// Maximum groups shown; items of further groups are counted in [`OTHERS`].
const GROUPS: usize = 50;
/// Group of items beyond the first 50 names.
const OTHERS: &str = "(others)";
/// Group of items without a name.
const UNNAMED: &str = "(none)";

/// Builder of [`Figures`].
#[derive(Debug, Clone, Default)]
pub struct Summary {
    all: Tally,
    kinds: BTreeMap<Kind, RealAndSimulated<Vec<Mean>>>,
    open: u64,
    missed: u64,
    simulated_items: u64,
    judge_errors: u64,
    judges: BTreeMap<String, u64>,
    errors: BTreeMap<String, u64>,
    by_difficulty: BTreeMap<String, Tally>,
    by_agent: BTreeMap<String, Tally>,
    usage: UsageSum,
    safety: Safety,
    calibration: RealAndSimulated<Vec<(Confidence, f64)>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct UsageSum {
    pub tokens_in: i64,
    pub tokens_out: i64,
    /// USD of the items with known cost; null if there were calls and none has a price.
    pub cost_usd: Option<f64>,
    /// Items with calls without a price; their cost isn't in `cost_usd`.
    pub unpriced: u64,
}

/// Outcomes of the validator. Ids are stored only of cases with a wrong outcome.
#[derive(Debug, Clone, Default)]
struct Safety {
    n: u64,
    stopped: usize,
    wrong: Vec<(String, SafetyOutcome)>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComponentMean {
    pub name: &'static str,
    #[serde(skip)]
    pub title: &'static str,
    pub n: u64,
    /// Mean, 0-1 (sessions: 0-100); null without items.
    pub mean: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NamedShare {
    pub name: String,
    #[serde(flatten)]
    pub share: Share,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figures {
    /// Without gates: whether every scored item passed.
    pub verdict: Verdict,
    /// Gate results of the run; null if unknown.
    pub gate: Option<GateResult>,
    pub kinds: Vec<Kind>,
    #[serde(flatten)]
    pub all: Share,
    /// Items that haven't ended; not included in `n`.
    pub unfinished: u64,
    pub basis: Basis,
    /// Summary of the simulated scores, if real ones exist as well.
    pub simulated_apart: Option<Share>,
    /// Items without a score because of their judge; not misses.
    pub judge_errors: u64,
    /// Number of items by judge (`entry (model)`), the first 50 judges separately. Without sessions.
    pub judges: BTreeMap<String, u64>,
    /// Number of items by error class; `incomplete`: some parts couldn't be computed.
    pub errors: BTreeMap<String, u64>,
    pub components: Vec<ComponentMean>,
    /// Of `qas`, by difficulty: easy, medium, hard, then others by name.
    pub by_difficulty: Vec<NamedShare>,
    pub by_agent: Vec<NamedShare>,
    pub usage: UsageSum,
    /// Of `sql_metrics`: summary of the validator; null if no case has its flag.
    pub safety: Option<SafetySuite>,
    /// Of `sql_metrics`: calibration of the confidence; null if no case has one.
    pub calibration: Option<Calibration>,
}

impl Summary {
    pub fn add(&mut self, item: &Item) {
        self.all.add(item);
        self.simulated_items += u64::from(item.simulated);
        match item.status() {
            Status::Incomplete => self.open += 1,
            Status::Fail => self.missed += 1,
            Status::Pass | Status::Scored => {}
        }
        self.judge_errors += u64::from(item.is_judge_error());
        if let Some(judge) = item.judge() {
            *group(&mut self.judges, &judge) += 1;
        }
        if item.error.is_some() || item.outcome == Outcome::Incomplete {
            *group(&mut self.errors, item.fault().0) += 1;
        }
        let components = item.about().components;
        let means = self.kinds.entry(item.kind).or_default().part(item);
        means.resize(components.len(), Mean::default());
        for (component, mean) in components.iter().zip(means) {
            mean.add(component.score(item.result.as_ref()));
        }
        self.add_groups(item);
        self.usage.add(item);
        self.safety.add(item);
        self.calibration.part(item).extend(item.calibration());
    }

    fn add_groups(&mut self, item: &Item) {
        if !item.about().is_grouped {
            return;
        }
        for (groups, field) in [
            (&mut self.by_difficulty, "difficulty"),
            (&mut self.by_agent, "agent_used"),
        ] {
            group(groups, group_name(item, field)).add(item);
        }
    }

    /// Returns the verdict of the default gate; it doesn't pass with `unfinished` items.
    pub fn verdict(&self, unfinished: u64, simulated: Simulated) -> Verdict {
        let Share { n, .. } = self.all.share(Basis::Real);
        let is_refused = match simulated {
            Simulated::Refused => self.simulated_items > 0,
            Simulated::Allowed => false,
        };
        if n == 0 && unfinished == 0 {
            Verdict::Nothing
        } else if self.open > 0 || unfinished > 0 || is_refused {
            Verdict::Incomplete
        } else if self.missed > 0 {
            Verdict::Failed
        } else {
            Verdict::Passed
        }
    }

    pub fn figures(&self, meta: &Meta) -> Figures {
        let basis = self.all.basis();
        let has_both = basis == Basis::Real && self.all.simulated().simulated > 0;
        let calibrated = self.calibration.on(basis).map(Vec::as_slice).concat();
        let mut by_difficulty = groups(&self.by_difficulty, basis);
        by_difficulty.sort_by_key(|group| rank(&group.name));
        let verdict = match (self.verdict(meta.unfinished, meta.simulated), meta.judging) {
            // Items without a judge may have passed, but the run hasn't.
            (Verdict::Passed | Verdict::Failed, Judging::NotRun) => Verdict::Incomplete,
            (verdict, Judging::Asked | Judging::NotRun) => verdict,
        };
        Figures {
            verdict,
            gate: None,
            kinds: self.kinds.keys().copied().collect(),
            all: self.all.share(basis),
            unfinished: meta.unfinished,
            basis,
            simulated_apart: has_both.then(|| self.all.simulated()),
            judge_errors: self.judge_errors,
            judges: self.judges.clone(),
            errors: self.errors.clone(),
            components: self.components(basis),
            by_difficulty,
            by_agent: groups(&self.by_agent, basis),
            usage: self.usage.known(),
            safety: (self.safety.n > 0).then(|| self.safety.suite()),
            calibration: (!calibrated.is_empty())
                .then(|| calibrate(calibrated, Promises::default())),
        }
    }

    fn components(&self, basis: Basis) -> Vec<ComponentMean> {
        let of_kind = |(kind, means): (&Kind, &RealAndSimulated<Vec<Mean>>)| {
            let mean = |nth: usize| {
                let known = means.on(basis).into_iter();
                let known = known.filter_map(|means| means.get(nth).copied());
                known.fold(Mean::default(), Mean::and)
            };
            let components = about(*kind).components.iter().enumerate();
            components
                .map(|(nth, component)| ComponentMean {
                    name: component.name,
                    title: component.title,
                    n: mean(nth).n,
                    mean: mean(nth).value(),
                })
                .collect::<Vec<_>>()
        };
        self.kinds.iter().flat_map(of_kind).collect()
    }
}

impl UsageSum {
    /// Returns the known usage. Without calls the cost is 0; calls without a price have no known cost.
    fn known(self) -> Self {
        let priced = self.cost_usd.filter(|cost| *cost > 0.0);
        Self {
            cost_usd: match self.unpriced {
                0 => Some(self.cost_usd.unwrap_or(0.0)),
                _ => priced,
            },
            ..self
        }
    }

    fn add(&mut self, item: &Item) {
        let usage = item.usage;
        self.tokens_in = self.tokens_in.saturating_add(usage.tokens_in);
        self.tokens_out = self.tokens_out.saturating_add(usage.tokens_out);
        match usage.cost_usd {
            Some(cost) => *self.cost_usd.get_or_insert(0.0) += cost,
            None => self.unpriced += u64::from(usage.tokens_in + usage.tokens_out > 0),
        }
    }
}

impl Safety {
    fn add(&mut self, item: &Item) {
        let Some(outcome) = item.safety() else {
            return;
        };
        self.n += 1;
        match outcome {
            SafetyOutcome::TrueNegative => {}
            SafetyOutcome::TruePositive => self.stopped += 1,
            SafetyOutcome::FalsePositive | SafetyOutcome::FalseNegative => {
                self.wrong.push((item.name(), outcome));
            }
        }
    }

    fn suite(&self) -> SafetySuite {
        let stopped = std::iter::repeat_n(("", SafetyOutcome::TruePositive), self.stopped);
        let wrong = self
            .wrong
            .iter()
            .map(|(id, outcome)| (id.as_str(), *outcome));
        suite(stopped.chain(wrong))
    }
}

pub(super) fn group_name<'a>(item: &'a Item, field: &str) -> &'a str {
    item.text(field)
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .unwrap_or(UNNAMED)
}

/// Names of the groups so far. Their number is limited because names come from outside.
#[derive(Debug, Default)]
pub(super) struct GroupNames(BTreeMap<String, ()>);

impl GroupNames {
    /// Returns the group's name if it is among the first ones, otherwise [`OTHERS`].
    pub(super) fn bounded<'a>(&mut self, name: &'a str) -> &'a str {
        let bounded = bounded(&self.0, name);
        self.0.entry(bounded.to_owned()).or_default();
        bounded
    }
}

fn bounded<'a, T>(groups: &BTreeMap<String, T>, name: &'a str) -> &'a str {
    if groups.len() < GROUPS || groups.contains_key(name) {
        name
    } else {
        OTHERS
    }
}

fn group<'a, T: Default>(groups: &'a mut BTreeMap<String, T>, name: &str) -> &'a mut T {
    let name = bounded(groups, name);
    groups.entry(name.to_owned()).or_default()
}

fn groups(tallies: &BTreeMap<String, Tally>, basis: Basis) -> Vec<NamedShare> {
    let group = |(name, tally): (&String, &Tally)| NamedShare {
        name: name.clone(),
        share: tally.share(basis),
    };
    tallies.iter().map(group).collect()
}

/// Returns the position of a difficulty. Stable sorting keeps the order of other names.
fn rank(difficulty: &str) -> usize {
    let known = ["easy", "medium", "hard"];
    let found = known.iter().position(|name| *name == difficulty);
    found.unwrap_or(known.len())
}

impl Figures {
    pub fn unscored(&self) -> u64 {
        self.all.incomplete + self.all.failed
    }
}

#[cfg(test)]
mod tests;
