//! POST `/api/v1/jobs`: requests a score of any kind.

use axum::Json;
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use uuid::Uuid;

use crate::api::criteria::named::wanted;
use crate::api::http::authorized::Authorized;
use crate::api::http::body::{ApiJson, typed};
use crate::api::http::problem::ApiError;
use crate::api::http::wait::Prefer;
use crate::api::jobs;
use crate::api::scores::accepted;
use crate::enqueue::{Enqueued, ScoreCase, ScoreSession};
use crate::job::{Force, Job, JobId, JobOptions};
use crate::wire::{self, JobRef, JobRequest};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SessionPayload {
    session_id: Uuid,
    #[serde(default)]
    force_rescore: bool,
}

/// Requests a score of any kind.
///
/// Responds immediately with 202 and the job. `Prefer: wait=N` delays the response until the job has ended, with any
/// result, or N seconds are over. For a session with a score, the response is the job of that score.
#[utoipa::path(
    post, path = "/api/v1/jobs", tag = "jobs",
    params(("Prefer" = Option<String>, Header, description = "`wait=N`: seconds to wait for the job's end, cut to http.max_wait_s")),
    request_body(content = JobRequest, example = json!({"kind": "sql_metrics", "payload": {
        "generated_sql": "select name from users", "expected_sql": "SELECT name FROM users;"}})),
    responses(
        (status = 200, description = "The job, ended within the wait; its `result` is the kind's", body = wire::Job),
        (status = 202, description = "The job, queued", body = JobRef, headers(
            ("Location" = String, description = "The job"), ("Retry-After" = u64, description = "Seconds"),
            ("Preference-Applied" = String, description = "The wait that was honoured"))),
        (status = 400, description = "session-not-completed, nothing-to-judge (kind session)"),
        (status = 404, description = "session-not-found (kind session)"),
        (status = 409, description = "scoring-in-progress (kind session)"),
        (status = 502, description = "history-unusable (kind session)"),
        (status = 503, description = "scoring-disabled, judge-not-configured, history-unavailable, database-unavailable"),
    ),
)]
pub(crate) async fn post_job(
    api: Authorized,
    prefer: Prefer,
    body: ApiJson<JobRequest>,
) -> Result<Response, ApiError> {
    let ApiJson(mut body) = body;
    body.criteria_hash = wanted(&api, body.criteria_hash).await?;
    let by = api.caller.requester()?;
    let options = JobOptions::of_request(&body, by);
    let job = match body.kind.is_case() {
        false => session_job(&api, body, options).await?,
        true => {
            let hash = body.criteria_hash.clone();
            let request = ScoreCase {
                kind: body.kind,
                payload: body.payload,
                options,
                new_id: api.keyed_id.new_id(),
                batch: None,
            };
            api.enqueue.score_case(request, hash.as_deref()).await?
        }
    };
    api.memory.release();
    let ended = match job.state.is_terminal() {
        true => Some(job.clone()),
        false => prefer.ended(&api, job.job_id).await,
    };
    let answer = match ended.filter(|job| job.state.is_terminal()) {
        Some(job) => Json(jobs::view::load(&api, &job).await?).into_response(),
        None => accepted(&job),
    };
    Ok(prefer.mark(answer))
}

async fn session_job(
    api: &Authorized,
    body: JobRequest,
    mut options: JobOptions,
) -> Result<Job, ApiError> {
    let payload: SessionPayload = typed("/payload", body.payload)?;
    if payload.force_rescore {
        options.force = Force::Yes;
    }
    let request = ScoreSession {
        session_id: payload.session_id,
        criteria_hash: body.criteria_hash,
        options,
        new_id: api.keyed_id.new_id(),
    };
    let asked = api.enqueue.score_session(&request).await;
    let job_id = match asked? {
        Enqueued::Job(job) => return Ok(*job),
        Enqueued::Scored(score_id) => api
            .store
            .scores()
            .get(score_id)
            .await?
            .map(|row| row.job_id),
    };
    let gone = || ApiError::Internal("the job of a current score is not in the store".to_owned());
    let job_id: JobId = job_id.ok_or_else(gone)?;
    let job = api.store.jobs().get(job_id).await?;
    job.ok_or_else(gone)
}
