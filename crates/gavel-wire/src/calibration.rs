//! Whether confidence says how often a generator is right: what is asked of `/api/v1/metrics/calibration`, and what comes of it.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The most that a fault repeats of a confidence, characters.
const SHOWN: usize = 40;

/// How sure the generator said it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase", try_from = "String")]
pub enum Confidence {
    /// Nearly certain.
    High,
    /// More likely right than wrong.
    Medium,
    /// More likely wrong than right, or a guess.
    Low,
}

impl Confidence {
    /// Every level, highest first: the order of reports.
    pub const ALL: [Self; 3] = [Self::High, Self::Medium, Self::Low];

    /// The name used on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::High => "high",
            Self::Medium => "medium",
            Self::Low => "low",
        }
    }
}

impl FromStr for Confidence {
    type Err = String;

    /// In any case, as cases have it.
    fn from_str(text: &str) -> Result<Self, String> {
        let word = text.trim().to_ascii_lowercase();
        let level = Self::ALL.into_iter().find(|level| level.as_str() == word);
        level.ok_or_else(|| {
            let text: String = text.chars().take(SHOWN).collect();
            format!("is {text:?}; high, medium or low is expected")
        })
    }
}

impl TryFrom<String> for Confidence {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// One case of a suite.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CalibrationCase {
    /// In any case. Left out or null: the case is left out, and counted.
    #[serde(default)]
    pub confidence: Option<Confidence>,
    /// How right it was, 0-1; left out or null: not scored, so that the case is left out, and counted.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 1)]
    pub correctness: Option<f64>,
}

/// The share of right answers that each level promises, 0-1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CalibrationTargets {
    /// 0.95 by default.
    #[schema(minimum = 0, maximum = 1)]
    pub high: f64,
    /// 0.75 by default.
    #[schema(minimum = 0, maximum = 1)]
    pub medium: f64,
    /// 0.45 by default.
    #[schema(minimum = 0, maximum = 1)]
    pub low: f64,
}

/// Cases whose confidence is held against their correctness.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CalibrationRequest {
    /// At most 200,000.
    pub cases: Vec<CalibrationCase>,
    /// Other targets than 0.95, 0.75 and 0.45; all three.
    #[serde(default)]
    pub targets: Option<CalibrationTargets>,
    /// What an average miss of 1 costs, above 0 and at most 1,000; 3 by default: a miss of a third is worth nothing.
    #[serde(default)]
    #[schema(exclusive_minimum = 0, maximum = 1000)]
    pub factor: Option<f64>,
}

/// One level of confidence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CalibrationGroup {
    pub confidence: Confidence,
    /// How many scored cases have it.
    pub n: usize,
    /// The share of right answers that it promises, 0-1.
    pub target: f64,
    /// The mean correctness of its cases; null without cases.
    pub accuracy: Option<f64>,
    /// The accuracy's Wilson interval at 95 %, lower and upper end; null without cases.
    pub interval: Option<[f64; 2]>,
}

/// How well confidence predicts correctness.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CalibrationResult {
    /// max(0, 1 - factor * the mean distance of a group's accuracy from its target, weighted by cases); null below 20 cases.
    pub score: Option<f64>,
    /// What the score means; null without one.
    pub interpretation: Option<String>,
    /// What to beware of.
    pub warnings: Vec<String>,
    /// High, medium, low.
    pub groups: Vec<CalibrationGroup>,
    /// The scored cases that have a confidence: what everything here is made of.
    pub n: usize,
    /// Cases without a confidence or without a correctness.
    pub left_out: usize,
    /// The expected calibration error, targets taken as probabilities; null without cases.
    pub ece: Option<f64>,
    /// The Brier score, targets taken as probabilities; null without cases.
    pub brier: Option<f64>,
    /// The targets that it was made with: those of the request, else the defaults.
    pub targets: CalibrationTargets,
    /// The factor that it was made with: that of the request, else 3.
    pub factor: f64,
}

/// How well the confidence of a suite's cases predicts their correctness.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct BatchCalibration {
    pub batch_id: Uuid,
    /// How many items it has.
    pub items: i64,
    /// How many of them were looked at: the first 10,000.
    pub looked_at: i64,
    /// Whether the correctness is that of a simulated judge: there is no other.
    pub simulated: bool,
    /// What came of it. `left_out` counts the items that were looked at and have no confidence, no correctness, or not yet.
    #[serde(flatten)]
    pub calibration: CalibrationResult,
}
