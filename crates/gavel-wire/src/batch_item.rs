//! Types of `/api/v1/batches/{batch_id}/items`.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Job;
use crate::text_enum;

text_enum! {
    pub enum ItemOutcome {
        /// Scored at or above its threshold.
        Passed = "passed",
        /// Scored below its threshold.
        Missed = "missed",
        /// Scored, without a threshold.
        Scored = "scored",
        /// Ended without a score: the judge failed or wasn't called, or a part couldn't be computed.
        Unscored = "unscored",
        Cancelled = "cancelled",
        Open = "open",
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct BatchItem {
    /// Index among the batch's items, from 0.
    pub item_no: i64,
    pub outcome: ItemOutcome,
    /// Its own name, or its session id, or its index.
    pub name: String,
    /// The user's question. May be empty.
    pub question: String,
    /// Short text form, as printed by `gavel evaluate`. Empty until the item has ended.
    pub lines: Vec<String>,
    /// 0-1. Null without a score, and for sessions.
    pub total: Option<f64>,
    /// Threshold of the total, 0-1.
    pub threshold: Option<f64>,
    pub execution_error: Option<String>,
    /// Reason why the generated query can't be parsed, if no part reports it.
    pub unreadable: Option<String>,
    /// Parts that prevent a total: the judge failed or wasn't called, or they couldn't be computed.
    pub missing: Vec<String>,
    /// Parts of its score, in the order of the kind's rules.
    pub parts: Vec<ItemPart>,
    pub reasoning: Option<String>,
    /// Its job. In lists, without the result of a case.
    pub job: Job,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ItemPart {
    pub name: String,
    pub title: String,
    /// 0-1, or 0-100 for a session. Null if it failed or wasn't run.
    pub score: Option<f64>,
    /// Comment on the part, or the reason why it has no score.
    pub words: Option<String>,
}

/// A page of a batch's items, in order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct BatchItems {
    pub items: Vec<BatchItem>,
    pub next_cursor: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct BatchItemDetail {
    /// The item, with the result of its job.
    #[serde(flatten)]
    pub item: BatchItem,
    /// The payload as received.
    #[schema(value_type = Object)]
    pub payload: Value,
}
