//! Versions of the criteria, their texts and comparisons.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::{Kind, words};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CriteriaVersion {
    /// Hash of the content: 64 hex digits.
    pub criteria_hash: String,
    pub kind: Kind,
    /// The judge: an entry, or `entry:model`.
    #[serde(default)]
    pub judge: String,
    /// Whether new requests use it.
    pub is_current: bool,
    /// Time of first storage. Null for current criteria without scores.
    pub created_at: Option<DateTime<Utc>>,
    pub scores: i64,
    /// Number of scores not produced by a simulated judge.
    #[serde(default)]
    pub real_scores: i64,
    /// Mean total of the real scores: 0-100 for sessions, 0-1 for other kinds.
    pub mean_total: Option<f64>,
    /// Time of its first score. Null without scores.
    pub first_scored_at: Option<DateTime<Utc>>,
    #[serde(default)]
    pub name: Option<String>,
    #[serde(default)]
    pub note: Option<String>,
    /// Who named it, and when. Null if unnamed.
    #[serde(default)]
    pub named: Option<Signed>,
    /// Who made it current, and when. Null if it isn't current or is set by the server's file.
    #[serde(default)]
    pub made_current: Option<Signed>,
}

impl CriteriaVersion {
    /// Formats the mean of the real scores. Adds their number if there are simulated ones: `70.1`, `100% of 2`.
    pub fn mean_in_words(&self) -> String {
        match (self.mean_total, self.scores) {
            (Some(mean), scores) => {
                let mean = match self.kind.is_case() {
                    true => words::percent(mean),
                    false => format!("{mean:.1}"),
                };
                match self.real_scores < scores {
                    true => format!("{mean} of {}", words::grouped(self.real_scores)),
                    false => mean,
                }
            }
            (None, 0) => "not yet".to_owned(),
            (None, _) => "simulated".to_owned(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Signed {
    pub by: String,
    pub at: DateTime<Utc>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CriteriaDetail {
    #[serde(flatten)]
    pub version: CriteriaVersion,
    /// Hashed definition, with `${VARIABLES}` expanded.
    #[schema(value_type = Object)]
    pub content: Value,
}

impl CriteriaDetail {
    /// Returns the dimensions of a session's score in order, with their maximum points.
    pub fn dimensions(&self) -> Vec<(&str, f64)> {
        let dimensions = self.content.get("dimensions").and_then(Value::as_array);
        let dimensions = dimensions.into_iter().flatten();
        dimensions
            .filter_map(|it| Some((it.get("name")?.as_str()?, it.get("max")?.as_f64()?)))
            .collect()
    }

    pub fn judge_prompt(&self) -> Option<&str> {
        self.content.get("judge_prompt")?.as_str()
    }

    /// Returns the prompt for scoring the answer separately, if defined.
    pub fn answer_prompt(&self) -> Option<&str> {
        self.content.get("answer_prompt")?.as_str()
    }
}

/// All versions, newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CriteriaList {
    /// At most 1,000.
    pub items: Vec<CriteriaVersion>,
    /// Always null: a single page.
    pub next_cursor: Option<String>,
}

/// A stored definition, and whether it is new.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CriteriaAdded {
    /// Hash of the content: 64 hex digits.
    pub criteria_hash: String,
    /// Its `kind`. Default: `session`.
    pub kind: Kind,
    pub is_new: bool,
    /// Whether new requests use it.
    pub is_current: bool,
    pub judge: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CriteriaDiff {
    /// Hash of the first version.
    pub a: String,
    /// Hash of the second version.
    pub b: String,
    /// Parts that differ. Empty if the versions are equal.
    pub parts: Vec<DiffPart>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct DiffPart {
    /// `judge_prompt`, `answer_prompt`, or `settings`: all other keys, as sorted JSON.
    pub part: String,
    /// Unified diff from `a` to `b`.
    pub diff: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct MeanDifference {
    /// Mean under `b` minus mean under `a`.
    pub value: f64,
    /// Lower bound of the percentile bootstrap interval over sessions. Null for fewer than two.
    pub low: Option<f64>,
    /// Upper bound. Null if `low` is null.
    pub high: Option<f64>,
    pub level: f64,
    /// Number of bootstrap resamples.
    pub resamples: usize,
    /// Random seed of the bootstrap. The same seed gives the same interval.
    pub seed: u64,
}

/// Confusion matrix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct WordTable {
    /// Labels of rows and columns, worst first.
    pub labels: Vec<String>,
    /// Rows are labels under `a`, columns under `b`. Between reviewers and judges, rows are the reviewers.
    pub table: Vec<Vec<u64>>,
}

/// A session with different totals under two versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Mover {
    pub session_id: Uuid,
    /// Total under `a`, 0-100.
    pub a: u8,
    /// Total under `b`, 0-100.
    pub b: u8,
    /// `b - a`.
    pub difference: i16,
}

/// Comparison of two versions on the same sessions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CriteriaComparison {
    /// Hash of the first version.
    pub a: String,
    /// Hash of the second version.
    pub b: String,
    /// Sessions with a score under both. The newest score of each version counts.
    pub n: u64,
    pub only_a: u64,
    pub only_b: u64,
    /// Mean of the `n` sessions under `a`. Null if `n` is 0.
    pub mean_a: Option<f64>,
    /// Their mean under `b`.
    pub mean_b: Option<f64>,
    /// Null if `n` is 0.
    pub mean_difference: Option<MeanDifference>,
    /// Kendall's tau-b: 1 for the same order, -1 for the reverse. Null if undefined.
    pub kendall_tau_b: Option<f64>,
    /// Rating changes from `a` to `b`.
    pub ratings: WordTable,
    /// Share of sessions with a changed rating, 0-1. Null without sessions.
    pub changed: Option<f64>,
    /// Sessions with the largest differences.
    pub movers: Vec<Mover>,
    /// Whether a simulated judge produced the scores. Only if no other scores exist.
    pub simulated: bool,
    pub warnings: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NameRequest {
    /// At most 80 characters. Null or empty removes the name.
    #[schema(max_length = 80)]
    #[serde(default)]
    pub name: Option<String>,
    /// At most 4,000 characters. Null or empty removes the note.
    #[schema(max_length = 4000)]
    #[serde(default)]
    pub note: Option<String>,
}
