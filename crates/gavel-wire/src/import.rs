//! Types of `/api/v1/sessions/imports`: imports from TARSy.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::SessionStatus;
use crate::text_enum;

text_enum! {
    pub enum ImportState {
        /// Not finished. It may wait for a process to resume it.
        Running = "running",
        /// All sessions of the window are processed.
        Completed = "completed",
        /// Failed; see `last_error`.
        Failed = "failed",
        Cancelled = "cancelled",
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ImportBody {
    /// TARSy base URL, without `/api/v1` and credentials. Default: `history.base_url`. Another URL requires the scope
    /// admin and is called without a token.
    pub from: Option<String>,
    /// Session statuses to import. Default or empty: all.
    pub status: Vec<String>,
    /// Only sessions started at or after this: a time, a date, or an age such as `30d` (h, d, w).
    pub since: Option<String>,
    /// Only sessions started before this. Default: the start of the import.
    pub until: Option<String>,
    /// HTTP requests per second, 0.001-10,000, or 0 for no limit. Default: `history.requests_per_second`. A higher rate
    /// requires the scope admin.
    #[schema(minimum = 0, maximum = 10_000)]
    pub rps: Option<f64>,
    /// Whether to fetch ended sessions again even if the list shows no change.
    pub refresh: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ImportCounts {
    pub new: u64,
    /// Changed and stored.
    pub updated: u64,
    pub unchanged: u64,
    pub failed: u64,
    pub total: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ImportFilter {
    /// Statuses. Empty: all.
    pub status: Vec<SessionStatus>,
    pub since: Option<DateTime<Utc>>,
    /// End of the window, fixed at the start of the import.
    pub until: DateTime<Utc>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ImportLinks {
    #[serde(rename = "self")]
    pub this: String,
    /// POST cancels it.
    pub cancel: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Import {
    pub import_id: Uuid,
    pub state: ImportState,
    /// TARSy base URL, without `/api/v1`.
    pub from: String,
    /// `python` or `go`. Null until detected.
    pub generation: Option<String>,
    pub filter: ImportFilter,
    /// HTTP requests per second. 0: no limit.
    pub rps: f64,
    /// Whether unchanged sessions are fetched again.
    pub refresh: bool,
    pub counts: ImportCounts,
    /// Number of listed sessions at the start. Null until known.
    pub expected: Option<u64>,
    pub last_error: Option<String>,
    /// User or token that started it.
    pub started_by: String,
    pub created_at: DateTime<Utc>,
    /// Time of the last progress.
    pub updated_at: DateTime<Utc>,
    /// Null while it runs.
    pub finished_at: Option<DateTime<Utc>>,
    pub links: ImportLinks,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ImportFailure {
    pub session_id: String,
    pub reason: String,
}

/// Sessions imported by an older release that parsed them differently. Import with `refresh` to fetch them again.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Outdated {
    /// Number of such sessions.
    pub sessions: u64,
    /// Number of current scores of them.
    pub scores: u64,
    /// First 20 of them.
    pub session_ids: Vec<Uuid>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ImportDetail {
    #[serde(flatten)]
    pub import: Import,
    /// Sessions that couldn't be stored, at most 1,000. `counts.failed` is the total.
    pub failures: Vec<ImportFailure>,
    /// Sessions to fetch again, from all imports. Null while the import runs.
    pub outdated: Option<Outdated>,
}

/// A page of imports, newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ImportList {
    pub items: Vec<Import>,
    pub next_cursor: Option<String>,
}
