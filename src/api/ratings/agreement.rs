//! GET `/api/v1/analytics/agreement`: agreement between reviewers and the judge under one version of the criteria.

use axum::Json;
use serde::Deserialize;

use crate::api::ApiState;
use crate::api::criteria::named::criteria_of;
use crate::api::http::extract::{Query, QueryPart};
use crate::api::http::problem::ApiResult;
use crate::score::trust::{Compared, agreement};
use crate::store::RatingsMet;
use crate::wire::words::counted;
use crate::wire::{Agreement, AgreementReport, Strength};

/// Below this number of ratings, a kappa isn't reliable.
const FEW: u64 = 30;

#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(crate) struct CriteriaQuery {
    /// 64 hex digits, at least the first 8, or `current` (default)
    pub(crate) criteria: Option<String>,
}

impl QueryPart for CriteriaQuery {}

/// Compares human ratings with the scores of one version of the criteria.
///
/// A rating of a score matches that score. A rating of a session matches its newest score under the criteria, unless
/// the same reviewer also rated that score. See docs/trust.md for the interpretation.
#[utoipa::path(
    get, path = "/api/v1/analytics/agreement", tag = "trust",
    params(CriteriaQuery),
    responses(
        (status = 200, description = "The agreement", body = AgreementReport),
        (status = 404, description = "criteria-not-found"),
    ),
)]
pub(crate) async fn get_agreement(
    state: ApiState,
    Query(query): Query<CriteriaQuery>,
) -> ApiResult<AgreementReport> {
    let criteria_hash = criteria_of(&state, query.criteria).await?;
    let met = state.store.ratings().met(&criteria_hash).await?;
    let scales = scales(&met);
    let all = state.store.ratings().count().await?;
    Ok(Json(AgreementReport {
        criteria_hash,
        simulated: met.basis.is_simulated(),
        unmet: all.saturating_sub(scales.iter().map(|scale| scale.n).sum()),
        scales,
    }))
}

pub(super) fn scales(met: &RatingsMet) -> Vec<Agreement> {
    agreement(&met.judged)
        .into_iter()
        .map(|found| {
            let people = met
                .people
                .iter()
                .find(|(scale, _, _)| *scale == found.scale);
            let (raters, scores) = people.map_or((0, 0), |(_, raters, n)| (*raters, *n));
            view(found, (raters, scores), met.basis.is_simulated())
        })
        .collect()
}

/// Returns the agreement on one scale. The pair is the number of reviewers and of scores.
pub(super) fn view(found: Compared, (raters, scores): (u64, u64), simulated: bool) -> Agreement {
    let mut warnings = Vec::new();
    if simulated {
        warnings.push(
            "the scores are from a simulated judge: they don't reflect a real one".to_owned(),
        );
    }
    if found.n < FEW {
        warnings.push(format!(
            "only {}: fewer than {FEW} give no reliable result",
            counted(found.n, "rating")
        ));
    }
    if raters == 1 {
        warnings.push(
            "only one rater: disagreement between raters counts against the judge".to_owned(),
        );
    }
    if found.kappa_quadratic.is_none() && found.n > 1 {
        warnings.push("one side has only one label: kappa isn't defined".to_owned());
    }
    Agreement {
        scale: found.scale,
        n: found.n,
        raters,
        scores,
        raw: found.raw,
        kappa_quadratic: found.kappa_quadratic,
        strength: found
            .kappa_quadratic
            .map(|kappa| Strength::from_kappa(kappa.value)),
        confusion: found.confusion,
        mean_absolute_difference: found.mean_absolute_difference,
        mean_difference: found.mean_difference,
        warnings,
    }
}
