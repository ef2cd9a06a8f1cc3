//! The API from inside the process, for the pages: what reads is a call of its typed functions, what acts goes through the same
//! handlers, scopes and idempotency keys as over the network.

use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{MatchedPath, Request};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tower::ServiceExt as _;

use super::auth::{Caller, Scope, scope_of};
use super::guard::Guard;
use super::problem::{self, ApiError};
use crate::api::ApiState;
use crate::wire::Problem;

/// The largest answer that is held for a page, bytes: the longest conversation with its JSON around it fits.
const MAX_ANSWER: usize = 64 << 20;

const KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// A way into the API's handlers.
#[derive(Clone)]
pub(crate) struct InProcessClient {
    state: ApiState,
    routes: Router,
    guard: Arc<Guard>,
}

/// What the API answered to a request that it took.
#[derive(Debug)]
pub(crate) struct Done {
    body: Bytes,
}

impl Done {
    /// Reads the body.
    pub(crate) fn json<T: DeserializeOwned>(&self) -> Result<T, Box<Problem>> {
        serde_json::from_slice(&self.body)
            .map_err(|error| problem::internal(&format!("reading an answer: {error}")))
    }
}

impl InProcessClient {
    /// A client of these routes, which have their layers.
    pub(crate) fn new(state: ApiState, routes: Router, guard: Arc<Guard>) -> Self {
        Self {
            state,
            routes: routes.layer(from_fn(scoped)),
            guard,
        }
    }

    /// Whether anybody must show who they are.
    pub(crate) fn is_guarded(&self) -> bool {
        self.guard.auth.is_guarded()
    }

    /// Signs a browser in, and what it was signed in with before out; answers the id for its cookie.
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

    /// Signs the browser out that sends these headers.
    pub(crate) async fn sign_out(&self, headers: &HeaderMap, peer: IpAddr) -> Result<(), ApiError> {
        self.guard.auth.sign_out(headers, Some(peer)).await
    }

    /// What the API's typed functions read with, for a caller who may read.
    pub(crate) fn reader(&self, caller: &Caller) -> Result<&ApiState, ApiError> {
        caller.require(Scope::Read)?;
        Ok(&self.state)
    }

    /// Sends JSON by POST. With a key, a form that is sent twice is done once.
    pub(crate) async fn post<T: Serialize + ?Sized>(
        &self,
        caller: &Caller,
        path: &str,
        key: Option<&str>,
        body: &T,
    ) -> Result<Done, Box<Problem>> {
        let mut request = json_request(Method::POST, path, body)?;
        if let Some(key) = key.and_then(|key| HeaderValue::from_str(key).ok()) {
            request.headers_mut().insert(KEY, key);
        }
        self.ask(caller, request).await
    }

    /// Sends a body of another type by POST, as it streams in.
    pub(crate) async fn upload(
        &self,
        caller: &Caller,
        path: &str,
        headers: HeaderMap,
        body: Body,
    ) -> Result<Done, Box<Problem>> {
        let mut request = request(Method::POST, path, body)?;
        request.headers_mut().extend(headers);
        self.ask(caller, request).await
    }

    /// Sends JSON by PUT.
    pub(crate) async fn put<T: Serialize + ?Sized>(
        &self,
        caller: &Caller,
        path: &str,
        body: &T,
    ) -> Result<Done, Box<Problem>> {
        let request = json_request(Method::PUT, path, body)?;
        self.ask(caller, request).await
    }

    /// Sends DELETE.
    pub(crate) async fn delete(&self, caller: &Caller, path: &str) -> Result<Done, Box<Problem>> {
        let request = request(Method::DELETE, path, Body::empty())?;
        self.ask(caller, request).await
    }

    /// Hands an answer on as it is, such as a report that streams.
    pub(crate) async fn pass(&self, caller: &Caller, path: &str) -> Response {
        match request(Method::GET, path, Body::empty()) {
            Ok(request) => self.answer(caller, request).await,
            Err(problem) => problem::response(*problem),
        }
    }

    async fn ask(&self, caller: &Caller, request: Request) -> Result<Done, Box<Problem>> {
        let mut response = self.answer(caller, request).await;
        if let Some(problem) = response.extensions_mut().remove::<Problem>() {
            return Err(Box::new(problem));
        }
        let body = to_bytes(response.into_body(), MAX_ANSWER)
            .await
            .map_err(|error| problem::internal(&format!("reading an answer: {error}")))?;
        Ok(Done { body })
    }

    async fn answer(&self, caller: &Caller, mut request: Request) -> Response {
        request.extensions_mut().insert(caller.clone());
        match self.routes.clone().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }
}

/// Holds a caller against the scope that the route needs, as the guard does for requests from outside.
async fn scoped(request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>();
    let route = route.map_or(request.uri().path(), MatchedPath::as_str);
    let needed = scope_of(request.method(), route);
    let caller = request.extensions().get::<Caller>();
    let refused = match (needed, caller) {
        (Some(needed), Some(caller)) => caller.require(needed).err(),
        (Some(_), None) => Some(ApiError::Internal("a request without a caller".to_owned())),
        (None, _) => None,
    };
    match refused {
        Some(error) => error.into_response(),
        None => next.run(request).await,
    }
}

fn json_request<T: Serialize + ?Sized>(
    method: Method,
    path: &str,
    body: &T,
) -> Result<Request, Box<Problem>> {
    let text = serde_json::to_vec(body).map_err(|error| problem::internal(&error.to_string()))?;
    let mut request = request(method, path, Body::from(text))?;
    let json = HeaderValue::from_static("application/json");
    request.headers_mut().insert(header::CONTENT_TYPE, json);
    Ok(request)
}

fn request(method: Method, path: &str, body: Body) -> Result<Request, Box<Problem>> {
    let uri: Uri = path
        .parse()
        .map_err(|error| problem::internal(&format!("asking for {path:?}: {error}")))?;
    let mut request = Request::new(body);
    *request.method_mut() = method;
    *request.uri_mut() = uri;
    Ok(request)
}
