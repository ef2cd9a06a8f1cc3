//! The queue as a whole: what is in it, pause and resume. Reads the store; what a queue of ids holds is never asked.

use axum::Json;
use axum::extract::State;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::ApiState;
use super::auth::Caller;
use super::body::OptionalJson;
use super::judges::{pause, resume};
use super::openapi::MAY_BE_LEFT_OUT;
use super::params::Params;
use super::problem::{ApiError, Problem};
use crate::store::{BrakeTarget, JobCounts};
use crate::wire::{Brake, PauseRequest, Paused, Queue, QueueCounts, Resumed};

/// The routes of this file.
pub(super) fn routes() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new()
        .routes(routes!(queue_status))
        .routes(routes!(pause_queue))
        .routes(routes!(resume_queue))
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

/// Tells whether the queue is paused, and how many jobs there are of each state.
#[utoipa::path(
    get, path = "/api/v1/queue", tag = "brakes",
    responses(
        (status = 200, description = "The queue", body = Queue),
        (status = 422, description = "invalid-request", body = Problem, content_type = "application/problem+json"),
    ),
)]
async fn queue_status(
    State(state): State<ApiState>,
    params: Params,
) -> Result<Json<Queue>, ApiError> {
    params.finish()?;
    let now = state.clock.now();
    let (brakes, counts) = tokio::try_join!(
        state.store.holds().list(now),
        state.store.jobs().counts(now)
    )?;
    let brake = brakes
        .iter()
        .find(|brake| brake.target == BrakeTarget::Queue)
        .map(Brake::from);
    Ok(Json(Queue {
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
