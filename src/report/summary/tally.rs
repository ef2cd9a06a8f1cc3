//! Counts items of a suite or group. Real and simulated scores are counted separately; items without a judge count with either.

use serde::Serialize;

use super::super::item::Status;
use super::super::{Item, Outcome};

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Share {
    pub n: u64,
    pub scored: u64,
    /// Items without a score because some of their parts are missing.
    pub incomplete: u64,
    pub failed: u64,
    /// `scored / n`; null without items.
    pub coverage: Option<f64>,
    /// Number of scored items in mean and pass rate: of real judges, or simulated ones without real ones; items without a
    /// judge are included in both cases.
    pub measured: u64,
    pub passed: u64,
    pub missed: u64,
    /// Mean of their totals, 0-1; null without totals.
    pub mean: Option<f64>,
    /// `passed / (passed + missed)`; null without either.
    pub pass_rate: Option<f64>,
    pub simulated: u64,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Mean {
    pub(super) n: u64,
    sum: f64,
}

impl Mean {
    pub(super) fn add(&mut self, value: Option<f64>) {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            self.n += 1;
            self.sum += value;
        }
    }

    /// Returns the mean over the items of both.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            n: self.n + other.n,
            sum: self.sum + other.sum,
        }
    }

    pub(super) fn value(self) -> Option<f64> {
        (self.n > 0).then(|| self.sum / self.n as f64)
    }
}

/// Separate values for real, simulated and computed scores (without a judge). Real and simulated ones are not mixed.
#[derive(Debug, Clone, Default)]
pub(super) struct RealAndSimulated<T> {
    computed: T,
    judged: T,
    simulated: T,
}

impl<T> RealAndSimulated<T> {
    pub(super) fn part(&mut self, item: &Item) -> &mut T {
        let is_computed = |result| (item.about().is_computed)(result);
        match item.simulated {
            true => &mut self.simulated,
            false if item.result.as_ref().is_some_and(is_computed) => &mut self.computed,
            false => &mut self.judged,
        }
    }

    pub(super) fn on(&self, basis: Basis) -> [&T; 2] {
        match basis {
            Basis::Real => [&self.computed, &self.judged],
            Basis::Simulated => [&self.computed, &self.simulated],
        }
    }
}

/// Scores which the means include. Items without a judge are always included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    Real,
    Simulated,
}

#[derive(Debug, Clone, Copy, Default)]
struct ScoreTally {
    scored: u64,
    passed: u64,
    missed: u64,
    total: Mean,
}

impl ScoreTally {
    fn and(self, other: Self) -> Self {
        Self {
            scored: self.scored + other.scored,
            passed: self.passed + other.passed,
            missed: self.missed + other.missed,
            total: self.total.and(other.total),
        }
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    n: u64,
    incomplete: u64,
    failed: u64,
    scores: RealAndSimulated<ScoreTally>,
}

impl Tally {
    pub(super) fn add(&mut self, item: &Item) {
        self.n += 1;
        match item.outcome {
            Outcome::Incomplete => self.incomplete += 1,
            Outcome::Failed => self.failed += 1,
            Outcome::Scored => {
                let scores = self.scores.part(item);
                scores.scored += 1;
                scores.total.add(item.total);
                match item.status() {
                    Status::Pass => scores.passed += 1,
                    Status::Fail => scores.missed += 1,
                    Status::Incomplete | Status::Scored => {}
                }
            }
        }
    }

    pub(super) fn basis(&self) -> Basis {
        if self.scores.judged.scored == 0 && self.scores.simulated.scored > 0 {
            Basis::Simulated
        } else {
            Basis::Real
        }
    }

    pub(super) fn share(&self, basis: Basis) -> Share {
        let [computed, chosen] = self.scores.on(basis);
        self.share_of(computed.and(*chosen))
    }

    pub(super) fn simulated(&self) -> Share {
        self.share_of(self.scores.simulated)
    }

    fn share_of(&self, scores: ScoreTally) -> Share {
        let RealAndSimulated {
            computed,
            judged,
            simulated,
        } = &self.scores;
        let scored = computed.scored + judged.scored + simulated.scored;
        Share {
            n: self.n,
            scored,
            incomplete: self.incomplete,
            failed: self.failed,
            coverage: ratio(scored, self.n),
            measured: scores.scored,
            passed: scores.passed,
            missed: scores.missed,
            mean: scores.total.value(),
            pass_rate: ratio(scores.passed, scores.passed + scores.missed),
            simulated: simulated.scored,
        }
    }
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
