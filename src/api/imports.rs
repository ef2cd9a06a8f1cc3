//! Imports from TARSy: start, read, list, cancel. An import stores sessions without scoring them.
//!
//! The scope enqueue allows imports from the configured TARSy at its configured rate. Another URL or a higher rate
//! requires the scope admin, because the client determines the target and the rate of this server's requests.

use axum::Json;
use axum::http::StatusCode;
use axum::response::Response;
use uuid::Uuid;

use crate::api::ApiState;
use crate::api::http::auth::Scope;
use crate::api::http::authorized::Authorized;
use crate::api::http::body::{OPTIONAL_BODY, OptionalJson};
use crate::api::http::extract::{Path, Query};
use crate::api::http::links::begun;
use crate::api::http::problem::{ApiError, ApiResult};
use crate::history::imports::{ImportRequest, StartError};
use crate::store::{Cursor, ImportRow};
use crate::wire::{
    Import, ImportBody, ImportDetail, ImportFailure, ImportFilter, ImportLinks, ImportList,
    ImportState, PageQuery,
};

impl From<ImportRow> for Import {
    fn from(row: ImportRow) -> Self {
        let this = format!("/api/v1/sessions/imports/{}", row.import_id);
        Self {
            import_id: row.import_id,
            state: row.state,
            from: row.source,
            generation: row.generation,
            filter: ImportFilter {
                status: row.statuses,
                since: row.since,
                until: row.until,
            },
            rps: row.requests_per_second,
            refresh: row.refresh,
            counts: row.counts,
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

/// Starts an import from TARSy. Sessions are stored, but not scored.
///
/// Of equal requests only one runs at a time. Another request returns the running import and sets its `rps`, if given.
/// Ended sessions without changes in the list are not fetched again. Ended imports are available for 90 days.
#[utoipa::path(
    post, path = "/api/v1/sessions/import", tag = "sessions",
    request_body(content = ImportBody, description = OPTIONAL_BODY, example = json!({
        "from": "https://tarsy.example.com", "status": ["completed", "failed"], "since": "30d"
    })),
    responses(
        (status = 200, description = "The same import is running: this one", body = Import),
        (status = 202, description = "It is stored and will run", body = Import, headers(
            ("Location" = String, description = "The import"), ("Retry-After" = u64, description = "Seconds"))),
        (status = 403, description = "forbidden: another address or a faster pace needs the scope admin"),
        (status = 503, description = "history-not-configured, database-unavailable"),
    ),
)]
pub(crate) async fn start_import(
    api: Authorized,
    OptionalJson(body): OptionalJson<ImportBody>,
) -> Result<Response, ApiError> {
    let request = ImportRequest {
        from: body.from,
        status: body.status,
        since: body.since,
        until: body.until,
        requests_per_second: body.rps,
        refresh: body.refresh,
        started_by: api.caller.name()?,
        import_id: api.keyed_id.id().map(|(id, _)| id),
    };
    if !api.imports.as_configured(&request) {
        api.caller.require(Scope::Admin)?;
    }
    let begun_before = match api.keyed_id.id() {
        Some((id, true)) => api.store.imports().get(id).await?,
        Some((_, false)) | None => None,
    };
    let (import, new) = match begun_before {
        Some(import) => (import, true),
        None => api.imports.start(&request).await.map_err(refused)?,
    };
    let status = if new {
        StatusCode::ACCEPTED
    } else {
        StatusCode::OK
    };
    let view = Import::from(import);
    let path = view.links.this.clone();
    Ok(begun(status, &path, view))
}

fn refused(error: StartError) -> ApiError {
    match error {
        StartError::NotConfigured => ApiError::HistoryNotConfigured,
        StartError::Invalid { field, message } => ApiError::fault(format!("/{field}"), message),
        StartError::Store(error) => error.into(),
    }
}

/// Lists imports, newest first.
#[utoipa::path(
    get, path = "/api/v1/sessions/imports", tag = "sessions",
    params(PageQuery),
    responses(
        (status = 200, description = "The imports", body = ImportList),
    ),
)]
pub(crate) async fn list_imports(
    state: ApiState,
    Query(page): Query<PageQuery>,
) -> ApiResult<ImportList> {
    let (limit, cursor) = (page.limit(), page.cursor.map(Cursor));
    let page = state.store.imports().list(cursor.as_ref(), limit).await?;
    Ok(Json(ImportList {
        items: page.items.into_iter().map(Import::from).collect(),
        next_cursor: page.next_cursor.map(|cursor| cursor.0),
    }))
}

/// Reads an import with its progress and failures.
#[utoipa::path(
    get, path = "/api/v1/sessions/imports/{import_id}", tag = "sessions",
    responses(
        (status = 200, description = "The import", body = ImportDetail),
        (status = 404, description = "import-not-found"),
    ),
)]
pub(crate) async fn get_import(
    state: ApiState,
    Path(import_id): Path<Uuid>,
) -> ApiResult<ImportDetail> {
    let import = state.store.imports().get(import_id).await?;
    let import = import.ok_or(ApiError::ImportNotFound(import_id))?;
    let failures = state.store.imports().failures(import_id).await?;
    let outdated = match import.state {
        ImportState::Running => None,
        ImportState::Completed | ImportState::Failed | ImportState::Cancelled => {
            Some(state.store.sessions().outdated().await?)
        }
    };
    Ok(Json(ImportDetail {
        outdated,
        import: import.into(),
        failures: failures
            .into_iter()
            .map(|(session_id, reason)| ImportFailure { session_id, reason })
            .collect(),
    }))
}

/// Cancels an import. Its stored sessions are preserved. Cancelling twice has no effect.
#[utoipa::path(
    post, path = "/api/v1/sessions/imports/{import_id}/cancel", tag = "sessions",
    responses(
        (status = 200, description = "The import, cancelled", body = Import),
        (status = 404, description = "import-not-found"),
        (status = 409, description = "import-ended"),
    ),
)]
pub(crate) async fn cancel_import(
    state: ApiState,
    Path(import_id): Path<Uuid>,
) -> ApiResult<Import> {
    let cancelled = state
        .store
        .imports()
        .cancel(import_id, state.clock.now())
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
