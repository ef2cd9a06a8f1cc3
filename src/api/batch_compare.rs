//! Two batches side by side: which items turned, and by how much the means moved. GET `/api/v1/batches/compare`.

use axum::extract::State;
use axum::{Extension, Json};
use serde::Serialize;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use super::ApiState;
use super::batch_reports::Turns;
use super::params::Params;
use super::problem::{ApiError, Fault, Problem, Refusal};
use crate::report::Batch;
use crate::suite::run::compare::{Change, Comparison, PartChange};
use crate::wire::words::counted;

/// How many items of a list are answered.
const LISTED: usize = 200;

/// The routes of this file; turns to read whole batches are shared with reports.
pub(super) fn routes(turns: Turns) -> OpenApiRouter<ApiState> {
    OpenApiRouter::new()
        .routes(routes!(compare_batches))
        .layer(Extension(turns))
}

/// One item that turned.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub(super) struct TurnedItem {
    /// What it calls itself; `#3` is the third item of a batch without names.
    pub(super) id: String,
    /// Its total in `a`, 0-1; null: it has no whole one.
    pub(super) a: Option<f64>,
    /// Its total in `b`.
    pub(super) b: Option<f64>,
    /// Its place in `a`, from 0.
    pub(super) item_a: u64,
    /// Its place in `b`.
    pub(super) item_b: u64,
}

/// Items that turned in one way.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub(super) struct TurnedItems {
    /// How many.
    pub(super) count: usize,
    /// The first 200 of them.
    pub(super) items: Vec<TurnedItem>,
}

impl From<Vec<Change>> for TurnedItems {
    fn from(changes: Vec<Change>) -> Self {
        let count = changes.len();
        let item = |change: Change| TurnedItem {
            id: change.id,
            a: change.before,
            b: change.after,
            item_a: change.item_a,
            item_b: change.item_b,
        };
        let items = changes.into_iter().take(LISTED).map(item).collect();
        Self { count, items }
    }
}

/// By how much the mean of one part of the scores moved.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub(super) struct PartDifference {
    /// Its name in results.
    pub(super) name: &'static str,
    /// Its name for people.
    pub(super) title: &'static str,
    /// Items that have it in both.
    pub(super) n: u64,
    /// Their mean in `a`, 0-1.
    pub(super) mean_a: f64,
    /// Their mean in `b`.
    pub(super) mean_b: f64,
    /// `mean_b - mean_a`.
    pub(super) difference: f64,
}

impl From<PartChange> for PartDifference {
    fn from(part: PartChange) -> Self {
        Self {
            name: part.name,
            title: part.title,
            n: part.compared,
            mean_a: part.mean_a,
            mean_b: part.mean_b,
            difference: part.difference,
        }
    }
}

/// Two batches side by side.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub(super) struct BatchComparison {
    /// The earlier one.
    pub(super) a: Uuid,
    /// The later one.
    pub(super) b: Uuid,
    /// Items that stand in both.
    pub(super) common: u64,
    /// Those that passed in `a` and miss in `b`.
    pub(super) pass_to_fail: TurnedItems,
    /// Those that missed in `a` and pass in `b`.
    pub(super) fail_to_pass: TurnedItems,
    /// Those that have a score in `a` alone.
    pub(super) lost_score: TurnedItems,
    /// Those that have one in `b` alone.
    pub(super) gained_score: TurnedItems,
    /// How many items of `a` have no counterpart.
    pub(super) only_a: usize,
    /// How many items of `b` have none.
    pub(super) only_b: usize,
    /// Items with a score in both: what the means are made of.
    pub(super) n: u64,
    /// Their mean in `a`, 0-1; null without any.
    pub(super) mean_a: Option<f64>,
    /// Their mean in `b`.
    pub(super) mean_b: Option<f64>,
    /// `mean_b - mean_a`.
    pub(super) difference: Option<f64>,
    /// The lower end of its 95 % interval: a bootstrap over the paired items; null for fewer than two.
    pub(super) low: Option<f64>,
    /// The upper end.
    pub(super) high: Option<f64>,
    /// The same for each part of the scores.
    pub(super) parts: Vec<PartDifference>,
    /// What to beware of.
    pub(super) warnings: Vec<String>,
}

/// Compares two batches: what turned, and by how much the means moved.
///
/// Items are paired by what they call themselves, else by their places. Only what has ended counts.
#[utoipa::path(
    get, path = "/api/v1/batches/compare", tag = "batches",
    params(
        ("a" = Uuid, Query, description = "The earlier batch"),
        ("b" = Uuid, Query, description = "The later one, of the same kind"),
    ),
    responses(
        (status = 200, description = "The comparison", body = BatchComparison),
        (status = 404, description = "batch-not-found", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "invalid-request", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "too-many-reports, database-unavailable", body = Problem, content_type = "application/problem+json"),
    ),
)]
async fn compare_batches(
    State(state): State<ApiState>,
    Extension(turns): Extension<Turns>,
    mut params: Params,
) -> Result<Json<BatchComparison>, ApiError> {
    let (a, b) = (params.take::<Uuid>("a"), params.take::<Uuid>("b"));
    for (name, given) in [("a", a), ("b", b)] {
        if given.is_none() && !params.is_faulty(name) {
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
        return Err(ApiError::Invalid {
            refusal: Refusal::Unprocessable,
            faults: vec![Fault {
                pointer: "/b".to_owned(),
                message,
            }],
        });
    }
    let turn = turns.take().await?;
    let read_a = Batch::read(&state.store, a).await?;
    let read_b = Batch::read(&state.store, b).await?;
    let unfinished = read_a.unfinished + read_b.unfinished;
    let comparing = move || {
        let _turn = turn;
        Comparison::of(&read_a.items, &read_b.items)
    };
    let compared = tokio::task::spawn_blocking(comparing).await;
    let found =
        compared.map_err(|error| ApiError::Internal(format!("comparing batches: {error}")))??;
    Ok(Json(view((a, b), found, unfinished)))
}

fn view((a, b): (Uuid, Uuid), found: Comparison, unfinished: u64) -> BatchComparison {
    let mut warnings = Vec::new();
    if found.mixes_simulated() {
        warnings.push(
            "only one of the two was judged by a simulated judge: what differs says nothing of the work"
                .to_owned(),
        );
    } else if found.simulated_a > 0 {
        warnings.push("scores are of a simulated judge: they say nothing of the work".to_owned());
    }
    if unfinished > 0 {
        warnings.push(format!("not ended yet: {}", counted(unfinished, "item")));
    }
    if found.common == 0 {
        warnings.push("no item stands in both: give items the same ids in both suites".to_owned());
    }
    BatchComparison {
        a,
        b,
        common: found.common,
        pass_to_fail: found.pass_to_fail.into(),
        fail_to_pass: found.fail_to_pass.into(),
        lost_score: found.lost_score.into(),
        gained_score: found.gained_score.into(),
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
