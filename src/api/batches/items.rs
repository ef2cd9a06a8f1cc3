//! Items of a batch: a list with a filter by outcome, and single items with their payload.

use axum::Json;
use axum::extract::{Path, State};
use serde_json::Value;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use crate::api::http::params::{NoQuery, Params, Segment, uuid};
use crate::api::http::problem::ApiError;
use crate::api::{ApiState, jobs};
use crate::job;
use crate::report::{Item, Outcome, live};
use crate::store;
use crate::wire::{BatchItem, BatchItemDetail, BatchItems, ItemOutcome, Job};

/// List type in cursors.
const LIST: char = 'i';
/// Number of items in memory with their payloads, each up to some MiB.
const MAX_ITEMS_IN_MEMORY: u32 = 10;

pub(crate) fn routes() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new()
        .routes(routes!(list_items))
        .routes(routes!(get_item))
}

/// Lists the items of a batch in order.
#[utoipa::path(
    get, path = "/api/v1/batches/{batch_id}/items", tag = "batches",
    params(
        ("batch_id" = Uuid, Path, description = "The batch"),
        ("outcome" = Option<ItemOutcome>, Query, description = "States of items; default: all"),
        ("limit" = Option<u32>, Query, description = "How many, 1-500; default 50", minimum = 1, maximum = 500),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before"),
    ),
    responses(
        (status = 200, description = "The items", body = BatchItems),
        (status = 404, description = "batch-not-found"),
    ),
)]
async fn list_items(
    State(state): State<ApiState>,
    Segment(batch_id): Segment,
    params: Params,
) -> Result<Json<BatchItems>, ApiError> {
    Ok(Json(list(&state, &batch_id, params).await?))
}

pub(crate) async fn list(
    state: &ApiState,
    batch_id: &str,
    mut params: Params,
) -> Result<BatchItems, ApiError> {
    let id = uuid(batch_id, "batch_id")?;
    let outcome = params.take("outcome");
    let limit = params.limit();
    let after = after(&mut params);
    params.finish()?;
    if state.store.batches().get(id).await?.is_none() {
        return Err(ApiError::BatchNotFound(id));
    }
    let (briefs, jobs, more) = page(state, (id, outcome), after, limit).await?;
    let jobs = jobs::view::load_all(state, &jobs).await?;
    let items: Vec<BatchItem> = briefs
        .into_iter()
        .zip(jobs)
        .map(|(item, job)| item(job))
        .collect();
    let last = items.last().filter(|_| more);
    Ok(BatchItems {
        next_cursor: last.map(|item| format!("{LIST}{}", item.item_no)),
        items,
    })
}

type Brief = Box<dyn FnOnce(Job) -> BatchItem + Send>;

/// Returns a page of items, with jobs without their large fields, and whether more follow.
async fn page(
    state: &ApiState,
    (id, outcome): (Uuid, Option<ItemOutcome>),
    mut after: Option<i64>,
    limit: u32,
) -> Result<(Vec<Brief>, Vec<job::Job>, bool), ApiError> {
    let (mut briefs, mut jobs) = (Vec::new(), Vec::new());
    loop {
        let part = MAX_ITEMS_IN_MEMORY.min(limit + 1 - u32::try_from(jobs.len()).unwrap_or(limit));
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
                payload: Value::Null.into(),
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
    let item = Item::from(row);
    let has_ended =
        item.outcome != Outcome::Incomplete || item.result.is_some() || item.error.is_some();
    let lines = match has_ended {
        true => live::lines(&item),
        false => Vec::new(),
    };
    let (name, question) = (item.name(), item.question().to_owned());
    let execution_error = item.execution_error().map(str::to_owned);
    let unreadable = item.unreadable().map(str::to_owned);
    let missing = item
        .missing()
        .iter()
        .map(|part| part.name.to_owned())
        .collect();
    let (threshold, parts) = (item.threshold(), item.parts());
    let reasoning = item.reasoning().map(str::to_owned);
    Box::new(move |job| BatchItem {
        item_no: job.item_no.unwrap_or_default(),
        outcome,
        name,
        question,
        lines,
        total,
        threshold,
        execution_error,
        unreadable,
        missing,
        parts,
        reasoning,
        job,
    })
}

/// Returns the last index of the previous page. Errors are collected in `params`.
fn after(params: &mut Params) -> Option<i64> {
    let text = params.text("cursor")?;
    let place = text
        .strip_prefix(LIST)
        .and_then(|place| place.parse::<u32>().ok());
    if place.is_none() {
        let message = "is not a position in this list; use a next_cursor of this list, or omit it";
        params.fault("cursor", message.to_owned());
    }
    place.map(i64::from)
}

/// Reads an item of a batch with its payload and result.
#[utoipa::path(
    get, path = "/api/v1/batches/{batch_id}/items/{item_no}", tag = "batches",
    params(
        ("batch_id" = Uuid, Path, description = "The batch"),
        ("item_no" = u32, Path, description = "Its place among the batch's items, from 0"),
    ),
    responses(
        (status = 200, description = "The item", body = BatchItemDetail),
        (status = 404, description = "batch-not-found, batch-item-not-found"),
    ),
)]
async fn get_item(
    State(state): State<ApiState>,
    Path((batch_id, item_no)): Path<(String, String)>,
    _: NoQuery,
) -> Result<Json<BatchItemDetail>, ApiError> {
    Ok(Json(read(&state, &batch_id, &item_no).await?))
}

pub(crate) async fn read(
    state: &ApiState,
    batch_id: &str,
    item_no: &str,
) -> Result<BatchItemDetail, ApiError> {
    let id = uuid(batch_id, "batch_id")?;
    let place = item_no.parse::<u32>().map_err(|_| {
        let message = "is not a place among a batch's items: give a number from 0 on";
        ApiError::fault("/item_no", message)
    })?;
    if state.store.batches().get(id).await?.is_none() {
        return Err(ApiError::BatchNotFound(id));
    }
    let row = state.store.batches().item(id, i64::from(place)).await?;
    let row = row.ok_or(ApiError::BatchItemNotFound(id, place))?;
    let job = jobs::view::load(state, &row.job).await?;
    let payload = row.job.payload.value();
    let item = brief(row)(job);
    Ok(BatchItemDetail { item, payload })
}
