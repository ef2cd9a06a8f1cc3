//! Types of `/api/v1/batches/compare`.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TurnedItem {
    /// Name of the item. `#3` is the third item of a batch without names.
    pub id: String,
    /// Total in `a`, 0-1. Null without a complete score.
    pub a: Option<f64>,
    /// Total in `b`, 0-1. Null without a complete score.
    pub b: Option<f64>,
    /// Index in `a`, from 0.
    pub item_a: u64,
    /// Index in `b`, from 0.
    pub item_b: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TurnedItems {
    pub count: usize,
    /// At most 200.
    pub items: Vec<TurnedItem>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PartDifference {
    pub name: String,
    pub title: String,
    pub n: u64,
    /// Mean in `a`, 0-1.
    pub mean_a: f64,
    /// Mean in `b`, 0-1.
    pub mean_b: f64,
    /// `mean_b - mean_a`.
    pub difference: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct BatchComparison {
    /// The earlier batch.
    pub a: Uuid,
    /// The later batch.
    pub b: Uuid,
    pub common: u64,
    /// Passed in `a`, missed in `b`.
    pub pass_to_fail: TurnedItems,
    /// Missed in `a`, passed in `b`.
    pub fail_to_pass: TurnedItems,
    /// Scored only in `a`.
    pub lost_score: TurnedItems,
    /// Scored only in `b`.
    pub gained_score: TurnedItems,
    pub only_a: usize,
    pub only_b: usize,
    /// Items with a score in both, the basis of the means.
    pub n: u64,
    /// Mean in `a`, 0-1. Null if `n` is 0.
    pub mean_a: Option<f64>,
    /// Mean in `b`, 0-1. Null if `n` is 0.
    pub mean_b: Option<f64>,
    /// `mean_b - mean_a`.
    pub difference: Option<f64>,
    /// Lower bound of its 95 % interval, a bootstrap over the paired items. Null for fewer than two.
    pub low: Option<f64>,
    /// Upper bound. Null if `low` is null.
    pub high: Option<f64>,
    pub parts: Vec<PartDifference>,
    pub warnings: Vec<String>,
}
