//! Imports from a TARSy, as `/api/v1/sessions/imports` tells of them.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::SessionStatus;
use crate::text_enum;

text_enum! {
    /// Where an import stands.
    pub enum ImportState {
        /// Not at its end; perhaps waiting for a process to go on with it.
        Running = "running",
        /// Every session of its window was seen.
        Completed = "completed",
        /// It can't go on; `last_error` says why.
        Failed = "failed",
        /// Ended by somebody.
        Cancelled = "cancelled",
    }
}

/// From where sessions are imported, which of them, and how fast.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ImportBody {
    /// The TARSy's address, without `/api/v1` and without credentials; left out: `history.base_url`. Another one needs the
    /// scope admin, and gets no token.
    pub from: Option<String>,
    /// Only sessions of these statuses; left out or empty: all.
    pub status: Vec<String>,
    /// Only sessions that began then or later: a time, a date, or an age such as `30d` (h, d, w).
    pub since: Option<String>,
    /// Only sessions that began before; left out: the import's start.
    pub until: Option<String>,
    /// HTTP requests a second, 0.001-10,000, 0: as fast as it goes; left out: `history.requests_per_second`. More than that needs the
    /// scope admin.
    #[schema(minimum = 0, maximum = 10_000)]
    pub rps: Option<f64>,
    /// Fetches sessions that have ended and are listed as they are stored, too.
    pub refresh: bool,
}

/// How many sessions were seen, each once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ImportCounts {
    /// Stored, and not known before.
    pub new: u64,
    /// Stored, and different before.
    pub updated: u64,
    /// Known as they are.
    pub unchanged: u64,
    /// Not stored.
    pub failed: u64,
    /// All of them.
    pub total: u64,
}

/// Which sessions are imported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ImportFilter {
    /// The statuses; empty: all.
    pub status: Vec<SessionStatus>,
    /// The beginning of the window.
    pub since: Option<DateTime<Utc>>,
    /// Its end; fixed when the import began.
    pub until: DateTime<Utc>,
}

/// Where to go from an import.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ImportLinks {
    #[serde(rename = "self")]
    pub this: String,
    /// POST there cancels it.
    pub cancel: String,
}

/// Sessions on their way from a TARSy into the store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Import {
    pub import_id: Uuid,
    /// Where it stands.
    pub state: ImportState,
    /// The TARSy's address, without `/api/v1`.
    pub from: String,
    /// `python` or `go`, once it is known.
    pub generation: Option<String>,
    pub filter: ImportFilter,
    /// HTTP requests a second; 0: as fast as it goes.
    pub rps: f64,
    /// Whether everything is fetched.
    pub refresh: bool,
    /// What became of the sessions seen so far.
    pub counts: ImportCounts,
    /// How many sessions the list held at the start, once it is known.
    pub expected: Option<u64>,
    /// Why it failed.
    pub last_error: Option<String>,
    /// Who asked for it.
    pub started_by: String,
    /// When it was asked for.
    pub created_at: DateTime<Utc>,
    /// When it last came further.
    pub updated_at: DateTime<Utc>,
    /// When it ended; null while it runs.
    pub finished_at: Option<DateTime<Utc>>,
    /// Where to go from here.
    pub links: ImportLinks,
}

/// A session that couldn't be stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ImportFailure {
    /// Its id, as the TARSy spells it.
    pub session_id: String,
    /// Why.
    pub reason: String,
}

/// Stored sessions from a TARSy that an older release read, and read otherwise: `refresh` fetches them again.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Outdated {
    /// How many there are.
    pub sessions: u64,
    /// How many current scores rest on them.
    pub scores: u64,
    /// The first 20 of them.
    pub session_ids: Vec<Uuid>,
}

/// An import with what it couldn't store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ImportDetail {
    #[serde(flatten)]
    pub import: Import,
    /// The sessions that couldn't be stored; at most 1,000, `counts.failed` has them all.
    pub failures: Vec<ImportFailure>,
    /// What should be fetched again, of all that is stored from any TARSy; null while the import runs.
    pub outdated: Option<Outdated>,
}

/// A page of imports, newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ImportList {
    pub items: Vec<Import>,
    /// Where the next page begins; null on the last.
    pub next_cursor: Option<String>,
}
