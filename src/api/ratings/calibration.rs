//! POST `/api/v1/metrics/calibration`: how well confidence predicts correctness. Stores nothing.

use axum::Json;

use crate::api::http::body::ApiJson;
use crate::api::http::problem::{ApiError, ApiResult};
use crate::score::sql_metrics::calibration::{self, Promises, calibrate};
use crate::wire::{CalibrationRequest, CalibrationResult, CalibrationTargets, RequestFault};

const MOST_CASES: usize = 200_000;
const MAX_ERRORS: usize = 20;
/// Maximum factor: a mean distance of a thousandth scores 0.
const LARGEST_FACTOR: f64 = 1_000.0;

/// Measures whether a suite's confidence predicts its correctness.
///
/// Responds immediately and stores nothing. Cases without a confidence or a correctness are excluded and counted. Below
/// 20 cases there is no score.
#[utoipa::path(
    post, path = "/api/v1/metrics/calibration", tag = "metrics",
    request_body(content = CalibrationRequest, example = json!({"cases": [
        {"confidence": "high", "correctness": 1.0}, {"confidence": "medium", "correctness": 0.5},
        {"confidence": "low", "correctness": 0.0}]})),
    responses(
        (status = 200, description = "The calibration", body = CalibrationResult),
    ),
)]
pub(crate) async fn post_calibration(
    ApiJson(request): ApiJson<CalibrationRequest>,
) -> ApiResult<CalibrationResult> {
    let promises = checked(&request)?;
    let scored = request
        .cases
        .iter()
        .filter_map(|case| Some((case.confidence?, case.correctness?)));
    let calibration = calibrate(scored, promises);
    let left_out = request.cases.len() - calibration.n;
    Ok(Json(view(calibration, left_out)))
}

/// Converts a calibration. `left_out` is the number of excluded cases.
pub(crate) fn view(calibration: calibration::Calibration, left_out: usize) -> CalibrationResult {
    let strings = |texts: Vec<&str>| texts.into_iter().map(str::to_owned).collect();
    CalibrationResult {
        score: calibration.score,
        interpretation: calibration.interpretation.map(str::to_owned),
        warnings: strings(calibration.warnings),
        groups: calibration.levels.to_vec(),
        n: calibration.n,
        left_out,
        ece: calibration.ece,
        brier: calibration.brier,
        targets: calibration.promises.targets,
        factor: calibration.promises.factor,
    }
}

fn checked(request: &CalibrationRequest) -> Result<Promises, ApiError> {
    if request.cases.len() > MOST_CASES {
        let message = format!(
            "contains {} cases; the maximum is {MOST_CASES}",
            request.cases.len()
        );
        return Err(ApiError::fault("/cases", message));
    }
    let mut faults = Vec::new();
    let mut promises = Promises::default();
    if let Some(targets) = request.targets {
        promises.targets = targets;
        let CalibrationTargets { high, medium, low } = targets;
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
    Err(ApiError::Invalid(faults))
}

fn check_share(faults: &mut Vec<RequestFault>, pointer: impl FnOnce() -> String, share: f64) {
    if !(0.0..=1.0).contains(&share) && faults.len() < MAX_ERRORS {
        faults.push(fault(
            pointer(),
            format!("is {share}; a number from 0 to 1 is expected"),
        ));
    }
}

fn fault(pointer: String, message: String) -> RequestFault {
    RequestFault { pointer, message }
}
