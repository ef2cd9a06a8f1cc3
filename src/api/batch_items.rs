//! A batch's items in their order, all or those that stand in one way, and one of them with what was sent.

use axum::Json;
use axum::extract::{Path, State};
use serde_json::Value;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use super::params::{Params, Segment, uuid};
use super::problem::{ApiError, Problem, Refusal};
use super::{ApiState, job_view};
use crate::job;
use crate::report::Item;
use crate::report::shown::{self, Shown};
use crate::store;
use crate::wire::{BatchItem, BatchItemDetail, BatchItems, ItemOutcome, ItemPart, Job};

/// The list's name in its cursors.
const LIST: char = 'i';
/// How many items are in memory with their payloads, each of which may be some MiB long.
const AT_ONCE: u32 = 10;

/// The routes of this file.
pub(super) fn routes() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new()
        .routes(routes!(list_items))
        .routes(routes!(get_item))
}

fn item(outcome: ItemOutcome, shown: Shown, total: Option<f64>, job: Job) -> BatchItem {
    let part = |part: shown::Part| ItemPart {
        name: part.name.to_owned(),
        title: part.title.to_owned(),
        score: part.score,
        words: part.words,
    };
    BatchItem {
        item_no: job.item_no.unwrap_or_default(),
        outcome,
        name: shown.name,
        question: shown.question,
        lines: shown.lines,
        total,
        threshold: shown.threshold,
        execution_error: shown.execution_error,
        unreadable: shown.unreadable,
        missing: shown.missing.into_iter().map(str::to_owned).collect(),
        parts: shown.parts.into_iter().map(part).collect(),
        reasoning: shown.reasoning,
        job,
    }
}

/// Lists the items of a batch, in their order.
#[utoipa::path(
    get, path = "/api/v1/batches/{batch_id}/items", tag = "batches",
    params(
        ("batch_id" = Uuid, Path, description = "The batch"),
        ("outcome" = Option<ItemOutcome>, Query, description = "Those that stand so; left out: all"),
        ("limit" = Option<u32>, Query, description = "How many, 1-500; default 50", minimum = 1, maximum = 500),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before"),
    ),
    responses(
        (status = 200, description = "The items", body = BatchItems),
        (status = 404, description = "batch-not-found", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "invalid-request", body = Problem, content_type = "application/problem+json"),
    ),
)]
async fn list_items(
    State(state): State<ApiState>,
    Segment(batch_id): Segment,
    mut params: Params,
) -> Result<Json<BatchItems>, ApiError> {
    let id = uuid(&batch_id, "batch_id", Refusal::Unprocessable)?;
    let outcome = params.take("outcome");
    let limit = params.limit();
    let after = after(&mut params);
    params.finish()?;
    if state.store.batches().get(id).await?.is_none() {
        return Err(ApiError::BatchNotFound(id));
    }
    let (briefs, jobs, more) = read(&state, (id, outcome), after, limit).await?;
    let jobs = job_view::load_all(&state, &jobs).await?;
    let items: Vec<BatchItem> = briefs
        .into_iter()
        .zip(jobs)
        .map(|((outcome, shown, total), job)| item(outcome, shown, total, job))
        .collect();
    let last = items.last().filter(|_| more);
    Ok(Json(BatchItems {
        next_cursor: last.map(|item| format!("{LIST}{}", item.item_no)),
        items,
    }))
}

type Brief = (ItemOutcome, Shown, Option<f64>);

/// A page of items as they are shown, their jobs without what makes them heavy, and whether more follow.
async fn read(
    state: &ApiState,
    (id, outcome): (Uuid, Option<ItemOutcome>),
    mut after: Option<i64>,
    limit: u32,
) -> Result<(Vec<Brief>, Vec<job::Job>, bool), ApiError> {
    let (mut briefs, mut jobs) = (Vec::new(), Vec::new());
    loop {
        let part = AT_ONCE.min(limit + 1 - u32::try_from(jobs.len()).unwrap_or(limit));
        let rows = state
            .store
            .batches()
            .items(id, outcome, after, part)
            .await?;
        let is_last = rows.len() < part as usize;
        for row in rows {
            if jobs.len() == limit as usize {
                return Ok((briefs, jobs, true));
            }
            after = row.job.batch.map(|place| place.item_no);
            let job = job::Job {
                payload: Value::Null,
                result: None,
                ..row.job.clone()
            };
            briefs.push(brief(row));
            jobs.push(job);
        }
        if is_last {
            return Ok((briefs, jobs, false));
        }
    }
}

fn brief(row: store::BatchItem) -> Brief {
    let (outcome, total) = (row.outcome(), row.total);
    (outcome, Shown::of(&Item::from(row)), total)
}

/// The place that the page before ended with; a fault stays with the query.
fn after(params: &mut Params) -> Option<i64> {
    let text = params.text("cursor")?;
    let place = text
        .strip_prefix(LIST)
        .and_then(|place| place.parse::<u32>().ok());
    if place.is_none() {
        let message =
            "is not a position in this list; use a next_cursor that the list gave, or leave it out";
        params.fault("cursor", message.to_owned());
    }
    place.map(i64::from)
}

/// Reads an item of a batch, with what was sent and what it came to.
#[utoipa::path(
    get, path = "/api/v1/batches/{batch_id}/items/{item_no}", tag = "batches",
    params(
        ("batch_id" = Uuid, Path, description = "The batch"),
        ("item_no" = u32, Path, description = "Its place among the batch's items, from 0"),
    ),
    responses(
        (status = 200, description = "The item", body = BatchItemDetail),
        (status = 404, description = "batch-not-found, batch-item-not-found", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "invalid-request", body = Problem, content_type = "application/problem+json"),
    ),
)]
async fn get_item(
    State(state): State<ApiState>,
    Path((batch_id, item_no)): Path<(String, String)>,
    params: Params,
) -> Result<Json<BatchItemDetail>, ApiError> {
    let id = uuid(&batch_id, "batch_id", Refusal::Unprocessable)?;
    let place = item_no.parse::<u32>().map_err(|_| {
        let message = "is not a place among a batch's items: give a number from 0 on";
        ApiError::fault(Refusal::Unprocessable, "/item_no", message)
    })?;
    params.finish()?;
    if state.store.batches().get(id).await?.is_none() {
        return Err(ApiError::BatchNotFound(id));
    }
    let row = state.store.batches().item(id, i64::from(place)).await?;
    let row = row.ok_or(ApiError::BatchItemNotFound(id, place))?;
    let job = job_view::load(&state, &row.job).await?;
    let payload = row.job.payload.clone();
    let (outcome, shown, total) = brief(row);
    Ok(Json(BatchItemDetail {
        item: item(outcome, shown, total, job),
        payload,
    }))
}
