//! ETags and 304 responses.

use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::problem::ApiError;

const TAG_BYTES: usize = 16;

/// Returns a JSON body with an ETag of its content, or 304 if the client has it.
pub(crate) fn json_or_unchanged<T: Serialize>(
    headers: &HeaderMap,
    body: &T,
) -> Result<Response, ApiError> {
    let text = serde_json::to_string(body)
        .map_err(|error| ApiError::Internal(format!("writing an answer: {error}")))?;
    Ok(text_or_unchanged(headers, text))
}

/// Like [`json_or_unchanged`], for serialized JSON.
pub(crate) fn text_or_unchanged(headers: &HeaderMap, text: String) -> Response {
    let digest = Sha256::digest(text.as_bytes());
    let hex = hex::encode(digest.get(..TAG_BYTES).unwrap_or_default());
    // Weak, because the response may be compressed.
    let etag = format!("W/\"{hex}\"");
    let json = [(CONTENT_TYPE, HeaderValue::from_static("application/json"))];
    or_unchanged(headers, &etag, || (json, text).into_response())
}

/// Returns the response with that ETag, or 304 if the client has it.
pub(crate) fn or_unchanged(
    headers: &HeaderMap,
    etag: &str,
    answer: impl FnOnce() -> Response,
) -> Response {
    let mut response = if matches_if_none_match(headers, etag) {
        // Same header as in a full response. The compression layer adds it only with a body.
        let vary = [(VARY, HeaderValue::from_static("accept-encoding"))];
        (StatusCode::NOT_MODIFIED, vary).into_response()
    } else {
        answer()
    };
    if let Ok(etag) = HeaderValue::from_str(etag) {
        response.headers_mut().insert(ETAG, etag);
    }
    // May be stored, but must be revalidated with the ETag.
    let revalidate = HeaderValue::from_static("private, no-cache");
    response.headers_mut().insert(CACHE_CONTROL, revalidate);
    response
}

/// Returns whether `If-None-Match` matches: one of its tags, or `*`.
fn matches_if_none_match(headers: &HeaderMap, etag: &str) -> bool {
    let weak = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
    headers
        .get_all(IF_NONE_MATCH)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|tag| tag.trim() == "*" || weak(tag) == weak(etag))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unchanged_response_has_etag_and_vary_without_body() {
        let answer = |headers: &HeaderMap| text_or_unchanged(headers, "{}".to_owned());
        let first = answer(&HeaderMap::new());
        let tag = first.headers()[ETAG].clone();
        let known = HeaderMap::from_iter([(IF_NONE_MATCH, tag.clone())]);
        let again = answer(&known);
        assert_eq!(again.status(), StatusCode::NOT_MODIFIED);
        assert_eq!(again.headers()[ETAG], tag);
        assert_eq!(again.headers()[VARY], "accept-encoding");
        assert!(!again.headers().contains_key(CONTENT_TYPE));
    }

    #[test]
    fn matches_weak_tags_lists_and_star() {
        for (sent, holds) in [
            ("W/\"a\"", true),
            ("\"a\"", true),
            ("\"b\", W/\"a\"", true),
            ("*", true),
            ("\"b\"", false),
            ("a", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(IF_NONE_MATCH, HeaderValue::from_str(sent).unwrap());
            assert_eq!(matches_if_none_match(&headers, "W/\"a\""), holds, "{sent}");
        }
    }
}
