//! Distribution of scores, with a histogram and coverage.

use axum::Json;
use axum::extract::State;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{Counted, Selection, Unnamed, selection, share};
use crate::api::ApiState;
use crate::api::http::params::Params;
use crate::api::http::problem::ApiError;
use crate::score::analysis::Histogram;
use crate::wire::{Coverage, Distribution, Rating, RatingShare};

pub(crate) fn routes() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new().routes(routes!(distribution))
}

/// Returns the distribution of current scores. Default: under the criteria of new requests.
#[utoipa::path(
    get, path = "/api/v1/analytics/distribution", tag = "analytics",
    params(Selection, ("points" = Option<u8>, Query, description = "Totals a bucket of the histogram: 5 or 10; default 10", minimum = 5, maximum = 10, multiple_of = 5)),
    responses(
        (status = 200, description = "The distribution", body = Distribution),
        (status = 404, description = "criteria-not-found"),
    ),
)]
async fn distribution(
    State(state): State<ApiState>,
    params: Params,
) -> Result<Json<Distribution>, ApiError> {
    Ok(Json(read(&state, params).await?))
}

pub(crate) async fn read(state: &ApiState, mut params: Params) -> Result<Distribution, ApiError> {
    let chosen = selection(&mut params, Unnamed::Current);
    let points = match params.text("points").as_deref() {
        None | Some("10") => 10,
        Some("5") => 5,
        Some(_) => {
            params.fault("points", "must be 5 or 10".to_owned());
            10
        }
    };
    params.finish()?;
    let filter = chosen.filter(state).await?;
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
    Ok(Distribution {
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
    })
}
