//! A worker's port with `/livez`, `/readyz` and `/metrics` for the orchestrator and Prometheus.
//!
//! Guarded like the API: probes are open, `/metrics` needs a token with scope read if tokens exist.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{ReadyQuery, database, failed, livez, passed, probed, ready, render};
use crate::api::http::connections;
use crate::api::http::extract::Query;
use crate::api::http::guard::Guard;
use crate::api::http::problem::ApiError;
use crate::api::{Health, Metrics, Pages, Tokens, http};
use crate::config::{AuthSettings, HttpSettings};
use crate::store::Store;
use crate::wire::Check;

pub struct WorkerHealthParts {
    pub store: Arc<Store>,
    pub health: Arc<dyn Health>,
    /// Content of `/metrics`. `None`: 404.
    pub metrics: Option<Metrics>,
    /// Id of this worker. `None` until it has started.
    pub worker: Arc<dyn Fn() -> Option<Uuid> + Send + Sync>,
    /// Maximum age of the last accepted heartbeat.
    pub stale_after: Duration,
    /// Hosts and proxies.
    pub http: HttpSettings,
    pub auth: AuthSettings,
    /// Loaded from `auth`. The owner of a clone can reload them.
    pub tokens: Tokens,
}

/// Serves `listener` until `stop`. Returns an error for conflicting settings.
pub async fn serve_worker_health(
    listener: TcpListener,
    parts: WorkerHealthParts,
    stop: CancellationToken,
) -> Result<(), String> {
    let bind = listener.local_addr().map_err(|error| error.to_string())?;
    let guard = Guard::new(parts.tokens.clone(), &parts.auth, &parts.http, bind)?;
    let limits = parts.http.clone();
    let routes = Router::new()
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .fallback(|| async { ApiError::NoRoute })
        .method_not_allowed_fallback(|| async { ApiError::MethodNotAllowed })
        .with_state(Arc::new(parts));
    let router = http::layers::around(routes, Arc::new(guard), Pages::none().problem);
    connections::answer(listener, router, &limits, stop).await;
    Ok(())
}

/// Readiness of this worker. 503 if the database is unavailable or not migrated, the heartbeat is too old, or the worker drains.
async fn readyz(
    State(parts): State<Arc<WorkerHealthParts>>,
    Query(query): Query<ReadyQuery>,
) -> Response {
    let mut checks = vec![database(&parts.store).await];
    if checks.iter().all(|check| check.ok) {
        checks.push(heartbeat(&parts).await);
    }
    probed(ready(&*parts.health, checks).await, query.verbose)
}

async fn heartbeat(parts: &WorkerHealthParts) -> Check {
    let Some(id) = (parts.worker)() else {
        return failed("heartbeat", "the worker has not started yet");
    };
    match parts.store.workers().list().await {
        Ok(workers) if workers.iter().any(|it| it.worker_id == id && it.alive) => {
            passed("heartbeat")
        }
        Ok(_) => failed(
            "heartbeat",
            format!(
                "the worker's last accepted heartbeat is older than a lease ({} s): others take its jobs; see the log",
                parts.stale_after.as_secs_f64()
            ),
        ),
        Err(error) => {
            tracing::warn!(%error, "not ready");
            failed("heartbeat", "the database does not answer: see the log")
        }
    }
}

async fn metrics(State(parts): State<Arc<WorkerHealthParts>>) -> Result<Response, ApiError> {
    let render_own = parts.metrics.as_ref().ok_or(ApiError::NoRoute)?;
    Ok(render(render_own()))
}
