//! How scores are spread: the histogram and its figures, and how many sessions have none.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{Counted, Selection, Unnamed, selection, share};
use crate::api::ApiState;
use crate::api::params::Params;
use crate::api::problem::{ApiError, Problem};
use crate::score::analysis::{Bucket, Histogram};
use crate::score::session::Rating;

/// The routes of this file.
pub(super) fn routes() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new().routes(routes!(distribution))
}

/// Scores whose totals lie next to each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub(in crate::api) struct BucketView {
    /// The lowest total.
    pub(in crate::api) from: u8,
    /// The highest total, included.
    pub(in crate::api) to: u8,
    /// How many scores.
    pub(in crate::api) scores: u64,
}

impl From<Bucket> for BucketView {
    fn from(bucket: Bucket) -> Self {
        Self {
            from: bucket.from,
            to: bucket.to,
            scores: bucket.scores,
        }
    }
}

/// Scores with the same rating.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub(in crate::api) struct RatingShare {
    /// The word.
    pub(in crate::api) rating: Rating,
    /// How many scores.
    pub(in crate::api) scores: u64,
    /// Of all scores, 0-1; null without any.
    pub(in crate::api) share: Option<f64>,
}

/// How many of the sessions are counted.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub(in crate::api) struct CoverageView {
    /// Sessions in this time, scored or not, wherever they stand.
    pub(in crate::api) sessions: u64,
    /// Those whose current score is counted here.
    pub(in crate::api) scored: u64,
    /// The others: without a score, or with one of other criteria or of a simulated judge.
    pub(in crate::api) unscored: u64,
    /// Scored of all, 0-1; null without sessions.
    pub(in crate::api) share: Option<f64>,
}

/// How current scores are spread.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub(in crate::api) struct Distribution {
    /// The criteria of the scores; null: any.
    pub(in crate::api) criteria_hash: Option<String>,
    /// How many scores.
    pub(in crate::api) scores: u64,
    /// Their mean; null without scores, as the following.
    pub(in crate::api) mean: Option<f64>,
    /// Their median.
    pub(in crate::api) median: Option<f64>,
    /// Their standard deviation, of a sample; null for fewer than two.
    pub(in crate::api) sd: Option<f64>,
    /// A quarter of them lies below; between two totals by interpolation.
    pub(in crate::api) quartile_1: Option<f64>,
    /// A quarter of them lies above.
    pub(in crate::api) quartile_3: Option<f64>,
    /// The lowest.
    pub(in crate::api) min: Option<u8>,
    /// The highest.
    pub(in crate::api) max: Option<u8>,
    /// From 0 to 100, the empty buckets too.
    pub(in crate::api) histogram: Vec<BucketView>,
    /// By rating, the worst first.
    pub(in crate::api) ratings: Vec<RatingShare>,
    /// How many of the sessions are counted.
    pub(in crate::api) coverage: CoverageView,
    /// Whether the scores are those of a simulated judge.
    pub(in crate::api) simulated: bool,
    /// What makes the figures say less than they seem to.
    pub(in crate::api) warnings: Vec<String>,
}

/// Tells how current scores are spread; default: under the criteria that new requests get.
#[utoipa::path(
    get, path = "/api/v1/analytics/distribution", tag = "analytics",
    params(Selection, ("points" = Option<u8>, Query, description = "Totals a bucket of the histogram: 5 or 10; default 10")),
    responses(
        (status = 200, description = "The distribution", body = Distribution),
        (status = 404, description = "criteria-not-found", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "invalid-request", body = Problem, content_type = "application/problem+json"),
    ),
)]
async fn distribution(
    State(state): State<ApiState>,
    mut params: Params,
) -> Result<Json<Distribution>, ApiError> {
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
    let filter = chosen.filter(&state).await?;
    let totals = state.store.totals(&filter).await?;
    let sessions = state.store.sessions_in(&filter).await?;
    let counted = Counted::of(&totals);
    let mut histogram = Histogram::default();
    for count in totals
        .iter()
        .filter(|count| count.made_by == counted.made_by)
    {
        histogram.add(count.total, count.scores);
    }
    let mut warnings = counted.warnings();
    warnings.extend(counted.warning_of_mixed());
    // What was scored between the two questions is a session too.
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
        ratings: RATINGS.map(rating).to_vec(),
        histogram: histogram
            .buckets(points)
            .into_iter()
            .map(BucketView::from)
            .collect(),
        coverage: CoverageView {
            sessions,
            scored: counted.scores,
            unscored: sessions - counted.scores,
            share: share(counted.scores, sessions),
        },
        simulated: counted.is_simulated(),
        warnings,
    }))
}

const RATINGS: [Rating; 5] = [
    Rating::Failed,
    Rating::Weak,
    Rating::Adequate,
    Rating::Good,
    Rating::NearPerfect,
];
