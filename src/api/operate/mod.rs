//! Routes for operators: liveness, readiness, metrics. Only `/metrics` needs a token.

pub(crate) mod cluster_metrics;
pub(crate) mod exposition;
pub(crate) mod worker_health;

use axum::Json;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;

use crate::api::http::etag::text_or_unchanged;
use crate::api::http::extract::{Query, QueryPart};
use crate::api::http::problem::ApiError;
use crate::api::{ApiState, Health};
use crate::store::Store;
use crate::wire::{Check, Readiness, ReadinessStatus};

/// Liveness of the process. Checks no dependencies, because a restart can't fix them.
#[utoipa::path(get, path = "/livez", tag = "operate", responses((status = 200, description = "It runs", body = String, content_type = "text/plain")))]
pub(crate) async fn livez() -> &'static str {
    "ok\n"
}

#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(crate) struct ReadyQuery {
    /// Adds the list of checks; `?verbose` is enough
    pub(crate) verbose: bool,
}

impl QueryPart for ReadyQuery {}

/// Readiness for requests. 503 only if the database is unavailable or not migrated, or the process drains.
#[utoipa::path(
    get, path = "/readyz", tag = "operate",
    params(ReadyQuery),
    responses(
        (status = 200, description = "`ok`, or `degraded` with the reasons", body = Readiness),
        (status = 503, description = "`unavailable`", body = Readiness),
    ),
)]
pub(crate) async fn readyz(state: ApiState, Query(query): Query<ReadyQuery>) -> Response {
    probed(readiness(&state).await, query.verbose)
}

pub(crate) async fn readiness(state: &ApiState) -> Readiness {
    let checks = vec![database(&state.store).await];
    ready(&*state.health, checks).await
}

/// Returns the response to a probe: 503 if unavailable, otherwise 200.
pub(crate) fn probed(mut readiness: Readiness, verbose: bool) -> Response {
    if !verbose {
        (readiness.checks, readiness.version) = (None, None);
    }
    let code = match readiness.status {
        ReadinessStatus::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        ReadinessStatus::Degraded | ReadinessStatus::Ok => StatusCode::OK,
    };
    (code, Json(readiness)).into_response()
}

/// Returns unavailable if a check failed or the process drains.
pub(crate) async fn ready(health: &dyn Health, mut checks: Vec<Check>) -> Readiness {
    if health.draining() {
        checks.push(failed("process", "is draining: it accepts no more work"));
    } else {
        checks.push(passed("process"));
    }
    let unavailable = checks.iter().any(|check| !check.ok);
    let degraded = health.degraded().await;
    if degraded.is_empty() {
        checks.push(passed("services"));
    }
    checks.extend(degraded.into_iter().map(|(name, why)| failed(name, why)));
    let reasons: Vec<String> = checks
        .iter()
        .filter_map(|check| check.detail.clone())
        .collect();
    Readiness {
        status: match (unavailable, reasons.is_empty()) {
            (true, _) => ReadinessStatus::Unavailable,
            (false, false) => ReadinessStatus::Degraded,
            (false, true) => ReadinessStatus::Ok,
        },
        reasons,
        checks: Some(checks),
        version: Some(env!("CARGO_PKG_VERSION").to_owned()),
    }
}

/// Checks that the database is available and has this version's schema.
pub(crate) async fn database(store: &Store) -> Check {
    // Only logged, because driver errors may contain hosts and users.
    if let Err(error) = store.ping().await {
        tracing::warn!(%error, "not ready");
        return failed("database", "the database does not answer: see the log");
    }
    match store.pending_migrations().await {
        Ok(pending) if pending.is_empty() => passed("database"),
        Ok(pending) => {
            // A schema that the role can't read looks like one without tables.
            let detail = match store.missing_grants().await {
                Ok(missing) if !missing.is_empty() => format!(
                    "the role has too few privileges on Gavel's tables; run as their owner: {}",
                    missing.join("; ")
                ),
                Ok(_) | Err(_) => format!(
                    "the database is missing {} migration(s): run `gavel migrate`",
                    pending.len()
                ),
            };
            failed("database", detail)
        }
        Err(error) => {
            tracing::warn!(%error, "not ready");
            failed(
                "database",
                "this version doesn't support the schema: see the log",
            )
        }
    }
}

pub(crate) fn passed(name: &'static str) -> Check {
    Check {
        name: name.to_owned(),
        ok: true,
        detail: None,
    }
}

pub(crate) fn failed(name: &'static str, detail: impl Into<String>) -> Check {
    Check {
        name: name.to_owned(),
        ok: false,
        detail: Some(detail.into()),
    }
}

/// Metrics of the process and the cluster in Prometheus text format.
///
/// `docs/operate.md` lists all metrics. Names that start with `gavel_cluster_` cover the entire installation and are
/// the same in each API process. The others are per process.
#[utoipa::path(
    get, path = "/metrics", tag = "operate",
    responses(
        (status = 200, description = "The metrics", body = String, content_type = "text/plain"),
        (status = 404, description = "not-found: this process keeps no metrics"),
    ),
)]
pub(crate) async fn prometheus(state: ApiState) -> Result<Response, ApiError> {
    let render_own = state.metrics.as_ref().ok_or(ApiError::NoRoute)?;
    let of_cluster = state.cluster_metrics().render(&state).await;
    Ok(render(render_own() + &of_cluster))
}

/// Returns metrics with the media type of Prometheus.
pub(crate) fn render(text: String) -> Response {
    let headers = [(
        header::CONTENT_TYPE,
        "text/plain; version=0.0.4; charset=utf-8",
    )];
    (headers, text).into_response()
}

/// This document.
#[utoipa::path(
    get, path = "/openapi.json", tag = "operate",
    params(("If-None-Match" = Option<String>, Header, description = "ETags of this route: 304 if one still holds")),
    responses(
        (status = 200, description = "OpenAPI 3.1", body = Object, headers(("ETag" = String, description = "Its version"))),
        (status = 304, description = "Not changed"),
    ),
)]
pub(crate) async fn openapi_document(headers: HeaderMap) -> Response {
    text_or_unchanged(&headers, crate::api::openapi_json())
}
