//! HTTP for programs: one file per noun. Never sees a judge, a queue or a worker: what it shows of them it reads from the store.
//! (Skeleton: bodies to be written.)

mod serve;

use std::sync::Arc;

use async_trait::async_trait;

use crate::clock::Clock;
use crate::config::{AuthSettings, HttpSettings};
use crate::enqueue::Enqueue;
use crate::store::Store;

pub use serve::{ServeError, serve};

/// What the process knows of its own health beside the store; `app` implements it.
#[async_trait]
pub trait Health: Send + Sync {
    /// What is degraded, one sentence each with its remedy; empty when all is well (Redis away, no judge configured, bad criteria file at reload ..).
    async fn degraded(&self) -> Vec<String>;
    /// Whether the process is stopping.
    fn draining(&self) -> bool;
}

/// What the handlers need.
#[derive(Clone)]
pub struct ApiState {
    /// The truth.
    pub store: Arc<Store>,
    /// Step 1 of the flow.
    pub enqueue: Arc<Enqueue>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Limits and hosts.
    pub http: HttpSettings,
    /// Tokens.
    pub auth: AuthSettings,
    /// Beside the store.
    pub health: Arc<dyn Health>,
    /// A worker is alive if it was heard within this time.
    pub worker_stale_after: std::time::Duration,
    /// `max_wait`: after this long in state waiting a job fails.
    pub max_wait: std::time::Duration,
    /// The address that is bound.
    pub bind: std::net::SocketAddr,
}

/// The whole API as one router; an error if the auth settings don't hold together (a bad token line, a public bind without tokens).
pub fn router(_state: ApiState) -> Result<axum::Router, String> {
    unimplemented!()
}

/// The OpenAPI 3.1 document, pretty JSON.
pub fn openapi_json() -> String {
    unimplemented!()
}
