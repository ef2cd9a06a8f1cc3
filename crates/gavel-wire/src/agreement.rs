//! How far people and the judge agree, as `/api/v1/analytics/agreement` tells of it.

use serde::{Deserialize, Serialize};

use super::WordTable;
use crate::text_enum;

text_enum! {
    /// The words that something is held against the judge in.
    pub enum Scale {
        /// The five words of a total.
        Ratings = "ratings",
        /// The three words of a reviewer.
        Quality = "quality",
    }
}

text_enum! {
    /// The words of Landis and Koch (1977) for a kappa. A convention, not a test.
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
        /// Above.
        AlmostPerfect = "almost_perfect",
    }
}

impl Strength {
    /// The word for a kappa.
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
    /// 1: always the same word; 0: as often as chance would have it; below 0: less.
    pub value: f64,
    /// The lower end of its 95 % interval, from the large-sample standard error; null where that is 0.
    pub low: Option<f64>,
    /// The upper end; null where `low` is.
    pub high: Option<f64>,
}

/// Agreement on one scale.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Agreement {
    /// `ratings`: people gave totals or one of their five words; `quality`: one of the three words of a reviewer.
    pub scale: Scale,
    /// How many ratings meet a score; several people's ratings of one score count each.
    pub n: u64,
    /// How many people gave them.
    pub raters: u64,
    /// How many scores they meet.
    pub scores: u64,
    /// The share where both say the same word, 0-1.
    pub raw: Option<f64>,
    /// Cohen's kappa with quadratic weights; null where it isn't defined: fewer than two ratings, or one word throughout.
    pub kappa_quadratic: Option<Kappa>,
    /// The words of Landis and Koch (1977) for that kappa.
    pub strength: Option<Strength>,
    /// How often which word of people met which of ours.
    pub confusion: WordTable,
    /// By how many points people's totals and ours lie apart on average; null where nobody gave a total.
    pub mean_absolute_difference: Option<f64>,
    /// By how many points ours lie above theirs on average.
    pub mean_difference: Option<f64>,
    /// What to beware of.
    pub warnings: Vec<String>,
}

/// Agreement under one version of the criteria.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct AgreementReport {
    /// Of the criteria that the scores were made with: 64 hex digits.
    pub criteria_hash: String,
    /// Whether the scores are those of a simulated judge: no other was rated.
    pub simulated: bool,
    /// Each scale that anybody used; empty where no rating meets a score.
    pub scales: Vec<Agreement>,
    /// How many ratings there are besides, which meet no score by these criteria.
    #[serde(default)]
    pub unmet: u64,
}

/// How two people agree.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RaterPair {
    /// Who rated, as `by` of a rating has it.
    pub a: String,
    pub b: String,
    /// Each scale on which both rated the same sessions.
    pub scales: Vec<Agreement>,
}

/// How people agree with each other; those who share most sessions first, at most 100 pairs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RaterPairs {
    pub items: Vec<RaterPair>,
    /// Always null: there is one page.
    pub next_cursor: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kappa_has_a_word() {
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
