//! Imports from a TARSy: begin one, look at it, list them, cancel one. An import stores sessions and scores nothing.
//!
//! Any client with the scope enqueue may import from the configured TARSy at its configured pace. Another address, or a
//! faster pace, needs the scope admin: this server would send requests where and as fast as the client says.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use super::ApiState;
use super::auth::{Caller, Scope};
use super::body::OptionalJson;
use super::idempotency::Effect;
use super::openapi::MAY_BE_LEFT_OUT;
use super::params::{Params, Segment, uuid};
use super::problem::{ApiError, Problem, Refusal};
use crate::history::imports::{ImportRequest, StartError};
use crate::store::{ImportRow, ImportState};
use crate::wire::SessionStatus;

/// When a client should look at an import again, seconds.
const RETRY_AFTER_S: u64 = 2;

/// The routes of this file.
pub(super) fn routes() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new()
        .routes(routes!(start_import))
        .routes(routes!(list_imports))
        .routes(routes!(get_import))
        .routes(routes!(cancel_import))
}

/// What to import.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, utoipa::ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ImportBody {
    /// The TARSy's address, without `/api/v1` and without credentials; left out: `history.base_url`. Another one needs the
    /// scope admin, and gets no token.
    pub(super) from: Option<String>,
    /// Only sessions of these statuses; left out or empty: all.
    pub(super) status: Vec<String>,
    /// Only sessions that began then or later: a time, a date, or an age such as `30d` (h, d, w).
    pub(super) since: Option<String>,
    /// Only sessions that began before; left out: the import's start.
    pub(super) until: Option<String>,
    /// HTTP requests a second, 0.001-10,000, 0: as fast as it goes; left out: `history.requests_per_second`. More than that needs the
    /// scope admin.
    pub(super) rps: Option<f64>,
    /// Fetches sessions that have ended and are listed as they are stored, too.
    pub(super) refresh: bool,
}

/// How many sessions were seen, each once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub(super) struct ImportCountsView {
    /// Stored, and not known before.
    pub(super) new: u64,
    /// Stored, and different before.
    pub(super) updated: u64,
    /// Known as they are.
    pub(super) unchanged: u64,
    /// Not stored.
    pub(super) failed: u64,
    /// All of them.
    pub(super) total: u64,
}

/// Which sessions are imported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub(super) struct ImportFilterView {
    /// The statuses; empty: all.
    pub(super) status: Vec<SessionStatus>,
    /// The beginning of the window.
    pub(super) since: Option<DateTime<Utc>>,
    /// Its end; fixed when the import began.
    pub(super) until: DateTime<Utc>,
}

/// Where to go from an import.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub(super) struct ImportLinks {
    /// The import.
    #[serde(rename = "self")]
    pub(super) this: String,
    /// POST there cancels it.
    pub(super) cancel: String,
}

/// An import.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub(super) struct ImportView {
    /// The import's id.
    pub(super) import_id: Uuid,
    /// Where it stands.
    pub(super) state: ImportState,
    /// The TARSy's address.
    pub(super) from: String,
    /// `python` or `go`, once it is known.
    pub(super) generation: Option<String>,
    /// Which sessions.
    pub(super) filter: ImportFilterView,
    /// HTTP requests a second; 0: as fast as it goes.
    pub(super) rps: f64,
    /// Whether everything is fetched.
    pub(super) refresh: bool,
    /// What became of the sessions seen so far.
    pub(super) counts: ImportCountsView,
    /// How many sessions the list held at the start, once it is known.
    pub(super) expected: Option<u64>,
    /// Why it failed.
    pub(super) last_error: Option<String>,
    /// Who asked for it.
    pub(super) started_by: String,
    /// When it was asked for.
    pub(super) created_at: DateTime<Utc>,
    /// When it last came further.
    pub(super) updated_at: DateTime<Utc>,
    /// When it ended.
    pub(super) finished_at: Option<DateTime<Utc>>,
    /// Where to go from here.
    pub(super) links: ImportLinks,
}

/// A session that couldn't be stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub(super) struct ImportFailure {
    /// Its id, as the TARSy spells it.
    pub(super) session_id: String,
    /// Why.
    pub(super) reason: String,
}

/// An import with what it couldn't store.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub(super) struct ImportDetail {
    /// The import.
    #[serde(flatten)]
    pub(super) import: ImportView,
    /// The sessions that couldn't be stored; at most 1,000, `counts.failed` has them all.
    pub(super) failures: Vec<ImportFailure>,
}

/// A page of imports, newest first.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub(super) struct ImportList {
    /// The imports.
    pub(super) items: Vec<ImportView>,
    /// Where the next page begins; null on the last.
    pub(super) next_cursor: Option<String>,
}

impl From<ImportRow> for ImportView {
    fn from(row: ImportRow) -> Self {
        let this = format!("/api/v1/sessions/imports/{}", row.import_id);
        Self {
            import_id: row.import_id,
            state: row.state,
            from: row.source,
            generation: row.generation,
            filter: ImportFilterView {
                status: row.statuses,
                since: row.since,
                until: row.until,
            },
            rps: row.requests_per_second,
            refresh: row.refresh,
            counts: ImportCountsView {
                new: row.counts.new,
                updated: row.counts.updated,
                unchanged: row.counts.unchanged,
                failed: row.counts.failed,
                total: row.counts.total(),
            },
            expected: row.expected,
            last_error: row.last_error,
            started_by: row.started_by,
            created_at: row.created_at,
            updated_at: row.updated_at,
            finished_at: row.finished_at,
            links: ImportLinks {
                cancel: format!("{this}/cancel"),
                this,
            },
        }
    }
}

/// Begins an import from a TARSy. Sessions are stored, and nothing is scored.
///
/// Of equal requests one runs at a time: another one is answered with it, and gives it its `rps`, if it names one. Sessions that
/// have ended and are listed as they are stored are not fetched again. Imports that have ended are known for 90 days.
#[utoipa::path(
    post, path = "/api/v1/sessions/import", tag = "sessions",
    request_body(content = ImportBody, description = MAY_BE_LEFT_OUT, example = json!({
        "from": "https://tarsy.example.com", "status": ["completed", "failed"], "since": "30d"
    })),
    responses(
        (status = 200, description = "The same import is running: this one", body = ImportView),
        (status = 202, description = "It is stored and will run", body = ImportView, headers(
            ("Location" = String, description = "The import"), ("Retry-After" = u64, description = "Seconds"))),
        (status = 403, description = "forbidden: another address or a faster pace needs the scope admin", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "invalid-request", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "history-not-configured, database-unavailable", body = Problem, content_type = "application/problem+json"),
    ),
)]
async fn start_import(
    State(state): State<ApiState>,
    caller: Caller,
    effect: Effect,
    params: Params,
    OptionalJson(body): OptionalJson<ImportBody>,
) -> Result<Response, ApiError> {
    params.finish()?;
    let request = ImportRequest {
        from: body.from,
        status: body.status,
        since: body.since,
        until: body.until,
        requests_per_second: body.rps,
        refresh: body.refresh,
        started_by: caller.name(Refusal::Unprocessable)?,
        import_id: effect.id().map(|(id, _)| id),
    };
    if !state.imports.as_configured(&request) {
        caller.require(Scope::Admin)?;
    }
    let begun_before = match effect.id() {
        Some((id, true)) => state.store.import(id).await?,
        Some((_, false)) | None => None,
    };
    let (import, new) = match begun_before {
        Some(import) => (import, true),
        None => state.imports.start(&request).await.map_err(refused)?,
    };
    let status = if new {
        StatusCode::ACCEPTED
    } else {
        StatusCode::OK
    };
    let view = ImportView::from(import);
    let location = HeaderValue::from_str(&view.links.this).ok();
    let mut response = (status, Json(view)).into_response();
    let headers = response.headers_mut();
    headers.insert(header::RETRY_AFTER, HeaderValue::from(RETRY_AFTER_S));
    if let Some(location) = location {
        headers.insert(header::LOCATION, location);
    }
    Ok(response)
}

fn refused(error: StartError) -> ApiError {
    match error {
        StartError::NotConfigured => ApiError::HistoryNotConfigured,
        StartError::Invalid { field, message } => {
            ApiError::fault(Refusal::Unprocessable, format!("/{field}"), message)
        }
        StartError::Store(error) => error.into(),
    }
}

/// Lists imports, newest first.
#[utoipa::path(
    get, path = "/api/v1/sessions/imports", tag = "sessions",
    params(
        ("limit" = Option<u32>, Query, description = "1-500; 50 by default"),
        ("cursor" = Option<String>, Query, description = "A next_cursor of this list"),
    ),
    responses(
        (status = 200, description = "The imports", body = ImportList),
        (status = 422, description = "invalid-request", body = Problem, content_type = "application/problem+json"),
    ),
)]
async fn list_imports(
    State(state): State<ApiState>,
    mut params: Params,
) -> Result<Json<ImportList>, ApiError> {
    let (limit, cursor) = (params.limit(), params.cursor());
    params.finish()?;
    let page = state.store.imports(cursor.as_ref(), limit).await?;
    Ok(Json(ImportList {
        items: page.items.into_iter().map(ImportView::from).collect(),
        next_cursor: page.next_cursor.map(|cursor| cursor.0),
    }))
}

/// Reads an import: how far it is, and what it couldn't store.
#[utoipa::path(
    get, path = "/api/v1/sessions/imports/{import_id}", tag = "sessions",
    params(("import_id" = Uuid, Path, description = "The import")),
    responses(
        (status = 200, description = "The import", body = ImportDetail),
        (status = 404, description = "import-not-found", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "invalid-request", body = Problem, content_type = "application/problem+json"),
    ),
)]
async fn get_import(
    State(state): State<ApiState>,
    Segment(import_id): Segment,
    params: Params,
) -> Result<Json<ImportDetail>, ApiError> {
    let import_id = uuid(&import_id, "import_id", Refusal::Unprocessable)?;
    params.finish()?;
    let import = state.store.import(import_id).await?;
    let import = import.ok_or(ApiError::ImportNotFound(import_id))?;
    let failures = state.store.import_failures(import_id).await?;
    Ok(Json(ImportDetail {
        import: import.into(),
        failures: failures
            .into_iter()
            .map(|(session_id, reason)| ImportFailure { session_id, reason })
            .collect(),
    }))
}

/// Cancels an import; what it has stored stays. Cancelling twice is well.
#[utoipa::path(
    post, path = "/api/v1/sessions/imports/{import_id}/cancel", tag = "sessions",
    params(("import_id" = Uuid, Path, description = "The import")),
    responses(
        (status = 200, description = "The import, cancelled", body = ImportView),
        (status = 404, description = "import-not-found", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "import-ended", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "invalid-request", body = Problem, content_type = "application/problem+json"),
    ),
)]
async fn cancel_import(
    State(state): State<ApiState>,
    Segment(import_id): Segment,
    params: Params,
) -> Result<Json<ImportView>, ApiError> {
    let import_id = uuid(&import_id, "import_id", Refusal::Unprocessable)?;
    params.finish()?;
    let cancelled = state
        .store
        .cancel_import(import_id, state.clock.now())
        .await?;
    let (import, _) = cancelled.ok_or(ApiError::ImportNotFound(import_id))?;
    match import.state {
        ImportState::Cancelled => Ok(Json(import.into())),
        ImportState::Running | ImportState::Completed | ImportState::Failed => {
            Err(ApiError::ImportEnded {
                import_id,
                state: import.state,
            })
        }
    }
}
