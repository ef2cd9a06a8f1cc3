//! Types of `/readyz`.

use serde::{Deserialize, Serialize};

use crate::text_enum;

text_enum! {
    /// Readiness of a process for requests.
    pub enum ReadinessStatus {
        /// All checks pass.
        Ok = "ok",
        /// It serves requests, but a check failed.
        Degraded = "degraded",
        /// It can't serve requests (503).
        Unavailable = "unavailable",
    }
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Check {
    pub name: String,
    /// Whether it passed.
    pub ok: bool,
    /// Error and remedy.
    pub detail: Option<String>,
}

/// Readiness of a process for requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Readiness {
    pub status: ReadinessStatus,
    /// Reasons why it isn't `ok`.
    pub reasons: Vec<String>,
    /// Only with `verbose`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checks: Option<Vec<Check>>,
    /// Version of the binary; only with `verbose`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}
