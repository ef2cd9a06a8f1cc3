//! How far people and the judge agree, under one version of the criteria: GET `/api/v1/analytics/agreement`.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::ApiState;
use super::criteria_compare::TableView;
use super::criteria_named::criteria_of;
use super::params::Params;
use super::problem::{ApiError, Problem};
use super::words::counted;
use crate::score::statistics::{Kappa, Strength};
use crate::score::trust::{Agreement, Scale, agreement};
use crate::store::RatingsMet;

/// Below so many ratings, a kappa and its interval say little.
const FEW: u64 = 30;

/// The routes of this file.
pub(super) fn routes() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new().routes(routes!(get_agreement))
}

/// Agreement beyond chance.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, utoipa::ToSchema)]
pub(super) struct KappaView {
    /// 1: always the same word; 0: as often as chance would have it; below 0: less.
    pub(super) value: f64,
    /// The lower end of its 95 % interval, from the large-sample standard error; null where that is 0.
    pub(super) low: Option<f64>,
    /// The upper end.
    pub(super) high: Option<f64>,
}

/// Agreement on one scale.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub(super) struct AgreementView {
    /// `ratings`: people gave totals or one of their five words; `quality`: one of the three words of a reviewer.
    pub(super) scale: Scale,
    /// How many ratings meet a score; several people's ratings of one score count each.
    pub(super) n: u64,
    /// How many people gave them.
    pub(super) raters: u64,
    /// How many scores they meet.
    pub(super) scores: u64,
    /// The share where both say the same word, 0-1.
    pub(super) raw: Option<f64>,
    /// Cohen's kappa with quadratic weights; null where it isn't defined: fewer than two ratings, or one word throughout.
    pub(super) kappa_quadratic: Option<KappaView>,
    /// The words of Landis and Koch (1977) for that kappa.
    pub(super) strength: Option<Strength>,
    /// How often which word of people met which of ours.
    pub(super) confusion: TableView,
    /// By how many points people's totals and ours lie apart on average; null where nobody gave a total.
    pub(super) mean_absolute_difference: Option<f64>,
    /// By how many points ours lie above theirs on average.
    pub(super) mean_difference: Option<f64>,
    /// What to beware of.
    pub(super) warnings: Vec<String>,
}

/// Agreement under one version of the criteria.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub(super) struct AgreementReport {
    /// The version.
    pub(super) criteria_hash: String,
    /// Whether the scores are those of a simulated judge: no other was rated.
    pub(super) simulated: bool,
    /// Each scale that anybody used; empty where no rating meets a score.
    pub(super) scales: Vec<AgreementView>,
}

/// Holds people's ratings against the scores of one version of the criteria.
///
/// A rating of a score meets that score. A rating of a session meets the session's newest score under the criteria, unless the
/// same person rated that score too. How to read the figures is in docs/trust.md.
#[utoipa::path(
    get, path = "/api/v1/analytics/agreement", tag = "trust",
    params(("criteria" = Option<String>, Query, description = "64 hex digits, at least the first 8, or `current` (default)")),
    responses(
        (status = 200, description = "The agreement", body = AgreementReport),
        (status = 404, description = "criteria-not-found", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "invalid-request", body = Problem, content_type = "application/problem+json"),
    ),
)]
async fn get_agreement(
    State(state): State<ApiState>,
    mut params: Params,
) -> Result<Json<AgreementReport>, ApiError> {
    let criteria = params.text("criteria");
    params.finish()?;
    let criteria_hash = criteria_of(&state, criteria).await?;
    let met = state.store.ratings_met(&criteria_hash).await?;
    Ok(Json(AgreementReport {
        criteria_hash,
        simulated: met.basis.is_simulated(),
        scales: agreement(&met.judged)
            .into_iter()
            .map(|found| view(found, &met))
            .collect(),
    }))
}

fn view(found: Agreement, met: &RatingsMet) -> AgreementView {
    let people = met
        .people
        .iter()
        .find(|(scale, _, _)| *scale == found.scale);
    let (raters, scores) = people.map_or((0, 0), |(_, raters, scores)| (*raters, *scores));
    let mut warnings = Vec::new();
    if met.basis.is_simulated() {
        warnings
            .push("the scores are of a simulated judge: they say nothing of a real one".to_owned());
    }
    if found.n < FEW {
        warnings.push(format!(
            "only {}: below {FEW} the figures say little",
            counted(found.n, "rating")
        ));
    }
    if raters == 1 {
        warnings.push(
            "one person alone: what two people would disagree about counts against the judge"
                .to_owned(),
        );
    }
    if found.kappa_quadratic.is_none() && found.n > 1 {
        warnings.push("both sides have one word throughout: kappa isn't defined".to_owned());
    }
    AgreementView {
        scale: found.scale,
        n: found.n,
        raters,
        scores,
        raw: found.raw,
        kappa_quadratic: found.kappa_quadratic.map(kappa),
        strength: found.kappa_quadratic.map(|kappa| Strength::of(kappa.value)),
        confusion: TableView {
            labels: found.labels.into_iter().map(str::to_owned).collect(),
            table: found.table,
        },
        mean_absolute_difference: found.mean_absolute_difference,
        mean_difference: found.mean_difference,
        warnings,
    }
}

fn kappa(kappa: Kappa) -> KappaView {
    KappaView {
        value: kappa.value,
        low: kappa.interval.map(|interval| interval.low),
        high: kappa.interval.map(|interval| interval.high),
    }
}
