//! What is behind a wait: judges and workers, with pause and resume of a judge. Closes lanes in the store; workers obey.

use std::collections::{BTreeMap, BTreeSet};

use axum::Json;
use axum::extract::State;
use chrono::{DateTime, Duration, SecondsFormat, Utc};
use serde::{Deserialize, Serialize};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use super::ApiState;
use super::auth::Caller;
use super::body::OptionalJson;
use super::live_workers::with_judges;
use super::openapi::MAY_BE_LEFT_OUT;
use super::pace_view::PaceView;
use super::params::{Params, Segment};
use super::problem::{ApiError, Problem, Refusal};
use super::spending::{CapView, Spending, SpentView};
use crate::events::{Event, EventType};
use crate::job::{Kind, WaitReason};
use crate::store::{Brake, BrakeTarget, JudgeRow, WorkerRow, WorkerState};

/// The longest message of a pause, characters.
const MAX_MESSAGE: usize = 500;

/// The routes of this file.
pub(super) fn routes() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new()
        .routes(routes!(list_judges))
        .routes(routes!(pause_judge))
        .routes(routes!(resume_judge))
        .routes(routes!(list_workers))
}

/// A lane, or all of them, closed until somebody opens it or `until` passes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub(super) struct BrakeView {
    /// `paused` by an operator, `exhausted` or `misconfigured` by a worker that met it, `budget` by a cap that is reached.
    pub(super) reason: WaitReason,
    /// The operator's or the provider's words.
    pub(super) message: String,
    /// Who set it.
    pub(super) set_by: String,
    /// Since when.
    pub(super) since: DateTime<Utc>,
    /// When it opens by itself; null: somebody must resume it.
    pub(super) until: Option<DateTime<Utc>>,
}

impl From<&Brake> for BrakeView {
    fn from(brake: &Brake) -> Self {
        Self {
            reason: brake.reason,
            message: brake.message.clone(),
            set_by: brake.set_by.clone(),
            since: brake.since,
            until: brake.until,
        }
    }
}

/// What one worker's gate knows of a judge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub(super) struct GateView {
    /// The worker.
    pub(super) worker_id: Uuid,
    /// `closed` (calls go out), `open` or `half_open`.
    pub(super) breaker: String,
    /// Why it lets nothing through now; null if it does.
    pub(super) reason: Option<WaitReason>,
    /// When it lets calls through again, if known.
    pub(super) until: Option<DateTime<Utc>>,
    /// Transient failures in a row.
    pub(super) failures_in_row: i32,
    /// Calls in flight.
    pub(super) in_flight: i32,
    /// The last error's text; it stays while the judge answers again.
    pub(super) last_error: Option<String>,
    /// When it came.
    pub(super) last_error_at: Option<DateTime<Utc>>,
    /// How fast it may be asked.
    pub(super) pace: Option<PaceView>,
    /// When the worker said so.
    pub(super) updated_at: DateTime<Utc>,
}

impl From<JudgeRow> for GateView {
    fn from(row: JudgeRow) -> Self {
        Self {
            worker_id: row.worker_id,
            breaker: row.breaker,
            reason: row.closed,
            until: row.closed_until,
            failures_in_row: row.failures_in_row,
            in_flight: row.in_flight,
            last_error: row.last_error,
            last_error_at: row.last_error_at,
            pace: row.pace.map(PaceView::from),
            updated_at: row.updated_at,
        }
    }
}

/// One judge.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub(super) struct JudgeView {
    /// Its name: a provider entry, or `entry:model`.
    pub(super) name: String,
    /// Whether it could be asked.
    pub(super) configured: bool,
    /// What to do if it isn't.
    pub(super) remedy: Option<String>,
    /// Whether its replies are made up.
    pub(super) simulated: bool,
    /// The kinds whose current criteria name it.
    pub(super) kinds: Vec<Kind>,
    /// The brake that stops its lane, if any.
    pub(super) brake: Option<BrakeView>,
    /// What live workers know of it.
    pub(super) gates: Vec<GateView>,
    /// What it cost.
    pub(super) spent: SpentView,
    /// The cap of its entry, if it has one.
    pub(super) cap: Option<CapView>,
}

/// Every judge, by name.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub(super) struct JudgeList {
    /// The judges.
    pub(super) items: Vec<JudgeView>,
    /// The brake that stops every lane, if any.
    pub(super) queue_brake: Option<BrakeView>,
    /// What all judges cost.
    pub(super) spent: SpentView,
    /// The cap over all judges, if there is one.
    pub(super) cap: Option<CapView>,
    /// Always null: there is one page.
    pub(super) next_cursor: Option<String>,
}

/// Why something is paused.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct PauseRequest {
    /// For those who wonder why nothing moves; at most 500 characters.
    pub(super) message: Option<String>,
    /// When it resumes by itself; left out: when somebody resumes it.
    pub(super) until: Option<DateTime<Utc>>,
}

/// What is paused now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub(super) struct Paused {
    /// The brake that is set.
    pub(super) brake: BrakeView,
}

/// What resuming did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub(super) struct Resumed {
    /// Whether there was a brake.
    pub(super) released: bool,
}

/// One worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub(super) struct WorkerView {
    /// Unique per start.
    pub(super) worker_id: Uuid,
    /// Host and process.
    pub(super) name: String,
    /// The binary's version.
    pub(super) version: String,
    /// When it started.
    pub(super) started_at: DateTime<Utc>,
    /// When it was last heard.
    pub(super) heartbeat_at: DateTime<Utc>,
    /// Jobs in hand.
    pub(super) in_hand: i32,
    /// What it does.
    pub(super) state: WorkerState,
    /// Whether it was heard within its time, and hasn't stopped.
    pub(super) alive: bool,
    /// The judges that it can ask by its settings: names, and `entry:*` for an entry that takes any model; null if it didn't say.
    pub(super) judges: Option<Vec<String>>,
}

impl WorkerView {
    fn new(row: WorkerRow, judges: Option<Vec<String>>) -> Self {
        Self {
            judges,
            worker_id: row.worker_id,
            name: row.name,
            version: row.version,
            started_at: row.started_at,
            heartbeat_at: row.heartbeat_at,
            in_hand: row.in_hand,
            state: row.state,
            alive: row.alive,
        }
    }
}

/// Workers heard in the last 24 h, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub(super) struct WorkerList {
    /// The workers.
    pub(super) items: Vec<WorkerView>,
    /// Always null: there is one page.
    pub(super) next_cursor: Option<String>,
}

/// Lists judges: those configured here, those that live workers know, and those that are stopped.
#[utoipa::path(
    get, path = "/api/v1/judges", tag = "brakes",
    responses(
        (status = 200, description = "The judges", body = JudgeList),
        (status = 422, description = "invalid-request", body = Problem, content_type = "application/problem+json"),
    ),
)]
async fn list_judges(
    State(state): State<ApiState>,
    params: Params,
) -> Result<Json<JudgeList>, ApiError> {
    params.finish()?;
    let brakes = state.store.brakes(state.clock.now()).await?;
    let mut gates: BTreeMap<String, Vec<GateView>> = BTreeMap::new();
    for row in rows_of_live_workers(&state).await? {
        gates.entry(row.name.clone()).or_default().push(row.into());
    }
    let spending = Spending::load(&state).await?;
    let brake_of = |target: &BrakeTarget| brakes.iter().find(|brake| brake.target == *target);
    let items = names(&state, &brakes, gates.keys())
        .into_iter()
        .map(|name| {
            let problem = state.enqueue.check_judge(&name).err();
            JudgeView {
                configured: problem.is_none(),
                remedy: problem.map(|problem| problem.remedy),
                simulated: state.enqueue.is_simulated(&name),
                kinds: state.enqueue.kinds_of(&name),
                brake: brake_of(&BrakeTarget::Judge(name.clone())).map(BrakeView::from),
                gates: gates.remove(&name).unwrap_or_default(),
                spent: spending.of_judge(&name),
                cap: spending.cap_of(&name),
                name,
            }
        })
        .collect();
    Ok(Json(JudgeList {
        items,
        queue_brake: brake_of(&BrakeTarget::Queue).map(BrakeView::from),
        spent: spending.of_all(),
        cap: spending.cap_of_all(),
        next_cursor: None,
    }))
}

async fn rows_of_live_workers(state: &ApiState) -> Result<Vec<JudgeRow>, ApiError> {
    let now = state.clock.now();
    let stale = Duration::from_std(state.worker_stale_after).unwrap_or(Duration::MAX);
    let heard_since = now.checked_sub_signed(stale).unwrap_or(now);
    Ok(state.store.judges(heard_since).await?)
}

fn names<'a>(
    state: &ApiState,
    brakes: &[Brake],
    seen: impl Iterator<Item = &'a String>,
) -> BTreeSet<String> {
    let stopped = brakes.iter().filter_map(|brake| match &brake.target {
        BrakeTarget::Judge(name) => Some(name.clone()),
        BrakeTarget::Queue => None,
    });
    (state.judges)()
        .into_iter()
        .chain(seen.cloned())
        .chain(stopped)
        .collect()
}

/// The brake's target, if there is such a judge.
async fn target(state: &ApiState, name: String) -> Result<BrakeTarget, ApiError> {
    // Some providers take any model: what could be asked is known, listed or not.
    if state.enqueue.check_judge(&name).is_err() {
        let brakes = state.store.brakes(state.clock.now()).await?;
        let rows = rows_of_live_workers(state).await?;
        let known = names(state, &brakes, rows.iter().map(|row| &row.name));
        if !known.contains(&name) {
            return Err(ApiError::JudgeNotFound {
                name,
                known: known.into_iter().collect(),
            });
        }
    }
    Ok(BrakeTarget::Judge(name))
}

/// Sets an operator's brake.
pub(super) async fn pause(
    state: &ApiState,
    target: BrakeTarget,
    caller: &Caller,
    request: PauseRequest,
) -> Result<Json<Paused>, ApiError> {
    let now = state.clock.now();
    let refuse = |pointer: &str, message: &str| {
        Err(ApiError::fault(Refusal::Unprocessable, pointer, message))
    };
    let message = request.message.unwrap_or_default().trim().to_owned();
    if message.chars().count() > MAX_MESSAGE || message.chars().any(char::is_control) {
        return refuse(
            "/message",
            "must be at most 500 characters, without control characters",
        );
    }
    if request.until.is_some_and(|until| until <= now) {
        return refuse("/until", "has passed already");
    }
    let brake = Brake {
        target,
        reason: WaitReason::Paused,
        message,
        set_by: caller.name(Refusal::Unprocessable)?,
        since: now,
        until: request.until,
    };
    // An operator's pause takes the place of whatever brake there was.
    state.store.set_brake(&brake).await?;
    let event = brake_event(&brake.target, Applied::Set, now);
    state.events.announce(Event {
        reason: Some(brake.reason),
        until: brake.until,
        ..event
    });
    tracing::info!(target = ?brake.target, "paused");
    Ok(Json(Paused {
        brake: BrakeView::from(&brake),
    }))
}

/// What was done to a brake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Applied {
    Set,
    Released,
}

fn brake_event(target: &BrakeTarget, applied: Applied, now: DateTime<Utc>) -> Event {
    match (target, applied) {
        (BrakeTarget::Queue, Applied::Set) => Event::new(EventType::QueuePaused, now),
        (BrakeTarget::Queue, Applied::Released) => Event::new(EventType::QueueResumed, now),
        (BrakeTarget::Judge(name), Applied::Set) => {
            Event::of_judge(EventType::JudgeClosed, name, now)
        }
        (BrakeTarget::Judge(name), Applied::Released) => {
            Event::of_judge(EventType::JudgeOpened, name, now)
        }
    }
}

/// Releases a brake, whoever set it.
pub(super) async fn resume(
    state: &ApiState,
    target: &BrakeTarget,
) -> Result<Json<Resumed>, ApiError> {
    let now = state.clock.now();
    let released = state.store.release_brake(target, now).await?;
    if released {
        state
            .events
            .announce(brake_event(target, Applied::Released, now));
    }
    tracing::info!(?target, released, "resumed");
    Ok(Json(Resumed { released }))
}

/// Pauses a judge: its jobs stay queued until it is resumed. What is running goes on. Workers hear of it within a second:
/// until then they may still take a job.
#[utoipa::path(
    post, path = "/api/v1/judges/{name}/pause", tag = "brakes",
    params(("name" = String, Path, description = "The judge")),
    request_body(content = PauseRequest, description = MAY_BE_LEFT_OUT, example = json!({"message": "the key is changed"})),
    responses(
        (status = 200, description = "It is paused", body = Paused),
        (status = 404, description = "judge-not-found", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "invalid-request", body = Problem, content_type = "application/problem+json"),
    ),
)]
async fn pause_judge(
    State(state): State<ApiState>,
    Segment(name): Segment,
    caller: Caller,
    params: Params,
    OptionalJson(request): OptionalJson<PauseRequest>,
) -> Result<Json<Paused>, ApiError> {
    params.finish()?;
    let target = target(&state, name).await?;
    pause(&state, target, &caller, request).await
}

/// Resumes a judge, whoever stopped it; but for a cap, which ends with its day or month, or when it is raised.
#[utoipa::path(
    post, path = "/api/v1/judges/{name}/resume", tag = "brakes",
    params(("name" = String, Path, description = "The judge")),
    responses(
        (status = 200, description = "It is not stopped", body = Resumed),
        (status = 404, description = "judge-not-found", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "judge-capped", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "invalid-request", body = Problem, content_type = "application/problem+json"),
    ),
)]
async fn resume_judge(
    State(state): State<ApiState>,
    Segment(name): Segment,
    params: Params,
) -> Result<Json<Resumed>, ApiError> {
    params.finish()?;
    let target = target(&state, name.clone()).await?;
    let brakes = state.store.brakes(state.clock.now()).await?;
    let capped = |brake: &&Brake| brake.target == target && brake.reason == WaitReason::Budget;
    if let Some(brake) = brakes.iter().find(capped) {
        return Err(ApiError::JudgeCapped(why_capped(&name, brake)));
    }
    resume(&state, &target).await
}

fn why_capped(name: &str, brake: &Brake) -> String {
    let until = brake.until.map_or_else(String::new, |until| {
        let until = until.to_rfc3339_opts(SecondsFormat::Secs, true);
        format!(", and it goes on by itself at {until}")
    });
    format!(
        "judge {name:?} can't be resumed: {}{until}; to go on now, raise the cap and restart the workers",
        brake.message
    )
}

/// Lists workers heard in the last 24 h, newest first.
#[utoipa::path(
    get, path = "/api/v1/workers", tag = "brakes",
    responses(
        (status = 200, description = "The workers", body = WorkerList),
        (status = 422, description = "invalid-request", body = Problem, content_type = "application/problem+json"),
    ),
)]
async fn list_workers(
    State(state): State<ApiState>,
    params: Params,
) -> Result<Json<WorkerList>, ApiError> {
    params.finish()?;
    let workers = state.store.workers(state.worker_stale_after).await?;
    let listed = with_judges(&state, workers).await?;
    let view = |(worker, judges)| WorkerView::new(worker, judges);
    Ok(Json(WorkerList {
        items: listed.into_iter().map(view).collect(),
        next_cursor: None,
    }))
}
