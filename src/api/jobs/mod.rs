//! Jobs: read, list, cancel, retry. Raw replies are read on demand.

pub(crate) mod new_job;
pub(crate) mod score_query;
pub(crate) mod view;
pub(crate) mod waits;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse as _, Response};
use chrono::SubsecRound as _;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::api::ApiState;
use crate::api::http::authorized::Authorized;
use crate::api::http::etag::json_or_unchanged;
use crate::api::http::params::{Params, PathId, Segment, uuid};
use crate::api::http::problem::ApiError;
use crate::api::http::wait::Prefer;
use crate::api::scores::accepted;
use crate::events::{Event, EventType};
use crate::job::{Job, JobId, JobState, Usage};
use crate::store::{Accepted, JobFilter, JudgeCallRow};
use crate::wire::{self, Call, JobDetail, JobRef, Jobs};

pub(crate) const CANCEL: &str = "/api/v1/jobs/{job_id}/cancel";
pub(crate) const RETRY: &str = "/api/v1/jobs/{job_id}/retry";

pub(crate) fn routes() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new()
        .routes(routes!(list_jobs))
        .routes(routes!(get_job))
        .routes(routes!(cancel_job))
        .routes(routes!(retry_job))
}

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

/// Lists jobs, newest first.
#[utoipa::path(
    get, path = "/api/v1/jobs", tag = "jobs",
    params(
        ("state" = Option<JobState>, Query, description = "By state"),
        ("kind" = Option<crate::job::Kind>, Query, description = "By kind"),
        ("session_id" = Option<Uuid>, Query, description = "By session"),
        ("judge" = Option<String>, Query, description = "By judge"),
        ("batch_id" = Option<Uuid>, Query, description = "By batch"),
        ("limit" = Option<u32>, Query, description = "How many, 1-500; default 50", minimum = 1, maximum = 500),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before"),
    ),
    responses(
        (status = 200, description = "The jobs", body = Jobs),
    ),
)]
async fn list_jobs(State(state): State<ApiState>, params: Params) -> Result<Json<Jobs>, ApiError> {
    Ok(Json(list(&state, params).await?))
}

pub(crate) async fn list(state: &ApiState, mut params: Params) -> Result<Jobs, ApiError> {
    let filter = JobFilter {
        state: params.take("state"),
        kind: params.take("kind"),
        subject_id: params.take("session_id"),
        judge: params.text("judge"),
        batch_id: params.take("batch_id"),
    };
    let (limit, cursor) = (params.limit(), params.cursor());
    params.finish()?;
    let page = state
        .store
        .jobs()
        .list(&filter, cursor.as_ref(), limit)
        .await?;
    Ok(Jobs {
        items: view::load_all(state, &page.items).await?,
        next_cursor: page.next_cursor.map(|cursor| cursor.0),
    })
}

/// Reads a job.
#[utoipa::path(
    get, path = "/api/v1/jobs/{job_id}", tag = "jobs",
    params(
        ("job_id" = Uuid, Path, description = "The job"),
        ("calls" = Option<bool>, Query, description = "Whether to answer the judge calls with their raw replies"),
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
async fn get_job(
    State(state): State<ApiState>,
    Segment(job_id): Segment,
    mut params: Params,
    prefer: Prefer,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let id = job_id_of(&job_id)?;
    let calls = params.take::<bool>("calls").unwrap_or(false);
    params.finish()?;
    let job = match prefer.ended(&state, id).await {
        Some(ended) => ended,
        None => find(&state, id).await?,
    };
    let mut detail = JobDetail {
        job: view::load(&state, &job).await?,
        calls: None,
    };
    if calls {
        detail.calls = Some(calls_of(&state, id).await?);
    }
    Ok(prefer.mark(json_or_unchanged(&headers, &detail)?))
}

pub(crate) async fn read(state: &ApiState, id: &str) -> Result<JobDetail, ApiError> {
    let job = find(state, job_id_of(id)?).await?;
    Ok(JobDetail {
        job: view::load(state, &job).await?,
        calls: None,
    })
}

/// Returns a job with its calls and their raw replies.
pub(crate) async fn read_with_calls(state: &ApiState, id: &str) -> Result<JobDetail, ApiError> {
    let job = read(state, id).await?;
    let calls = calls_of(state, JobId(job.job.job_id)).await?;
    Ok(JobDetail {
        calls: Some(calls),
        ..job
    })
}

async fn calls_of(state: &ApiState, id: JobId) -> Result<Vec<Call>, ApiError> {
    let rows = state.store.calls().of_job(id).await?;
    Ok(rows.into_iter().map(call_view).collect())
}

/// Cancels a job that has not ended. Later replies of its judge are dropped.
#[utoipa::path(
    post, path = CANCEL, tag = "jobs",
    params(("job_id" = Uuid, Path, description = "The job")),
    responses(
        (status = 200, description = "The job, cancelled now or before", body = wire::Job),
        (status = 404, description = "job-not-found"),
        (status = 409, description = "job-ended"),
    ),
)]
async fn cancel_job(api: Authorized, PathId(job_id): PathId) -> Result<Json<wire::Job>, ApiError> {
    cancel(api, job_id).await.map(Json)
}

pub(crate) async fn cancel(api: Authorized, job_id: String) -> Result<wire::Job, ApiError> {
    let id = job_id_of(&job_id)?;
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
    Ok(view::load(&api, &job).await?)
}

/// Requeues a failed job with reset counters.
#[utoipa::path(
    post, path = RETRY, tag = "jobs",
    params(
        ("job_id" = Uuid, Path, description = "The job"),
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
async fn retry_job(
    State(state): State<ApiState>,
    api: Authorized,
    PathId(job_id): PathId,
    prefer: Prefer,
) -> Result<Response, ApiError> {
    let id = retry(api, job_id).await?;
    let response = match prefer.ended(&state, id).await {
        Some(ended) => Json(view::load(&state, &ended).await?).into_response(),
        None => accepted(&find(&state, id).await?),
    };
    Ok(prefer.mark(response))
}

pub(crate) async fn retry(api: Authorized, job_id: String) -> Result<JobId, ApiError> {
    let id = job_id_of(&job_id)?;
    if let Some(since) = api.keyed_id.tried_before() {
        // An earlier try of this request may have requeued it. A job that is active or ended since then isn't requeued.
        let job = find(&api, id).await?;
        if job.finished_at.is_none_or(|at| at > since) {
            return Ok(id);
        }
    }
    Err(match api.enqueue.retry(id).await? {
        Some(Accepted::New) => return Ok(id),
        Some(Accepted::Active(other)) => ApiError::InProgress(Box::new(find(&api, other).await?)),
        None => ApiError::JobNotFailed(Box::new(find(&api, id).await?)),
    })
}

fn job_id_of(text: &str) -> Result<JobId, ApiError> {
    uuid(text, "job_id").map(JobId)
}

async fn find(state: &ApiState, id: JobId) -> Result<Job, ApiError> {
    let job = state.store.jobs().get(id).await?;
    job.ok_or(ApiError::JobNotFound(id))
}
