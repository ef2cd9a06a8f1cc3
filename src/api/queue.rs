//! The queue as a whole: what is in it, pause and resume. Reads the store; what a queue of ids holds is never asked.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::ApiState;
use super::auth::Caller;
use super::body::OptionalJson;
use super::judges::{BrakeView, PauseRequest, Paused, Resumed, pause, resume};
use super::openapi::MAY_BE_LEFT_OUT;
use super::params::Params;
use super::problem::{ApiError, Problem};
use crate::store::{BrakeTarget, JobCounts};

/// The routes of this file.
pub(super) fn routes() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new()
        .routes(routes!(queue_status))
        .routes(routes!(pause_queue))
        .routes(routes!(resume_queue))
}

/// How many jobs there are of each state; each count stops at 10,000.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub(super) struct QueueCounts {
    /// Stored, and in no worker's hand yet.
    pub(super) queued: i64,
    /// In a worker's hand.
    pub(super) running: i64,
    /// Met a closed judge or a long delay.
    pub(super) waiting: i64,
    /// Ended with a score in the last 24 h.
    pub(super) succeeded_24h: i64,
    /// Failed in the last 24 h.
    pub(super) failed_24h: i64,
    /// Cancelled in the last 24 h.
    pub(super) cancelled_24h: i64,
}

impl From<JobCounts> for QueueCounts {
    fn from(counts: JobCounts) -> Self {
        Self {
            queued: counts.queued,
            running: counts.running,
            waiting: counts.waiting,
            succeeded_24h: counts.succeeded,
            failed_24h: counts.failed,
            cancelled_24h: counts.cancelled,
        }
    }
}

/// The queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub(super) struct QueueView {
    /// Whether no job starts, whatever its judge.
    pub(super) paused: bool,
    /// The brake that pauses it; null if it isn't paused. Judges have brakes of their own.
    pub(super) brake: Option<BrakeView>,
    /// What is in it, and what came of it.
    pub(super) counts: QueueCounts,
}

/// Tells whether the queue is paused, and how many jobs there are of each state.
#[utoipa::path(
    get, path = "/api/v1/queue", tag = "brakes",
    responses(
        (status = 200, description = "The queue", body = QueueView),
        (status = 422, description = "invalid-request", body = Problem, content_type = "application/problem+json"),
    ),
)]
async fn queue_status(
    State(state): State<ApiState>,
    params: Params,
) -> Result<Json<QueueView>, ApiError> {
    params.finish()?;
    let now = state.clock.now();
    let (brakes, counts) = tokio::try_join!(state.store.brakes(now), state.store.job_counts(now))?;
    let brake = brakes
        .iter()
        .find(|brake| brake.target == BrakeTarget::Queue)
        .map(BrakeView::from);
    Ok(Json(QueueView {
        paused: brake.is_some(),
        brake,
        counts: counts.into(),
    }))
}

/// Pauses the queue: no job starts until it is resumed. Workers hear of it within a second: until then they may still take one.
#[utoipa::path(
    post, path = "/api/v1/queue/pause", tag = "brakes",
    request_body(content = PauseRequest, description = MAY_BE_LEFT_OUT, example = json!({"message": "the database moves"})),
    responses(
        (status = 200, description = "It is paused", body = Paused),
        (status = 422, description = "invalid-request", body = Problem, content_type = "application/problem+json"),
    ),
)]
async fn pause_queue(
    State(state): State<ApiState>,
    caller: Caller,
    params: Params,
    OptionalJson(request): OptionalJson<PauseRequest>,
) -> Result<Json<Paused>, ApiError> {
    params.finish()?;
    pause(&state, BrakeTarget::Queue, &caller, request).await
}

/// Resumes the queue. Judges that are paused by themselves stay so.
#[utoipa::path(
    post, path = "/api/v1/queue/resume", tag = "brakes",
    responses(
        (status = 200, description = "It is not paused", body = Resumed),
        (status = 422, description = "invalid-request", body = Problem, content_type = "application/problem+json"),
    ),
)]
async fn resume_queue(
    State(state): State<ApiState>,
    params: Params,
) -> Result<Json<Resumed>, ApiError> {
    params.finish()?;
    resume(&state, &BrakeTarget::Queue).await
}
