//! Paths in links, and the short form of a job.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;
use uuid::Uuid;

use crate::job::{Job, JobId, JobState};
use crate::wire::{JobLinks, JobRef};

/// `Retry-After` of started work, seconds.
const RETRY_AFTER_S: u64 = 2;

pub(crate) const BATCHES: &str = "/api/v1/batches";

pub(crate) fn links(job: &Job) -> JobLinks {
    let this = job_path(job.job_id);
    JobLinks {
        session: job.subject_id.map(|id| format!("/api/v1/sessions/{id}")),
        score: job.subject_id.map(score_path),
        cancel: (!job.state.is_terminal()).then(|| format!("{this}/cancel")),
        retry: (job.state == JobState::Failed).then(|| format!("{this}/retry")),
        this,
    }
}

pub(crate) fn job_path(id: JobId) -> String {
    format!("/api/v1/jobs/{id}")
}

pub(crate) fn score_path(session_id: Uuid) -> String {
    format!("/api/v1/scoring/sessions/{session_id}/score")
}

pub(crate) fn job_ref(job: &Job) -> JobRef {
    JobRef {
        job_id: job.job_id.0,
        session_id: job.subject_id,
        state: job.state,
        links: links(job),
    }
}

/// Returns the response of a request that starts work, with `Location` and `Retry-After`.
pub(crate) fn begun(status: StatusCode, path: &str, body: impl Serialize) -> Response {
    let mut response = (status, Json(body)).into_response();
    let headers = response.headers_mut();
    headers.insert(header::RETRY_AFTER, HeaderValue::from(RETRY_AFTER_S));
    if let Ok(location) = HeaderValue::from_str(path) {
        headers.insert(header::LOCATION, location);
    }
    response
}
