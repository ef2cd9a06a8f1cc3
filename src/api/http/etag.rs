//! ETags and 304: what a client has already isn't sent again.

use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::problem::ApiError;

/// How many bytes of the digest are in a tag.
const TAG_BYTES: usize = 16;

/// A JSON body under the tag of its content; 304 without the body if the client has it.
pub(crate) fn json_or_unchanged<T: Serialize>(
    headers: &HeaderMap,
    body: &T,
) -> Result<Response, ApiError> {
    let text = serde_json::to_string(body)
        .map_err(|error| ApiError::Internal(format!("writing an answer: {error}")))?;
    Ok(text_or_unchanged(headers, text))
}

/// The same for JSON that is written already.
pub(crate) fn text_or_unchanged(headers: &HeaderMap, text: String) -> Response {
    let digest = Sha256::digest(text.as_bytes());
    let hex = hex::encode(digest.get(..TAG_BYTES).unwrap_or_default());
    // Weak, since the answer may be compressed.
    let etag = format!("W/\"{hex}\"");
    let json = [(CONTENT_TYPE, HeaderValue::from_static("application/json"))];
    or_unchanged(headers, &etag, || (json, text).into_response())
}

/// The answer under that tag, or 304 if the client has it.
pub(crate) fn or_unchanged(
    headers: &HeaderMap,
    etag: &str,
    answer: impl FnOnce() -> Response,
) -> Response {
    let mut response = if none_match_holds(headers, etag) {
        // What the whole answer would say, which the layer that compresses adds to bodies alone.
        let vary = [(VARY, HeaderValue::from_static("accept-encoding"))];
        (StatusCode::NOT_MODIFIED, vary).into_response()
    } else {
        answer()
    };
    if let Ok(etag) = HeaderValue::from_str(etag) {
        response.headers_mut().insert(ETAG, etag);
    }
    // May be kept, but is asked for again each time: that is what the tag is for.
    let revalidate = HeaderValue::from_static("private, no-cache");
    response.headers_mut().insert(CACHE_CONTROL, revalidate);
    response
}

/// Whether the client has this version already: one of a list of tags, or `*`.
fn none_match_holds(headers: &HeaderMap, etag: &str) -> bool {
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
    fn an_unchanged_answer_has_its_tag_and_what_it_varies_by_and_no_body() {
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
    fn a_tag_is_compared_weakly_alone_in_a_list_and_as_a_star() {
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
            assert_eq!(none_match_holds(&headers, "W/\"a\""), holds, "{sent}");
        }
    }
}
