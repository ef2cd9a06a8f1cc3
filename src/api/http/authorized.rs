//! Leave to do what a route does: typed functions that change something take it. The guard has given it to a request from outside,
//! and `ApiAccess` gives it to a page.

use std::convert::Infallible;
use std::ops::Deref;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use super::auth::Caller;
use super::body_memory::BodyMemory;
use super::idempotency::KeyedId;
use crate::api::ApiState;

/// One request that may do what it asks for.
#[derive(Clone)]
pub(crate) struct Authorized {
    pub(super) state: ApiState,
    pub(crate) caller: Caller,
    pub(crate) keyed_id: KeyedId,
    /// What it has taken of the memory for bodies.
    pub(crate) memory: BodyMemory,
}

impl Deref for Authorized {
    type Target = ApiState;

    fn deref(&self) -> &ApiState {
        &self.state
    }
}

/// Checks nothing: the guard has, and put the caller there.
impl FromRequestParts<ApiState> for Authorized {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &ApiState) -> Result<Self, Infallible> {
        Ok(Self {
            state: state.clone(),
            caller: parts.extensions.get().cloned().unwrap_or_default(),
            keyed_id: parts.extensions.get().copied().unwrap_or_default(),
            memory: BodyMemory::from_parts(parts),
        })
    }
}
