//! The queue: state, pause and resume. Reads only the store, not the queue backend.

use axum::Json;

use super::{hold, release};
use crate::api::ApiState;
use crate::api::http::authorized::Authorized;
use crate::api::http::body::{OPTIONAL_BODY, OptionalJson};
use crate::api::http::problem::ApiResult;
use crate::store::{HoldTarget, JobCounts};
use crate::wire::{Hold, PauseRequest, Paused, Queue, QueueCounts, Resumed};

pub(crate) const PAUSE: &str = "/api/v1/queue/pause";
pub(crate) const RESUME: &str = "/api/v1/queue/resume";

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

/// Returns whether the queue is paused, and the number of jobs per state.
#[utoipa::path(
    get, path = "/api/v1/queue", tag = "judges",
    responses(
        (status = 200, description = "The queue", body = Queue),
    ),
)]
pub(crate) async fn queue_status(state: ApiState) -> ApiResult<Queue> {
    let now = state.clock.now();
    let (holds, counts) = tokio::try_join!(
        state.store.holds().list(now),
        state.store.jobs().counts(now)
    )?;
    let hold = holds
        .iter()
        .find(|hold| hold.target == HoldTarget::Queue)
        .map(Hold::from);
    Ok(Json(Queue {
        paused: hold.is_some(),
        hold,
        counts: counts.into(),
    }))
}

/// Pauses the queue: no job starts until it is resumed. Workers see the hold within a second and may start a job until then.
#[utoipa::path(
    post, path = PAUSE, tag = "judges",
    request_body(content = PauseRequest, description = OPTIONAL_BODY, example = json!({"message": "the database moves"})),
    responses(
        (status = 200, description = "It is paused", body = Paused),
    ),
)]
pub(crate) async fn pause_queue(
    api: Authorized,
    OptionalJson(request): OptionalJson<PauseRequest>,
) -> ApiResult<Paused> {
    hold(&api, HoldTarget::Queue, request).await
}

/// Resumes the queue. Individually paused judges remain paused.
#[utoipa::path(
    post, path = RESUME, tag = "judges",
    responses(
        (status = 200, description = "It is not paused", body = Resumed),
    ),
)]
pub(crate) async fn resume_queue(api: Authorized) -> ApiResult<Resumed> {
    release(&api, &HoldTarget::Queue).await
}
