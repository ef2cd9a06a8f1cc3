//! Layers around all handlers: request ids, tracing span and log line, panics, problem documents, gzip in both directions.
//!
//! Logs contain the path, the status and the duration, but no bodies or query strings.

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

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Maximum length of a client's request id.
const MAX_REQUEST_ID: usize = 128;

pub(crate) fn around(router: Router, guarded: Arc<Guard>, paint: PaintProblem) -> Router {
    router
        // The body's reader rejects unknown content codings, with a list of the supported ones.
        .layer(RequestDecompressionLayer::new().pass_through_unaccepted(true))
        .layer(from_fn_with_state(guarded, guard))
        .layer(CatchPanicLayer::custom(panicked))
        .layer(from_fn_with_state(paint, finish))
        .layer(CompressionLayer::new())
        .layer(from_fn(observe))
}

#[derive(Debug, Clone)]
struct RequestId(String);

/// Sets the request id, opens the span, and logs the result.
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

/// Returns the method as a metric label. Unknown methods share one label to limit cardinality.
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

/// Returns the client's id if it is short and printable, otherwise a new one.
fn request_id(headers: &HeaderMap) -> String {
    headers
        .get(REQUEST_ID)
        .and_then(|value| value.to_str().ok())
        .filter(|id| !id.is_empty() && id.len() <= MAX_REQUEST_ID)
        .filter(|id| id.bytes().all(|byte| byte.is_ascii_graphic()))
        .map_or_else(|| Uuid::now_v7().to_string(), ToOwned::to_owned)
}

/// Renders a problem as a page or fragment, if a browser sent the request.
pub(crate) type PaintProblem = fn(&Problem, &FailedRequest) -> Option<Response>;

/// Data of a failed request for rendering its problem.
#[derive(Debug)]
pub(crate) struct FailedRequest {
    pub(crate) method: Method,
    /// Path with query.
    pub(crate) target: String,
    pub(crate) headers: HeaderMap,
    /// URL-encoded fields of a form that was rejected unread, or empty.
    pub(crate) form: Bytes,
}

/// Default response headers. Pages load only our own files, and inline scripts are blocked.
const DEFAULT_HEADERS: [(HeaderName, &str); 4] = [
    (header::CACHE_CONTROL, "no-store"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "same-origin"),
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
         form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
];

/// Writes problem documents with path and id, and adds the default headers.
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
        // Headers of the error (Retry-After, Allow ..) override those of `Json`.
        response.headers_mut().extend(headers);
    }
    for (name, value) in DEFAULT_HEADERS {
        let value = HeaderValue::from_static(value);
        response.headers_mut().entry(name).or_insert(value);
    }
    response
}

/// Handles a caught panic. Doesn't log its message, which may contain request data.
fn panicked(_panic: Box<dyn Any + Send + 'static>) -> Response {
    ApiError::Internal("a handler panicked".to_owned()).into_response()
}
