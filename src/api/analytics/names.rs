//! Most frequent missing tools and alternative approaches. Names that differ only in case or separators (including camel case) are merged.

use axum::Json;

use super::{Counted, filter, share};
use crate::api::ApiState;
use crate::api::http::extract::Query;
use crate::api::http::problem::ApiResult;
use crate::outbound::percent_encoded;
use crate::store::{NameCount, Named};
use crate::wire::{LimitQuery, NameItem, NameLinks, NameList, ScoreSelection, Spelling};

const MAX_SPELLINGS: usize = 20;

/// Lists the tools that agents didn't have or didn't use, by number of sessions. Default: any criteria.
#[utoipa::path(
    get, path = "/api/v1/analytics/missing-tools", tag = "analytics",
    params(ScoreSelection, LimitQuery),
    responses(
        (status = 200, description = "The tools", body = NameList),
        (status = 404, description = "criteria-not-found"),
    ),
)]
pub(crate) async fn missing_tools(
    state: ApiState,
    Query(query): Query<(ScoreSelection, LimitQuery)>,
) -> ApiResult<NameList> {
    list(&state, query, Named::MissingTools).await
}

/// Lists alternative approaches to investigations, by number of sessions. Default: any criteria.
#[utoipa::path(
    get, path = "/api/v1/analytics/approaches", tag = "analytics",
    params(ScoreSelection, LimitQuery),
    responses(
        (status = 200, description = "The approaches", body = NameList),
        (status = 404, description = "criteria-not-found"),
    ),
)]
pub(crate) async fn approaches(
    state: ApiState,
    Query(query): Query<(ScoreSelection, LimitQuery)>,
) -> ApiResult<NameList> {
    list(&state, query, Named::Approaches).await
}

async fn list(
    state: &ApiState,
    (selection, limit): (ScoreSelection, LimitQuery),
    named: Named,
) -> ApiResult<NameList> {
    let filter = filter(state, selection, None).await?;
    let counted = Counted::from_totals(&state.store.analytics().totals(&filter).await?);
    let names = state
        .store
        .analytics()
        .names(named, &filter, counted.made_by, limit.limit())
        .await?;
    let items = names.into_iter();
    Ok(Json(NameList {
        items: items
            .map(|name| item(name, named, counted.scores))
            .collect(),
        scores: counted.scores,
        simulated: counted.is_simulated(),
        warnings: counted.warnings(),
        next_cursor: None,
    }))
}

fn item(name: NameCount, named: Named, scores: u64) -> NameItem {
    let sessions = u64::try_from(name.sessions).unwrap_or(0);
    let first = name.spellings.first();
    let shown = first.map_or_else(|| name.key.clone(), |(spelling, _)| spelling.clone());
    let spelling = |(name, times): (String, i64)| Spelling { name, times };
    NameItem {
        name: shown,
        sessions: name.sessions,
        share: share(sessions, scores),
        spellings: name
            .spellings
            .into_iter()
            .take(MAX_SPELLINGS)
            .map(spelling)
            .collect(),
        links: match named {
            Named::MissingTools => Some(sessions_without(&name.key)),
            Named::Approaches => None,
        },
    }
}

/// Returns the link to sessions with the tool missing in their current score.
pub(crate) fn sessions_without(key: &str) -> NameLinks {
    NameLinks {
        sessions: format!("/api/v1/sessions?missing_tool={}", percent_encoded(key)),
    }
}
