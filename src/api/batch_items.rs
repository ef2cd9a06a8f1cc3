//! A batch's items in their order, all or those that stand in one way, and one of them with what was sent.

use axum::Json;
use axum::extract::{Path, State};
use serde::Serialize;
use serde_json::Value;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use super::ApiState;
use super::job_view::JobView;
use super::params::{Params, Segment, uuid};
use super::problem::{ApiError, Problem, Refusal};
use crate::job::Job;
use crate::report::Item;
use crate::report::shown::{self, Shown};
use crate::store::{BatchItem, ItemOutcome};

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

/// A part of an item's score.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub(super) struct ItemPart {
    /// Its name in the result.
    pub(super) name: &'static str,
    /// Its name for people.
    pub(super) title: &'static str,
    /// What it is worth, 0-1, of a session 0-100; null: it failed or wasn't run.
    pub(super) score: Option<f64>,
    /// What was said of it, or why it has no score.
    pub(super) words: Option<String>,
}

impl From<shown::Part> for ItemPart {
    fn from(part: shown::Part) -> Self {
        Self {
            name: part.name,
            title: part.title,
            score: part.score,
            words: part.words,
        }
    }
}

/// An item of a batch in short.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub(super) struct BatchItemView {
    /// Its place among the batch's items, from 0.
    pub(super) item_no: i64,
    /// How it stands.
    pub(super) outcome: ItemOutcome,
    /// What it calls itself, else its session's id, else its place.
    pub(super) name: String,
    /// What was asked for, in the words of who asked; may be empty.
    pub(super) question: String,
    /// The item in a few lines, as `gavel evaluate` prints it; empty while it hasn't ended.
    pub(super) lines: Vec<String>,
    /// 0-1; null where it has no score, and for sessions.
    pub(super) total: Option<f64>,
    /// What the total is held against, 0-1.
    pub(super) threshold: Option<f64>,
    /// Why what was generated could not be executed.
    pub(super) execution_error: Option<String>,
    /// Why what was generated can't be read, where none of its parts says so.
    pub(super) unreadable: Option<String>,
    /// The parts that it has no score without: their judge failed or wasn't asked, or they couldn't be computed.
    pub(super) missing: Vec<&'static str>,
    /// The parts of its score, in the order of the kind's rules.
    pub(super) parts: Vec<ItemPart>,
    /// The judge's own words.
    pub(super) reasoning: Option<String>,
    /// Its job; in lists without the result of a case.
    pub(super) job: JobView,
}

impl BatchItemView {
    fn of(outcome: ItemOutcome, shown: Shown, total: Option<f64>, job: JobView) -> Self {
        Self {
            item_no: job.item_no.unwrap_or_default(),
            outcome,
            name: shown.name,
            question: shown.question,
            lines: shown.lines,
            total,
            threshold: shown.threshold,
            execution_error: shown.execution_error,
            unreadable: shown.unreadable,
            missing: shown.missing,
            parts: shown.parts.into_iter().map(ItemPart::from).collect(),
            reasoning: shown.reasoning,
            job,
        }
    }
}

/// A page of a batch's items, in their order.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub(super) struct BatchItemList {
    /// The items.
    pub(super) items: Vec<BatchItemView>,
    /// Where the next page begins; null on the last.
    pub(super) next_cursor: Option<String>,
}

/// An item of a batch with what was sent.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub(super) struct BatchItemDetail {
    /// The item; its job with the result.
    #[serde(flatten)]
    pub(super) item: BatchItemView,
    /// What was scored, as it was sent.
    #[schema(value_type = Object)]
    pub(super) payload: Value,
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
        (status = 200, description = "The items", body = BatchItemList),
        (status = 404, description = "batch-not-found", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "invalid-request", body = Problem, content_type = "application/problem+json"),
    ),
)]
async fn list_items(
    State(state): State<ApiState>,
    Segment(batch_id): Segment,
    mut params: Params,
) -> Result<Json<BatchItemList>, ApiError> {
    let id = uuid(&batch_id, "batch_id", Refusal::Unprocessable)?;
    let outcome = params.take("outcome");
    let limit = params.limit();
    let after = after(&mut params);
    params.finish()?;
    if state.store.batch(id).await?.is_none() {
        return Err(ApiError::BatchNotFound(id));
    }
    let (briefs, jobs, more) = read(&state, (id, outcome), after, limit).await?;
    let jobs = JobView::load_all(&state, &jobs).await?;
    let items: Vec<BatchItemView> = briefs
        .into_iter()
        .zip(jobs)
        .map(|((outcome, shown, total), job)| BatchItemView::of(outcome, shown, total, job))
        .collect();
    let last = items.last().filter(|_| more);
    Ok(Json(BatchItemList {
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
) -> Result<(Vec<Brief>, Vec<Job>, bool), ApiError> {
    let (mut briefs, mut jobs) = (Vec::new(), Vec::new());
    loop {
        let part = AT_ONCE.min(limit + 1 - u32::try_from(jobs.len()).unwrap_or(limit));
        let rows = state.store.batch_items(id, outcome, after, part).await?;
        let is_last = rows.len() < part as usize;
        for row in rows {
            if jobs.len() == limit as usize {
                return Ok((briefs, jobs, true));
            }
            after = row.job.batch.map(|place| place.item_no);
            let job = Job {
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

fn brief(row: BatchItem) -> Brief {
    let (outcome, total) = (ItemOutcome::of(&row), row.total);
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
    if state.store.batch(id).await?.is_none() {
        return Err(ApiError::BatchNotFound(id));
    }
    let row = state.store.batch_item(id, i64::from(place)).await?;
    let row = row.ok_or(ApiError::BatchItemNotFound(id, place))?;
    let job = JobView::load(&state, &row.job).await?;
    let payload = row.job.payload.clone();
    let (outcome, shown, total) = brief(row);
    Ok(Json(BatchItemDetail {
        item: BatchItemView::of(outcome, shown, total, job),
        payload,
    }))
}
