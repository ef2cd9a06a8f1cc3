//! Types of `/api/v1/metrics/calibration`: how well confidence predicts correctness.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Maximum length of a confidence quoted in an error, characters.
const MAX_QUOTED_CHARS: usize = 40;

/// Confidence stated by the generator.
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
    /// All levels, highest first, as in reports.
    pub const ALL: [Self; 3] = [Self::High, Self::Medium, Self::Low];

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

    /// Case-insensitive.
    fn from_str(text: &str) -> Result<Self, String> {
        let word = text.trim().to_ascii_lowercase();
        let level = Self::ALL.into_iter().find(|level| level.as_str() == word);
        level.ok_or_else(|| {
            let text: String = text.chars().take(MAX_QUOTED_CHARS).collect();
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

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CalibrationCase {
    /// Case-insensitive. If absent or null, the case is counted as excluded.
    #[serde(default)]
    pub confidence: Option<Confidence>,
    /// Correctness, 0-1. If absent or null, the case is unscored and counted as excluded.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 1)]
    pub correctness: Option<f64>,
}

/// Expected share of correct answers per level, 0-1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CalibrationTargets {
    /// Default: 0.95.
    #[schema(minimum = 0, maximum = 1)]
    pub high: f64,
    /// Default: 0.75.
    #[schema(minimum = 0, maximum = 1)]
    pub medium: f64,
    /// Default: 0.45.
    #[schema(minimum = 0, maximum = 1)]
    pub low: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CalibrationRequest {
    /// At most 200,000.
    pub cases: Vec<CalibrationCase>,
    /// All three targets. Default: 0.95, 0.75 and 0.45.
    #[serde(default)]
    pub targets: Option<CalibrationTargets>,
    /// Weight of the mean distance, above 0 and at most 1,000. Default: 3, so that a mean distance of a third scores 0.
    #[serde(default)]
    #[schema(exclusive_minimum = 0, maximum = 1000)]
    pub factor: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CalibrationGroup {
    pub confidence: Confidence,
    /// Number of scored cases.
    pub n: usize,
    /// Expected share of correct answers, 0-1.
    pub target: f64,
    /// Mean correctness. Null without cases.
    pub accuracy: Option<f64>,
    /// 95 % Wilson interval of the accuracy: lower and upper bound. Null without cases.
    pub interval: Option<[f64; 2]>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CalibrationResult {
    /// max(0, 1 - factor * the mean distance of a group's accuracy from its target, weighted by cases). Null for fewer than 20 cases.
    pub score: Option<f64>,
    /// Meaning of the score. Null without a score.
    pub interpretation: Option<String>,
    pub warnings: Vec<String>,
    /// In the order high, medium, low.
    pub groups: Vec<CalibrationGroup>,
    /// Number of scored cases with a confidence, the basis of all values.
    pub n: usize,
    /// Number of cases without a confidence or a correctness.
    pub left_out: usize,
    /// Expected calibration error, with targets as probabilities. Null without cases.
    pub ece: Option<f64>,
    /// Brier score, with targets as probabilities. Null without cases.
    pub brier: Option<f64>,
    /// The applied targets: of the request, or the defaults.
    pub targets: CalibrationTargets,
    /// The applied factor: of the request, or 3.
    pub factor: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct BatchCalibration {
    pub batch_id: Uuid,
    pub items: i64,
    /// Number of items read, at most the first 10,000.
    pub looked_at: i64,
    /// Whether a simulated judge produced the correctness. Only if no other scores exist.
    pub simulated: bool,
    /// The result. `left_out` counts the read items that have no confidence or no correctness yet.
    #[serde(flatten)]
    pub calibration: CalibrationResult,
}
