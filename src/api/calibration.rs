//! Whether confidence says how often a generator is right: POST `/api/v1/metrics/calibration`. Computed at once; stores nothing.

use axum::Json;
use axum::response::{IntoResponse as _, Response};
use serde::{Deserialize, Serialize};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::ApiState;
use super::body::ApiJson;
use super::params::Params;
use super::problem::{ApiError, Fault, Problem, Refusal};
use crate::score::sql_metrics::calibration::{Calibration, Confidence, Level, Promises, calibrate};

/// The most cases of one request.
const MOST_CASES: usize = 200_000;
/// The most faults that one answer tells.
const MOST_FAULTS: usize = 20;
/// The largest factor: a miss of a thousandth is worth nothing then.
const LARGEST_FACTOR: f64 = 1_000.0;

/// The routes of this file.
pub(super) fn routes() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new().routes(routes!(post_calibration))
}

/// How sure the generator said it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase", try_from = "String")]
pub(super) enum ConfidenceLevel {
    /// Nearly certain.
    High,
    /// More likely right than wrong.
    Medium,
    /// A guess.
    Low,
}

impl TryFrom<String> for ConfidenceLevel {
    type Error = String;

    /// In any case, as cases of kind `sql_metrics` have it.
    fn try_from(text: String) -> Result<Self, String> {
        text.parse::<Confidence>().map(Self::from)
    }
}

impl From<ConfidenceLevel> for Confidence {
    fn from(level: ConfidenceLevel) -> Self {
        match level {
            ConfidenceLevel::High => Self::High,
            ConfidenceLevel::Medium => Self::Medium,
            ConfidenceLevel::Low => Self::Low,
        }
    }
}

impl From<Confidence> for ConfidenceLevel {
    fn from(level: Confidence) -> Self {
        match level {
            Confidence::High => Self::High,
            Confidence::Medium => Self::Medium,
            Confidence::Low => Self::Low,
        }
    }
}

/// One case of a suite.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CalibrationCase {
    /// In any case. Left out or null: the case is left out, and counted.
    #[serde(default)]
    pub(super) confidence: Option<ConfidenceLevel>,
    /// How right it was, 0-1; left out or null: not scored, so that the case is left out, and counted.
    #[serde(default)]
    pub(super) correctness: Option<f64>,
}

/// The share of right answers that each level promises, 0-1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CalibrationTargets {
    /// 0.95 by default.
    pub(super) high: f64,
    /// 0.75 by default.
    pub(super) medium: f64,
    /// 0.45 by default.
    pub(super) low: f64,
}

/// A suite's cases.
#[derive(Debug, Clone, PartialEq, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CalibrationRequest {
    /// At most 200,000.
    pub(super) cases: Vec<CalibrationCase>,
    /// Other targets than 0.95, 0.75 and 0.45; all three.
    #[serde(default)]
    pub(super) targets: Option<CalibrationTargets>,
    /// What an average miss of 1 costs, above 0 and at most 1,000; 3 by default: a miss of a third is worth nothing.
    #[serde(default)]
    pub(super) factor: Option<f64>,
}

/// One level of confidence.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub(super) struct CalibrationGroup {
    /// Which one.
    pub(super) confidence: ConfidenceLevel,
    /// Its scored cases.
    pub(super) n: usize,
    /// What it promises.
    pub(super) target: f64,
    /// The mean correctness of its cases; null without cases.
    pub(super) accuracy: Option<f64>,
    /// The accuracy's Wilson interval at 95 %, lower and upper end; null without cases.
    pub(super) interval: Option<[f64; 2]>,
}

/// How well confidence predicts correctness.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub(super) struct CalibrationView {
    /// max(0, 1 - factor * the mean distance of a group's accuracy from its target, weighted by cases); null below 20 cases.
    pub(super) score: Option<f64>,
    /// What the score means; null without one.
    pub(super) interpretation: Option<String>,
    /// What to beware of.
    pub(super) warnings: Vec<String>,
    /// High, medium, low.
    pub(super) groups: Vec<CalibrationGroup>,
    /// The scored cases that have a confidence: what everything here is made of.
    pub(super) n: usize,
    /// Cases without a confidence or without a correctness.
    pub(super) left_out: usize,
    /// The expected calibration error, targets taken as probabilities; null without cases.
    pub(super) ece: Option<f64>,
    /// The Brier score, targets taken as probabilities; null without cases.
    pub(super) brier: Option<f64>,
    /// The targets used.
    pub(super) targets: CalibrationTargets,
    /// The factor used.
    pub(super) factor: f64,
}

impl CalibrationView {
    /// A calibration, and how many cases it leaves out.
    pub(super) fn of(calibration: Calibration, left_out: usize) -> Self {
        let Promises {
            high,
            medium,
            low,
            factor,
        } = calibration.promises;
        Self {
            score: calibration.score,
            interpretation: calibration.interpretation.map(str::to_owned),
            warnings: calibration
                .warnings
                .into_iter()
                .map(str::to_owned)
                .collect(),
            groups: calibration.levels.into_iter().map(group).collect(),
            n: calibration.n,
            left_out,
            ece: calibration.ece,
            brier: calibration.brier,
            targets: CalibrationTargets { high, medium, low },
            factor,
        }
    }
}

fn group(level: Level) -> CalibrationGroup {
    CalibrationGroup {
        confidence: level.confidence.into(),
        n: level.n,
        target: level.target,
        accuracy: level.accuracy,
        interval: level.interval,
    }
}

/// Measures whether a suite's confidence predicts its correctness.
///
/// Answers at once and stores nothing. Cases without a confidence or a correctness are left out and counted. Below 20 cases there is no score.
#[utoipa::path(
    post, path = "/api/v1/metrics/calibration", tag = "metrics",
    request_body(content = CalibrationRequest, example = json!({"cases": [
        {"confidence": "high", "correctness": 1.0}, {"confidence": "medium", "correctness": 0.5},
        {"confidence": "low", "correctness": 0.0}]})),
    responses(
        (status = 200, description = "The calibration", body = CalibrationView),
        (status = 422, description = "invalid-request", body = Problem, content_type = "application/problem+json"),
    ),
)]
async fn post_calibration(
    params: Params,
    body: ApiJson<CalibrationRequest>,
) -> Result<Response, ApiError> {
    params.finish()?;
    let ApiJson(request) = body;
    let promises = checked(&request)?;
    let scored = request
        .cases
        .iter()
        .filter_map(|case| Some((case.confidence?.into(), case.correctness?)));
    let calibration = calibrate(scored, promises);
    let left_out = request.cases.len() - calibration.n;
    Ok(Json(CalibrationView::of(calibration, left_out)).into_response())
}

/// The promises asked for, if everything is in range.
fn checked(request: &CalibrationRequest) -> Result<Promises, ApiError> {
    if request.cases.len() > MOST_CASES {
        let message = format!(
            "holds {} cases; at most {MOST_CASES} are taken",
            request.cases.len()
        );
        return Err(ApiError::fault(Refusal::Unprocessable, "/cases", message));
    }
    let mut faults = Vec::new();
    let mut promises = Promises::default();
    if let Some(CalibrationTargets { high, medium, low }) = request.targets {
        promises = Promises {
            high,
            medium,
            low,
            ..promises
        };
        for (name, target) in [("high", high), ("medium", medium), ("low", low)] {
            check_share(&mut faults, || format!("/targets/{name}"), target);
        }
    }
    if let Some(factor) = request.factor {
        promises.factor = factor;
        if !(factor > 0.0 && factor <= LARGEST_FACTOR) {
            let message = format!("is {factor}; above 0 and at most {LARGEST_FACTOR} is expected");
            faults.push(fault("/factor".to_owned(), message));
        }
    }
    for (at, case) in request.cases.iter().enumerate() {
        if let Some(correctness) = case.correctness {
            check_share(
                &mut faults,
                || format!("/cases/{at}/correctness"),
                correctness,
            );
        }
    }
    if faults.is_empty() {
        return Ok(promises);
    }
    Err(ApiError::Invalid {
        refusal: Refusal::Unprocessable,
        faults,
    })
}

fn check_share(faults: &mut Vec<Fault>, pointer: impl FnOnce() -> String, share: f64) {
    if !(0.0..=1.0).contains(&share) && faults.len() < MOST_FAULTS {
        faults.push(fault(
            pointer(),
            format!("is {share}; a number from 0 to 1 is expected"),
        ));
    }
}

fn fault(pointer: String, message: String) -> Fault {
    Fault { pointer, message }
}
