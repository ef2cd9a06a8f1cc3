//! Jobs: read, list, cancel, retry. Raw replies are read on demand.

pub(crate) mod new_job;
pub(crate) mod score_query;
pub(crate) mod view;
pub(crate) mod waits;

use axum::Json;
use axum::http::HeaderMap;
use axum::response::{IntoResponse as _, Response};
use chrono::SubsecRound as _;
use serde::Deserialize;
use uuid::Uuid;

use crate::api::ApiState;
use crate::api::http::authorized::Authorized;
use crate::api::http::etag::json_or_unchanged;
use crate::api::http::extract::{Path, Query, QueryPart};
use crate::api::http::problem::{ApiError, ApiResult};
use crate::api::http::wait::Prefer;
use crate::api::scores::accepted;
use crate::events::{Event, EventType};
use crate::job::{Job, JobId, JobState, Kind, Usage};
use crate::store::{Accepted, Cursor, JobFilter, JudgeCallRow};
use crate::wire::{self, Call, JobDetail, JobRef, Jobs, PageQuery};

pub(crate) const CANCEL: &str = "/api/v1/jobs/{job_id}/cancel";
pub(crate) const RETRY: &str = "/api/v1/jobs/{job_id}/retry";

fn call_view(call: JudgeCallRow) -> Call {
    Call {
        call_id: call.call_id,
        judge: call.judge,
        model: call.model,
        at: call.at,
        latency_ms: u64::try_from(call.latency.as_millis()).unwrap_or(u64::MAX),
        error: call.error.map(|class| class.as_str().to_owned()),
        message: call.message,
        status: call.status,
        usage: Usage {
            tokens_in: call.usage.tokens_in,
            tokens_out: call.usage.tokens_out,
            cost_usd: call.usage.cost_usd,
        },
        tokens_in_cached: call.usage.tokens_in_cached,
        reply: call.reply,
    }
}

#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(crate) struct JobsQuery {
    /// By state
    pub(crate) state: Option<JobState>,
    /// By kind
    pub(crate) kind: Option<Kind>,
    /// By session
    pub(crate) session_id: Option<Uuid>,
    /// By judge
    pub(crate) judge: Option<String>,
    /// By batch
    pub(crate) batch_id: Option<Uuid>,
}

impl QueryPart for JobsQuery {}

/// Lists jobs, newest first.
#[utoipa::path(
    get, path = "/api/v1/jobs", tag = "jobs",
    params(JobsQuery, PageQuery),
    responses(
        (status = 200, description = "The jobs", body = Jobs),
    ),
)]
pub(crate) async fn list_jobs(
    state: ApiState,
    Query((query, page)): Query<(JobsQuery, PageQuery)>,
) -> ApiResult<Jobs> {
    let filter = JobFilter {
        state: query.state,
        kind: query.kind,
        subject_id: query.session_id,
        judge: query.judge,
        batch_id: query.batch_id,
    };
    let (limit, cursor) = (page.limit(), page.cursor.map(Cursor));
    let page = state
        .store
        .jobs()
        .list(&filter, cursor.as_ref(), limit)
        .await?;
    Ok(Json(Jobs {
        items: view::load_all(&state, &page.items).await?,
        next_cursor: page.next_cursor.map(|cursor| cursor.0),
    }))
}

#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(crate) struct CallsQuery {
    /// Whether to return the judge calls with their raw replies
    calls: bool,
}

impl QueryPart for CallsQuery {}

/// Reads a job.
#[utoipa::path(
    get, path = "/api/v1/jobs/{job_id}", tag = "jobs",
    params(
        CallsQuery,
        ("Prefer" = Option<String>, Header, description = "`wait=N`: seconds to wait for the job's end, cut to http.max_wait_s"),
        ("If-None-Match" = Option<String>, Header, description = "ETags of this route: 304 if one still holds"),
    ),
    responses(
        (status = 200, description = "The job", body = JobDetail, headers(
            ("ETag" = String, description = "Its version"), ("Preference-Applied" = String, description = "The wait that was honoured"))),
        (status = 304, description = "Not changed"),
        (status = 404, description = "job-not-found"),
    ),
)]
pub(crate) async fn get_job(
    state: ApiState,
    Path(id): Path<Uuid>,
    Query(query): Query<CallsQuery>,
    prefer: Prefer,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let id = JobId(id);
    let job = match prefer.ended(&state, id).await {
        Some(ended) => ended,
        None => find(&state, id).await?,
    };
    let mut detail = JobDetail {
        job: view::load(&state, &job).await?,
        calls: None,
    };
    if query.calls {
        detail.calls = Some(calls_of(&state, id).await?);
    }
    Ok(prefer.mark(json_or_unchanged(&headers, &detail)?))
}

pub(crate) async fn read(state: &ApiState, id: Uuid) -> Result<JobDetail, ApiError> {
    let job = find(state, JobId(id)).await?;
    Ok(JobDetail {
        job: view::load(state, &job).await?,
        calls: None,
    })
}

/// Returns a job with its calls and their raw replies.
pub(crate) async fn read_with_calls(state: &ApiState, id: Uuid) -> Result<JobDetail, ApiError> {
    Ok(JobDetail {
        calls: Some(calls_of(state, JobId(id)).await?),
        ..read(state, id).await?
    })
}

async fn calls_of(state: &ApiState, id: JobId) -> Result<Vec<Call>, ApiError> {
    let rows = state.store.calls().of_job(id).await?;
    Ok(rows.into_iter().map(call_view).collect())
}

/// Cancels a job that has not ended. Later replies of its judge are dropped.
#[utoipa::path(
    post, path = CANCEL, tag = "jobs",
    responses(
        (status = 200, description = "The job, cancelled now or before", body = wire::Job),
        (status = 404, description = "job-not-found"),
        (status = 409, description = "job-ended"),
    ),
)]
pub(crate) async fn cancel_job(api: Authorized, Path(id): Path<Uuid>) -> ApiResult<wire::Job> {
    let id = JobId(id);
    // Same precision as in the store, to recognize a job cancelled by this call.
    let now = api.clock.now().trunc_subsecs(6);
    let job = api
        .store
        .jobs()
        .cancel(id, now)
        .await?
        .ok_or(ApiError::JobNotFound(id))?;
    if job.state != JobState::Cancelled {
        return Err(ApiError::JobEnded(Box::new(job)));
    }
    if job.finished_at == Some(now) {
        let event = Event::of_job(EventType::JobCancelled, &job, job.state, now);
        api.events.announce(event);
    }
    Ok(Json(view::load(&api, &job).await?))
}

/// Requeues a failed job with reset counters.
#[utoipa::path(
    post, path = RETRY, tag = "jobs",
    params(
        ("Prefer" = Option<String>, Header, description = "`wait=N`: seconds to wait for the job's end, cut to http.max_wait_s"),
    ),
    responses(
        (status = 200, description = "The job, ended within the wait", body = wire::Job),
        (status = 202, description = "The job, queued", body = JobRef, headers(
            ("Location" = String, description = "The job"), ("Retry-After" = u64, description = "Seconds"))),
        (status = 404, description = "job-not-found"),
        (status = 409, description = "job-not-failed, scoring-in-progress"),
    ),
)]
pub(crate) async fn retry_job(
    state: ApiState,
    api: Authorized,
    id: Path<Uuid>,
    prefer: Prefer,
) -> Result<Response, ApiError> {
    let Json(id) = retry(api, id).await?;
    let response = match prefer.ended(&state, id).await {
        Some(ended) => Json(view::load(&state, &ended).await?).into_response(),
        None => accepted(&find(&state, id).await?),
    };
    Ok(prefer.mark(response))
}

pub(crate) async fn retry(api: Authorized, Path(id): Path<Uuid>) -> ApiResult<JobId> {
    let id = JobId(id);
    if let Some(since) = api.keyed_id.tried_before() {
        // An earlier try of this request may have requeued it. A job that is active or ended since then isn't requeued.
        let job = find(&api, id).await?;
        if job.finished_at.is_none_or(|at| at > since) {
            return Ok(Json(id));
        }
    }
    Err(match api.enqueue.retry(id).await? {
        Some(Accepted::New) => return Ok(Json(id)),
        Some(Accepted::Active(other)) => ApiError::InProgress(Box::new(find(&api, other).await?)),
        None => ApiError::JobNotFailed(Box::new(find(&api, id).await?)),
    })
}

async fn find(state: &ApiState, id: JobId) -> Result<Job, ApiError> {
    let job = state.store.jobs().get(id).await?;
    job.ok_or(ApiError::JobNotFound(id))
}
