//! What two versions of the criteria make of the same sessions: GET `/api/v1/scoring/criteria/compare`.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use super::ApiState;
use super::criteria_named::{Named, both, names};
use super::params::Params;
use super::problem::{ApiError, Problem, Refusal};
use super::words::counted;
use crate::score::session::Rating;
use crate::score::statistics::{Bootstrap, LEVEL};
use crate::score::trust::{Comparison, compare};
use crate::store::{CriteriaPairs, Mover};

/// What the bootstrap draws from, unless a seed is given.
const SEED: u64 = 20_260_101;
/// How many of the largest movers are answered, unless told.
const MOVERS: u32 = 20;
/// How many at most.
const MOST_MOVERS: u32 = 500;
/// Below so many sessions, figures say little.
const FEW: u64 = 20;

/// The routes of this file.
pub(super) fn routes() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new().routes(routes!(compare_criteria))
}

/// By how much the mean moved.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, utoipa::ToSchema)]
pub(super) struct DifferenceView {
    /// The mean under `b` less that under `a`.
    pub(super) value: f64,
    /// The lower end of its interval: a percentile bootstrap over the sessions; null for fewer than two.
    pub(super) low: Option<f64>,
    /// The upper end.
    pub(super) high: Option<f64>,
    /// How much of the bootstrap lies within.
    pub(super) level: f64,
    /// How many resamples were drawn.
    pub(super) resamples: usize,
    /// What they were drawn from: the same seed gives the same interval.
    pub(super) seed: u64,
}

/// Counts by two lists of words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub(super) struct TableView {
    /// The words of rows and columns, worst first.
    pub(super) labels: Vec<String>,
    /// A row for each word under `a`, a column for each under `b`; of people and us, rows are theirs.
    pub(super) table: Vec<Vec<u64>>,
}

/// A session that the two see differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub(super) struct MoverView {
    /// The session.
    pub(super) session_id: Uuid,
    /// Its total under `a`.
    pub(super) a: u8,
    /// Its total under `b`.
    pub(super) b: u8,
    /// `b - a`.
    pub(super) difference: i16,
}

/// What two versions of the criteria make of the same sessions.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub(super) struct CriteriaComparison {
    /// The hash of the one.
    pub(super) a: String,
    /// The hash of the other.
    pub(super) b: String,
    /// Sessions with a score under both; of several under one version the newest counts.
    pub(super) n: u64,
    /// Sessions with a score under `a` alone.
    pub(super) only_a: u64,
    /// Sessions with a score under `b` alone.
    pub(super) only_b: u64,
    /// The mean of the `n` under `a`; null without any.
    pub(super) mean_a: Option<f64>,
    /// Their mean under `b`.
    pub(super) mean_b: Option<f64>,
    /// By how much it moved; null without sessions.
    pub(super) mean_difference: Option<DifferenceView>,
    /// Kendall's tau-b: 1 if both put the sessions into the same order, -1 if into the opposite; null where there is no order.
    pub(super) kendall_tau_b: Option<f64>,
    /// How many sessions went from which rating to which.
    pub(super) ratings: TableView,
    /// The share whose rating changed, 0-1; null without sessions.
    pub(super) changed: Option<f64>,
    /// Those whose totals lie furthest apart.
    pub(super) movers: Vec<MoverView>,
    /// Whether these are scores of a simulated judge: there are no others.
    pub(super) simulated: bool,
    /// What to beware of.
    pub(super) warnings: Vec<String>,
}

/// Compares what two versions of the criteria for sessions make of the same sessions.
///
/// Only sessions that have a score under both count; a session's newest score under each, of previews too. Scores of simulated
/// judges are left out, unless there are no others. How to read the figures is in docs/trust.md.
#[utoipa::path(
    get, path = "/api/v1/scoring/criteria/compare", tag = "criteria",
    params(
        ("a" = String, Query, description = "The one: 64 hex digits, at least the first 8, or `current`"),
        ("b" = String, Query, description = "The other"),
        ("movers" = Option<u32>, Query, description = "How many of the largest movers, 0-500; default 20", maximum = 500),
        ("seed" = Option<u64>, Query, description = "What the bootstrap draws from; default 20260101"),
    ),
    responses(
        (status = 200, description = "The comparison", body = CriteriaComparison),
        (status = 404, description = "criteria-not-found", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "invalid-request", body = Problem, content_type = "application/problem+json"),
    ),
)]
async fn compare_criteria(
    State(state): State<ApiState>,
    mut params: Params,
) -> Result<Json<CriteriaComparison>, ApiError> {
    let names = names(&mut params);
    let movers = params.whole("movers", 0..=MOST_MOVERS).unwrap_or(MOVERS);
    let seed = params.whole("seed", 0..=u64::MAX).unwrap_or(SEED);
    params.finish()?;
    let (a, b) = both(&state, names).await?;
    for (name, side) in [("/a", &a), ("/b", &b)] {
        if side.kind.is_case() {
            let message = format!(
                "is for kind {}: only criteria for sessions are compared",
                side.kind
            );
            return Err(ApiError::fault(Refusal::Unprocessable, name, message));
        }
    }
    let found = state.store.criteria_pairs(&a.hash, &b.hash).await?;
    let movers = state
        .store
        .criteria_movers((&a.hash, &b.hash), found.basis, movers)
        .await?;
    let pairs = found.pairs.clone();
    let comparison = tokio::task::spawn_blocking(move || compare(&pairs, seed))
        .await
        .map_err(|error| ApiError::Internal(format!("comparing criteria: {error}")))?;
    Ok(Json(view((a, b), &found, comparison, seed, movers)))
}

fn view(
    (a, b): (Named, Named),
    found: &CriteriaPairs,
    comparison: Comparison,
    seed: u64,
    movers: Vec<Mover>,
) -> CriteriaComparison {
    let mut warnings = warnings(found, comparison.n);
    if comparison.n > 1 && comparison.kendall_tau_b.is_none() {
        warnings.push(
            "one of the two gives every session the same total: there is no order to compare"
                .to_owned(),
        );
    }
    CriteriaComparison {
        a: a.hash,
        b: b.hash,
        n: comparison.n,
        only_a: found.only_a,
        only_b: found.only_b,
        mean_a: comparison.mean_a,
        mean_b: comparison.mean_b,
        mean_difference: comparison
            .difference
            .map(|value| difference(value, comparison.bootstrap, seed)),
        kendall_tau_b: comparison.kendall_tau_b,
        ratings: TableView {
            labels: Rating::ALL.iter().map(Rating::to_string).collect(),
            table: comparison.ratings.rows().map(|row| row.to_vec()).to_vec(),
        },
        changed: comparison.changed,
        movers: movers.into_iter().map(mover).collect(),
        simulated: found.basis.is_simulated(),
        warnings,
    }
}

fn difference(value: f64, bootstrap: Option<Bootstrap>, seed: u64) -> DifferenceView {
    DifferenceView {
        value,
        low: bootstrap.map(|found| found.interval.low),
        high: bootstrap.map(|found| found.interval.high),
        level: LEVEL,
        resamples: bootstrap.map_or(0, |found| found.resamples),
        seed,
    }
}

fn mover(mover: Mover) -> MoverView {
    MoverView {
        session_id: mover.session_id,
        a: mover.a,
        b: mover.b,
        difference: i16::from(mover.b) - i16::from(mover.a),
    }
}

fn warnings(found: &CriteriaPairs, n: u64) -> Vec<String> {
    let mut warnings = Vec::new();
    if found.basis.is_simulated() {
        warnings.push(
            "all scores are of a simulated judge: they say nothing of the criteria".to_owned(),
        );
    }
    if found.simulated_left_out > 0 {
        warnings.push(format!(
            "left out: {} of a simulated judge",
            counted(found.simulated_left_out, "score")
        ));
    }
    if n == 0 {
        warnings.push(
            "no session has a score under both: score sessions of the one under the other, as a preview".to_owned(),
        );
    } else if n < FEW {
        warnings.push(format!(
            "only {}: below {FEW} the figures say little",
            counted(n, "session")
        ));
    }
    warnings
}
