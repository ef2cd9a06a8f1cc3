//! Types of `/api/v1/analytics/costs`: costs of judge calls and batches.

use chrono::NaiveDate;
use serde::{Deserialize, Serialize};

use crate::{Kind, text_enum};

text_enum! {
    pub enum UsageBy {
        /// UTC day on which the call was sent.
        Day = "day",
        Judge = "judge",
        /// Judge name and replying model.
        Model = "model",
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CostFigures {
    /// Calls, including retries and repairs.
    pub calls: i64,
    /// Calls without a valid reply.
    pub failed_calls: i64,
    /// Prompt tokens, including cached ones.
    pub tokens_in: i64,
    /// Prompt tokens that a provider read from its cache.
    pub tokens_in_cached: i64,
    pub tokens_out: i64,
    /// USD of the calls with a known price. Null if no call has one.
    pub cost_usd: Option<f64>,
    /// Calls with an unknown price, not included in `cost_usd`.
    pub unpriced_calls: i64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CostItem {
    /// UTC day; `by=day` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub day: Option<NaiveDate>,
    /// The judge's name; `by=judge` and `by=model`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judge: Option<String>,
    /// The replying model, or the requested one without a reply; `by=model` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(flatten)]
    pub figures: CostFigures,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CostList {
    pub by: UsageBy,
    /// First day, UTC.
    pub from: NaiveDate,
    /// Last day, inclusive.
    pub to: NaiveDate,
    /// Sorted rows. Days without calls are omitted.
    pub items: Vec<CostItem>,
    pub total: CostFigures,
    /// Always null: a single page.
    pub next_cursor: Option<String>,
}

/// Costs of batches with the same name and kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct BatchCostItem {
    /// Display name of the batches, or null.
    pub name: Option<String>,
    pub kind: Kind,
    pub batches: i64,
    pub tokens_in: i64,
    pub tokens_out: i64,
    /// USD of the runs with a known price. Null if no run has one.
    pub cost_usd: Option<f64>,
    /// Runs of items with an unknown price, not included in `cost_usd`.
    pub unpriced_calls: i64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct BatchCostList {
    /// First day, UTC.
    pub from: NaiveDate,
    /// Last day, inclusive.
    pub to: NaiveDate,
    /// One row per name and kind, highest cost first; at most `limit`.
    pub items: Vec<BatchCostItem>,
    /// Number of included batches: the newest 10,000 requested on these days.
    pub batches: i64,
    pub warnings: Vec<String>,
    /// Always null: a single page.
    pub next_cursor: Option<String>,
}
