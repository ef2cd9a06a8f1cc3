//! Annotation queues without judge scores, and agreement among reviewers.

use std::collections::BTreeMap;

use axum::Json;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::agreement::view;
use crate::api::ApiState;
use crate::api::http::authorized::Authorized;
use crate::api::http::extract::{Query, QueryPart};
use crate::api::http::problem::ApiResult;
use crate::score::trust::{Given, RatersCompared, raters};
use crate::store::{GivenBy, Unrated};
use crate::wire::{AnnotationItem, AnnotationOrder, Annotations, RaterPair, RaterPairs};

pub(crate) const ANNOTATIONS: &str = "/api/v1/annotations";

const MAX_SESSIONS: u32 = 2_000;
const MAX_RATINGS: u32 = 20_000;
const MAX_PAIRS: usize = 100;

#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(crate) struct AnnotationsQuery {
    /// `sample` (default): a sample, the same for all users; `disagreement`: sessions with the largest differences between scores, or between
    /// ratings, first; `low_score`: the lowest first
    #[param(inline)]
    pub(crate) order: Option<AnnotationOrder>,
    /// Rater; default: the caller
    pub(crate) by: Option<String>,
    /// Maximum number of items; default 50
    #[param(minimum = 1, maximum = 500)]
    pub(crate) limit: Option<u32>,
}

impl QueryPart for AnnotationsQuery {}

/// Lists the sessions that a reviewer should rate next: scored sessions among the newest 2,000 without a rating by this
/// reviewer. The scores are omitted.
#[utoipa::path(
    get, path = ANNOTATIONS, tag = "trust",
    params(AnnotationsQuery),
    responses((status = 200, description = "The sessions", body = Annotations)),
)]
pub(crate) async fn get_annotations(
    api: Authorized,
    Query(query): Query<AnnotationsQuery>,
) -> ApiResult<Annotations> {
    let order = query.order.unwrap_or(AnnotationOrder::Sample);
    let limit = query.limit.unwrap_or(50);
    let by = match query.by {
        Some(by) => by,
        None => api.caller.name()?,
    };
    let ratings = api.store.ratings();
    let mut found = ratings.unrated(&by, MAX_SESSIONS).await?;
    match order {
        AnnotationOrder::Sample => found.sort_by_cached_key(|it| Sha256::digest(it.session_id)),
        AnnotationOrder::LowScore => found.sort_by_key(|it| it.total),
        AnnotationOrder::Disagreement => {
            let apart = ranges(ratings.shared(MAX_RATINGS).await?);
            let range = |it: &Unrated| apart.get(&it.session_id).copied().max(Some(it.range));
            found.sort_by_key(|it| std::cmp::Reverse(range(it)));
        }
    }
    let left = u64::try_from(found.len()).unwrap_or(u64::MAX);
    found.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    let item = |it: Unrated| AnnotationItem {
        session_id: it.session_id,
        alert_type: it.alert_type,
        agent: it.agent,
    };
    Ok(Json(Annotations {
        order,
        by,
        items: found.into_iter().map(item).collect(),
        left,
        next_cursor: None,
    }))
}

/// Returns the range of the human ratings of each session.
fn ranges(given: Vec<GivenBy>) -> BTreeMap<Uuid, u8> {
    let mut ends: BTreeMap<Uuid, (u8, u8)> = BTreeMap::new();
    for (session, _, given) in given {
        let total = Given::middle(given);
        let (low, high) = ends.entry(session).or_insert((total, total));
        (*low, *high) = (total.min(*low), total.max(*high));
    }
    let range = |(session, (low, high))| (session, high - low);
    ends.into_iter().map(range).collect()
}

/// Compares reviewers on sessions rated by several of them, among the newest 20,000 ratings.
///
/// Per session and reviewer, only the last rating counts, of the session or of one of its scores.
#[utoipa::path(
    get, path = "/api/v1/analytics/raters", tag = "trust",
    responses((status = 200, description = "The pairs", body = RaterPairs)),
)]
pub(crate) async fn get_raters(state: ApiState) -> ApiResult<RaterPairs> {
    let shared = state.store.ratings().shared(MAX_RATINGS).await?;
    let pair = |RatersCompared { a, b, scales }| RaterPair {
        a,
        b,
        scales: scales
            .into_iter()
            .map(|found| {
                let sessions = found.n;
                view(found, (2, sessions), false)
            })
            .collect(),
    };
    Ok(Json(RaterPairs {
        items: raters(shared)
            .into_iter()
            .take(MAX_PAIRS)
            .map(pair)
            .collect(),
        next_cursor: None,
    }))
}
