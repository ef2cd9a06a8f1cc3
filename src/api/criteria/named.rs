//! Resolves criteria in requests: a hash, its prefix, or `current`.

use serde::Deserialize;

use crate::api::ApiState;
use crate::api::http::extract::QueryPart;
use crate::api::http::problem::ApiError;
use crate::job::Kind;
use crate::score::Criteria;
use crate::wire::SessionFilter;

const MIN_HASH_PREFIX_CHARS: usize = 8;
pub(crate) const FORMS: &str = "a hash of 64 hex digits, at least its first 8, or current";

pub(crate) struct NamedCriteria {
    pub(crate) hash: String,
    pub(crate) kind: Kind,
}

/// Two versions of the criteria.
#[derive(Debug, Clone, Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(crate) struct CriteriaPair {
    /// First criteria: 64 hex digits, at least the first 8, or `current`
    #[param(required = true, pattern = r"^([0-9A-Fa-f]{8,64}|current)$")]
    pub(crate) a: String,
    /// The other
    #[param(required = true, pattern = r"^([0-9A-Fa-f]{8,64}|current)$")]
    pub(crate) b: String,
}

impl QueryPart for CriteriaPair {}

/// Returns the two versions of a query. They must differ.
pub(crate) async fn both(
    state: &ApiState,
    pair: &CriteriaPair,
) -> Result<(NamedCriteria, NamedCriteria), ApiError> {
    let a = named(state, "/a", &pair.a, Criteria::DEFAULT_KIND).await?;
    let b = named(state, "/b", &pair.b, Criteria::DEFAULT_KIND).await?;
    if a.hash == b.hash {
        return Err(ApiError::fault(
            "/b",
            "is the same version as a: name another one",
        ));
    }
    Ok((a, b))
}

/// Expands a hash prefix. A full hash is returned unchanged, even if not stored.
pub(crate) async fn whole(
    state: &ApiState,
    pointer: &str,
    text: String,
) -> Result<String, ApiError> {
    if is_whole(&text) {
        return Ok(text.to_ascii_lowercase());
    }
    Ok(named(state, pointer, &text, Criteria::DEFAULT_KIND)
        .await?
        .hash)
}

/// Expands a hash or prefix to a stored hash. Returns an error of the request if none matches.
pub(crate) async fn stored(
    state: &ApiState,
    pointer: &str,
    text: String,
) -> Result<String, ApiError> {
    let found = whole(state, pointer, text).await;
    found.map_err(|error| {
        let ApiError::CriteriaNotFound(text) = &error else {
            return error;
        };
        let message = format!(
            "{text:?} is not the prefix of a stored criteria hash; GET /api/v1/scoring/criteria lists them"
        );
        ApiError::fault(pointer, message)
    })
}

/// Returns the requested criteria hash, or `None` for the current ones. Errors have the route's status.
pub(crate) async fn wanted(
    state: &ApiState,
    text: Option<String>,
) -> Result<Option<String>, ApiError> {
    let Some(text) = text.filter(|text| text != "current") else {
        return Ok(None);
    };
    let found = stored(state, "/criteria_hash", text).await;
    found.map(Some)
}

/// Expands the criteria of a filter to full hashes.
pub(crate) async fn resolve(
    state: &ApiState,
    root: &str,
    filter: &mut SessionFilter,
) -> Result<(), ApiError> {
    match filter.criteria.as_deref() {
        Some("any") => filter.criteria = None,
        Some("not_current") => {
            filter.criteria = None;
            filter.criteria_not = Some("current".to_owned());
        }
        Some(_) | None => {}
    }
    for (name, criteria) in [
        ("criteria", &mut filter.criteria),
        ("criteria_not", &mut filter.criteria_not),
    ] {
        if let Some(text) = criteria.take() {
            *criteria = Some(stored(state, &format!("{root}/{name}"), text).await?);
        }
    }
    Ok(())
}

pub(crate) fn is_name(text: &str) -> bool {
    let hex = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    text == "current" || (hex && (MIN_HASH_PREFIX_CHARS..=64).contains(&text.len()))
}

fn is_whole(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns the named version. `current` is that of `kind`.
pub(crate) async fn named(
    state: &ApiState,
    pointer: &str,
    text: &str,
    kind: Kind,
) -> Result<NamedCriteria, ApiError> {
    if text == "current" {
        let current = state.enqueue.current_criteria_of(kind);
        return Ok(NamedCriteria {
            hash: current.hash.0.clone(),
            kind: current.kind,
        });
    }
    if !is_name(text) {
        let message = format!("must be {FORMS}");
        return Err(ApiError::fault(pointer, message));
    }
    let prefix = text.to_ascii_lowercase();
    let mut found = state.store.criteria().beginning_with(&prefix).await?;
    for kind in Kind::ALL {
        let current = state.enqueue.current_criteria_of(*kind);
        let known = found.iter().any(|(hash, _)| *hash == current.hash.0);
        if current.hash.0.starts_with(&prefix) && !known {
            found.push((current.hash.0.clone(), *kind));
        }
    }
    match found.as_slice() {
        [] => Err(ApiError::CriteriaNotFound(text.to_owned())),
        [(hash, kind)] => Ok(NamedCriteria {
            hash: hash.clone(),
            kind: *kind,
        }),
        several => {
            let hashes: Vec<&str> = several.iter().map(|(hash, _)| hash.as_str()).collect();
            let message = format!(
                "names several: {}; give more of its digits",
                hashes.join(", ")
            );
            Err(ApiError::fault(pointer, message))
        }
    }
}

/// Returns the version in a query's `criteria`. Default: `current`.
pub(crate) async fn criteria_of(
    state: &ApiState,
    text: Option<String>,
) -> Result<String, ApiError> {
    let text = text.unwrap_or_else(|| "current".to_owned());
    let found = named(state, "/criteria", &text, Criteria::DEFAULT_KIND).await?;
    if found.kind.is_case() {
        let message = format!("is for kind {}: users rate only sessions", found.kind);
        return Err(ApiError::fault("/criteria", message));
    }
    Ok(found.hash)
}
