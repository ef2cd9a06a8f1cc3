//! Authorization for a route, required by typed functions with side effects. The guard grants it to external requests,
//! `ApiAccess` to pages.

use std::convert::Infallible;
use std::ops::Deref;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use super::auth::Caller;
use super::body_memory::BodyMemory;
use super::idempotency::IdempotentId;
use crate::api::ApiState;

#[derive(Clone)]
pub(crate) struct Authorized {
    pub(super) state: ApiState,
    pub(crate) caller: Caller,
    pub(crate) keyed_id: IdempotentId,
    /// Memory reserved for its body.
    pub(crate) memory: BodyMemory,
}

impl Deref for Authorized {
    type Target = ApiState;

    fn deref(&self) -> &ApiState {
        &self.state
    }
}

impl FromRequestParts<Self> for ApiState {
    type Rejection = Infallible;

    async fn from_request_parts(_parts: &mut Parts, state: &Self) -> Result<Self, Infallible> {
        Ok(state.clone())
    }
}

/// Doesn't check anything, because the guard did and stored the caller.
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
