//! Types of `/api/v1/analytics/agreement`: agreement between reviewers and judges.

use serde::{Deserialize, Serialize};

use super::WordTable;
use crate::text_enum;

text_enum! {
    /// Scale for comparing reviewers with the judge.
    pub enum Scale {
        /// The five ratings of a total.
        Ratings = "ratings",
        /// The three reviewer qualities.
        Quality = "quality",
    }
}

text_enum! {
    /// Strength of a kappa by Landis and Koch (1977). A convention, not a test.
    pub enum Strength {
        /// Below 0.
        Poor = "poor",
        /// Up to 0.20.
        Slight = "slight",
        /// Up to 0.40.
        Fair = "fair",
        /// Up to 0.60.
        Moderate = "moderate",
        /// Up to 0.80.
        Substantial = "substantial",
        /// Above 0.80.
        AlmostPerfect = "almost_perfect",
    }
}

impl Strength {
    pub fn from_kappa(kappa: f64) -> Self {
        match kappa {
            k if k < 0.0 => Self::Poor,
            k if k <= 0.2 => Self::Slight,
            k if k <= 0.4 => Self::Fair,
            k if k <= 0.6 => Self::Moderate,
            k if k <= 0.8 => Self::Substantial,
            _ => Self::AlmostPerfect,
        }
    }
}

/// Agreement beyond chance.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Kappa {
    /// 1: always equal; 0: as expected by chance; below 0: less than by chance.
    pub value: f64,
    /// Lower bound of the 95 % interval, from the large-sample standard error. Null if that error is 0.
    pub low: Option<f64>,
    /// Upper bound. Null if `low` is null.
    pub high: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Agreement {
    /// `ratings`: reviewers gave totals or one of the five ratings; `quality`: one of the three qualities.
    pub scale: Scale,
    /// Number of ratings with a matching score. Ratings of the same score by several reviewers count separately.
    pub n: u64,
    pub raters: u64,
    pub scores: u64,
    /// Share of equal ratings, 0-1.
    pub raw: Option<f64>,
    /// Cohen's kappa with quadratic weights. Null if undefined: fewer than two ratings, or a single category.
    pub kappa_quadratic: Option<Kappa>,
    pub strength: Option<Strength>,
    /// Confusion matrix of reviewer and judge ratings.
    pub confusion: WordTable,
    /// Mean absolute difference of totals, in points. Null without reviewer totals.
    pub mean_absolute_difference: Option<f64>,
    /// Mean of judge total minus reviewer total, in points.
    pub mean_difference: Option<f64>,
    pub warnings: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct AgreementReport {
    pub criteria_hash: String,
    /// Whether a simulated judge produced the scores. Only if no other scores are rated.
    pub simulated: bool,
    /// Each used scale. Empty if no rating has a matching score.
    pub scales: Vec<Agreement>,
    /// Number of ratings without a matching score by these criteria.
    #[serde(default)]
    pub unmet: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RaterPair {
    /// Reviewer, as in `by` of a rating.
    pub a: String,
    pub b: String,
    /// Each scale on which both rated the same sessions.
    pub scales: Vec<Agreement>,
}

/// Agreement among reviewers: up to 100 pairs, those with most common sessions first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RaterPairs {
    pub items: Vec<RaterPair>,
    /// Always null: a single page.
    pub next_cursor: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_kappa_to_strength() {
        for (kappa, word) in [
            (-0.01, Strength::Poor),
            (0.0, Strength::Slight),
            (0.2, Strength::Slight),
            (0.21, Strength::Fair),
            (0.41, Strength::Moderate),
            (0.61, Strength::Substantial),
            (0.8, Strength::Substantial),
            (0.81, Strength::AlmostPerfect),
            (1.0, Strength::AlmostPerfect),
        ] {
            assert_eq!(Strength::from_kappa(kappa), word, "{kappa}");
        }
    }
}
