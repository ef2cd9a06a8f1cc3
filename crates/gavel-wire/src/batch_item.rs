//! The items of a batch, as `/api/v1/batches/{batch_id}/items` tells of them.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Job;
use crate::text_enum;

text_enum! {
    /// How an item of a batch stands.
    pub enum ItemOutcome {
        /// It has a score and passed.
        Passed = "passed",
        /// It has a score and didn't pass.
        Missed = "missed",
        /// It has a score that nothing is held against.
        Scored = "scored",
        /// It ended without a score: its judge failed or wasn't asked, or a part couldn't be computed.
        Unscored = "unscored",
        /// It was cancelled.
        Cancelled = "cancelled",
        /// It hasn't ended.
        Open = "open",
    }
}

/// An item of a batch in short.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct BatchItem {
    /// Its place among the batch's items, from 0.
    pub item_no: i64,
    /// How it stands.
    pub outcome: ItemOutcome,
    /// What it calls itself, else its session's id, else its place.
    pub name: String,
    /// What was asked for, in the words of who asked; may be empty.
    pub question: String,
    /// The item in a few lines, as `gavel evaluate` prints it; empty while it hasn't ended.
    pub lines: Vec<String>,
    /// 0-1; null where it has no score, and for sessions.
    pub total: Option<f64>,
    /// What the total is held against, 0-1.
    pub threshold: Option<f64>,
    /// Why what was generated could not be executed.
    pub execution_error: Option<String>,
    /// Why what was generated can't be read, where none of its parts says so.
    pub unreadable: Option<String>,
    /// The parts that it has no score without: their judge failed or wasn't asked, or they couldn't be computed.
    pub missing: Vec<String>,
    /// The parts of its score, in the order of the kind's rules.
    pub parts: Vec<ItemPart>,
    /// The judge's own words.
    pub reasoning: Option<String>,
    /// Its job; in lists without the result of a case.
    pub job: Job,
}

/// A part of an item's score.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ItemPart {
    /// Its name in the result.
    pub name: String,
    /// Its name for people.
    pub title: String,
    /// What it is worth, 0-1, of a session 0-100; null: it failed or wasn't run.
    pub score: Option<f64>,
    /// What was said of it, or why it has no score.
    pub words: Option<String>,
}

/// A page of a batch's items, in their order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct BatchItems {
    pub items: Vec<BatchItem>,
    /// Where the next page begins; null on the last.
    pub next_cursor: Option<String>,
}

/// An item of a batch with what was sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct BatchItemDetail {
    /// The item; its job with the result.
    #[serde(flatten)]
    pub item: BatchItem,
    /// What was scored, as it was sent.
    #[schema(value_type = Object)]
    pub payload: Value,
}
