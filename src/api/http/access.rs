//! In-process access to the API for pages: typed functions with the same scopes, body limits and idempotency keys as over the network.

use std::net::IpAddr;
use std::sync::Arc;

use axum::Json;
use axum::http::{HeaderMap, Method};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::auth::{Caller, Scope, scope_of};
use super::authorized::Authorized;
use super::body::check_shape;
use super::body_memory::BodyMemory;
use super::guard::Guard;
use super::idempotency::{IdempotentId, KeyDisposition, do_once, hash};
use super::problem::{ApiError, ApiResult};
use crate::api::ApiState;
use crate::memory::JsonShape;
use crate::store::KeptAnswer;

#[derive(Clone)]
pub(crate) struct ApiAccess {
    state: ApiState,
    guard: Arc<Guard>,
}

impl ApiAccess {
    pub(crate) fn new(state: ApiState, guard: Arc<Guard>) -> Self {
        Self { state, guard }
    }

    pub(crate) fn is_guarded(&self) -> bool {
        self.guard.auth.is_guarded()
    }

    /// Signs a browser in, and its previous sign-in out. Returns the id for its cookie.
    pub(crate) async fn sign_in(
        &self,
        token: &str,
        headers: &HeaderMap,
        peer: IpAddr,
    ) -> Result<String, ApiError> {
        let id = self.guard.auth.sign_in(token, Some(peer)).await?;
        self.sign_out(headers, peer).await?;
        Ok(id)
    }

    pub(crate) async fn sign_out(&self, headers: &HeaderMap, peer: IpAddr) -> Result<(), ApiError> {
        self.guard.auth.sign_out(headers, Some(peer)).await
    }

    /// Returns the state for reading, if the caller has the read scope.
    pub(crate) fn reader(&self, caller: &Caller) -> Result<&ApiState, ApiError> {
        caller.require(Scope::Read)?;
        Ok(&self.state)
    }

    /// Returns authorization for a route, if the caller has its scope.
    pub(crate) fn authorize(
        &self,
        caller: &Caller,
        method: &Method,
        route: &str,
    ) -> Result<Authorized, ApiError> {
        if let Some(needed) = scope_of(method, route) {
            caller.require(needed)?;
        }
        Ok(Authorized {
            state: self.state.clone(),
            caller: caller.clone(),
            keyed_id: IdempotentId::default(),
            memory: BodyMemory::of(&self.state.memory),
        })
    }

    /// Executes POST to `route`. With a key, repetitions are executed once.
    pub(crate) async fn post<R, T, F>(
        &self,
        (caller, key): (&Caller, Option<&str>),
        route: &str,
        request: R,
        act: impl FnOnce(Authorized, R) -> F,
    ) -> Result<T, ApiError>
    where
        R: Serialize,
        T: Serialize + DeserializeOwned + Send + 'static,
        F: Future<Output = ApiResult<T>> + Send + 'static,
    {
        let mut api = self.authorize(caller, &Method::POST, route)?;
        let text = serde_json::to_vec(&request)
            .map_err(|error| ApiError::Internal(format!("weighing a form: {error}")))?;
        let (limits, shape) = (&self.state.http, JsonShape::measure(&text));
        if text.len() > limits.max_body_bytes {
            let max = limits.max_body_bytes;
            return Err(ApiError::TooLarge { pointer: "", max });
        }
        check_shape(shape, limits, &api.memory).await?;
        let Some(key) = key else {
            return act(api, request).await.map(|Json(value)| value);
        };
        let caller = caller.idempotency_scope();
        let key = hash(&[&caller, b"POST", route.as_bytes(), key.as_bytes()]);
        let work = |keyed_id| {
            api.keyed_id = keyed_id;
            let acting = act(api, request);
            async {
                let kept = acting.await.and_then(|Json(value)| {
                    let body = serde_json::to_string(&value);
                    let body = body.map_err(|error| ApiError::Internal(error.to_string()))?;
                    Ok(KeptAnswer {
                        status: 200,
                        headers: Vec::new(),
                        body,
                    })
                });
                kept.map_err(|error| (KeyDisposition::of_error(&error), error))
            }
        };
        let kept = do_once(&self.state, key, hash(&[&text]), work).await??;
        serde_json::from_str(&kept.body)
            .map_err(|error| ApiError::Internal(format!("reading a stored response: {error}")))
    }
}
