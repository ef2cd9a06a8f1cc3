//! The API from inside the process: the same handlers, scopes and refusals as over the network, for the pages. Opens no socket,
//! and knows nothing that a client of the API couldn't.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{MatchedPath, Request};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tower::ServiceExt as _;

use super::auth::{Caller, Scope, scope_of};
use super::guard::Guard;
use super::problem::{ApiError, Problem};

/// The largest answer that is held for a page, bytes: the longest conversation with its JSON around it fits.
const MAX_ANSWER: usize = 64 << 20;

/// How long a page waits for an answer: who looks at an empty window for longer has left. A statement itself may take a minute, and
/// is tried once more.
const PATIENCE: Duration = Duration::from_secs(20);

/// The header of idempotency keys.
const KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// A way into the API's handlers.
#[derive(Clone)]
pub(crate) struct InProcessClient {
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
        read(&self.body)
    }
}

impl InProcessClient {
    /// A client of these routes, which have their layers.
    pub(crate) fn to(routes: Router, guard: Arc<Guard>) -> Self {
        Self {
            routes: routes.layer(from_fn(scoped)),
            guard,
        }
    }

    /// Whether there are tokens to sign in with.
    pub(crate) fn has_tokens(&self) -> bool {
        self.guard.auth.has_tokens()
    }

    /// Whether a browser with this cookie may read.
    pub(crate) fn admits(&self, cookie: &str) -> bool {
        let mut headers = HeaderMap::new();
        let value = HeaderValue::from_str(cookie);
        value.is_ok_and(|value| {
            headers.insert(header::COOKIE, value);
            let auth = &self.guard.auth;
            auth.admit(&headers, Some(Scope::Read), None).is_ok()
        })
    }

    /// Reads what a path (with its query) answers.
    pub(crate) async fn get<T: DeserializeOwned>(
        &self,
        caller: &Caller,
        path: &str,
    ) -> Result<T, Box<Problem>> {
        let request = request(Method::GET, path, Body::empty())?;
        read(&patiently(self.ask(caller, request)).await?.body)
    }

    /// The same; `None` if there is no such thing (404).
    pub(crate) async fn find<T: DeserializeOwned>(
        &self,
        caller: &Caller,
        path: &str,
    ) -> Result<Option<T>, Box<Problem>> {
        match self.get(caller, path).await {
            Ok(found) => Ok(Some(found)),
            Err(problem) if problem.status == StatusCode::NOT_FOUND.as_u16() => Ok(None),
            Err(problem) => Err(problem),
        }
    }

    /// Sends JSON by POST. With a key, a form that is sent twice is done once.
    pub(crate) async fn post<T: Serialize + ?Sized>(
        &self,
        caller: &Caller,
        path: &str,
        key: Option<&str>,
        body: &T,
    ) -> Result<Done, Box<Problem>> {
        let text = serde_json::to_vec(body).map_err(|error| internal(&error.to_string()))?;
        let mut request = request(Method::POST, path, Body::from(text))?;
        let headers = request.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/json"),
        );
        if let Some(key) = key.and_then(|key| HeaderValue::from_str(key).ok()) {
            headers.insert(KEY, key);
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
        let text = serde_json::to_vec(body).map_err(|error| internal(&error.to_string()))?;
        let mut request = request(Method::PUT, path, Body::from(text))?;
        let json = HeaderValue::from_static("application/json");
        request.headers_mut().insert(header::CONTENT_TYPE, json);
        self.ask(caller, request).await
    }

    /// Hands an answer on as it is, such as a report that streams.
    pub(crate) async fn pass(&self, caller: &Caller, path: &str) -> Response {
        match request(Method::GET, path, Body::empty()) {
            Ok(request) => self.answer(caller, request).await,
            Err(problem) => (*problem).into_response(),
        }
    }

    async fn ask(&self, caller: &Caller, request: Request) -> Result<Done, Box<Problem>> {
        let mut response = self.answer(caller, request).await;
        if let Some(problem) = response.extensions_mut().remove::<Problem>() {
            return Err(Box::new(problem));
        }
        let body = to_bytes(response.into_body(), MAX_ANSWER)
            .await
            .map_err(|error| internal(&format!("reading an answer: {error}")))?;
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

/// Waits for what only reads, but not for ever: a database that hangs is told as one that is away.
async fn patiently(
    reading: impl Future<Output = Result<Done, Box<Problem>>>,
) -> Result<Done, Box<Problem>> {
    let answered = tokio::time::timeout(PATIENCE, reading).await;
    answered.unwrap_or_else(|_| {
        let waited = format!("a page waited {} s for an answer", PATIENCE.as_secs());
        tracing::warn!(waited, "database unavailable");
        Err(Box::new(ApiError::DatabaseUnavailable(waited).problem()))
    })
}

fn request(method: Method, path: &str, body: Body) -> Result<Request, Box<Problem>> {
    let uri: Uri = path
        .parse()
        .map_err(|error| internal(&format!("asking for {path:?}: {error}")))?;
    let mut request = Request::new(body);
    *request.method_mut() = method;
    *request.uri_mut() = uri;
    Ok(request)
}

fn read<T: DeserializeOwned>(body: &Bytes) -> Result<T, Box<Problem>> {
    serde_json::from_slice(body).map_err(|error| internal(&format!("reading an answer: {error}")))
}

fn internal(text: &str) -> Box<Problem> {
    Box::new(ApiError::Internal(text.to_owned()).problem())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_page_does_not_wait_for_ever() {
        let hung = patiently(std::future::pending()).await;
        let problem = hung.map(|_| ()).unwrap_err();
        assert_eq!(
            (problem.status, problem.slug()),
            (503, "database-unavailable")
        );
    }
}
