//! What evaluations came to, as files: JSON, JSONL, CSV, XLSX, Parquet, JUnit and Markdown from one stream of items. Computes no score.
//!
//! ```text
//! evaluation-results.jsonl ─▶ Lines ─┐
//! a batch in the store ─▶ spool ─────┴─ Source ─▶ Summary (first pass) ─▶ a writer of each format (further passes)
//! ```
//!
//! A [`Source`] is read more than once instead of being held: a report of a million items takes no more memory than one of ten.

mod batch;
mod columns;
mod csv;
mod decision;
mod format;
mod item;
mod json;
mod junit;
pub mod line;
pub(crate) mod line_reader;
pub mod live;
mod markdown;
mod overview;
pub(crate) mod parquet;
mod plain;
mod source;
pub mod summary;
mod write;
mod xlsx;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::store::StoreError;

pub(crate) use self::csv::record as csv_record;
pub use batch::EndedItems;
pub use decision::{GateDecision, GateResult, Judging};
pub use format::Format;
pub use item::{Item, ItemError, Outcome};
pub use parquet::rows_of;
pub use source::{ResultLines, Source};
pub(crate) use write::beside;
pub use write::{sum_up, write, write_all, write_file};

/// What a report says of itself, beside its items.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Meta {
    /// The suite's or the batch's name: the heading.
    pub name: String,
    /// The batch's id, or the run's folder; none where there is neither.
    pub run: Option<String>,
    pub made_at: DateTime<Utc>,
    /// Items that have not ended yet: they stand in no row, and keep the verdict from passing.
    pub unfinished: u64,
    /// Whether items that a simulated judge scored may pass the gate (`--allow-simulated`).
    pub simulated: Simulated,
    /// Whether a judge was asked; without one the verdict never passes.
    pub judging: Judging,
    /// The criteria that the items were judged by, 64 hex digits; null where that isn't known.
    pub criteria_hash: Option<String>,
}

/// Whether simulated scores may pass a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Simulated {
    /// They make the verdict `incomplete`.
    #[default]
    Refused,
    Allowed,
}

/// Why a report can't be made.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    #[error("reading {path}: {reason}")]
    Read { path: String, reason: String },
    /// A line of the items is none.
    #[error(
        "{path}, line {line}: {reason}; it must be a line of evaluation-results.jsonl as `gavel evaluate` writes it"
    )]
    Line {
        path: String,
        /// Which one, from 1.
        line: u64,
        reason: String,
    },
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The report can't be written: a full disk, a folder that isn't there, a reader that is gone.
    #[error("writing {what}: {reason}")]
    Write { what: String, reason: String },
}

impl ReportError {
    pub(crate) fn writing(what: impl Into<String>, reason: impl std::fmt::Display) -> Self {
        Self::Write {
            what: what.into(),
            reason: reason.to_string(),
        }
    }
}

#[cfg(test)]
mod tests;
