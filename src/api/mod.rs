//! HTTP API: one folder per resource, common parts in `http`. Accesses judges, queue and workers only through the store.
//!
//! ```text
//! request ─▶ layers (id, span, gzip, problems, panics) ─▶ guard (headers, host, origin, token) ─▶ idempotency ─▶ handler ─▶ typed function ─▶ enqueue | store
//!                                                                       pages ─▶ access (scope, limits, idempotency) ─▶┘
//! ```
//!
//! [`problem::ALL`] lists all errors, `/openapi.json` the rest. [`serve`] adds the peer's address to each request.
//! Without it no proxy is trusted.

pub(crate) mod analytics;
pub(crate) mod batches;
pub(crate) mod criteria;
mod events;
mod http;
mod imports;
pub(crate) mod jobs;
pub(crate) mod judges;
pub(crate) mod operate;
pub(crate) mod ratings;
pub(crate) mod rescore;
mod routes;
pub(crate) mod scores;
pub(crate) mod sessions;
pub(crate) mod webhooks;

use std::sync::Arc;

use async_trait::async_trait;
use axum::Router;
use axum::middleware::from_fn_with_state;
use tokio_util::task::TaskTracker;
use utoipa_swagger_ui::{Config, SwaggerUi};

use crate::clock::Clock;
use crate::config::{AuthSettings, HttpSettings};
use crate::enqueue::Enqueue;
use crate::events::Announcer;
use crate::history::imports::Imports;
use crate::memory::MemoryBudget;
use crate::store::Store;
use batches::reports::ReportPermits;
use http::browsers::Browsers;
use http::idempotency::KeyLeases;
use http::{body_memory, extract, guard, idempotency, layers, openapi};
use operate::cluster_metrics::ClusterMetrics;

pub use events::Streams;
pub(crate) use http::access::ApiAccess;
pub(crate) use http::auth::{Caller, SIGN_IN_COOKIE, Scope, cookie};
pub(crate) use http::authorized::Authorized;
pub(crate) use http::body::{ApiJson, OptionalJson, READ_TIMEOUT, in_time, typed};
pub(crate) use http::extract::{Pairs, Path, Query, pairs_of, read_query};
pub(crate) use http::layers::{FailedRequest, PaintProblem};
pub use http::problem;
pub(crate) use http::problem::{ApiError, ApiResult};
pub use http::serve::{Leaving, serve};
pub(crate) use http::spool::{LARGE_READ_TIMEOUT, Spooled};
pub use http::tokens::Tokens;
pub(crate) use http::transport::Transport;
pub use judges::spending::{SpendingCap, SpendingCaps};
pub use operate::worker_health::{WorkerHealthParts, serve_worker_health};

/// Health of the process, except the store; implemented by `app`.
#[async_trait]
pub trait Health: Send + Sync {
    /// Returns failed checks: the name (`scoring`, `judge`, [`HOLD`], `criteria`, `queue`, `clock`, `retention`, `workers`) and a
    /// sentence with the remedy. Empty if healthy. Examples: Redis unavailable, no judge configured, invalid criteria file at reload.
    async fn degraded(&self) -> Vec<(&'static str, String)>;
    fn draining(&self) -> bool;
}

/// The check of judges that are stopped until an operator acts.
pub const HOLD: &str = "hold";

/// Renders the process metrics in Prometheus text format.
pub type Metrics = Arc<dyn Fn() -> String + Send + Sync>;

/// Returns the names of the configured judges.
pub type JudgeNames = Arc<dyn Fn() -> Vec<String> + Send + Sync>;

/// Returns the name of a judge's fallback, if configured.
pub type FallbackOf = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Shared state of the handlers. One pointer, because every request holds a clone.
#[derive(Clone)]
pub(crate) struct ApiState(Arc<Shared>);

struct Shared {
    parts: ApiParts,
    report_permits: ReportPermits,
    cluster_metrics: ClusterMetrics,
    key_leases: KeyLeases,
}

impl std::ops::Deref for ApiState {
    type Target = ApiParts;

    fn deref(&self) -> &ApiParts {
        &self.0.parts
    }
}

impl ApiState {
    fn new(parts: ApiParts) -> Self {
        let report_permits = ReportPermits::new(parts.memory.clone());
        Self(Arc::new(Shared {
            parts,
            report_permits,
            cluster_metrics: ClusterMetrics::default(),
            key_leases: KeyLeases::default(),
        }))
    }

    fn report_permits(&self) -> &ReportPermits {
        &self.0.report_permits
    }

    fn cluster_metrics(&self) -> &ClusterMetrics {
        &self.0.cluster_metrics
    }

    fn key_leases(&self) -> &KeyLeases {
        &self.0.key_leases
    }
}

pub struct ApiParts {
    pub store: Arc<Store>,
    pub enqueue: Arc<Enqueue>,
    pub imports: Arc<Imports>,
    pub clock: Arc<dyn Clock>,
    /// Limits and hosts.
    pub http: HttpSettings,
    pub auth: AuthSettings,
    /// Loaded from `auth`. The owner of a clone can reload them.
    pub tokens: Tokens,
    pub health: Arc<dyn Health>,
    /// Content of `/metrics`. `None`: 404.
    pub metrics: Option<Metrics>,
    pub judges: JudgeNames,
    pub fallback_of: FallbackOf,
    pub caps: SpendingCaps,
    /// `max_wait`: a job fails after this time in state waiting.
    pub max_wait: std::time::Duration,
    pub events: Announcer,
    pub streams: Streams,
    /// Requests with an `Idempotency-Key`, which continue if their client disconnects. [`serve`] waits for them.
    pub keyed: TaskTracker,
    pub memory: MemoryBudget,
    pub bind: std::net::SocketAddr,
}

/// Pages on top of the API, and their rendering of problems.
pub struct Pages {
    pub(crate) routes: Box<dyn FnOnce(ApiAccess) -> Router + Send>,
    pub(crate) problem: PaintProblem,
}

impl Pages {
    #[must_use]
    pub fn none() -> Self {
        Self {
            routes: Box::new(|_| Router::new()),
            problem: |_, _| None,
        }
    }
}

/// Builds the router of the API and the pages. Fails for conflicting auth settings (an invalid token line, a public bind without tokens).
pub fn router(parts: ApiParts, pages: Pages) -> Result<Router, String> {
    let state = ApiState::new(parts);
    let mut guard = guard::Guard::new(state.tokens.clone(), &state.auth, &state.http, state.bind)?;
    guard.auth.browsers = Some(Browsers {
        store: state.store.clone(),
        clock: state.clock.clone(),
        lasts: chrono::TimeDelta::hours(state.auth.sign_in_hours.into()),
    });
    let guard = Arc::new(guard);
    let (documented, document) = openapi::documented().split_for_parts();
    let queried = Arc::new(openapi::queried(&document));
    let handlers = documented
        .with_state(state.clone())
        .layer(from_fn_with_state(queried, extract::reject_query))
        .layer(from_fn_with_state(state.clone(), idempotency::once))
        .layer(from_fn_with_state(state.memory.clone(), body_memory::hold));
    let routes = handlers
        .merge(viewer())
        .merge((pages.routes)(ApiAccess::new(state, guard.clone())))
        .fallback(|| async { ApiError::NoRoute })
        .method_not_allowed_fallback(|| async { ApiError::MethodNotAllowed });
    Ok(layers::around(routes, guard, pages.problem))
}

/// Checks whether [`router`] would accept these settings, so that a process can fail before it opens anything.
pub fn check_access(
    auth: &AuthSettings,
    http: &HttpSettings,
    bind: std::net::SocketAddr,
) -> Result<(), String> {
    guard::Guard::new(Tokens::default(), auth, http, bind).map(drop)
}

/// Serves the viewer of the OpenAPI document from the binary, without external resources.
fn viewer() -> Router {
    let config = Config::new(["/openapi.json"]).validator_url("none");
    SwaggerUi::new("/docs").config(config).into()
}

pub fn openapi_json() -> String {
    let (_, document) = openapi::documented().split_for_parts();
    document.to_pretty_json().unwrap_or_default()
}
