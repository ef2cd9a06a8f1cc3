//! Scores of a session: request, current score, history. A request doesn't block unless the client prefers to wait.

pub(crate) mod view;

use axum::Json;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use uuid::Uuid;

use crate::api::ApiState;
use crate::api::criteria::named::wanted;
use crate::api::http::authorized::Authorized;
use crate::api::http::body::{OPTIONAL_BODY, OptionalJson};
use crate::api::http::etag::or_unchanged;
use crate::api::http::extract::Path;
use crate::api::http::links::{begun, job_path, job_ref};
use crate::api::http::problem::{ApiError, ApiResult};
use crate::api::http::wait::Prefer;
use crate::enqueue::{Enqueued, ScoreSession};
use crate::job::{Force, Job, JobOptions, JobState, Priority};
use crate::store::SessionScoreRow;
use crate::wire::{JobRef, Score, ScoreRequest, ScoreVersion, Scores};

pub(crate) const SCORE: &str = "/api/v1/scoring/sessions/{session_id}/score";

/// Requests a session's score.
///
/// Responds immediately: 200 with an existing score, or 202 with the job. `Prefer: wait=N` delays the response until
/// the job has ended or N seconds are over. An existing simulated score counts only if the judge is simulated. A
/// session that isn't stored, or hadn't ended when imported from TARSy, is first fetched from `history.base_url`, if
/// configured. An older score stays readable until the new one is stored.
#[utoipa::path(
    post, path = SCORE, tag = "scoring", operation_id = "score_session",
    params(
        ("Prefer" = Option<String>, Header, description = "`wait=N`: seconds to wait for the score, cut to http.max_wait_s"),
    ),
    request_body(content = ScoreRequest, description = OPTIONAL_BODY, example = json!({"force_rescore": false})),
    responses(
        (status = 200, description = "The score", body = Score),
        (status = 202, description = "The job that will make the score", body = JobRef, headers(
            ("Location" = String, description = "The job"), ("Retry-After" = u64, description = "Seconds"),
            ("Preference-Applied" = String, description = "The wait that was honoured"))),
        (status = 400, description = "session-not-completed, nothing-to-judge"),
        (status = 404, description = "session-not-found"),
        (status = 409, description = "scoring-in-progress, job-cancelled"),
        (status = 502, description = "judge-failed (only with Prefer: wait), history-unusable"),
        (status = 503, description = "scoring-disabled, judge-not-configured, history-unavailable, database-unavailable"),
    ),
)]
pub(crate) async fn score_session(
    state: ApiState,
    api: Authorized,
    id: Result<Path<Uuid>, ApiError>,
    prefer: Prefer,
    body: Result<OptionalJson<ScoreRequest>, ApiError>,
) -> Response {
    let asked = async {
        let asked = ask(api, id?, body.map(|OptionalJson(body)| body)).await?;
        answer(&state, asked, prefer).await
    };
    prefer.mark(asked.await.unwrap_or_else(ApiError::into_response))
}

/// Requests a session's score. Errors of the session precede errors of `body`.
pub(crate) async fn ask(
    api: Authorized,
    Path(session_id): Path<Uuid>,
    body: Result<ScoreRequest, ApiError>,
) -> Result<Enqueued, ApiError> {
    let read = async {
        let body = body?;
        let hash = wanted(&api, body.criteria_hash).await?;
        Ok((hash, Force::from_flag(body.force_rescore)))
    };
    let (criteria_hash, force) = match read.await {
        Ok(read) => read,
        Err(fault) => return Err(check_session_first(&api, session_id, fault).await),
    };
    let by = api.caller.requester()?;
    let request = ScoreSession {
        session_id,
        criteria_hash,
        options: JobOptions {
            force,
            ..JobOptions::new(by, Priority::Interactive)
        },
        new_id: api.keyed_id.new_id(),
    };
    Ok(api.enqueue.score_session(&request).await?)
}

/// Returns the error of a session that can't be scored, or else the error of the body.
async fn check_session_first(state: &ApiState, session_id: Uuid, fault: ApiError) -> ApiError {
    if !matches!(fault, ApiError::Invalid(_)) {
        return fault;
    }
    match state.store.sessions().scoring_facts(session_id).await {
        Ok(None) => ApiError::SessionNotFound(session_id),
        Ok(Some(view)) if !view.status.is_terminal() => ApiError::SessionNotCompleted(format!(
            "session {session_id} is {}: only sessions that have ended are scored",
            view.status
        )),
        Ok(Some(_)) => fault,
        Err(error) => error.into(),
    }
}

async fn answer(state: &ApiState, asked: Enqueued, prefer: Prefer) -> Result<Response, ApiError> {
    let job = match asked {
        Enqueued::Scored(score_id) => {
            let row = state.store.scores().get(score_id).await?;
            let row = row.ok_or_else(|| gone("a session's current score"))?;
            return Ok(Json(score(state, row)).into_response());
        }
        Enqueued::Job(job) => job,
    };
    match prefer.ended(state, job.job_id).await {
        Some(ended) => outcome(state, Box::new(ended)).await,
        None => Ok(accepted(&job)),
    }
}

/// Returns the response for a job that ended during the wait.
async fn outcome(state: &ApiState, job: Box<Job>) -> Result<Response, ApiError> {
    match job.state {
        JobState::Failed => Err(ApiError::JudgeFailed(job)),
        JobState::Cancelled => Err(ApiError::JobCancelled(job)),
        // Only a retry can have reactivated the row.
        JobState::Queued | JobState::Running | JobState::Waiting => Ok(accepted(&job)),
        JobState::Succeeded => {
            let session_id = job
                .subject_id
                .ok_or_else(|| gone("a session job's subject"))?;
            let current = state.store.scores().current(session_id).await?;
            let row = match current.filter(|row| row.job_id == job.job_id) {
                Some(row) => Some(row),
                None => {
                    let all = state.store.scores().of_session(session_id).await?;
                    all.into_iter().find(|row| row.job_id == job.job_id)
                }
            };
            let row = row.ok_or_else(|| gone("the score of a succeeded job"))?;
            Ok(Json(score(state, row)).into_response())
        }
    }
}

fn gone(what: &str) -> ApiError {
    ApiError::Internal(format!("{what} is not in the store"))
}

fn score(state: &ApiState, row: SessionScoreRow) -> Score {
    view::score(row, &state.enqueue.current_criteria().hash.0)
}

pub(crate) fn accepted(job: &Job) -> Response {
    begun(StatusCode::ACCEPTED, &job_path(job.job_id), job_ref(job))
}

/// Reads a session's current score.
#[utoipa::path(
    get, path = SCORE, tag = "scoring", operation_id = "get_score",
    params(
        ("If-None-Match" = Option<String>, Header, description = "An ETag of this route: 304 if it still holds"),
    ),
    responses(
        (status = 200, description = "The current score", body = Score, headers(("ETag" = String, description = "Its version"))),
        (status = 304, description = "Not changed"),
        (status = 404, description = "not-scored (with the active or else the last failed job), session-not-found"),
    ),
)]
pub(crate) async fn current_score(
    state: ApiState,
    id: Path<Uuid>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let score = current(state, id).await?;
    let etag = view::etag(&score);
    Ok(or_unchanged(&headers, &etag, || {
        Json(score).into_response()
    }))
}

pub(crate) async fn current(
    state: ApiState,
    Path(session_id): Path<Uuid>,
) -> Result<Score, ApiError> {
    let Some(row) = state.store.scores().current(session_id).await? else {
        let view = state.store.sessions().scoring_facts(session_id).await?;
        let view = view.ok_or(ApiError::SessionNotFound(session_id))?;
        return Err(ApiError::NotScored {
            session_id,
            job: view.active_job.or(view.last_failed_job).map(Box::new),
        });
    };
    Ok(score(&state, row))
}

/// Reads a score, current or not.
#[utoipa::path(
    get, path = "/api/v1/scores/{score_id}", tag = "scoring", operation_id = "get_score_by_id",
    responses(
        (status = 200, description = "The score", body = ScoreVersion),
        (status = 404, description = "score-not-found"),
    ),
)]
pub(crate) async fn one_score(
    state: ApiState,
    Path(score_id): Path<Uuid>,
) -> ApiResult<ScoreVersion> {
    let row = state.store.scores().get(score_id).await?;
    let row = row.ok_or(ApiError::ScoreNotFound(score_id))?;
    let current = state.enqueue.current_criteria();
    Ok(Json(view::version(row, &current.hash.0)))
}

/// Lists all scores of a session, newest first.
#[utoipa::path(
    get, path = "/api/v1/scoring/sessions/{session_id}/scores", tag = "scoring", operation_id = "list_scores",
    responses(
        (status = 200, description = "The scores", body = Scores),
        (status = 404, description = "session-not-found"),
    ),
)]
pub(crate) async fn scores_of_session(
    state: ApiState,
    Path(session_id): Path<Uuid>,
) -> ApiResult<Scores> {
    let rows = state.store.scores().of_session(session_id).await?;
    if rows.is_empty()
        && state
            .store
            .sessions()
            .scoring_facts(session_id)
            .await?
            .is_none()
    {
        return Err(ApiError::SessionNotFound(session_id));
    }
    let current = state.enqueue.current_criteria();
    let items = rows
        .into_iter()
        .map(|row| view::version(row, &current.hash.0))
        .collect();
    Ok(Json(Scores {
        items,
        next_cursor: None,
    }))
}
