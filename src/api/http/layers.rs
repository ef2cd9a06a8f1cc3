//! What surrounds every handler: request ids, one span and one log line per request, panics, problem documents, gzip both ways.
//!
//! Bodies and query strings are never logged; the path, the status and the duration are.

use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

use axum::body::Bytes;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::{Json, Router};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::CompressionLayer;
use tower_http::decompression::RequestDecompressionLayer;
use tracing::Instrument as _;
use uuid::Uuid;

use super::guard::{Guard, SentForm, guard};
use super::problem::{ApiError, MEDIA_TYPE};
use crate::wire::Problem;

/// The header of request ids, in and out.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The longest id that is taken over from a client.
const MAX_REQUEST_ID: usize = 128;

/// Puts the layers around a router, the outermost last.
pub(crate) fn around(router: Router, guarded: Arc<Guard>, paint: PaintProblem) -> Router {
    router
        // Codings that it doesn't know are left to whoever reads the body, who says which it takes.
        .layer(RequestDecompressionLayer::new().pass_through_unaccepted(true))
        .layer(from_fn_with_state(guarded, guard))
        .layer(CatchPanicLayer::custom(panicked))
        .layer(from_fn_with_state(paint, finish))
        .layer(CompressionLayer::new())
        .layer(from_fn(observe))
}

/// The request's id, for the problem document.
#[derive(Debug, Clone)]
struct RequestId(String);

/// Names the request, opens its span, and says how it ended.
async fn observe(mut request: Request, next: Next) -> Response {
    let id = request_id(request.headers());
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    let route = request
        .extensions()
        .get::<MatchedPath>()
        .map_or("none", MatchedPath::as_str)
        .to_owned();
    request.extensions_mut().insert(RequestId(id.clone()));
    let span = tracing::info_span!("request", request_id = %id, %method, path = %path);
    let started = Instant::now();
    let mut response = next.run(request).instrument(span.clone()).await;
    let (status, elapsed) = (response.status().as_u16(), started.elapsed());
    span.in_scope(|| {
        let duration_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        if matches!(route.as_str(), "/livez" | "/readyz" | "/metrics") {
            tracing::debug!(status, duration_ms, "answered");
        } else {
            tracing::info!(status, duration_ms, "answered");
        }
    });
    metrics::histogram!(
        "gavel_http_request_seconds",
        "method" => method_label(&method), "route" => route, "status" => status.to_string()
    )
    .record(elapsed.as_secs_f64());
    if let Ok(id) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}

/// A method as a label: clients make up others, and labels must be few.
fn method_label(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PUT" => "PUT",
        "DELETE" => "DELETE",
        "OPTIONS" => "OPTIONS",
        _ => "other",
    }
}

/// The client's id if it is short and printable, else a new one.
fn request_id(headers: &HeaderMap) -> String {
    headers
        .get(REQUEST_ID)
        .and_then(|value| value.to_str().ok())
        .filter(|id| !id.is_empty() && id.len() <= MAX_REQUEST_ID)
        .filter(|id| id.bytes().all(|byte| byte.is_ascii_graphic()))
        .map_or_else(|| Uuid::now_v7().to_string(), ToOwned::to_owned)
}

/// Draws a problem for a person, if the request came from one: a page, or a piece of one.
pub(crate) type PaintProblem = fn(&Problem, &FailedRequest) -> Option<Response>;

/// What was asked for, as far as drawing a problem needs it.
#[derive(Debug)]
pub(crate) struct FailedRequest {
    /// GET or POST ..
    pub(crate) method: Method,
    /// The path with its query.
    pub(crate) target: String,
    pub(crate) headers: HeaderMap,
    /// The fields of a form that was refused before anybody read it, URL-encoded; empty: none.
    pub(crate) form: Bytes,
}

/// What every answer says that doesn't say otherwise. Everything that a page loads is ours; nothing inline runs.
const USUAL: [(HeaderName, &str); 4] = [
    (header::CACHE_CONTROL, "no-store"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "same-origin"),
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
         form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
];

/// Writes problem documents, which only here learn their path and id, and says what answers usually say.
async fn finish(State(paint): State<PaintProblem>, request: Request, next: Next) -> Response {
    let path = request.uri().path().to_owned();
    let mut asked = FailedRequest {
        method: request.method().clone(),
        target: request
            .uri()
            .path_and_query()
            .map_or_else(|| path.clone(), ToString::to_string),
        headers: request.headers().clone(),
        form: Bytes::new(),
    };
    let id = request.extensions().get::<RequestId>().cloned();
    let mut response = next.run(request).await;
    if let Some(mut problem) = response.extensions_mut().remove::<Problem>() {
        problem.instance = Some(path);
        problem.request_id = id.map(|RequestId(id)| id);
        if let Some(SentForm(form)) = response.extensions_mut().remove() {
            asked.form = form;
        }
        let (parts, _) = response.into_parts();
        let mut headers = parts.headers;
        headers.remove(header::CONTENT_LENGTH);
        if let Some(painted) = paint(&problem, &asked) {
            headers.remove(header::WWW_AUTHENTICATE);
            response = painted;
        } else {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
            response = (parts.status, Json(problem)).into_response();
        }
        // What the error said in headers (Retry-After, Allow ..) wins over what `Json` says.
        response.headers_mut().extend(headers);
    }
    for (name, value) in USUAL {
        let value = HeaderValue::from_static(value);
        response.headers_mut().entry(name).or_insert(value);
    }
    response
}

/// A caught panic. Its message stays out of the log: it may hold what was being handled.
fn panicked(_panic: Box<dyn Any + Send + 'static>) -> Response {
    ApiError::Internal("a handler panicked".to_owned()).into_response()
}
