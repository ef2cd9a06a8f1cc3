//! Sessions: put, read, delete, list and filter. Storing a session doesn't score it.

use axum::Json;
use axum::body::Bytes;
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use futures::Stream;
use serde::Deserialize;
use uuid::Uuid;

use crate::api::ApiState;
use crate::api::criteria::named::resolve;
use crate::api::http::authorized::Authorized;
use crate::api::http::body::{JsonText, collect, spawn_blocking_if_large};
use crate::api::http::etag::json_or_unchanged;
use crate::api::http::extract::{Path, Query, QueryPart};
use crate::api::http::links::{job_path, score_path};
use crate::api::http::problem::{ApiError, ApiResult};
use crate::enqueue::ScorableStatus;
use crate::history::ingest::{InvalidSession, SessionInput, parse_session, parse_session_file};
use crate::memory::JsonShape;
use crate::score::session::Rating;
use crate::store::{Cursor, Erased, Erasure, SessionRecord, SessionSummary};
use crate::suite::Format;
use crate::wire::{
    ActiveJob, PageQuery, PutOutcome, RequestFault, Session, SessionFilter, SessionFormat,
    SessionItem, SessionLinks, SessionOrder, SessionPut, SessionScoreSummary, SessionSort,
    Sessions, SessionsPut,
};

pub(crate) const SESSIONS: &str = "/api/v1/sessions";
pub(crate) const SESSION: &str = "/api/v1/sessions/{session_id}";

fn links(id: Uuid) -> SessionLinks {
    SessionLinks {
        this: format!("/api/v1/sessions/{id}"),
        score: score_path(id),
        scores: format!("/api/v1/scoring/sessions/{id}/scores"),
    }
}

fn whole(session: SessionRecord, only: ScorableStatus) -> Session {
    Session {
        scorable: only.takes(session.status),
        session_id: session.session_id,
        source: session.source,
        external_id: session.external_id,
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
        links: links(session.session_id),
    }
}

fn listed(session: SessionSummary, current_criteria: &str, only: ScorableStatus) -> SessionItem {
    SessionItem {
        scorable: only.takes(session.status),
        session_id: session.session_id,
        source: session.source,
        external_id: session.external_id,
        status: session.status,
        alert_type: session.alert_type,
        agent: session.agent,
        author: session.author,
        tags: session.tags,
        started_at: session.started_at,
        completed_at: session.completed_at,
        created_at: session.created_at,
        score: session.score.map(
            |(score_id, total_score, criteria_hash, simulated, scored_at, scored_triggered_by)| {
                SessionScoreSummary {
                    score_id,
                    total_score,
                    rating: Rating::from_total(total_score),
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
        links: links(session.session_id),
    }
}

/// Creates or replaces a session. Its scores and jobs are preserved. Doesn't score it.
///
/// With a field `format` (`messages`, `spans`, `langsmith`, `inspect`), the other fields have that format and contain
/// one session: `{"format": "messages", "messages": [..]}`.
#[utoipa::path(
    put, path = SESSION, tag = "sessions",
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
        (status = 200, description = "Existed before: updated or unchanged", body = SessionPut),
        (status = 201, description = "It is new", body = SessionPut, headers(("Location" = String, description = "The session"))),
        (status = 404, description = "not-found: no path has such an id"),
    ),
)]
pub(crate) async fn put_session(
    api: Authorized,
    Path(session_id): Path<Uuid>,
    JsonText(body): JsonText,
) -> Result<Response, ApiError> {
    let put = put(api, session_id, body).await?;
    let (status, location) = match put.outcome {
        PutOutcome::New => (StatusCode::CREATED, Some(put.links.this.clone())),
        PutOutcome::Updated | PutOutcome::Unchanged => (StatusCode::OK, None),
    };
    let location = location.map(|path| [(header::LOCATION, path)]);
    Ok((status, location, Json(put)).into_response())
}

pub(crate) async fn put(
    api: Authorized,
    session_id: Uuid,
    body: String,
) -> Result<SessionPut, ApiError> {
    let length = body.len();
    let read = move || {
        parse_session(&body)
            .and_then(|input| input.into_record(session_id, "api"))
            .map_err(invalid)
    };
    let session = spawn_blocking_if_large(length, read).await?;
    let now = api.clock.now();
    let outcome = api.store.sessions().put(&session, now).await?;
    Ok(put_of(&session, outcome))
}

fn put_of(session: &SessionRecord, outcome: PutOutcome) -> SessionPut {
    SessionPut {
        session_id: session.session_id,
        external_id: session.external_id.clone(),
        outcome,
        status: session.status,
        messages: session.conversation.len(),
        links: links(session.session_id),
    }
}

#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(crate) struct FileQuery {
    /// The tool's format; by default detected from the first object of a known form
    #[param(inline)]
    pub(crate) format: Option<SessionFormat>,
}

impl QueryPart for FileQuery {}

/// Stores the sessions of a file: all or none. Doesn't score them.
///
/// The file is JSON (a session, or a list of them) or JSON Lines, in Gavel's format or another `format`: conversations of model APIs and
/// agent frameworks, spans of OpenInference or OpenTelemetry, runs of LangSmith, Langfuse or Braintrust, logs of Inspect, session files
/// of Claude Code or Codex. A session with an id that isn't a UUID gets a deterministic UUID, and its own id as `external_id`.
#[utoipa::path(
    post, path = SESSIONS, tag = "sessions",
    request_body(
        content(
            (Value = "application/json", example = json!({"id": "run-17", "messages": [
                {"role": "user", "content": "Why does cart-7d9f restart?"},
                {"role": "assistant", "content": "It runs out of memory."}
            ]})),
            (String = "application/x-ndjson"),
        ),
    ),
    params(FileQuery),
    responses(
        (status = 200, description = "The sessions are stored", body = SessionsPut),
        (status = 415, description = "unsupported-media-type"),
    ),
)]
pub(crate) async fn put_sessions(
    api: Authorized,
    Query(query): Query<FileQuery>,
    request: Request,
) -> ApiResult<SessionsPut> {
    let (parts, body) = request.into_parts();
    let declared = parts.headers.get(header::CONTENT_TYPE);
    let declared = declared.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    match declared.as_deref().and_then(Format::of_media_type) {
        Some(Format::Json | Format::Jsonl) => {}
        Some(Format::Csv | Format::Xlsx) | None => {
            return Err(ApiError::UnsupportedMediaType(declared));
        }
    }
    let chunks = body.into_data_stream();
    Ok(Json(
        put_file(api, query.format, chunks, &parts.headers).await?,
    ))
}

/// Stores the sessions of a file that arrives in chunks.
pub(crate) async fn put_file<E: std::error::Error + 'static>(
    api: Authorized,
    format: Option<SessionFormat>,
    chunks: impl Stream<Item = Result<Bytes, E>>,
    headers: &HeaderMap,
) -> Result<SessionsPut, ApiError> {
    let (limits, memory) = (&api.http, &api.memory);
    let bytes = collect(chunks, headers, limits, memory).await?;
    let (length, weight) = (bytes.len(), JsonShape::of_any(&bytes).weight());
    memory.take(weight).await?;
    let read = move || parse_session_file("", &bytes, format).map_err(invalid);
    let sessions = spawn_blocking_if_large(length, read).await?;
    let mut records = Vec::with_capacity(sessions.len());
    for session in sessions {
        let id = session.session_id.unwrap_or_default(); // the parser asks for it
        records.push(session.into_record(id, "api").map_err(invalid)?);
    }
    let now = api.clock.now();
    let outcomes = api.store.sessions().put_all(&mut records, now).await?;
    let puts = records.iter().zip(outcomes);
    let items = puts.map(|(session, outcome)| put_of(session, outcome));
    Ok(SessionsPut {
        items: items.collect(),
    })
}

fn invalid(InvalidSession { faults }: InvalidSession) -> ApiError {
    let faults = faults.into_iter().map(|fault| RequestFault {
        pointer: fault.pointer,
        message: match fault.place.as_str() {
            "" => fault.message,
            place => format!("{place}: {}", fault.message),
        },
    });
    ApiError::Invalid(faults.collect())
}

/// Reads a session with its conversation.
#[utoipa::path(
    get, path = SESSION, tag = "sessions",
    params(
        ("If-None-Match" = Option<String>, Header, description = "ETags of this route: 304 if one still holds"),
    ),
    responses(
        (status = 200, description = "The session", body = Session, headers(("ETag" = String, description = "Its version"))),
        (status = 304, description = "Not changed"),
        (status = 404, description = "session-not-found"),
    ),
)]
pub(crate) async fn get_session(
    state: ApiState,
    id: Path<Uuid>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    json_or_unchanged(&headers, &read(state, id).await?)
}

pub(crate) async fn read(state: ApiState, Path(id): Path<Uuid>) -> Result<Session, ApiError> {
    let session = state.store.sessions().get(id).await?;
    let session = session.ok_or(ApiError::SessionNotFound(id))?;
    Ok(whole(session, state.enqueue.score_only()))
}

/// Deletes a session with its scores, ratings, jobs, judge calls and cached replies. It can't be undone.
///
/// Aggregates that don't name it are preserved: costs by day, and results of ended batches. The statistics of its day are updated.
#[utoipa::path(
    delete, path = SESSION, tag = "sessions",
    responses(
        (status = 204, description = "Deleted"),
        (status = 404, description = "session-not-found"),
        (status = 409, description = "scoring-in-progress"),
    ),
)]
pub(crate) async fn delete_session(
    api: Authorized,
    Path(id): Path<Uuid>,
) -> Result<StatusCode, ApiError> {
    let (by, now) = (api.caller.signs_as(), api.clock.now());
    match api.store.retention().erase(id, now).await {
        Ok(Erasure::Done(Erased {
            sessions,
            jobs,
            scores,
            ratings,
            calls,
        })) => {
            tracing::info!(session_id = %id, by, sessions, jobs, scores, ratings, calls, "session deleted with its jobs and scores");
            Ok(StatusCode::NO_CONTENT)
        }
        Ok(Erasure::Active(job)) => {
            let job = api.store.jobs().get(job).await?;
            let ended = || ApiError::DatabaseUnavailable("its job ended concurrently".to_owned());
            let job = job.ok_or_else(ended)?;
            Err(ApiError::InProgress(Box::new(job)))
        }
        Ok(Erasure::Unknown) => Err(ApiError::SessionNotFound(id)),
        Err(error) => {
            tracing::warn!(session_id = %id, by, %error, "session may not be deleted");
            Err(error.into())
        }
    }
}

/// Lists sessions, newest first unless `sort` is set. All other parameters are combined by AND.
///
/// A page with a `next_cursor` may be shorter than `limit`, even empty: few of the thousands of sessions read match the
/// filters. The next page continues after them.
#[utoipa::path(
    get, path = SESSIONS, tag = "sessions",
    params(SessionFilter, SessionSort, PageQuery),
    responses(
        (status = 200, description = "The sessions", body = Sessions),
    ),
)]
pub(crate) async fn list_sessions(
    state: ApiState,
    Query((mut filter, order, page)): Query<(SessionFilter, SessionSort, PageQuery)>,
) -> ApiResult<Sessions> {
    resolve(&state, "", &mut filter).await?;
    let order = order.sort.unwrap_or(SessionOrder::Newest);
    let (limit, cursor) = (page.limit(), page.cursor.map(Cursor));
    let current = state.enqueue.current_criteria();
    let page = state
        .store
        .sessions()
        .list(&filter, order, cursor.as_ref(), limit)
        .await?;
    let items = page.items.into_iter();
    let only = state.enqueue.score_only();
    Ok(Json(Sessions {
        items: items
            .map(|item| listed(item, &current.hash.0, only))
            .collect(),
        next_cursor: page.next_cursor.map(|cursor| cursor.0),
    }))
}
