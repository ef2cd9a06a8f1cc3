//! Sessions: put one, read one, list and filter. Putting a session stores it and scores nothing.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::Value;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use super::ApiState;
use super::body::JsonText;
use super::criteria_named::beginning;
use super::etag::json_or_unchanged;
use super::job_view::{job_path, score_path};
use super::params::{Params, Segment, uuid};
use super::problem::{ApiError, Fault, Problem, Refusal};
use super::session_filter::{SessionQuery, session_filter};
use crate::enqueue::ScoreOnly;
use crate::history::ingest::{InvalidSession, SessionInput};
use crate::job::{FailureClass, JobState};
use crate::score::session::{Message, Rating};
use crate::store::{PutOutcome, SessionOrder, SessionRecord, SessionStatus, SessionSummary};

/// The routes of this file.
pub(super) fn routes() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new()
        .routes(routes!(list_sessions))
        .routes(routes!(put_session, get_session))
}

/// Where to go from a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub(super) struct SessionLinks {
    /// The session.
    #[serde(rename = "self")]
    pub(super) this: String,
    /// Its score: GET reads it, POST asks for it.
    pub(super) score: String,
    /// Every score it had.
    pub(super) scores: String,
}

impl SessionLinks {
    fn of(id: Uuid) -> Self {
        Self {
            this: format!("/api/v1/sessions/{id}"),
            score: score_path(id),
            scores: format!("/api/v1/scoring/sessions/{id}/scores"),
        }
    }
}

/// What a put did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub(super) struct SessionPut {
    /// The session's id.
    pub(super) session_id: Uuid,
    /// `new`, `updated` or `unchanged`.
    #[schema(example = "new")]
    pub(super) outcome: &'static str,
    /// Where it stands.
    pub(super) status: SessionStatus,
    /// How many messages are stored.
    pub(super) messages: usize,
    /// Where to go from here.
    pub(super) links: SessionLinks,
}

/// A session, whole.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub(super) struct SessionView {
    /// The session's id.
    pub(super) session_id: Uuid,
    /// Where it came from.
    pub(super) source: String,
    /// Where it stands.
    pub(super) status: SessionStatus,
    /// Whether a score may be asked for: it has ended, and completed if `scoring.score_only_completed` says so.
    pub(super) scorable: bool,
    /// What kind of alert it was.
    pub(super) alert_type: Option<String>,
    /// The agent's name.
    pub(super) agent: Option<String>,
    /// Who started it.
    pub(super) author: Option<String>,
    /// The alert, an object or a string.
    pub(super) alert_data: Value,
    /// The investigation.
    pub(super) conversation: Vec<Message>,
    /// What the agent concluded.
    pub(super) final_analysis: Option<String>,
    /// The tools that were at hand.
    pub(super) tools: Vec<String>,
    /// Labels.
    pub(super) tags: Vec<String>,
    /// When it began.
    pub(super) started_at: Option<DateTime<Utc>>,
    /// When it ended.
    pub(super) completed_at: Option<DateTime<Utc>>,
    /// Where to go from here.
    pub(super) links: SessionLinks,
}

impl SessionView {
    fn of(session: SessionRecord, only: ScoreOnly) -> Self {
        Self {
            scorable: only.takes(session.status),
            session_id: session.session_id,
            source: session.source,
            status: session.status,
            alert_type: session.alert_type,
            agent: session.agent,
            author: session.author,
            alert_data: session.alert_data,
            conversation: session.conversation,
            final_analysis: session.final_analysis,
            tools: session.tools,
            tags: session.tags,
            started_at: session.started_at,
            completed_at: session.completed_at,
            links: SessionLinks::of(session.session_id),
        }
    }
}

/// A session's current score in short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub(super) struct SessionScoreSummary {
    /// The score's id.
    pub(super) score_id: Uuid,
    /// 0-100.
    pub(super) total_score: u8,
    /// The total as a word.
    pub(super) rating: Rating,
    /// The criteria that it was made with.
    pub(super) criteria_hash: String,
    /// Whether its criteria are the ones that new requests get.
    pub(super) is_current_criteria: bool,
    /// Whether a simulated judge made it.
    pub(super) simulated: bool,
    /// When it was made.
    pub(super) scored_at: DateTime<Utc>,
    /// Who asked for it.
    pub(super) scored_triggered_by: String,
}

/// A session's active job in short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub(super) struct ActiveJob {
    /// The job's id.
    pub(super) job_id: Uuid,
    /// Where it stands.
    pub(super) state: JobState,
    /// The job.
    pub(super) href: String,
}

/// One line of the list of sessions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub(super) struct SessionItem {
    /// The session's id.
    pub(super) session_id: Uuid,
    /// Where it came from.
    pub(super) source: String,
    /// Where it stands.
    pub(super) status: SessionStatus,
    /// Whether a score may be asked for: it has ended, and completed if `scoring.score_only_completed` says so.
    pub(super) scorable: bool,
    /// What kind of alert it was.
    pub(super) alert_type: Option<String>,
    /// The agent's name.
    pub(super) agent: Option<String>,
    /// Who started it.
    pub(super) author: Option<String>,
    /// Labels.
    pub(super) tags: Vec<String>,
    /// When it began.
    pub(super) started_at: Option<DateTime<Utc>>,
    /// When it ended.
    pub(super) completed_at: Option<DateTime<Utc>>,
    /// When it was first seen here.
    pub(super) created_at: DateTime<Utc>,
    /// Its current score.
    pub(super) score: Option<SessionScoreSummary>,
    /// Its active job.
    pub(super) active_job: Option<ActiveJob>,
    /// Why its newest job failed; null: it has none, or that one didn't.
    pub(super) failed: Option<FailureClass>,
    /// Where to go from here.
    pub(super) links: SessionLinks,
}

impl SessionItem {
    fn of(session: SessionSummary, current_criteria: &str, only: ScoreOnly) -> Self {
        Self {
            scorable: only.takes(session.status),
            session_id: session.session_id,
            source: session.source,
            status: session.status,
            alert_type: session.alert_type,
            agent: session.agent,
            author: session.author,
            tags: session.tags,
            started_at: session.started_at,
            completed_at: session.completed_at,
            created_at: session.created_at,
            score: session.score.map(
                |(
                    score_id,
                    total_score,
                    criteria_hash,
                    simulated,
                    scored_at,
                    scored_triggered_by,
                )| {
                    SessionScoreSummary {
                        score_id,
                        total_score,
                        rating: Rating::of(total_score),
                        is_current_criteria: criteria_hash == current_criteria,
                        criteria_hash,
                        simulated,
                        scored_at,
                        scored_triggered_by,
                    }
                },
            ),
            active_job: session.active_job.map(|(job_id, state)| ActiveJob {
                job_id: job_id.0,
                state,
                href: job_path(job_id),
            }),
            failed: session.failed,
            links: SessionLinks::of(session.session_id),
        }
    }
}

/// A page of sessions, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub(super) struct SessionList {
    /// The sessions.
    pub(super) items: Vec<SessionItem>,
    /// Where the next page begins; null on the last.
    pub(super) next_cursor: Option<String>,
}

/// Stores a session, or replaces it; its scores and jobs stay. Nothing is scored by this.
#[utoipa::path(
    put, path = "/api/v1/sessions/{session_id}", tag = "sessions",
    params(("session_id" = Uuid, Path, description = "The session")),
    request_body(content = SessionInput, example = json!({
        "status": "completed",
        "alert_type": "PodCrashLooping",
        "agent": "kubernetes",
        "alert_data": {"namespace": "shop", "pod": "cart-7d9f"},
        "conversation": [
            {"role": "user", "content": "Investigate the alert."},
            {"role": "tool", "tool_name": "kubectl", "content": "Last State: Terminated, Reason: OOMKilled"},
            {"role": "assistant", "content": "The container was killed for memory."}
        ],
        "final_analysis": "OOMKilled; raise the memory limit.",
        "tools": ["kubectl", "prometheus"]
    })),
    responses(
        (status = 200, description = "It was there: updated or unchanged", body = SessionPut),
        (status = 201, description = "It is new", body = SessionPut, headers(("Location" = String, description = "The session"))),
        (status = 422, description = "invalid-request", body = Problem, content_type = "application/problem+json"),
    ),
)]
async fn put_session(
    State(state): State<ApiState>,
    Segment(session_id): Segment,
    params: Params,
    JsonText(body): JsonText,
) -> Result<Response, ApiError> {
    let session_id = uuid(&session_id, "session_id", Refusal::Unprocessable)?;
    params.finish()?;
    let session = SessionInput::from_json(&body)
        .and_then(|input| input.into_record(session_id, "api"))
        .map_err(invalid)?;
    let outcome = state.store.put_session(&session, state.clock.now()).await?;
    let status = match outcome {
        PutOutcome::New => StatusCode::CREATED,
        PutOutcome::Updated | PutOutcome::Unchanged => StatusCode::OK,
    };
    let body = SessionPut {
        session_id,
        outcome: outcome.as_str(),
        status: session.status,
        messages: session.conversation.len(),
        links: SessionLinks::of(session_id),
    };
    let location = HeaderValue::from_str(&body.links.this).ok();
    let mut response = (status, Json(body)).into_response();
    if let Some(location) = location.filter(|_| outcome == PutOutcome::New) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

fn invalid(InvalidSession { faults }: InvalidSession) -> ApiError {
    ApiError::Invalid {
        refusal: Refusal::Unprocessable,
        faults: faults
            .into_iter()
            .map(|fault| Fault {
                pointer: fault.pointer,
                message: fault.message,
            })
            .collect(),
    }
}

/// Reads a session, whole.
#[utoipa::path(
    get, path = "/api/v1/sessions/{session_id}", tag = "sessions",
    params(
        ("session_id" = Uuid, Path, description = "The session"),
        ("If-None-Match" = Option<String>, Header, description = "ETags of this route: 304 if one still holds"),
    ),
    responses(
        (status = 200, description = "The session", body = SessionView, headers(("ETag" = String, description = "Its version"))),
        (status = 304, description = "Not changed"),
        (status = 404, description = "session-not-found", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "invalid-request", body = Problem, content_type = "application/problem+json"),
    ),
)]
async fn get_session(
    State(state): State<ApiState>,
    Segment(session_id): Segment,
    params: Params,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let session_id = uuid(&session_id, "session_id", Refusal::Unprocessable)?;
    params.finish()?;
    let session = state.store.session(session_id).await?;
    let session = session.ok_or(ApiError::SessionNotFound(session_id))?;
    let view = SessionView::of(session, state.enqueue.score_only());
    json_or_unchanged(&headers, &view)
}

/// Lists sessions, newest first unless `sort` says otherwise; every other parameter narrows.
///
/// A page may be shorter than `limit`, even empty, and have a `next_cursor`: then few of the thousands of sessions that it
/// looked at have what is asked for, and the next page goes on behind them.
#[utoipa::path(
    get, path = "/api/v1/sessions", tag = "sessions",
    params(SessionQuery),
    responses(
        (status = 200, description = "The sessions", body = SessionList),
        (status = 422, description = "invalid-request", body = Problem, content_type = "application/problem+json"),
    ),
)]
async fn list_sessions(
    State(state): State<ApiState>,
    mut params: Params,
) -> Result<Json<SessionList>, ApiError> {
    let current = state.enqueue.current_criteria();
    let mut filter = session_filter(&mut params, &current.hash.0);
    let order = params.take("sort").unwrap_or(SessionOrder::Newest);
    let (limit, cursor) = (params.limit(), params.cursor());
    params.finish()?;
    if let Some(text) = filter.criteria_hash.take() {
        filter.criteria_hash = Some(beginning(&state, "/criteria", text).await?);
    }
    let page = state
        .store
        .sessions(&filter, order, cursor.as_ref(), limit)
        .await?;
    let items = page.items.into_iter();
    let only = state.enqueue.score_only();
    Ok(Json(SessionList {
        items: items
            .map(|item| SessionItem::of(item, &current.hash.0, only))
            .collect(),
        next_cursor: page.next_cursor.map(|cursor| cursor.0),
    }))
}
