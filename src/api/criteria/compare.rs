//! GET `/api/v1/scoring/criteria/compare`: compares the scores of the same sessions under two versions of the criteria.

use axum::Json;
use serde::Deserialize;

use super::named::{CriteriaPair, NamedCriteria, both};
use crate::api::ApiState;
use crate::api::http::extract::{Query, QueryPart};
use crate::api::http::problem::{ApiError, ApiResult};
use crate::memory::blocking;
use crate::score::session::Rating;
use crate::score::statistics::{Bootstrap, LEVEL};
use crate::score::trust::{VersionComparison, compare};
use crate::store::CriteriaPairs;
use crate::wire::words::counted;
use crate::wire::{CriteriaComparison, MeanDifference, Mover, WordTable};

const DEFAULT_SEED: u64 = 20_260_101;
const DEFAULT_MOVERS: u32 = 20;
/// Below this number of sessions, statistics aren't reliable.
const FEW: u64 = 20;

#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(crate) struct MoversQuery {
    /// Number of the largest movers; default 20
    #[param(maximum = 500)]
    movers: Option<u32>,
    /// Seed of the bootstrap; default 20260101
    seed: Option<u64>,
}

impl QueryPart for MoversQuery {}

/// Compares the scores of the same sessions under two versions of the criteria.
///
/// Only sessions with a score under both count, with the newest score under each, including previews. If real judges
/// scored any session, simulated scores are excluded. See docs/trust.md for the interpretation.
#[utoipa::path(
    get, path = "/api/v1/scoring/criteria/compare", tag = "criteria",
    params(CriteriaPair, MoversQuery),
    responses(
        (status = 200, description = "The comparison", body = CriteriaComparison),
        (status = 404, description = "criteria-not-found"),
    ),
)]
pub(crate) async fn compare_criteria(
    state: ApiState,
    Query((pair, query)): Query<(CriteriaPair, MoversQuery)>,
) -> ApiResult<CriteriaComparison> {
    let movers = query.movers.unwrap_or(DEFAULT_MOVERS);
    let seed = query.seed.unwrap_or(DEFAULT_SEED);
    let (a, b) = both(&state, &pair).await?;
    for (name, side) in [("/a", &a), ("/b", &b)] {
        if side.kind.is_case() {
            let message = format!(
                "is for kind {}: only criteria for sessions are compared",
                side.kind
            );
            return Err(ApiError::fault(name, message));
        }
    }
    let found = state.store.criteria().pairs(&a.hash, &b.hash).await?;
    let movers = state
        .store
        .criteria()
        .movers((&a.hash, &b.hash), found.basis, movers)
        .await?;
    let pairs = found.pairs.clone();
    let comparison = blocking(move || compare(&pairs, seed)).await;
    Ok(Json(view((a, b), &found, comparison, seed, movers)))
}

fn view(
    (a, b): (NamedCriteria, NamedCriteria),
    found: &CriteriaPairs,
    comparison: VersionComparison,
    seed: u64,
    movers: Vec<Mover>,
) -> CriteriaComparison {
    let mut warnings = warnings(found, comparison.n);
    if comparison.n > 1 && comparison.kendall_tau_b.is_none() {
        warnings.push(
            "one of the two gives every session the same total: they can't be ranked".to_owned(),
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
        ratings: WordTable {
            labels: Rating::ALL.iter().map(Rating::to_string).collect(),
            table: comparison.ratings.rows().map(|row| row.to_vec()).to_vec(),
        },
        changed: comparison.changed,
        movers,
        simulated: found.basis.is_simulated(),
        warnings,
    }
}

fn difference(value: f64, bootstrap: Option<Bootstrap>, seed: u64) -> MeanDifference {
    MeanDifference {
        value,
        low: bootstrap.map(|found| found.interval.low),
        high: bootstrap.map(|found| found.interval.high),
        level: LEVEL,
        resamples: bootstrap.map_or(0, |found| found.resamples),
        seed,
    }
}

fn warnings(found: &CriteriaPairs, n: u64) -> Vec<String> {
    let mut warnings = Vec::new();
    if found.basis.is_simulated() {
        warnings.push(
            "all scores are from a simulated judge: they don't reflect the criteria".to_owned(),
        );
    }
    if found.simulated_left_out > 0 {
        warnings.push(format!(
            "excluded: {} of a simulated judge",
            counted(found.simulated_left_out, "score")
        ));
    }
    if n == 0 {
        warnings.push(
            "no session has a score under both: score sessions of one under the other, as a preview".to_owned(),
        );
    } else if n < FEW {
        warnings.push(format!(
            "only {}: fewer than {FEW} give no reliable result",
            counted(n, "session")
        ));
    }
    warnings
}
