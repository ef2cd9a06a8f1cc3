//! GET `/api/v1/batches/compare`: changed items and differences of means between two batches.

use axum::Json;
use axum::extract::State;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use crate::api::ApiState;
use crate::api::http::params::Params;
use crate::api::http::problem::ApiError;
use crate::memory::blocking;
use crate::report::EndedItems;
use crate::suite::run::compare::{Change, PartChange, RunComparison};
use crate::wire::words::counted;
use crate::wire::{BatchComparison, PartDifference, RequestFault, TurnedItem, TurnedItems};

const MAX_LISTED_ITEMS: usize = 200;

pub(crate) fn routes() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new().routes(routes!(compare_batches))
}

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

/// Compares two batches: changed items and differences of means.
///
/// Items are paired by name, or by index if they have none. Only ended items count.
#[utoipa::path(
    get, path = "/api/v1/batches/compare", tag = "batches",
    params(
        ("a" = Uuid, Query, description = "The earlier batch"),
        ("b" = Uuid, Query, description = "The later one, of the same kind"),
    ),
    responses(
        (status = 200, description = "The comparison", body = BatchComparison),
        (status = 404, description = "batch-not-found"),
        (status = 503, description = "too-many-reports, memory-busy, database-unavailable"),
    ),
)]
async fn compare_batches(
    State(state): State<ApiState>,
    params: Params,
) -> Result<Json<BatchComparison>, ApiError> {
    Ok(Json(compare(&state, params).await?))
}

pub(crate) async fn compare(
    state: &ApiState,
    mut params: Params,
) -> Result<BatchComparison, ApiError> {
    let (a, b) = (params.take::<Uuid>("a"), params.take::<Uuid>("b"));
    for (name, given) in [("a", a), ("b", b)] {
        if given.is_none() && !params.is_invalid(name) {
            params.fault(name, "is missing: give the id of a batch".to_owned());
        }
    }
    params.finish()?;
    let (a, b) = (a.unwrap_or_default(), b.unwrap_or_default());
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
        return Err(ApiError::Invalid(vec![RequestFault {
            pointer: "/b".to_owned(),
            message,
        }]));
    }
    let permit = state.report_permits().take().await?;
    let read_a = EndedItems::read(&state.store, a, None).await?;
    let read_b = EndedItems::read(&state.store, b, None).await?;
    let unfinished = read_a.unfinished + read_b.unfinished;
    let comparing = move || {
        let _permit = permit;
        RunComparison::between(&read_a.items, &read_b.items)
    };
    Ok(view((a, b), blocking(comparing).await?, unfinished))
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
