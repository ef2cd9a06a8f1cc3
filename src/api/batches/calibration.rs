//! GET `/api/v1/batches/{batch_id}/calibration`: how well a stored suite's confidence predicts correctness.

use axum::Json;
use uuid::Uuid;

use crate::api::ApiState;
use crate::api::http::extract::Path;
use crate::api::http::problem::{ApiError, ApiResult};
use crate::api::ratings::calibration::view;
use crate::score::fields;
use crate::score::sql_metrics::calibration::{Promises, calibrate};
use crate::store::{ConfidenceCount, MadeBy};
use crate::wire::words;
use crate::wire::{BatchCalibration, CalibrationResult, Confidence};

/// Maximum number of items read, because a page waits for the result.
const MAX_ITEMS: u32 = 10_000;

/// Measures whether the confidence of a stored suite predicts its correctness.
///
/// For batches of kind `sql_metrics`, also while they run. Covers the ended items, with the default targets and factor.
/// Reads only the first 10,000 items; a report of the batch covers all. If real judges graded any case, simulated
/// grades are excluded. Below 20 cases there is no score.
#[utoipa::path(
    get, path = "/api/v1/batches/{batch_id}/calibration", tag = "metrics",
    responses(
        (status = 200, description = "The calibration", body = BatchCalibration),
        (status = 404, description = "batch-not-found"),
    ),
)]
pub(crate) async fn get_batch_calibration(
    state: ApiState,
    Path(id): Path<Uuid>,
) -> ApiResult<BatchCalibration> {
    let batch = state.store.batches().get(id).await?;
    let batch = batch.ok_or(ApiError::BatchNotFound(id))?;
    if fields(batch.kind)
        .iter()
        .all(|field| field.name != "confidence")
    {
        let message = format!(
            "is a batch of kind {}, and its cases have no confidence: name one of kind sql_metrics",
            batch.kind.as_str()
        );
        return Err(ApiError::fault("/batch_id", message));
    }
    let counts = state
        .store
        .batches()
        .confidence_counts(id, MAX_ITEMS)
        .await?;
    let looked_at = batch.total.min(i64::from(MAX_ITEMS));
    let made_by = included_grades(&counts);
    let mut calibration = calibration(&counts, made_by, looked_at);
    if batch.total > looked_at {
        let message = format!(
            "covers only the first {looked_at} of {} items; a report of the batch has all",
            batch.total
        );
        calibration.warnings.push(message);
    }
    Ok(Json(BatchCalibration {
        batch_id: id,
        items: batch.total,
        looked_at,
        simulated: made_by == MadeBy::Simulated,
        calibration,
    }))
}

/// Returns which grades count in addition to computed ones: grades of real judges, else simulated ones, as in reports.
fn included_grades(counts: &[ConfidenceCount]) -> MadeBy {
    let has = |made_by| counts.iter().any(|count| count.made_by == Some(made_by));
    if has(MadeBy::Simulated) && !has(MadeBy::Judge) {
        MadeBy::Simulated
    } else {
        MadeBy::Judge
    }
}

fn calibration(counts: &[ConfidenceCount], made_by: MadeBy, looked_at: i64) -> CalibrationResult {
    let calibration = calibrate(cases(counts, made_by), Promises::default());
    let n = i64::try_from(calibration.n).unwrap_or(i64::MAX);
    let left_out = usize::try_from(looked_at.saturating_sub(n)).unwrap_or(0);
    let mut view = view(calibration, left_out);
    let simulated: u64 = counts
        .iter()
        .filter(|count| count.made_by == Some(MadeBy::Simulated))
        .map(|count| u64::from(count.cases))
        .sum();
    match made_by {
        MadeBy::Simulated => view
            .warnings
            .push("graded by a simulated judge, but for cases that needed none".to_owned()),
        MadeBy::Judge if simulated > 0 => view.warnings.push(format!(
            "excluded: {} that a simulated judge graded; cases without a judge are counted, so that the suite looks better than it is",
            words::counted(simulated, "case")
        )),
        MadeBy::Judge => {}
    }
    view
}

fn cases(
    counts: &[ConfidenceCount],
    made_by: MadeBy,
) -> impl Iterator<Item = (Confidence, f64)> + '_ {
    let counted = counts
        .iter()
        .filter(move |count| count.made_by.is_none_or(|by| by == made_by));
    counted.flat_map(|count| {
        let cases = usize::try_from(count.cases).unwrap_or(usize::MAX);
        std::iter::repeat_n((count.confidence, count.correctness), cases)
    })
}
