//! Distribution of scores, with a histogram and coverage.

use axum::Json;
use serde::Deserialize;

use super::{Counted, filter, share};
use crate::api::ApiState;
use crate::api::http::extract::{Query, QueryPart};
use crate::api::http::problem::ApiResult;
use crate::score::analysis::Histogram;
use crate::wire::{Coverage, Distribution, Rating, RatingShare, ScoreSelection};

#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(crate) struct HistogramQuery {
    /// Totals a bucket of the histogram: 5 or 10; default 10
    #[param(minimum = 5, maximum = 10, multiple_of = 5)]
    pub(crate) points: Option<u8>,
}

impl QueryPart for HistogramQuery {}

/// Returns the distribution of current scores. Default: under the criteria of new requests.
#[utoipa::path(
    get, path = "/api/v1/analytics/distribution", tag = "analytics",
    params(ScoreSelection, HistogramQuery),
    responses(
        (status = 200, description = "The distribution", body = Distribution),
        (status = 404, description = "criteria-not-found"),
    ),
)]
pub(crate) async fn distribution(
    state: ApiState,
    Query((selection, query)): Query<(ScoreSelection, HistogramQuery)>,
) -> ApiResult<Distribution> {
    let points = query.points.unwrap_or(10);
    let filter = filter(&state, selection, Some("current")).await?;
    let totals = state.store.analytics().totals(&filter).await?;
    let sessions = state.store.analytics().sessions_in(&filter).await?;
    let counted = Counted::from_totals(&totals);
    let mut histogram = Histogram::default();
    for count in totals
        .iter()
        .filter(|count| count.made_by == counted.made_by)
    {
        histogram.add(count.total, count.scores);
    }
    let mut warnings = counted.warnings();
    warnings.extend(counted.mixed_criteria_warning());
    // Include sessions scored between the two queries.
    let sessions = u64::try_from(sessions).unwrap_or(0).max(counted.scores);
    let rating = |rating: Rating| RatingShare {
        rating,
        scores: histogram.rated(rating),
        share: share(histogram.rated(rating), counted.scores),
    };
    Ok(Json(Distribution {
        criteria_hash: filter.criteria_hash,
        scores: counted.scores,
        mean: histogram.mean(),
        median: histogram.median(),
        sd: histogram.sd(),
        quartile_1: histogram.quantile(0.25),
        quartile_3: histogram.quantile(0.75),
        min: histogram.min(),
        max: histogram.max(),
        ratings: Rating::ALL.iter().copied().map(rating).collect(),
        histogram: histogram.buckets(points),
        coverage: Coverage {
            sessions,
            scored: counted.scores,
            unscored: sessions - counted.scores,
            share: share(counted.scores, sessions),
        },
        simulated: counted.is_simulated(),
        warnings,
    }))
}
