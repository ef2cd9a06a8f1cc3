//! Items of a batch: a list with a filter by outcome, and single items with their payload.

use axum::Json;
use serde::Deserialize;
use serde_json::Value;
use uuid::Uuid;

use crate::api::http::extract::{Path, Query, QueryPart};
use crate::api::http::problem::{ApiError, ApiResult};
use crate::api::{ApiState, jobs};
use crate::job;
use crate::report::{Item, Outcome, live};
use crate::store;
use crate::wire::{BatchItem, BatchItemDetail, BatchItems, ItemOutcome, Job, PageQuery};

/// List type in cursors.
const LIST: char = 'i';
/// Number of items in memory with their payloads, each up to some MiB.
const MAX_ITEMS_IN_MEMORY: u32 = 10;

#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(crate) struct ItemsQuery {
    /// States of items; default: all
    pub(crate) outcome: Option<ItemOutcome>,
}

impl QueryPart for ItemsQuery {}

/// Lists the items of a batch in order.
#[utoipa::path(
    get, path = "/api/v1/batches/{batch_id}/items", tag = "batches",
    params(ItemsQuery, PageQuery),
    responses(
        (status = 200, description = "The items", body = BatchItems),
        (status = 404, description = "batch-not-found"),
    ),
)]
pub(crate) async fn list_items(
    state: ApiState,
    Path(id): Path<Uuid>,
    Query((query, page)): Query<(ItemsQuery, PageQuery)>,
) -> ApiResult<BatchItems> {
    let (limit, after) = (page.limit(), after(page.cursor.as_deref())?);
    if state.store.batches().get(id).await?.is_none() {
        return Err(ApiError::BatchNotFound(id));
    }
    let (briefs, jobs, more) = read_page(&state, (id, query.outcome), after, limit).await?;
    let jobs = jobs::view::load_all(&state, &jobs).await?;
    let items: Vec<BatchItem> = briefs
        .into_iter()
        .zip(jobs)
        .map(|(item, job)| item(job))
        .collect();
    let last = items.last().filter(|_| more);
    Ok(Json(BatchItems {
        next_cursor: last.map(|item| format!("{LIST}{}", item.item_no)),
        items,
    }))
}

type Brief = Box<dyn FnOnce(Job) -> BatchItem + Send>;

/// Returns a page of items, with jobs without their large fields, and whether more follow.
async fn read_page(
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

/// Returns the last index of the previous page.
fn after(cursor: Option<&str>) -> Result<Option<i64>, ApiError> {
    let place = |text: &str| text.strip_prefix(LIST)?.parse::<u32>().ok();
    let message = "is not a position in this list; use a next_cursor of this list, or omit it";
    let read = |text| place(text).ok_or_else(|| ApiError::fault("/cursor", message));
    Ok(cursor.map(read).transpose()?.map(i64::from))
}

/// Reads an item of a batch with its payload and result.
#[utoipa::path(
    get, path = "/api/v1/batches/{batch_id}/items/{item_no}", tag = "batches",
    responses(
        (status = 200, description = "The item", body = BatchItemDetail),
        (status = 404, description = "batch-not-found, batch-item-not-found"),
    ),
)]
pub(crate) async fn get_item(
    state: ApiState,
    Path((id, place)): Path<(Uuid, u32)>,
) -> ApiResult<BatchItemDetail> {
    if state.store.batches().get(id).await?.is_none() {
        return Err(ApiError::BatchNotFound(id));
    }
    let row = state.store.batches().item(id, i64::from(place)).await?;
    let row = row.ok_or(ApiError::BatchItemNotFound(id, place))?;
    let job = jobs::view::load(&state, &row.job).await?;
    let payload = row.job.payload.value();
    let item = brief(row)(job);
    Ok(Json(BatchItemDetail { item, payload }))
}
