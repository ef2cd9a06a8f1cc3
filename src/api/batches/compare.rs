//! GET `/api/v1/batches/compare`: changed items and differences of means between two batches.

use axum::Json;
use serde::Deserialize;
use uuid::Uuid;

use crate::api::ApiState;
use crate::api::http::extract::{Query, QueryPart};
use crate::api::http::problem::{ApiError, ApiResult};
use crate::memory::blocking;
use crate::report::EndedItems;
use crate::suite::run::compare::{Change, PartChange, RunComparison};
use crate::wire::words::counted;
use crate::wire::{BatchComparison, PartDifference, TurnedItem, TurnedItems};

const MAX_LISTED_ITEMS: usize = 200;

fn turned(changes: Vec<Change>) -> TurnedItems {
    let count = changes.len();
    let item = |change: Change| TurnedItem {
        id: change.id,
        a: change.before,
        b: change.after,
        item_a: change.item_a,
        item_b: change.item_b,
    };
    let items = changes
        .into_iter()
        .take(MAX_LISTED_ITEMS)
        .map(item)
        .collect();
    TurnedItems { count, items }
}

impl From<PartChange> for PartDifference {
    fn from(part: PartChange) -> Self {
        Self {
            name: part.name.to_owned(),
            title: part.title.to_owned(),
            n: part.compared,
            mean_a: part.mean_a,
            mean_b: part.mean_b,
            difference: part.difference,
        }
    }
}

#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(crate) struct BatchPair {
    /// The earlier batch
    #[param(required = true)]
    pub(crate) a: Uuid,
    /// The later one, of the same kind
    #[param(required = true)]
    pub(crate) b: Uuid,
}

impl QueryPart for BatchPair {}

/// Compares two batches: changed items and differences of means.
///
/// Items are paired by name, or by index if they have none. Only ended items count.
#[utoipa::path(
    get, path = "/api/v1/batches/compare", tag = "batches",
    params(BatchPair),
    responses(
        (status = 200, description = "The comparison", body = BatchComparison),
        (status = 404, description = "batch-not-found"),
        (status = 503, description = "too-many-reports, memory-busy, database-unavailable"),
    ),
)]
pub(crate) async fn compare_batches(
    state: ApiState,
    Query(BatchPair { a, b }): Query<BatchPair>,
) -> ApiResult<BatchComparison> {
    let (row_a, row_b) = (
        state.store.batches().get(a).await?,
        state.store.batches().get(b).await?,
    );
    let row_a = row_a.ok_or(ApiError::BatchNotFound(a))?;
    let row_b = row_b.ok_or(ApiError::BatchNotFound(b))?;
    if row_a.kind != row_b.kind {
        let message = format!(
            "is of kind {}, and the other of kind {}: batches of one kind are compared",
            row_b.kind, row_a.kind
        );
        return Err(ApiError::fault("/b", message));
    }
    let permit = state.report_permits().take().await?;
    let read_a = EndedItems::read(&state.store, a, None).await?;
    let read_b = EndedItems::read(&state.store, b, None).await?;
    let unfinished = read_a.unfinished + read_b.unfinished;
    let comparing = move || {
        let _permit = permit;
        RunComparison::between(&read_a.items, &read_b.items)
    };
    let found = blocking(comparing).await?;
    Ok(Json(view((a, b), found, unfinished)))
}

fn view((a, b): (Uuid, Uuid), found: RunComparison, unfinished: u64) -> BatchComparison {
    let mut warnings = Vec::new();
    if found.mixes_simulated() {
        warnings.push(
            "only one of the two used a simulated judge: differences don't reflect the work"
                .to_owned(),
        );
    } else if found.simulated_a > 0 {
        warnings.push("scores are from a simulated judge: they don't reflect the work".to_owned());
    }
    if unfinished > 0 {
        warnings.push(format!("not ended yet: {}", counted(unfinished, "item")));
    }
    if found.common == 0 {
        warnings.push(
            "the batches have no item in common: give items the same ids in both suites".to_owned(),
        );
    }
    BatchComparison {
        a,
        b,
        common: found.common,
        pass_to_fail: turned(found.pass_to_fail),
        fail_to_pass: turned(found.fail_to_pass),
        lost_score: turned(found.lost_score),
        gained_score: turned(found.gained_score),
        only_a: found.gone.len(),
        only_b: found.new.len(),
        n: found.compared,
        mean_a: found.mean_a,
        mean_b: found.mean_b,
        difference: found.difference,
        low: found.interval.map(|(low, _)| low),
        high: found.interval.map(|(_, high)| high),
        parts: found.parts.into_iter().map(PartDifference::from).collect(),
        warnings,
    }
}
