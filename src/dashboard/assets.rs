//! Static files, embedded in the binary. `assets/README.md` lists versions and licences.

use axum::Router;
use axum::extract::Path;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;

use super::state::PageState;

type Asset = (&'static str, &'static str, &'static str);

const JS: &str = "text/javascript; charset=utf-8";

const ASSETS: [Asset; 5] = [
    (
        "gavel.css",
        "text/css; charset=utf-8",
        include_str!("assets/gavel.css"),
    ),
    ("htmx.min.js", JS, include_str!("assets/htmx.min.js")),
    ("live.js", JS, include_str!("assets/live.js")),
    ("keys.js", JS, include_str!("assets/keys.js")),
    ("icon.svg", "image/svg+xml", include_str!("assets/icon.svg")),
];

/// Browsers revalidate on each use: a `304` costs only a few bytes.
const KEEP: &str = "no-cache";

pub(super) fn routes() -> Router<PageState> {
    Router::new().route("/assets/{name}", get(asset))
}

async fn asset(Path(name): Path<String>, headers: HeaderMap) -> Response {
    let Some((_, kind, text)) = ASSETS.iter().find(|(known, _, _)| *known == name) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    // The digest is needed because two builds of one version may differ in their assets.
    let tag = format!("\"{}-{}\"", env!("CARGO_PKG_VERSION"), digest(text));
    let known = headers.get(header::IF_NONE_MATCH);
    let known = known.and_then(|known| known.to_str().ok());
    let fresh = known.is_some_and(|known| holds(known, &tag));
    let tag = HeaderValue::from_str(&tag).unwrap_or(HeaderValue::from_static("\"\""));
    let head = [
        (header::ETAG, tag),
        (header::CACHE_CONTROL, HeaderValue::from_static(KEEP)),
        (header::CONTENT_TYPE, HeaderValue::from_static(kind)),
    ];
    if fresh {
        (StatusCode::NOT_MODIFIED, head).into_response()
    } else {
        (head, *text).into_response()
    }
}

/// Whether `If-None-Match` contains this tag. Compressing proxies weaken tags (`W/`), so weak ones match too.
fn holds(known: &str, tag: &str) -> bool {
    let mut known = known.split(',').map(str::trim);
    known.any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag)
}

/// FNV-1a, to distinguish builds. Not for security.
fn digest(text: &str) -> String {
    let start = 0xcbf2_9ce4_8422_2325_u64;
    let hash = text.bytes().fold(start, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}
