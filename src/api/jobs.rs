//! Jobs: poll one, list them, cancel, retry. A job's raw replies are read on demand.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse as _, Response};
use chrono::{DateTime, SubsecRound as _, Utc};
use serde::Serialize;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use super::ApiState;
use super::etag::json_or_unchanged;
use super::idempotency::Effect;
use super::job_view::{JobRef, JobView, UsageView};
use super::params::{Params, Segment, uuid};
use super::problem::{ApiError, Problem, Refusal};
use super::scoring::accepted;
use super::wait::Prefer;
use crate::events::{Event, EventType};
use crate::job::{Job, JobId, JobState};
use crate::store::{Accepted, JobFilter, JudgeCallRow};

/// The routes of this file.
pub(super) fn routes() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new()
        .routes(routes!(list_jobs))
        .routes(routes!(get_job))
        .routes(routes!(cancel_job))
        .routes(routes!(retry_job))
}

/// A page of jobs, newest first.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub(super) struct JobList {
    /// The jobs; their place in the queue is not counted here.
    pub(super) items: Vec<JobView>,
    /// Where the next page begins; null on the last.
    pub(super) next_cursor: Option<String>,
}

/// One call to a judge.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub(super) struct CallView {
    /// Identifies the call.
    pub(super) call_id: Uuid,
    /// The judge.
    pub(super) judge: String,
    /// The model as asked, or as reported if there was a reply.
    pub(super) model: String,
    /// When it was sent.
    pub(super) at: DateTime<Utc>,
    /// How long it took, milliseconds; 0 for a reply that was collected from a provider's batch.
    pub(super) latency_ms: u64,
    /// The class of its error; null for a good reply.
    pub(super) error: Option<&'static str>,
    /// What happened, for an error.
    pub(super) message: Option<String>,
    /// The HTTP status, if there was one.
    pub(super) status: Option<u16>,
    /// What it used.
    pub(super) usage: UsageView,
    /// Those of the prompt tokens that the provider read from its cache.
    pub(super) tokens_in_cached: i64,
    /// The reply's text, cut at 64 KiB.
    pub(super) reply: Option<String>,
}

impl From<JudgeCallRow> for CallView {
    fn from(call: JudgeCallRow) -> Self {
        Self {
            call_id: call.call_id,
            judge: call.judge,
            model: call.model,
            at: call.at,
            latency_ms: u64::try_from(call.latency.as_millis()).unwrap_or(u64::MAX),
            error: call.error.map(|class| class.as_str()),
            message: call.message,
            status: call.status,
            usage: UsageView {
                tokens_in: call.usage.tokens_in,
                tokens_out: call.usage.tokens_out,
                cost_usd: call.usage.cost_usd,
            },
            tokens_in_cached: call.usage.tokens_in_cached,
            reply: call.reply,
        }
    }
}

/// A job, with its calls where they were asked for.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub(super) struct JobDetail {
    /// The job.
    #[serde(flatten)]
    pub(super) job: JobView,
    /// The calls made for it, oldest first, with the raw replies; only with `calls=true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) calls: Option<Vec<CallView>>,
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
        (status = 200, description = "The jobs", body = JobList),
        (status = 422, description = "invalid-request", body = Problem, content_type = "application/problem+json"),
    ),
)]
async fn list_jobs(
    State(state): State<ApiState>,
    mut params: Params,
) -> Result<Json<JobList>, ApiError> {
    let filter = JobFilter {
        state: params.take("state"),
        kind: params.take("kind"),
        subject_id: params.take("session_id"),
        judge: params.text("judge"),
        batch_id: params.take("batch_id"),
    };
    let (limit, cursor) = (params.limit(), params.cursor());
    params.finish()?;
    let page = state.store.jobs(&filter, cursor.as_ref(), limit).await?;
    Ok(Json(JobList {
        items: JobView::load_all(&state, &page.items).await?,
        next_cursor: page.next_cursor.map(|cursor| cursor.0),
    }))
}

/// Reads one job.
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
        (status = 404, description = "job-not-found", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "invalid-request", body = Problem, content_type = "application/problem+json"),
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
    let calls = if calls {
        let rows = state.store.calls_of(id).await?;
        Some(rows.into_iter().map(CallView::from).collect())
    } else {
        None
    };
    let job = JobView::load(&state, &job).await?;
    Ok(prefer.mark(json_or_unchanged(&headers, &JobDetail { job, calls })?))
}

/// Cancels a job that has not ended. What its judge still answers is dropped.
#[utoipa::path(
    post, path = "/api/v1/jobs/{job_id}/cancel", tag = "jobs",
    params(("job_id" = Uuid, Path, description = "The job")),
    responses(
        (status = 200, description = "The job, cancelled now or before", body = JobView),
        (status = 404, description = "job-not-found", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "job-ended", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "invalid-request", body = Problem, content_type = "application/problem+json"),
    ),
)]
async fn cancel_job(
    State(state): State<ApiState>,
    Segment(job_id): Segment,
    params: Params,
) -> Result<Json<JobView>, ApiError> {
    let id = job_id_of(&job_id)?;
    params.finish()?;
    // As the store keeps it, so that a job that this call cancelled is known by its time.
    let now = state.clock.now().trunc_subsecs(6);
    let job = state
        .store
        .cancel(id, now)
        .await?
        .ok_or(ApiError::JobNotFound(id))?;
    if job.state != JobState::Cancelled {
        return Err(ApiError::JobEnded(Box::new(job)));
    }
    if job.finished_at == Some(now) {
        let event = Event::of_job(EventType::JobCancelled, &job, job.state, now);
        state.events.announce(event);
    }
    Ok(Json(JobView::load(&state, &job).await?))
}

/// Queues a failed job again, with its counters reset.
#[utoipa::path(
    post, path = "/api/v1/jobs/{job_id}/retry", tag = "jobs",
    params(
        ("job_id" = Uuid, Path, description = "The job"),
        ("Prefer" = Option<String>, Header, description = "`wait=N`: seconds to wait for the job's end, cut to http.max_wait_s"),
    ),
    responses(
        (status = 200, description = "The job, ended within the wait", body = JobView),
        (status = 202, description = "The job, queued", body = JobRef, headers(
            ("Location" = String, description = "The job"), ("Retry-After" = u64, description = "Seconds"))),
        (status = 404, description = "job-not-found", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "job-not-failed, scoring-in-progress", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "invalid-request", body = Problem, content_type = "application/problem+json"),
    ),
)]
async fn retry_job(
    State(state): State<ApiState>,
    Segment(job_id): Segment,
    params: Params,
    prefer: Prefer,
    effect: Effect,
) -> Result<Response, ApiError> {
    let id = job_id_of(&job_id)?;
    params.finish()?;
    if let Some(since) = effect.tried_before() {
        // An earlier try of this request may have queued it: a job that goes on, or ended since then, is not queued again.
        let job = find(&state, id).await?;
        if job.finished_at.is_none_or(|at| at > since) {
            return Ok(accepted(&job));
        }
    }
    match state.enqueue.retry(id).await? {
        Some(Accepted::New) => {}
        Some(Accepted::Active(other)) => {
            return Err(ApiError::InProgress(Box::new(find(&state, other).await?)));
        }
        None => return Err(ApiError::JobNotFailed(Box::new(find(&state, id).await?))),
    }
    let response = match prefer.ended(&state, id).await {
        Some(ended) => Json(JobView::load(&state, &ended).await?).into_response(),
        None => accepted(&find(&state, id).await?),
    };
    Ok(prefer.mark(response))
}

fn job_id_of(text: &str) -> Result<JobId, ApiError> {
    uuid(text, "job_id", Refusal::Unprocessable).map(JobId)
}

async fn find(state: &ApiState, id: JobId) -> Result<Job, ApiError> {
    let job = state.store.job(id).await?;
    job.ok_or(ApiError::JobNotFound(id))
}
