//! Counting of items: a share of a suite, real and simulated scores apart, those that needed no judge with either.

use serde::Serialize;

use super::super::item::Status;
use super::super::{Item, Outcome};

/// What a suite, or a part of it, amounts to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Share {
    pub n: u64,
    pub scored: u64,
    /// Those without one, since some of their parts are missing.
    pub incomplete: u64,
    pub failed: u64,
    /// `scored / n`; null without items.
    pub coverage: Option<f64>,
    /// The scored items that mean and pass rate are made of: those of a real judge, or, where there are none, the simulated ones;
    /// with either those that needed no judge.
    pub measured: u64,
    pub passed: u64,
    pub missed: u64,
    /// The mean of their totals, 0-1; null where none has one.
    pub mean: Option<f64>,
    /// `passed / (passed + missed)`; null where neither is known.
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

    /// The mean of what this one and another are made of.
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

/// Who had a part in an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Made {
    /// Nobody was asked: it is real beside real ones, and no stranger beside simulated ones.
    Computed,
    Simulated,
    Judged,
}

impl Made {
    fn from_item(item: &Item) -> Self {
        if item.simulated {
            return Self::Simulated;
        }
        let Some(body) = &item.result else {
            return Self::Judged;
        };
        if (item.about().is_computed)(body) {
            Self::Computed
        } else {
            Self::Judged
        }
    }
}

/// Real and simulated scores, which are never mixed, and what goes with either.
#[derive(Debug, Clone, Default)]
pub(super) struct Apart<T> {
    computed: T,
    judged: T,
    simulated: T,
}

impl<T> Apart<T> {
    pub(super) fn part(&mut self, item: &Item) -> &mut T {
        match Made::from_item(item) {
            Made::Computed => &mut self.computed,
            Made::Simulated => &mut self.simulated,
            Made::Judged => &mut self.judged,
        }
    }

    pub(super) fn on(&self, basis: Basis) -> [&T; 2] {
        match basis {
            Basis::Real => [&self.computed, &self.judged],
            Basis::Simulated => [&self.computed, &self.simulated],
        }
    }
}

/// Whose scores the means are made of; those that needed no judge go with either.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// Those of a real judge: simulated ones, if any, are counted apart.
    Real,
    /// Simulated ones: no real judge scored anything.
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
    scores: Apart<ScoreTally>,
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
        let Apart {
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
