//! Batches: many items of one kind, from a file or a list. Create, read, pause, resume, cancel, retry failed items.
//!
//! A batch is accepted entirely or not at all: all items are checked before the first is stored.

pub(crate) mod body;
pub(crate) mod calibration;
pub(crate) mod compare;
pub(crate) mod items;
pub(crate) mod reports;
pub(crate) mod view;

use axum::Json;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use self::body::{
    FileHead, check, check_budget, format_of, read_json_head, reader, refused, reject_query, weight,
};
use crate::api::ApiState;
use crate::api::criteria::named::wanted;
use crate::api::http::authorized::Authorized;
use crate::api::http::body::ApiJson;
use crate::api::http::etag::json_or_unchanged;
use crate::api::http::extract::{Path, Query, QueryPart, pairs_of, read_query};
use crate::api::http::links::begun;
use crate::api::http::problem::{ApiError, ApiResult};
use crate::api::http::spool::Spooled;
use crate::enqueue::ScoreBatch;
use crate::events::EventType;
use crate::job::{Force, Kind, Priority};
use crate::store::{BatchFilter, BatchRow, Cursor, Moved};
use crate::suite::{Format, Limits, ReadOptions, Stoppable};
use crate::wire::{Batch, BatchRequest, BatchRetried, BatchState, Batches, BudgetBody, PageQuery};

pub(crate) use crate::api::http::links::BATCHES;
pub(crate) const PAUSE: &str = "/api/v1/batches/{batch_id}/pause";
pub(crate) const RESUME: &str = "/api/v1/batches/{batch_id}/resume";
pub(crate) const CANCEL: &str = "/api/v1/batches/{batch_id}/cancel";
pub(crate) const RETRY: &str = "/api/v1/batches/{batch_id}/retry-errors";
pub(crate) const BUDGET: &str = "/api/v1/batches/{batch_id}/budget";

/// Requests the scores of many items of one kind.
///
/// All items are checked first. If one is invalid, no item is stored, and `errors` has the rows and columns of the
/// first 20 errors. Duplicate item ids (`id`, `test_id`) are rejected, because comparisons couldn't distinguish them.
/// JSON has `items` next to the other fields. For JSONL (`application/x-ndjson`), CSV (`text/csv`) and XLSX the other
/// fields are in the query string. Table columns are payload fields, with lists and objects as JSON in the cell. A 202
/// means that all items are stored and will run. Sessions are scored again even if they have a score.
#[utoipa::path(
    post, path = BATCHES, tag = "batches",
    params(FileHead),
    request_body(content(
        (BatchRequest = "application/json", example = json!({"kind": "sql_metrics", "name": "nightly", "items": [
            {"id": "q1", "generated_sql": "select name from users", "expected_sql": "SELECT name FROM users;"}]})),
        (String = "application/x-ndjson"),
        (String = "text/csv"),
        (inline(reports::BinaryFile) = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    )),
    responses(
        (status = 202, description = "The batch: all items are stored", body = Batch, headers(
            ("Location" = String, description = "The batch"), ("Retry-After" = u64, description = "Seconds"))),
        (status = 503, description = "judge-not-configured, scoring-disabled, batch-given-up, database-unavailable"),
    ),
)]
pub(crate) async fn post_batch(
    api: Authorized,
    uri: Uri,
    headers: HeaderMap,
    body: Spooled,
) -> Result<Response, ApiError> {
    let format = format_of(&headers)?;
    let pairs = pairs_of(&uri)?;
    let head = match format {
        Format::Json => {
            reject_query(&pairs)?;
            read_json_head(body.file.clone(), limits_of(&api)).await?
        }
        Format::Jsonl | Format::Csv | Format::Xlsx => read_query::<FileHead>(&pairs)?.into(),
    };
    let batch = begin(api, format, (head, body)).await?;
    Ok(accepted(batch))
}

fn limits_of(state: &ApiState) -> Limits {
    Limits {
        file_bytes: state.http.max_batch_bytes as u64,
        depth: state.http.max_json_depth,
        ..Limits::default()
    }
}

pub(crate) async fn begin(
    api: Authorized,
    format: Format,
    (head, items): (BatchRequest, Spooled),
) -> Result<Batch, ApiError> {
    check(&head)?;
    let request = ScoreBatch {
        kind: head.kind,
        name: head.name,
        threshold: head.threshold,
        budget_usd: head.budget_usd,
        criteria_hash: wanted(&api, head.criteria_hash).await?,
        priority: head.priority.unwrap_or(Priority::Bulk),
        force: Force::from_flag(head.force_rescore),
        triggered_by: api.caller.requester()?,
        new_id: api.keyed_id.new_id(),
    };
    let reading = ReadOptions {
        limits: limits_of(&api),
        ..ReadOptions::of_kind(format, head.kind)
    };
    let stop = CancellationToken::new();
    let file = Stoppable::new(items.file, stop.clone());
    // Stops reading if the client disconnects and drops this future.
    let _stops = stop.drop_guard();
    let weight = weight(file.clone(), reading).await?;
    api.memory.take(weight).await?;
    let batch = api
        .enqueue
        .batch(request, reader(file, reading))
        .await
        .map_err(|error| refused(error, format))?;
    Ok(view::load(&api, batch).await?)
}

pub(crate) fn accepted(batch: Batch) -> Response {
    let path = batch.links.this.clone();
    begun(StatusCode::ACCEPTED, &path, batch)
}

#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(crate) struct BatchesQuery {
    /// By kind
    pub(crate) kind: Option<Kind>,
    /// By state
    pub(crate) state: Option<BatchState>,
}

impl QueryPart for BatchesQuery {}

/// Lists batches, newest first.
#[utoipa::path(
    get, path = BATCHES, tag = "batches",
    params(BatchesQuery, PageQuery),
    responses(
        (status = 200, description = "The batches", body = Batches),
    ),
)]
pub(crate) async fn list_batches(
    state: ApiState,
    Query((query, page)): Query<(BatchesQuery, PageQuery)>,
) -> ApiResult<Batches> {
    let filter = BatchFilter {
        kind: query.kind,
        state: query.state,
    };
    let (limit, cursor) = (page.limit(), page.cursor.map(Cursor));
    let page = state
        .store
        .batches()
        .list(filter, cursor.as_ref(), limit)
        .await?;
    let mut items = Vec::with_capacity(page.items.len());
    for batch in page.items {
        items.push(view::listed(&state, batch).await?);
    }
    Ok(Json(Batches {
        items,
        next_cursor: page.next_cursor.map(|cursor| cursor.0),
    }))
}

/// Reads a batch with its progress and results.
#[utoipa::path(
    get, path = "/api/v1/batches/{batch_id}", tag = "batches",
    params(
        ("If-None-Match" = Option<String>, Header, description = "ETags of this route: 304 if one still holds"),
    ),
    responses(
        (status = 200, description = "The batch", body = Batch, headers(("ETag" = String, description = "Its version"))),
        (status = 304, description = "Not changed"),
        (status = 404, description = "batch-not-found"),
    ),
)]
pub(crate) async fn get_batch(
    state: ApiState,
    id: Path<Uuid>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    json_or_unchanged(&headers, &read(state, id).await?)
}

pub(crate) async fn read(state: ApiState, Path(id): Path<Uuid>) -> Result<Batch, ApiError> {
    let batch = state.store.batches().get(id).await?;
    let batch = batch.ok_or(ApiError::BatchNotFound(id))?;
    Ok(view::load(&state, batch).await?)
}

/// Pauses a batch: no item starts, running items finish. Items requested individually (by a session's score, by a job's
/// retry) are still scored. Pausing twice has no effect.
#[utoipa::path(
    post, path = PAUSE, tag = "batches",
    responses(
        (status = 200, description = "The batch, paused now or before", body = Batch),
        (status = 404, description = "batch-not-found"),
        (status = 409, description = "batch-state"),
    ),
)]
pub(crate) async fn pause_batch(api: Authorized, Path(id): Path<Uuid>) -> ApiResult<Batch> {
    let moved = api.store.batches().pause(id).await?;
    done(&api, id, moved, (EventType::BatchPaused, "pause")).await
}

/// Resumes a paused batch. Resuming a running one has no effect.
#[utoipa::path(
    post, path = RESUME, tag = "batches",
    responses(
        (status = 200, description = "The batch, running", body = Batch),
        (status = 404, description = "batch-not-found"),
        (status = 409, description = "batch-state, batch-budget"),
    ),
)]
pub(crate) async fn resume_batch(api: Authorized, Path(id): Path<Uuid>) -> ApiResult<Batch> {
    let now = api.clock.now();
    let moved = api.store.batches().resume(id, now).await?;
    if let Moved::Refused(batch) = &moved
        && batch.state == BatchState::Paused
        && let Some(budget_usd) = batch.budget_usd
    {
        let text = format!("batch {id} has used up its budget of {budget_usd} USD");
        return Err(ApiError::BatchBudget(text));
    }
    let batch = done(&api, id, moved, (EventType::BatchResumed, "resume")).await?;
    api.enqueue.push_batch(id).await;
    Ok(batch)
}

/// Cancels a batch with all items that haven't ended, except items requested individually. Existing results are
/// preserved. Cancelling twice has no effect.
#[utoipa::path(
    post, path = CANCEL, tag = "batches",
    responses(
        (status = 200, description = "The batch, cancelled now or before", body = Batch),
        (status = 404, description = "batch-not-found"),
        (status = 409, description = "batch-state"),
    ),
)]
pub(crate) async fn cancel_batch(api: Authorized, Path(id): Path<Uuid>) -> ApiResult<Batch> {
    let now = api.clock.now();
    let moved = api.store.batches().cancel(id, now).await?;
    done(&api, id, moved, (EventType::BatchCancelled, "cancel")).await
}

/// Requeues the failed items of a batch with reset counters. A completed batch runs again.
#[utoipa::path(
    post, path = RETRY, tag = "batches",
    responses(
        (status = 200, description = "Number of requeued items, and the batch", body = BatchRetried),
        (status = 404, description = "batch-not-found"),
        (status = 409, description = "batch-state"),
    ),
)]
pub(crate) async fn retry_errors(api: Authorized, Path(id): Path<Uuid>) -> ApiResult<BatchRetried> {
    let before = api.store.batches().get(id).await?;
    let was_completed = before.is_some_and(|batch| batch.state == BatchState::Completed);
    let (moved, queued_again) = api.enqueue.retry_batch(id).await?;
    if let (true, Moved::Now(batch)) = (was_completed, &moved) {
        api.enqueue.tell_batch(EventType::BatchResumed, batch);
    }
    let batch = match moved {
        Moved::Now(batch) | Moved::Already(batch) => batch,
        Moved::Refused(batch) => return Err(conflict(&batch, "retry-errors")),
        Moved::Unknown => return Err(ApiError::BatchNotFound(id)),
    };
    Ok(Json(BatchRetried {
        queued_again,
        batch: view::load(&api, batch).await?,
    }))
}

/// Sets or removes the budget of a batch.
///
/// A batch paused by its budget resumes if the new one is larger than its spending. A running batch pauses if its
/// spending has reached the new budget, or at the next call without a price. Calls in flight finish and are paid for,
/// so that spending can exceed the budget by their cost. GET of the batch returns the budget.
#[utoipa::path(
    post, path = BUDGET, tag = "batches",
    request_body(content = BudgetBody, example = json!({"budget_usd": 12.5})),
    responses(
        (status = 200, description = "The batch with its budget", body = Batch),
        (status = 404, description = "batch-not-found"),
    ),
)]
pub(crate) async fn change_budget(
    api: Authorized,
    Path(id): Path<Uuid>,
    ApiJson(body): ApiJson<BudgetBody>,
) -> ApiResult<Batch> {
    check_budget(body.budget_usd)?;
    let batch = api.store.batches().get(id).await?;
    let batch = batch.ok_or(ApiError::BatchNotFound(id))?;
    let has_provider_batch = batch.plan.as_ref().is_some_and(|plan| plan.economy);
    if has_provider_batch && body.budget_usd.is_some() {
        return Err(ApiError::fault(
            "/budget_usd",
            "isn't possible for a batch whose replies provider batches collect (economy): thousands of questions \
             are submitted at once, which no budget can stop; cancel the batch instead",
        ));
    }
    if body.budget_usd.is_some() {
        for judge in api.enqueue.judges_of(&batch).await? {
            api.enqueue.check_price(&judge)?;
        }
    }
    let now = api.clock.now();
    let budgets = api.store.budgets();
    let batch = match budgets.set(id, body.budget_usd, now).await? {
        Moved::Now(batch) => {
            let event = match batch.goes_on() {
                true => EventType::BatchResumed,
                false => EventType::BatchPaused,
            };
            api.enqueue.tell_batch(event, &batch);
            batch
        }
        Moved::Already(batch) | Moved::Refused(batch) => batch,
        Moved::Unknown => return Err(ApiError::BatchNotFound(id)),
    };
    if batch.goes_on() {
        api.enqueue.push_batch(id).await;
    }
    Ok(Json(view::load(&api, batch).await?))
}

/// Returns the batch after a transition, and announces it if it changed anything.
async fn done(
    state: &ApiState,
    id: Uuid,
    moved: Moved,
    (event, verb): (EventType, &'static str),
) -> ApiResult<Batch> {
    let batch = match moved {
        Moved::Now(batch) => {
            state.enqueue.tell_batch(event, &batch);
            batch
        }
        Moved::Already(batch) => batch,
        Moved::Refused(batch) => return Err(conflict(&batch, verb)),
        Moved::Unknown => return Err(ApiError::BatchNotFound(id)),
    };
    Ok(Json(view::load(state, batch).await?))
}

fn conflict(batch: &BatchRow, verb: &'static str) -> ApiError {
    ApiError::BatchState {
        batch_id: batch.batch_id,
        state: batch.state,
        verb,
    }
}
