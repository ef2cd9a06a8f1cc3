//! Confidence calibration: whether the confidence in a suite's cases predicts their correctness.
//!
//! Each confidence level has a target share of correct answers. The score is `1 − factor · miss`, at least 0. `miss` is the mean distance
//! of the shares from their targets, weighted by the cases per level. With the factor 3, a mean miss of a third scores 0.

use serde::{Deserialize, Serialize};

pub use gavel_wire::Confidence;
use gavel_wire::{CalibrationGroup, CalibrationTargets};

/// Minimum number of cases for a score.
pub const FEWEST_CASES: usize = 20;

/// Maximum shortfall of the high level before the model counts as overconfident.
const OVERCONFIDENT_BY: f64 = 0.2;

const SLACK: f64 = 1e-9;

/// Normal quantile of a two-sided 95 % interval.
const Z: f64 = 1.959_963_984_540_054;

/// Target of each level, and factor of a miss. The configuration validates them: targets from 0 to 1, a factor above 0.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Promises {
    pub targets: CalibrationTargets,
    /// Score lost for a mean miss of 1.
    pub factor: f64,
}

impl Default for Promises {
    fn default() -> Self {
        Self {
            targets: CalibrationTargets {
                high: 0.95,
                medium: 0.75,
                low: 0.45,
            },
            factor: 3.0,
        }
    }
}

impl Promises {
    fn at(&self, level: Confidence) -> f64 {
        match level {
            Confidence::High => self.targets.high,
            Confidence::Medium => self.targets.medium,
            Confidence::Low => self.targets.low,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Calibration {
    /// From 0 to 1; `None` below [`FEWEST_CASES`].
    pub score: Option<f64>,
    pub interpretation: Option<&'static str>,
    pub warnings: Vec<&'static str>,
    pub n: usize,
    #[serde(rename = "groups")]
    pub levels: [CalibrationGroup; 3],
    /// Expected calibration error, with the targets as probabilities; `None` without cases.
    pub ece: Option<f64>,
    /// Brier score, with the targets as probabilities; `None` without cases.
    pub brier: Option<f64>,
    #[serde(flatten)]
    pub promises: Promises,
}

#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    n: usize,
    correctness: f64,
    squares: f64,
}

/// Aggregates the scored cases of a suite: confidence, and correctness from 0 to 1. Cases with a correctness that isn't finite are skipped.
/// O(n).
pub fn calibrate(
    cases: impl IntoIterator<Item = (Confidence, f64)>,
    promises: Promises,
) -> Calibration {
    let mut sums = [Sum::default(); 3];
    for (level, correctness) in cases {
        if !correctness.is_finite() {
            continue;
        }
        let correctness = correctness.clamp(0.0, 1.0);
        let [high, medium, low] = &mut sums;
        let sum = match level {
            Confidence::High => high,
            Confidence::Medium => medium,
            Confidence::Low => low,
        };
        sum.n += 1;
        sum.correctness += correctness;
        sum.squares += (promises.at(level) - correctness).powi(2);
    }
    let [high, medium, low] = sums;
    let levels = [
        level(Confidence::High, high, promises),
        level(Confidence::Medium, medium, promises),
        level(Confidence::Low, low, promises),
    ];
    let n = high.n + medium.n + low.n;
    let miss = mean(n, levels.iter().map(missed).sum());
    let score = miss
        .filter(|_| n >= FEWEST_CASES)
        .map(|miss| (1.0 - promises.factor * miss).max(0.0));
    Calibration {
        score,
        interpretation: score.map(interpretation),
        warnings: warnings(&levels, score),
        n,
        ece: miss,
        brier: mean(n, sums.iter().map(|sum| sum.squares).sum()),
        levels,
        promises,
    }
}

fn mean(n: usize, sum: f64) -> Option<f64> {
    (n > 0).then(|| sum / n as f64)
}

fn level(confidence: Confidence, sum: Sum, promises: Promises) -> CalibrationGroup {
    let accuracy = mean(sum.n, sum.correctness);
    CalibrationGroup {
        confidence,
        n: sum.n,
        target: promises.at(confidence),
        accuracy,
        interval: accuracy.map(|accuracy| wilson(accuracy, sum.n)),
    }
}

/// Distance of a level from its target, times its cases.
fn missed(level: &CalibrationGroup) -> f64 {
    level.accuracy.map_or(0.0, |accuracy| {
        level.n as f64 * (accuracy - level.target).abs()
    })
}

fn interpretation(score: f64) -> &'static str {
    if score >= 0.8 - SLACK {
        "Confidence levels accurately predict correctness"
    } else if score < 0.5 - SLACK {
        "Confidence does not predict correctness"
    } else {
        "Confidence partly predicts correctness"
    }
}

fn warnings([high, ..]: &[CalibrationGroup; 3], score: Option<f64>) -> Vec<&'static str> {
    if score.is_none() {
        return vec!["Insufficient data for calibration (need ≥ 20 cases)"];
    }
    let falls_short = high
        .accuracy
        .is_some_and(|accuracy| accuracy < high.target - OVERCONFIDENT_BY - SLACK);
    if falls_short {
        vec!["Model is overconfident - high confidence not reliable"]
    } else {
        Vec::new()
    }
}

fn wilson(share: f64, n: usize) -> [f64; 2] {
    let n = n as f64;
    let spread = Z * Z / n;
    let middle = (share + spread / 2.0) / (1.0 + spread);
    let half = (share * (1.0 - share) * spread + spread * spread / 4.0).sqrt() / (1.0 + spread);
    [(middle - half).max(0.0), (middle + half).min(1.0)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cases(groups: [(usize, usize); 3]) -> Vec<(Confidence, f64)> {
        let of = |(level, (right, all)): (Confidence, (usize, usize))| {
            (0..all).map(move |at| (level, if at < right { 1.0 } else { 0.0 }))
        };
        Confidence::ALL
            .into_iter()
            .zip(groups)
            .flat_map(of)
            .collect()
    }

    fn report(groups: [(usize, usize); 3]) -> Calibration {
        calibrate(cases(groups), Promises::default())
    }

    #[track_caller]
    fn assert_near(found: Option<f64>, expected: f64) {
        assert!(
            found.is_some_and(|found| (found - expected).abs() < 5e-4),
            "{found:?} {expected}"
        );
    }

    #[test]
    fn worked_examples() {
        let good = report([(19, 20), (12, 15), (4, 10)]);
        assert_near(good.score, 0.917);
        assert_eq!(
            good.interpretation,
            Some("Confidence levels accurately predict correctness")
        );
        assert_eq!(good.warnings, Vec::<&str>::new());
        let bad = report([(10, 20), (8, 15), (5, 10)]);
        assert_near(bad.score, 0.150);
        assert_eq!(
            bad.interpretation,
            Some("Confidence does not predict correctness")
        );
        assert_eq!(
            bad.warnings,
            ["Model is overconfident - high confidence not reliable"]
        );
    }

    #[test]
    fn serializes_groups_targets_and_factor() {
        let written = serde_json::to_value(report([(19, 20), (12, 15), (4, 10)])).unwrap();
        assert_eq!(written["groups"][1]["confidence"], "medium");
        assert_eq!(
            written["targets"],
            serde_json::json!({ "high": 0.95, "medium": 0.75, "low": 0.45 })
        );
        assert_eq!(written["factor"], 3.0);
        let read: Promises = serde_json::from_value(written).unwrap();
        assert_eq!(read, Promises::default());
    }

    #[test]
    fn middle_score_is_partly_predictive() {
        let middle = report([(16, 20), (0, 0), (0, 0)]);
        assert_near(middle.score, 0.55);
        assert_eq!(
            middle.interpretation,
            Some("Confidence partly predicts correctness")
        );
        assert!(middle.warnings.is_empty());
    }

    #[test]
    fn overconfident_if_over_a_fifth_short() {
        assert!(report([(15, 20), (0, 0), (0, 0)]).warnings.is_empty());
        assert_eq!(report([(14, 20), (0, 0), (0, 0)]).warnings.len(), 1);
    }

    #[test]
    fn few_cases_have_no_score() {
        let few = report([(19, 19), (0, 0), (0, 0)]);
        assert_eq!((few.score, few.interpretation), (None, None));
        assert_eq!(
            few.warnings,
            ["Insufficient data for calibration (need ≥ 20 cases)"]
        );
        assert_near(few.ece, 0.05);
        let none = report([(0, 0); 3]);
        assert_eq!((none.ece, none.brier, none.n), (None, None, 0));
    }

    #[test]
    fn each_level_has_share_and_interval() {
        let report = report([(19, 20), (8, 10), (0, 0)]);
        let [high, medium, low] = &report.levels;
        assert_near(high.accuracy, 0.95);
        let [lower, upper] = high.interval.unwrap();
        assert_near(Some(lower), 0.7639);
        assert_near(Some(upper), 0.9911);
        assert_eq!((medium.n, medium.target), (10, 0.75));
        assert_eq!((low.n, low.accuracy, low.interval), (0, None, None));
        // 19 · 0.05² + 0.95² + 8 · 0.25² + 2 · 0.75², over 30
        assert_near(report.brier, (0.0475 + 0.9025 + 0.5 + 1.125) / 30.0);
    }

    proptest! {
        #[test]
        fn statistics_stay_in_range(
            cases in prop::collection::vec((prop::sample::select(Confidence::ALL.to_vec()), any::<f64>()), 0..80)
        ) {
            let report = calibrate(cases, Promises::default());
            let shares = report.levels.iter().flat_map(|level| level.accuracy.into_iter().chain(level.interval.into_iter().flatten()));
            for share in shares.chain(report.score).chain(report.ece).chain(report.brier) {
                prop_assert!((0.0..=1.0).contains(&share), "{}", share);
            }
        }
    }
}
