//! Ratings of totals, and ratings by human reviewers.

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::RequestFault;
use crate::text_enum;

/// Maximum length of a reviewer's name, characters.
const LONGEST_NAME: usize = 255;
/// Maximum length of a comment, characters.
const LONGEST_COMMENT: usize = 4_000;
/// Tolerated lead of another machine's clock.
const CLOCK_SKEW: TimeDelta = TimeDelta::minutes(5);

text_enum! {
    pub enum Rating {
        /// 0-44.
        Failed = "failed",
        /// 45-59.
        Weak = "weak",
        /// 60-74.
        Adequate = "adequate",
        /// 75-89.
        Good = "good",
        /// 90-100.
        NearPerfect = "near_perfect",
    }
}

impl Rating {
    /// Returns the rank, from 0 for the worst.
    pub fn step(self) -> usize {
        match self {
            Self::Failed => 0,
            Self::Weak => 1,
            Self::Adequate => 2,
            Self::Good => 3,
            Self::NearPerfect => 4,
        }
    }

    /// Returns the rating of a total, 0-100.
    pub fn from_total(total: u8) -> Self {
        match total {
            0..=44 => Self::Failed,
            45..=59 => Self::Weak,
            60..=74 => Self::Adequate,
            75..=89 => Self::Good,
            90.. => Self::NearPerfect,
        }
    }
}

text_enum! {
    /// A reviewer's rating in TARSy, worst first.
    pub enum Quality {
        /// Totals of 0-44.
        Inaccurate = "inaccurate",
        /// Totals of 45-74.
        PartiallyAccurate = "partially_accurate",
        /// Totals of 75-100.
        Accurate = "accurate",
    }
}

impl Quality {
    /// Returns the rank, from 0 for the worst.
    pub fn step(self) -> usize {
        match self {
            Self::Inaccurate => 0,
            Self::PartiallyAccurate => 1,
            Self::Accurate => 2,
        }
    }

    /// Returns the quality of a total, 0-100. `failed` is inaccurate, `weak` and `adequate` are partially accurate,
    /// higher ratings are accurate.
    pub fn from_total(total: u8) -> Self {
        match Rating::from_total(total) {
            Rating::Failed => Self::Inaccurate,
            Rating::Weak | Rating::Adequate => Self::PartiallyAccurate,
            Rating::Good | Rating::NearPerfect => Self::Accurate,
        }
    }
}

/// A human rating of a session or a score. Exactly one of `total`, `rating` and `quality` is set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct HumanRating {
    pub rating_id: Uuid,
    pub session_id: Uuid,
    /// The rated score. Null if the session itself is rated.
    pub score_id: Option<Uuid>,
    /// 0-100, or null.
    pub total: Option<u8>,
    /// One of the five ratings, or null.
    pub rating: Option<Rating>,
    /// One of the three qualities, or null.
    pub quality: Option<Quality>,
    pub by: String,
    pub comment: Option<String>,
    pub at: DateTime<Utc>,
}

/// A page of ratings, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RatingList {
    pub items: Vec<HumanRating>,
    pub next_cursor: Option<String>,
}

text_enum! {
    pub enum AnnotationOrder {
        /// Random sample, the same for all reviewers.
        Sample = "sample",
        /// Largest disagreement between judges or reviewers first.
        Disagreement = "disagreement",
        LowScore = "low_score",
    }
}

/// A session to rate. Its score is omitted so that it can't bias the reviewer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct AnnotationItem {
    pub session_id: Uuid,
    pub alert_type: Option<String>,
    pub agent: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Annotations {
    pub order: AnnotationOrder,
    pub by: String,
    pub items: Vec<AnnotationItem>,
    /// Number of unrated sessions among the newest 2,000.
    pub left: u64,
    /// Always null, because rated sessions leave the queue.
    pub next_cursor: Option<String>,
}

/// A human rating: exactly one of `total`, `rating` and `quality`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RatingRequest {
    /// 0-100, on the judge's scale.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 100)]
    pub total: Option<i64>,
    /// One of the five ratings of a total.
    #[serde(default)]
    pub rating: Option<Rating>,
    /// One of the three reviewer qualities.
    #[serde(default)]
    pub quality: Option<Quality>,
    /// Reviewer, at most 255 characters. Default: the caller.
    #[schema(min_length = 1, max_length = 255, pattern = r"\S")]
    #[serde(default)]
    pub by: Option<String>,
    /// Reason, at most 4,000 characters.
    #[schema(max_length = 4000)]
    #[serde(default)]
    pub comment: Option<String>,
    /// Time of the rating. Default: now.
    #[serde(default, deserialize_with = "crate::time::or_null")]
    pub at: Option<DateTime<Utc>>,
}

impl RatingRequest {
    /// Returns the invalid fields. `now` limits the time of the rating.
    pub fn faults(&self, now: DateTime<Utc>) -> Vec<RequestFault> {
        let mut faults = Vec::new();
        let mut check = |is_wrong: bool, pointer: &str, message: String| {
            if is_wrong {
                let pointer = pointer.to_owned();
                faults.push(RequestFault { pointer, message });
            }
        };
        let given = [
            self.total.is_some(),
            self.rating.is_some(),
            self.quality.is_some(),
        ];
        let given = given.into_iter().filter(|given| *given).count();
        for (is_wrong, amount) in [(given == 0, "none"), (given > 1, "more than one")] {
            let message = format!("has {amount} of total, rating and quality: give one");
            check(is_wrong, "", message);
        }
        let total = self.total.unwrap_or_default();
        let message = format!("is {total}; 0-100 is expected");
        check(!(0..=100).contains(&total), "/total", message);
        let by = self.by.as_deref().map(str::trim);
        let message = "is empty: name a rater, or omit it".to_owned();
        check(by.is_some_and(str::is_empty), "/by", message);
        let by = by.unwrap_or_default();
        let message =
            format!("must be at most {LONGEST_NAME} characters, without control characters");
        let is_wrong = by.chars().count() > LONGEST_NAME || by.chars().any(char::is_control);
        check(is_wrong, "/by", message);
        let comment = self.comment.as_deref().unwrap_or_default();
        let message = format!("is longer than {LONGEST_COMMENT} characters");
        let is_wrong = comment.chars().count() > LONGEST_COMMENT;
        check(is_wrong, "/comment", message);
        let is_wrong = self.at.is_some_and(|at| at > now + CLOCK_SKEW);
        check(is_wrong, "/at", "is in the future".to_owned());
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quality_changes_at_totals_45_and_75() {
        for (total, word) in [
            (0, Quality::Inaccurate),
            (44, Quality::Inaccurate),
            (45, Quality::PartiallyAccurate),
            (74, Quality::PartiallyAccurate),
            (75, Quality::Accurate),
            (100, Quality::Accurate),
        ] {
            assert_eq!(Quality::from_total(total), word, "{total}");
        }
    }
}
