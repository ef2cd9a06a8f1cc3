//! JSON bodies: size, time, media type, depth and shape, with a separate error for each. Bodies are never logged.

use std::error::Error;
use std::pin::pin;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use futures::{Stream, StreamExt as _};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tower_http::timeout::TimeoutError;

use super::body_memory::BodyMemory;
use super::problem::ApiError;
use crate::api::ApiState;
use crate::config::HttpSettings;
use crate::history::ingest::{pointer, shortened};
use crate::memory::{JsonShape, blocking};
use crate::score::{JsonError, parse_json};

/// Description of optional request bodies.
pub(crate) const OPTIONAL_BODY: &str = "Optional";

pub(crate) const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// Bodies up to this size are read without a memory reservation and on the request's thread.
const SMALL_BYTES: usize = 64 << 10;
/// Number of bytes of an oversized body that are read and discarded, so that its sender can read the response.
const DISCARD_BYTES: usize = 32 << 20;

/// A JSON body. Invalid: 422.
pub(crate) struct ApiJson<T>(pub(crate) T);

/// An optional JSON body. Empty: the default. Invalid: 422.
pub(crate) struct OptionalJson<T>(pub(crate) T);

impl<T: DeserializeOwned + Send + 'static> FromRequest<ApiState> for ApiJson<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &ApiState) -> Result<Self, ApiError> {
        match read(request, state).await? {
            Some(body) => Ok(Self(body)),
            None => Err(empty()),
        }
    }
}

impl<T: DeserializeOwned + Default + Send + 'static> FromRequest<ApiState> for OptionalJson<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &ApiState) -> Result<Self, ApiError> {
        let body = read(request, state).await?;
        Ok(Self(body.unwrap_or_default()))
    }
}

/// An unparsed body with a JSON media type and limited depth. Invalid: 422.
pub(crate) struct JsonText(pub(crate) String);

impl FromRequest<ApiState> for JsonText {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &ApiState) -> Result<Self, ApiError> {
        let Some(bytes) = bytes(request, &state.http).await? else {
            return Err(empty());
        };
        String::from_utf8(bytes)
            .map(Self)
            .map_err(|_| ApiError::fault("", "the body is not UTF-8"))
    }
}

fn empty() -> ApiError {
    ApiError::fault("", "the body is empty: send a JSON object")
}

/// Reads and checks a body. `None` if it is empty.
async fn read<T: DeserializeOwned + Send + 'static>(
    request: Request,
    state: &ApiState,
) -> Result<Option<T>, ApiError> {
    match bytes(request, &state.http).await? {
        Some(bytes) => spawn_blocking_if_large(bytes.len(), move || parse(&bytes))
            .await
            .map(Some),
        None => Ok(None),
    }
}

async fn bytes(request: Request, limits: &HttpSettings) -> Result<Option<Vec<u8>>, ApiError> {
    let (parts, body) = request.into_parts();
    let bytes = whole(body, &parts, limits).await?;
    if bytes.is_empty() {
        return Ok(None);
    }
    check_media_type(&parts.headers)?;
    let length = bytes.len();
    let measuring = move || {
        let shape = JsonShape::measure(&bytes);
        (bytes, shape)
    };
    let (bytes, shape) = spawn_blocking_if_large(length, measuring).await;
    check_shape(shape, limits, &BodyMemory::from_parts(&parts)).await?;
    Ok(Some(bytes))
}

/// Rejects JSON that is nested too deep, and reserves memory for parsing.
pub(crate) async fn check_shape(
    shape: JsonShape,
    limits: &HttpSettings,
    memory: &BodyMemory,
) -> Result<(), ApiError> {
    let max = limits.max_json_depth;
    if shape.depth > max {
        let fault = format!("the JSON is nested deeper than {max} levels (http.max_json_depth)");
        return Err(ApiError::fault("", fault));
    }
    memory.take(shape.weight()).await
}

/// Runs `work` on a blocking thread if the text is large.
pub(crate) async fn spawn_blocking_if_large<T: Send + 'static>(
    length: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    match length <= SMALL_BYTES {
        true => work(),
        false => blocking(work).await,
    }
}

/// Reads an entire body with a timeout. The size limit applies after inflation.
pub(crate) async fn whole(
    body: Body,
    parts: &Parts,
    limits: &HttpSettings,
) -> Result<Vec<u8>, ApiError> {
    let chunks = body.into_data_stream();
    let memory = BodyMemory::from_parts(parts);
    collect(chunks, &parts.headers, limits, &memory).await
}

/// Applies the timeout to reading a body.
pub(crate) async fn in_time<T>(
    longest: Duration,
    reading: impl Future<Output = T>,
) -> Result<T, ApiError> {
    tokio::time::timeout(longest, reading)
        .await
        .map_err(|_| ApiError::BodyTimeout(longest.as_secs()))
}

/// Maps a read error of a body: silence, disconnect or invalid compression.
pub(crate) fn read_error(error: &(dyn Error + 'static)) -> ApiError {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.is::<TimeoutError>() {
            return ApiError::BodySilent;
        }
        cause = error.source();
    }
    let fault = "the body broke off, or is not gzip as Content-Encoding declares";
    ApiError::fault("", fault)
}

/// Like [`whole`], for a body in chunks.
pub(crate) async fn collect<E: Error + 'static>(
    chunks: impl Stream<Item = Result<Bytes, E>>,
    headers: &HeaderMap,
    limits: &HttpSettings,
    memory: &BodyMemory,
) -> Result<Vec<u8>, ApiError> {
    let max = limits.max_body_bytes;
    let declared = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    let too_large = ApiError::TooLarge { pointer: "", max };
    // A client with `Expect` hasn't sent the body yet. An early response saves the upload.
    if declared.is_some_and(|bytes| bytes > max) && headers.contains_key(header::EXPECT) {
        return Err(too_large);
    }
    let mut bytes = Vec::with_capacity(declared.unwrap_or(0).min(max).min(SMALL_BYTES));
    let mut seen = 0;
    let mut chunks = pin!(chunks);
    let reading = async {
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|error| read_error(&error))?;
            if seen <= SMALL_BYTES && seen + chunk.len() > SMALL_BYTES {
                // Reserve memory for the entire body only after the client has sent the first part.
                let whole = declared.unwrap_or(max).min(max);
                memory.reserve_for_body(whole).await?;
                bytes.reserve_exact(whole.saturating_sub(bytes.len()));
            }
            seen += chunk.len();
            if seen <= max {
                bytes.extend_from_slice(&chunk);
            } else if seen > max.saturating_add(DISCARD_BYTES) {
                break;
            }
        }
        if seen > max {
            return Err(too_large);
        }
        Ok(bytes)
    };
    in_time(READ_TIMEOUT, reading).await?
}

/// Accepts `application/json` and types ending in `+json`. Rejects a remaining content coding, because only gzip was decoded.
fn check_media_type(headers: &HeaderMap) -> Result<(), ApiError> {
    let declared = headers
        .get(header::CONTENT_TYPE)
        .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let essence = declared
        .as_deref()
        .and_then(|text| text.split(';').next())
        .map(|text| text.trim().to_ascii_lowercase());
    let json = essence.is_some_and(|essence| {
        essence == "application/json"
            || (essence.starts_with("application/") && essence.ends_with("+json"))
    });
    if !json {
        return Err(ApiError::UnsupportedMediaType(declared));
    }
    match headers.get(header::CONTENT_ENCODING) {
        Some(coding) if !coding.as_bytes().eq_ignore_ascii_case(b"identity") => {
            let coding = String::from_utf8_lossy(coding.as_bytes());
            let declared = format!("content-encoding {coding}");
            Err(ApiError::UnsupportedMediaType(Some(declared)))
        }
        Some(_) | None => Ok(()),
    }
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    let value = parse_json(bytes).map_err(|error| match error {
        JsonError::RepeatedField { ref pointer, .. } => {
            ApiError::fault(pointer.clone(), error.to_string())
        }
        JsonError::Syntax(error) if error.is_eof() => {
            let said = format!("the body breaks off: {error}; send all of its JSON");
            ApiError::fault("", said)
        }
        JsonError::Syntax(error) => ApiError::fault("", format!("the body is not JSON: {error}")),
    })?;
    // Serde would accept an array with the fields in order.
    if !value.is_object() {
        return Err(ApiError::fault("", "the body must be a JSON object"));
    }
    deserialize("", value)
}

/// Deserializes a JSON value, such as form fields. Invalid: 422, with pointers below `root`.
pub(crate) fn typed<T: DeserializeOwned>(root: &str, value: Value) -> Result<T, ApiError> {
    deserialize(root, value)
}

fn deserialize<T: DeserializeOwned>(root: &str, value: Value) -> Result<T, ApiError> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let said = shortened(&error.inner().to_string());
        ApiError::fault(root.to_owned() + &pointer(error.path()), said)
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Probe {
        #[serde(default)]
        #[expect(dead_code, reason = "only its errors matter")]
        list: Vec<Item>,
    }

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Item {
        #[expect(dead_code, reason = "only its errors matter")]
        n: u8,
    }

    pub(in super::super) fn limits() -> HttpSettings {
        HttpSettings {
            max_connections: 10,
            header_timeout_s: 20,
            idle_timeout_s: 75,
            body_timeout_s: 30,
            max_body_bytes: 10,
            max_batch_bytes: 10,
            max_json_depth: 64,
            max_wait_s: 60,
            score_query_wait_s: 150,
            max_streams: 1,
            drain_delay_s: 0,
            allowed_hosts: Vec::new(),
            trusted_proxies: Vec::new(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn endless_body_times_out() {
        let silence = futures::stream::pending::<Result<Vec<u8>, std::io::Error>>();
        let request = Request::new(Body::from_stream(silence));
        let given_up = bytes(request, &limits()).await;
        assert!(matches!(given_up, Err(ApiError::BodyTimeout(60))));
    }

    #[tokio::test]
    async fn expect_header_is_answered_immediately() {
        let silence = futures::stream::pending::<Result<Vec<u8>, std::io::Error>>();
        let mut request = Request::new(Body::from_stream(silence));
        let headers = request.headers_mut();
        headers.insert(header::CONTENT_LENGTH, 11.into());
        headers.insert(
            header::EXPECT,
            axum::http::HeaderValue::from_static("100-continue"),
        );
        let refused = bytes(request, &limits()).await;
        assert!(matches!(refused, Err(ApiError::TooLarge { max: 10, .. })));
    }

    #[tokio::test]
    async fn stops_reading_far_too_large_body() {
        let endless = futures::stream::repeat_with(|| Ok::<_, std::io::Error>(vec![b'x'; 1 << 20]));
        let request = Request::new(Body::from_stream(endless));
        let refused = bytes(request, &limits()).await;
        assert!(matches!(refused, Err(ApiError::TooLarge { .. })));
    }

    fn fault_of(text: &str) -> (String, String) {
        match parse::<Probe>(text.as_bytes()) {
            Err(ApiError::Invalid(faults)) => {
                (faults[0].pointer.clone(), faults[0].message.clone())
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn errors_have_json_pointers() {
        let cases = [
            (
                r#"{"list":[{"n":1},{"n":"x"}]}"#,
                "/list/1/n",
                "invalid type",
            ),
            (
                r#"{"list":[{"n":1,"a/b":2}]}"#,
                "/list/0/a~1b",
                "unknown field",
            ),
            (r#"{"other":1}"#, "/other", "unknown field"),
            (r#"{"list":[{}]}"#, "/list/0", "missing field"),
            (r#"{"list":"#, "", "EOF"),
            (r#"{} {}"#, "", "trailing"),
        ];
        for (text, pointer, message) in cases {
            let fault = fault_of(text);
            assert_eq!(fault.0, pointer, "{text}: {}", fault.1);
            assert!(fault.1.contains(message), "{text}: {}", fault.1);
        }
    }
}
