//! A job in short, and where to go from it.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::JobState;

/// Where to go from a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct JobLinks {
    #[serde(rename = "self")]
    pub this: String,
    /// The session that is scored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The session's current score.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<String>,
    /// POST there to cancel; while the job is active.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancel: Option<String>,
    /// POST there to retry; once the job failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<String>,
}

/// A job in short: what a 202 answers, and what a problem names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct JobRef {
    pub job_id: Uuid,
    /// The session that is scored; null for other kinds.
    pub session_id: Option<Uuid>,
    /// Where it stands.
    pub state: JobState,
    /// Where to go from here.
    pub links: JobLinks,
}
