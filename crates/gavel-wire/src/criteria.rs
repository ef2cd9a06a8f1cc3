//! Versions of the criteria, their texts, and what two of them make of the same sessions.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::{Kind, words};

/// One version of the criteria.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CriteriaVersion {
    /// Its identity: 64 hex digits.
    pub criteria_hash: String,
    /// What it is for.
    pub kind: Kind,
    /// The judge that it names: an entry, or `entry:model`.
    #[serde(default)]
    pub judge: String,
    /// Whether new requests get it.
    pub is_current: bool,
    /// When it was first stored; null for current criteria that nothing was scored with yet.
    pub created_at: Option<DateTime<Utc>>,
    /// How many scores were made with it.
    pub scores: i64,
    /// How many of them a real (not simulated) judge made, or none had a part in.
    #[serde(default)]
    pub real_scores: i64,
    /// Mean total of those: 0-100 for sessions, 0-1 for other kinds.
    pub mean_total: Option<f64>,
    /// When the first of its scores was made; null before.
    pub first_scored_at: Option<DateTime<Utc>>,
    /// What people call it; null: nothing.
    #[serde(default)]
    pub name: Option<String>,
    /// What they note about it.
    #[serde(default)]
    pub note: Option<String>,
    /// Who named it, and when; null: nobody.
    #[serde(default)]
    pub named: Option<Signed>,
    /// Who made it current, and when; null: the server's file names it, or it isn't current.
    #[serde(default)]
    pub made_current: Option<Signed>,
}

impl CriteriaVersion {
    /// The mean of its real scores, with how many they are where there are simulated ones, too: `70.1`, `100% of 2`.
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

/// Who did something, and when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Signed {
    pub by: String,
    pub at: DateTime<Utc>,
}

/// One version with its content.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CriteriaDetail {
    #[serde(flatten)]
    pub version: CriteriaVersion,
    /// The definition as it is hashed: with its `${VARIABLES}` filled in.
    #[schema(value_type = Object)]
    pub content: Value,
}

impl CriteriaDetail {
    /// The parts of a session's score in their order, and the most points of each.
    pub fn dimensions(&self) -> Vec<(&str, f64)> {
        let dimensions = self.content.get("dimensions").and_then(Value::as_array);
        let dimensions = dimensions.into_iter().flatten();
        dimensions
            .filter_map(|it| Some((it.get("name")?.as_str()?, it.get("max")?.as_f64()?)))
            .collect()
    }

    /// What the judge is told.
    pub fn judge_prompt(&self) -> Option<&str> {
        self.content.get("judge_prompt")?.as_str()
    }

    /// What it is told of answers, where that is asked apart.
    pub fn answer_prompt(&self) -> Option<&str> {
        self.content.get("answer_prompt")?.as_str()
    }
}

/// Every version, newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CriteriaList {
    /// The versions; at most 1,000.
    pub items: Vec<CriteriaVersion>,
    /// Always null: there is one page.
    pub next_cursor: Option<String>,
}

/// A definition that is stored, and whether it was before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CriteriaAdded {
    /// Its identity: 64 hex digits.
    pub criteria_hash: String,
    /// What it is for: its `kind`, `session` where it names none.
    pub kind: Kind,
    /// Whether it wasn't stored before.
    pub is_new: bool,
    /// Whether new requests get it.
    pub is_current: bool,
    /// The judge that it names.
    pub judge: String,
}

/// How the texts of two versions differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CriteriaDiff {
    /// The hash of the one.
    pub a: String,
    /// The hash of the other.
    pub b: String,
    /// The parts that differ; empty if they are the same.
    pub parts: Vec<DiffPart>,
}

/// One part of the criteria that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct DiffPart {
    /// `judge_prompt`, `answer_prompt`, or `settings`: all the rest, as JSON with its keys in order.
    pub part: String,
    /// A unified diff from `a` to `b`.
    pub diff: String,
}

/// By how much the mean moved.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct MeanDifference {
    /// The mean under `b` less that under `a`.
    pub value: f64,
    /// The lower end of its interval: a percentile bootstrap over the sessions; null for fewer than two.
    pub low: Option<f64>,
    /// The upper end; null where `low` is.
    pub high: Option<f64>,
    /// How much of the bootstrap lies within.
    pub level: f64,
    /// How many resamples were drawn.
    pub resamples: usize,
    /// What they were drawn from: the same seed gives the same interval.
    pub seed: u64,
}

/// Counts by two lists of words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct WordTable {
    /// The words of rows and columns, worst first.
    pub labels: Vec<String>,
    /// A row for each word under `a`, a column for each under `b`; of people and us, rows are theirs.
    pub table: Vec<Vec<u64>>,
}

/// A session that the two see differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Mover {
    pub session_id: Uuid,
    /// Its total under `a`, 0-100.
    pub a: u8,
    /// Its total under `b`, 0-100.
    pub b: u8,
    /// `b - a`.
    pub difference: i16,
}

/// What two versions of the criteria make of the same sessions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CriteriaComparison {
    /// The hash of the one.
    pub a: String,
    /// The hash of the other.
    pub b: String,
    /// Sessions with a score under both; of several under one version the newest counts.
    pub n: u64,
    /// Sessions with a score under `a` alone.
    pub only_a: u64,
    /// Sessions with a score under `b` alone.
    pub only_b: u64,
    /// The mean of the `n` under `a`; null without any.
    pub mean_a: Option<f64>,
    /// Their mean under `b`.
    pub mean_b: Option<f64>,
    /// By how much it moved; null without sessions.
    pub mean_difference: Option<MeanDifference>,
    /// Kendall's tau-b: 1 if both put the sessions into the same order, -1 if into the opposite; null where there is no order.
    pub kendall_tau_b: Option<f64>,
    /// How many sessions went from which rating to which.
    pub ratings: WordTable,
    /// The share whose rating changed, 0-1; null without sessions.
    pub changed: Option<f64>,
    /// Those whose totals lie furthest apart.
    pub movers: Vec<Mover>,
    /// Whether these are scores of a simulated judge: there are no others.
    pub simulated: bool,
    /// What to beware of.
    pub warnings: Vec<String>,
}

/// What a version is to be called.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NameRequest {
    /// At most 80 characters; null or empty: none.
    #[schema(max_length = 80)]
    #[serde(default)]
    pub name: Option<String>,
    /// What there is to say of it, at most 4,000 characters; null or empty: nothing.
    #[schema(max_length = 4000)]
    #[serde(default)]
    pub note: Option<String>,
}
