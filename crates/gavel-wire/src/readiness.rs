//! Whether a process is ready, as `/readyz` tells it.

use serde::{Deserialize, Serialize};

use crate::text_enum;

text_enum! {
    /// Whether requests should come here.
    pub enum ReadinessStatus {
        /// All is well.
        Ok = "ok",
        /// It answers, but something is amiss.
        Degraded = "degraded",
        /// It doesn't (503).
        Unavailable = "unavailable",
    }
}

/// One thing that was checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Check {
    pub name: String,
    /// Whether it is well.
    pub ok: bool,
    /// What is not, with its remedy.
    pub detail: Option<String>,
}

/// Whether requests should come here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Readiness {
    /// In a word.
    pub status: ReadinessStatus,
    /// Why it isn't `ok`.
    pub reasons: Vec<String>,
    /// What was checked; only with `verbose`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checks: Option<Vec<Check>>,
    /// The binary's version; only with `verbose`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}
