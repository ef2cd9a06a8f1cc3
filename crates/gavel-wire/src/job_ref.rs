//! Summary and links of a job.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::JobState;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct JobLinks {
    #[serde(rename = "self")]
    pub this: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<String>,
    /// POST cancels it. Present while the job is active.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancel: Option<String>,
    /// POST retries it. Present once the job failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<String>,
}

/// Summary of a job, as in 202 responses and problems.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct JobRef {
    pub job_id: Uuid,
    /// The scored session. Null for other kinds.
    pub session_id: Option<Uuid>,
    pub state: JobState,
    pub links: JobLinks,
}
