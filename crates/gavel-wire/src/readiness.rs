//! Types of `/readyz`.

use serde::{Deserialize, Serialize};

use crate::text_enum;

text_enum! {
    pub enum ReadinessStatus {
        /// All checks pass.
        Ok = "ok",
        /// It serves requests, but a check failed.
        Degraded = "degraded",
        /// It can't serve requests (503).
        Unavailable = "unavailable",
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Check {
    pub name: String,
    pub ok: bool,
    pub detail: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Readiness {
    pub status: ReadinessStatus,
    pub reasons: Vec<String>,
    /// Only with `verbose`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checks: Option<Vec<Check>>,
    /// Version of the binary; only with `verbose`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}
