//! Reports of evaluations: JSON, JSONL, CSV, XLSX, Parquet, JUnit and Markdown from one stream of items.
//!
//! ```text
//! evaluation-results.jsonl ─▶ Lines ─┐
//! a batch in the store ─▶ spool ─────┴─ Source ─▶ Summary (first pass) ─▶ a writer of each format (further passes)
//! ```
//!
//! A [`Source`] is read several times instead of being stored in memory, so memory doesn't depend on the number of items.

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

pub(crate) use self::columns::ColumnType;
pub(crate) use self::csv::record as csv_record;
pub use batch::EndedItems;
pub use decision::{GateResult, Judging, Verdict};
pub use format::Format;
pub use item::{Item, ItemError, Outcome};
pub use parquet::rows_of;
pub use source::{ResultLines, Source};
pub(crate) use write::beside;
pub use write::{sum_up, write, write_all, write_file};

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Meta {
    /// Name of the suite or batch: the heading.
    pub name: String,
    /// Id of the batch, or folder of the run; `None` without either.
    pub run: Option<String>,
    pub made_at: DateTime<Utc>,
    /// Number of unfinished items. They have no rows and prevent a pass.
    pub unfinished: u64,
    /// Whether simulated scores may pass the gate (`--allow-simulated`).
    pub simulated: Simulated,
    /// Whether a judge was used; without one the verdict is not a pass.
    pub judging: Judging,
    /// Criteria of the items, 64 hex digits; null if unknown.
    pub criteria_hash: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Simulated {
    /// They make the verdict `incomplete`.
    #[default]
    Refused,
    Allowed,
}

#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    #[error("reading {path}: {reason}")]
    Read { path: String, reason: String },
    #[error(
        "{path}, line {line}: {reason}; it must be a line of evaluation-results.jsonl as `gavel evaluate` writes it"
    )]
    Line {
        path: String,
        /// From 1.
        line: u64,
        reason: String,
    },
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Failed write, such as a full disk, a missing folder or a closed reader.
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
