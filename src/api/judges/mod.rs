//! Judges and workers, with pause and resume of a judge. Sets holds in the store; workers follow them.

pub(crate) mod provider_batch;
pub(crate) mod queue;
pub(crate) mod spending;
pub(crate) mod workers;

use std::collections::{BTreeMap, BTreeSet};

use axum::Json;
use chrono::{DateTime, SecondsFormat, Utc};

use self::spending::Spending;
use crate::api::ApiState;
use crate::api::http::authorized::Authorized;
use crate::api::http::body::{OPTIONAL_BODY, OptionalJson};
use crate::api::http::extract::Path;
use crate::api::http::problem::{ApiError, ApiResult};
use crate::events::{Event, EventType};
use crate::job::WaitReason;
use crate::store::{Hold, HoldTarget, JudgeRow, MeterRow, PaceRow, WorkerRow};
use crate::wire::{self, Judges, PauseRequest, Paused, Resumed, Workers};

const MAX_MESSAGE_CHARS: usize = 500;

pub(crate) const PAUSE: &str = "/api/v1/judges/{name}/pause";
pub(crate) const RESUME: &str = "/api/v1/judges/{name}/resume";

impl From<&Hold> for wire::Hold {
    fn from(hold: &Hold) -> Self {
        Self {
            reason: hold.reason,
            message: hold.message.clone(),
            set_by: hold.set_by.clone(),
            since: hold.since,
            until: hold.until,
        }
    }
}

impl From<JudgeRow> for wire::Gate {
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
            pace: row.pace.map(wire::JudgePace::from),
            updated_at: row.updated_at,
        }
    }
}

impl From<MeterRow> for wire::Meter {
    fn from(row: MeterRow) -> Self {
        Self {
            limit: row.limit,
            configured: row.configured,
            learned: row.learned,
            used_last_minute: row.used,
        }
    }
}

impl From<PaceRow> for wire::JudgePace {
    fn from(row: PaceRow) -> Self {
        Self {
            requests: row.requests.into(),
            tokens: row.tokens.into(),
            input_tokens: row.input_tokens.into(),
            output_tokens: row.output_tokens.into(),
            shrunk_until: row.shrunk_until,
            held_until: row.held_until,
            together: row.together,
            part_of: row.part_of,
        }
    }
}

fn worker(row: WorkerRow) -> wire::Worker {
    wire::Worker {
        judges: row.judges,
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

/// Lists judges: configured here, reported by live workers, or stopped.
#[utoipa::path(
    get, path = "/api/v1/judges", tag = "judges",
    responses(
        (status = 200, description = "The judges", body = Judges),
    ),
)]
pub(crate) async fn list_judges(state: ApiState) -> ApiResult<Judges> {
    let holds = state.store.holds().list(state.clock.now()).await?;
    let mut gates: BTreeMap<String, Vec<wire::Gate>> = BTreeMap::new();
    for row in state.store.judges().list().await? {
        gates.entry(row.name.clone()).or_default().push(row.into());
    }
    let spending = Spending::load(&state).await?;
    let hold_of = |target: &HoldTarget| holds.iter().find(|hold| hold.target == *target);
    let items = names(&state, &holds, gates.keys())
        .into_iter()
        .map(|name| {
            let problem = state.enqueue.check_judge(&name).err();
            let kinds = state.enqueue.kinds_of(&name);
            wire::Judge {
                configured: problem.is_none(),
                // A different default judge doesn't help if criteria name this one.
                remedy: problem.map(|problem| match kinds.is_empty() {
                    true => problem.named,
                    false => problem.remedy,
                }),
                simulated: state.enqueue.is_simulated(&name),
                kinds,
                hold: hold_of(&HoldTarget::Judge(name.clone())).map(wire::Hold::from),
                gates: gates.remove(&name).unwrap_or_default(),
                spent: spending.of_judge(&name),
                cap: spending.cap_of(&name),
                name,
            }
        })
        .collect();
    Ok(Json(Judges {
        items,
        queue_hold: hold_of(&HoldTarget::Queue).map(wire::Hold::from),
        spent: spending.of_all(),
        cap: spending.cap_of_all(),
        next_cursor: None,
    }))
}

fn names<'a>(
    state: &ApiState,
    holds: &[Hold],
    seen: impl Iterator<Item = &'a String>,
) -> BTreeSet<String> {
    let stopped = holds.iter().filter_map(|hold| match &hold.target {
        HoldTarget::Judge(name) => Some(name.clone()),
        HoldTarget::Queue => None,
    });
    (state.judges)()
        .into_iter()
        .chain(seen.cloned())
        .chain(stopped)
        .collect()
}

/// Returns the hold target of an existing judge.
async fn target(state: &ApiState, name: String) -> Result<HoldTarget, ApiError> {
    // Accepts unlisted judges that could be called, because some providers allow any model.
    if state.enqueue.check_judge(&name).is_err() {
        let holds = state.store.holds().list(state.clock.now()).await?;
        let rows = state.store.judges().list().await?;
        let known = names(state, &holds, rows.iter().map(|row| &row.name));
        if !known.contains(&name) {
            return Err(ApiError::JudgeNotFound {
                name,
                known: known.into_iter().collect(),
            });
        }
    }
    Ok(HoldTarget::Judge(name))
}

async fn hold(api: &Authorized, target: HoldTarget, request: PauseRequest) -> ApiResult<Paused> {
    let now = api.clock.now();
    let refuse = |pointer: &str, message: &str| Err(ApiError::fault(pointer, message));
    let message = request.message.unwrap_or_default().trim().to_owned();
    if message.chars().count() > MAX_MESSAGE_CHARS || message.chars().any(char::is_control) {
        return refuse(
            "/message",
            "must be at most 500 characters, without control characters",
        );
    }
    if request.until.is_some_and(|until| until <= now) {
        return refuse("/until", "has passed already");
    }
    let hold = Hold {
        target,
        reason: WaitReason::Paused,
        message,
        set_by: api.caller.name()?,
        since: now,
        until: request.until,
    };
    // An operator's pause replaces any other hold.
    api.store.holds().set(&hold).await?;
    let event = hold_event(&hold.target, Applied::Set, now);
    api.events.announce(Event {
        reason: Some(hold.reason),
        until: hold.until,
        ..event
    });
    tracing::info!(target = ?hold.target, "paused");
    Ok(Json(Paused {
        hold: wire::Hold::from(&hold),
    }))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Applied {
    Set,
    Released,
}

fn hold_event(target: &HoldTarget, applied: Applied, now: DateTime<Utc>) -> Event {
    match (target, applied) {
        (HoldTarget::Queue, Applied::Set) => Event::new(EventType::QueuePaused, now),
        (HoldTarget::Queue, Applied::Released) => Event::new(EventType::QueueResumed, now),
        (HoldTarget::Judge(name), Applied::Set) => {
            Event::of_judge(EventType::JudgeClosed, name, now)
        }
        (HoldTarget::Judge(name), Applied::Released) => {
            Event::of_judge(EventType::JudgeOpened, name, now)
        }
    }
}

/// Releases a hold of any origin.
async fn release(state: &ApiState, target: &HoldTarget) -> ApiResult<Resumed> {
    let now = state.clock.now();
    let released = state.store.holds().release(target, now).await?;
    if released {
        state
            .events
            .announce(hold_event(target, Applied::Released, now));
    }
    tracing::info!(?target, released, "resumed");
    Ok(Json(Resumed { released }))
}

/// Pauses a judge: its jobs stay queued until it is resumed. Running jobs continue. Workers see the hold within a
/// second and may start a job until then.
#[utoipa::path(
    post, path = PAUSE, tag = "judges",
    request_body(content = PauseRequest, description = OPTIONAL_BODY, example = json!({"message": "the key is changed"})),
    responses(
        (status = 200, description = "It is paused", body = Paused),
        (status = 404, description = "judge-not-found"),
    ),
)]
pub(crate) async fn pause_judge(
    api: Authorized,
    Path(name): Path<String>,
    OptionalJson(request): OptionalJson<PauseRequest>,
) -> ApiResult<Paused> {
    let target = target(&api, name).await?;
    hold(&api, target, request).await
}

/// Resumes a judge, except after a spending limit, which ends with its day or month, or when it is raised.
#[utoipa::path(
    post, path = RESUME, tag = "judges",
    responses(
        (status = 200, description = "It is not stopped", body = Resumed),
        (status = 404, description = "judge-not-found"),
        (status = 409, description = "judge-capped"),
    ),
)]
pub(crate) async fn resume_judge(api: Authorized, Path(name): Path<String>) -> ApiResult<Resumed> {
    let target = target(&api, name.clone()).await?;
    let now = api.clock.now();
    let holds = api.store.holds().list(now).await?;
    let capped = |hold: &&Hold| hold.target == target && hold.reason == WaitReason::Budget;
    if let Some(hold) = holds.iter().find(capped) {
        return Err(ApiError::JudgeCapped(cap_message(&name, hold)));
    }
    release(&api, &target).await
}

fn cap_message(name: &str, hold: &Hold) -> String {
    let until = hold.until.map_or_else(String::new, |until| {
        let until = until.to_rfc3339_opts(SecondsFormat::Secs, true);
        format!(", and it resumes automatically at {until}")
    });
    format!(
        "judge {name:?} can't be resumed: {}{until}; to resume now, raise the cap and restart the workers",
        hold.message
    )
}

/// Lists workers with a heartbeat in the last 24 h, newest first.
#[utoipa::path(
    get, path = "/api/v1/workers", tag = "judges",
    responses(
        (status = 200, description = "The workers", body = Workers),
    ),
)]
pub(crate) async fn list_workers(state: ApiState) -> ApiResult<Workers> {
    let workers = state.store.workers().list().await?;
    Ok(Json(Workers {
        items: workers.into_iter().map(worker).collect(),
        next_cursor: None,
    }))
}
