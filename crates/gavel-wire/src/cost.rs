//! What judge calls and batches cost, as `/api/v1/analytics/costs` tells of it.

use chrono::NaiveDate;
use serde::{Deserialize, Serialize};

use crate::{Kind, text_enum};

text_enum! {
    /// What usage is summed by.
    pub enum UsageBy {
        /// The day of UTC on which the call was sent.
        Day = "day",
        Judge = "judge",
        /// The judge's name, and the model that answered.
        Model = "model",
    }
}

/// What some calls came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CostFigures {
    /// Calls, retries and repairs included.
    pub calls: i64,
    /// Those without a good reply.
    pub failed_calls: i64,
    /// Prompt tokens, cached ones included.
    pub tokens_in: i64,
    /// Those of them that a provider read from its prompt cache.
    pub tokens_in_cached: i64,
    /// Tokens of the replies.
    pub tokens_out: i64,
    /// USD of the calls whose price is known; null if that is none of them.
    pub cost_usd: Option<f64>,
    /// Calls whose price is unknown: what they cost comes on top.
    pub unpriced_calls: i64,
}

/// One line of the bill.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CostItem {
    /// The day of UTC; `by=day` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub day: Option<NaiveDate>,
    /// The judge's name; `by=judge` and `by=model`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judge: Option<String>,
    /// The model that answered, or that was asked where none did; `by=model` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What its calls came to.
    #[serde(flatten)]
    pub figures: CostFigures,
}

/// The bill of some days.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CostList {
    /// What each line is of.
    pub by: UsageBy,
    /// The first day, of UTC.
    pub from: NaiveDate,
    /// The last day, included.
    pub to: NaiveDate,
    /// The lines, sorted; days without calls have none.
    pub items: Vec<CostItem>,
    /// All of them together.
    pub total: CostFigures,
    /// Always null: there is one page.
    pub next_cursor: Option<String>,
}

/// What the batches of one name came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct BatchCostItem {
    /// What their maker calls them; null: nothing.
    pub name: Option<String>,
    pub kind: Kind,
    /// How many batches of that name and kind there are.
    pub batches: i64,
    /// Tokens of prompts.
    pub tokens_in: i64,
    /// Tokens of replies.
    pub tokens_out: i64,
    /// USD of the runs whose price is known; null if that is none of them.
    pub cost_usd: Option<f64>,
    /// Runs of items whose price is unknown: what they cost comes on top.
    pub unpriced_calls: i64,
}

/// What suites and backlogs cost, by name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct BatchCostList {
    /// The first day, of UTC.
    pub from: NaiveDate,
    /// The last day, included.
    pub to: NaiveDate,
    /// A line for each name and kind, the dearest first; at most `limit`.
    pub items: Vec<BatchCostItem>,
    /// How many batches are counted: those asked for on these days, the newest 10,000 of them.
    pub batches: i64,
    /// What makes the figures say less than they seem to.
    pub warnings: Vec<String>,
    /// Always null: there is one page.
    pub next_cursor: Option<String>,
}
