//! What evaluations came to, as files: JSON, JSONL, CSV, XLSX, JUnit and Markdown from one stream of items. Computes no score.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::job::{Kind, Usage};

/// One evaluated item of a suite: what every report is made of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Item {
    /// Its place in the suite, from 0.
    pub item_no: u64,
    /// The kind.
    pub kind: Kind,
    /// What the case calls itself.
    pub id: Option<String>,
    /// What was scored.
    pub payload: Value,
    /// How it ended.
    pub outcome: Outcome,
    /// 0-1; none unless it is known whole.
    pub total: Option<f64>,
    /// Whether it passed; none: not known.
    pub passed: Option<bool>,
    /// The kind's body, as its rules give it.
    pub result: Option<Value>,
    /// Why it has no score, or no whole one.
    pub error: Option<ItemError>,
    /// Whether a simulated judge had a part in it.
    pub simulated: bool,
    /// What its judge calls used.
    pub usage: Usage,
    /// The job that made it.
    pub job_id: Option<Uuid>,
}

/// How an item ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// With a whole score.
    Scored,
    /// What is computed is there; the judge's part failed, or wasn't run (`--no-judge`).
    Incomplete,
    /// Without any score: its agent or its job failed, or it was cancelled.
    Failed,
}

/// Why an item has no whole score.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemError {
    /// A job's error class, or `agent`, `not_run`, `cancelled`.
    pub class: String,
    /// What happened.
    pub message: String,
}
