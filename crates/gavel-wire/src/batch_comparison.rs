//! Two batches side by side, as `/api/v1/batches/compare` answers it.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// One item that turned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TurnedItem {
    /// What it calls itself; `#3` is the third item of a batch without names.
    pub id: String,
    /// Its total in `a`, 0-1; null: it has no whole one.
    pub a: Option<f64>,
    /// Its total in `b`, 0-1; null: it has no whole one.
    pub b: Option<f64>,
    /// Its place in `a`, from 0.
    pub item_a: u64,
    /// Its place in `b`, from 0.
    pub item_b: u64,
}

/// Items that turned in one way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TurnedItems {
    /// How many.
    pub count: usize,
    /// The first 200 of them.
    pub items: Vec<TurnedItem>,
}

/// By how much the mean of one part of the scores moved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PartDifference {
    /// Its name in results.
    pub name: String,
    /// Its name for people.
    pub title: String,
    /// Items that have it in both.
    pub n: u64,
    /// Their mean in `a`, 0-1.
    pub mean_a: f64,
    /// Their mean in `b`, 0-1.
    pub mean_b: f64,
    /// `mean_b - mean_a`.
    pub difference: f64,
}

/// Two batches side by side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct BatchComparison {
    /// The earlier batch.
    pub a: Uuid,
    /// The later batch.
    pub b: Uuid,
    /// Items that stand in both.
    pub common: u64,
    /// Those that passed in `a` and miss in `b`.
    pub pass_to_fail: TurnedItems,
    /// Those that missed in `a` and pass in `b`.
    pub fail_to_pass: TurnedItems,
    /// Those that have a score in `a` alone.
    pub lost_score: TurnedItems,
    /// Those that have one in `b` alone.
    pub gained_score: TurnedItems,
    /// How many items of `a` have no counterpart.
    pub only_a: usize,
    /// How many items of `b` have none.
    pub only_b: usize,
    /// Items with a score in both: what the means are made of.
    pub n: u64,
    /// Their mean in `a`, 0-1; null without any.
    pub mean_a: Option<f64>,
    /// Their mean in `b`, 0-1; null without any.
    pub mean_b: Option<f64>,
    /// `mean_b - mean_a`.
    pub difference: Option<f64>,
    /// The lower end of its 95 % interval: a bootstrap over the paired items; null for fewer than two.
    pub low: Option<f64>,
    /// The upper end; null where `low` is.
    pub high: Option<f64>,
    /// The same for each part of the scores.
    pub parts: Vec<PartDifference>,
    /// What to beware of.
    pub warnings: Vec<String>,
}
