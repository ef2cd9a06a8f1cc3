//! Batches: many items of one kind, from a file or a list. Make one, read them, pause, resume, cancel, retry what failed.
//!
//! A batch is taken whole or not at all: every item is checked before the first is stored.

use std::fs::File;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use super::ApiState;
use super::auth::Caller;
use super::batch_view::BatchView;
use super::etag::json_or_unchanged;
use super::idempotency::Effect;
use super::params::{Params, Segment, uuid};
use super::problem::{ApiError, Fault, Problem, Refusal};
use super::spool::Spooled;
use crate::enqueue::{BatchError, Item, ItemFault, Items, OpenItems, ScoreBatch};
use crate::events::EventType;
use crate::job::{Kind, Priority};
use crate::store::{BatchFilter, BatchRow, BatchState, Force, Moved};
use crate::suite::{self, Format, Limits, Reading, SuiteError};

/// When a client should look at a batch again, seconds.
const RETRY_AFTER_S: u64 = 2;
/// The longest name, characters.
const MAX_NAME: usize = 200;

/// The route whose bodies are kept in files.
pub(super) const PATH: &str = "/api/v1/batches";

/// The routes of this file.
pub(super) fn routes() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new()
        .routes(routes!(post_batch, list_batches))
        .routes(routes!(get_batch))
        .routes(routes!(pause_batch))
        .routes(routes!(resume_batch))
        .routes(routes!(cancel_batch))
        .routes(routes!(retry_errors))
}

/// What to score: in JSON beside the items, else in the query string.
#[derive(Debug, Clone, PartialEq, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BatchHead {
    /// The kind of all items.
    pub(super) kind: Kind,
    /// What you call it; at most 200 characters.
    #[serde(default)]
    pub(super) name: Option<String>,
    /// 0-1: what items are held against that name no threshold; kinds `query` and `qas`.
    #[serde(default)]
    pub(super) threshold: Option<f64>,
    /// Not taken yet: leave it out.
    #[serde(default)]
    pub(super) budget_usd: Option<f64>,
    /// 64 hex digits of stored criteria of the kind; left out: the current ones.
    #[serde(default)]
    pub(super) criteria_hash: Option<String>,
    /// Who waits: `bulk` (default) lets `interactive` work go first.
    #[serde(default)]
    pub(super) priority: Option<Priority>,
    /// Whether cached replies are passed over.
    #[serde(default)]
    pub(super) force_rescore: bool,
}

/// A batch in JSON.
#[derive(Debug, Clone, PartialEq, Deserialize, utoipa::ToSchema)]
pub(super) struct BatchRequest {
    /// What to score.
    #[serde(flatten)]
    pub(super) head: BatchHead,
    /// The payloads, each as POST /api/v1/jobs takes it; at most 1,000,000 of 8 MiB.
    #[schema(value_type = Vec<Object>)]
    pub(super) items: Vec<Value>,
}

/// A page of batches, newest first.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub(super) struct BatchList {
    /// The batches.
    pub(super) items: Vec<BatchView>,
    /// Where the next page begins; null on the last.
    pub(super) next_cursor: Option<String>,
}

/// What queueing a batch's failed items again did.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub(super) struct BatchRetried {
    /// How many items were queued again.
    pub(super) queued_again: u64,
    /// The batch now.
    pub(super) batch: BatchView,
}

/// Asks for the scores of many items of one kind.
///
/// All items are checked first; if one can't be taken, nothing is stored, and `errors` names the rows and columns of the first
/// 20 faults. JSON holds `items` beside the other fields; of JSONL (`application/x-ndjson`), CSV (`text/csv`) and XLSX the
/// other fields stand in the query string. In tables a column is a field of the payload, and lists and objects are JSON in
/// the cell. A 202 means that all items are stored and will run. Sessions are scored anew, whether or not they have a score.
#[utoipa::path(
    post, path = "/api/v1/batches", tag = "batches",
    params(
        ("kind" = Option<Kind>, Query, description = "JSONL, CSV, XLSX: the kind; required there"),
        ("name" = Option<String>, Query, description = "JSONL, CSV, XLSX: what you call it"),
        ("threshold" = Option<f64>, Query, description = "JSONL, CSV, XLSX: what items are held against that name no threshold"),
        ("criteria_hash" = Option<String>, Query, description = "JSONL, CSV, XLSX: stored criteria of the kind"),
        ("priority" = Option<Priority>, Query, description = "JSONL, CSV, XLSX: `bulk` (default) or `interactive`"),
        ("force_rescore" = Option<bool>, Query, description = "JSONL, CSV, XLSX: whether cached replies are passed over"),
    ),
    request_body(content(
        (BatchRequest = "application/json", example = json!({"kind": "sql_metrics", "name": "nightly", "items": [
            {"id": "q1", "generated_sql": "select name from users", "expected_sql": "SELECT name FROM users;"}]})),
        (String = "application/x-ndjson"),
        (String = "text/csv"),
        (Vec<u8> = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    )),
    responses(
        (status = 202, description = "The batch: all items are stored", body = BatchView, headers(
            ("Location" = String, description = "The batch"), ("Retry-After" = u64, description = "Seconds"))),
        (status = 422, description = "invalid-request", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "judge-not-configured, scoring-disabled, batch-given-up, database-unavailable", body = Problem, content_type = "application/problem+json"),
    ),
)]
async fn post_batch(
    State(state): State<ApiState>,
    caller: Caller,
    effect: Effect,
    params: Params,
    headers: HeaderMap,
    body: Spooled,
) -> Result<Response, ApiError> {
    let format = format_of(&headers)?;
    let limits = Limits {
        file_bytes: state.http.max_batch_bytes as u64,
        depth: state.http.max_json_depth,
        ..Limits::default()
    };
    let head = match format {
        Format::Json => {
            params.finish()?;
            head_of_json(body.file.clone(), limits).await?
        }
        Format::Jsonl | Format::Csv | Format::Xlsx => head_of_query(params)?,
    };
    check(&head)?;
    let request = ScoreBatch {
        kind: head.kind,
        name: head.name,
        threshold: head.threshold,
        criteria_hash: head.criteria_hash,
        priority: head.priority.unwrap_or(Priority::Bulk),
        force: match head.force_rescore {
            true => Force::Yes,
            false => Force::AsIs,
        },
        triggered_by: caller.name(Refusal::Unprocessable)?,
        new_id: effect.new_id(),
    };
    let reading = Reading {
        limits,
        ..Reading::of(format, head.kind)
    };
    let batch = state
        .enqueue
        .batch(request, opener(body.file, reading))
        .await
        .map_err(|error| refused(error, format))?;
    let view = BatchView::load(&state, batch).await?;
    let location = view.location();
    let mut response = (StatusCode::ACCEPTED, Json(view)).into_response();
    let headers = response.headers_mut();
    headers.insert(header::RETRY_AFTER, HeaderValue::from(RETRY_AFTER_S));
    if let Some(location) = location {
        headers.insert(header::LOCATION, location);
    }
    Ok(response)
}

fn format_of(headers: &HeaderMap) -> Result<Format, ApiError> {
    let declared = headers
        .get(header::CONTENT_TYPE)
        .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    if let Some(coding) = headers.get(header::CONTENT_ENCODING)
        && !coding.as_bytes().eq_ignore_ascii_case(b"identity")
    {
        let coding = String::from_utf8_lossy(coding.as_bytes());
        return Err(ApiError::BatchMediaType(Some(format!(
            "content-encoding {coding}"
        ))));
    }
    let format = declared.as_deref().and_then(Format::of_media_type);
    format.ok_or(ApiError::BatchMediaType(declared))
}

/// What stands beside the items, wherever in the file it stands.
async fn head_of_json(file: Arc<File>, limits: Limits) -> Result<BatchHead, ApiError> {
    let read = tokio::task::spawn_blocking(move || suite::envelope(file, limits)).await;
    let envelope = read
        .map_err(|_| ApiError::Internal("reading a batch broke off".to_owned()))?
        .map_err(|error| item_faults(vec![item_fault(error)], Format::Json))?;
    if envelope.list.as_deref() != Some("items") {
        let fault =
            "must be a JSON object with the kind as `kind` and the list of payloads as `items`";
        return Err(ApiError::fault(Refusal::Unprocessable, "/items", fault));
    }
    serde_path_to_error::deserialize(Value::Object(envelope.fields)).map_err(|error| {
        let path = error.path().to_string();
        let pointer = match path.as_str() {
            "." => String::new(),
            path => format!("/{}", path.replace('.', "/")),
        };
        ApiError::fault(Refusal::Unprocessable, pointer, error.inner().to_string())
    })
}

fn head_of_query(mut params: Params) -> Result<BatchHead, ApiError> {
    let kind = params.take::<Kind>("kind");
    let head = BatchHead {
        kind: kind.unwrap_or(Kind::Query),
        name: params.text("name"),
        threshold: params.take("threshold"),
        budget_usd: params.take("budget_usd"),
        criteria_hash: params.text("criteria_hash"),
        priority: params.take("priority"),
        force_rescore: params.flag("force_rescore"),
    };
    if kind.is_none() && !params.is_faulty("kind") {
        params.fault(
            "kind",
            "is missing: say in the query string what is scored, for example ?kind=query"
                .to_owned(),
        );
    }
    params.finish()?;
    Ok(head)
}

fn check(head: &BatchHead) -> Result<(), ApiError> {
    let fault = |pointer: &str, message: String| {
        Err(ApiError::fault(Refusal::Unprocessable, pointer, message))
    };
    if head.budget_usd.is_some() {
        let message = "is not taken yet: leave it out, watch the batch's cost_usd, and pause it";
        return fault("/budget_usd", message.to_owned());
    }
    if let Some(name) = &head.name {
        let length = name.chars().count();
        if length == 0 || length > MAX_NAME || name.chars().any(char::is_control) {
            let message = format!("must be 1-{MAX_NAME} printable characters");
            return fault("/name", message);
        }
    }
    let Some(threshold) = head.threshold else {
        return Ok(());
    };
    match head.kind {
        Kind::Query | Kind::Qas if (0.0..=1.0).contains(&threshold) => Ok(()),
        Kind::Query | Kind::Qas => fault("/threshold", "must be between 0 and 1".to_owned()),
        Kind::Session | Kind::SqlMetrics => {
            fault("/threshold", format!("kind {} has no threshold", head.kind))
        }
    }
}

/// Opens the file anew each time.
fn opener(file: Arc<File>, reading: Reading<'static>) -> OpenItems {
    Arc::new(move || {
        let rows = suite::read(file.clone(), &reading).map_err(item_fault)?;
        let items = rows.map(|row| match row {
            Ok(row) => Ok(Item {
                line: row.line,
                payload: Value::Object(row.fields),
            }),
            Err(error) => Err(item_fault(error)),
        });
        Ok(Box::new(items) as Items)
    })
}

fn item_fault(error: SuiteError) -> ItemFault {
    ItemFault {
        line: error.line,
        field: error.column,
        message: error.message,
    }
}

fn refused(error: BatchError, format: Format) -> ApiError {
    match error {
        BatchError::Items(faults) => item_faults(faults, format),
        BatchError::Enqueue(error) => error.into(),
        BatchError::Broken(why) => ApiError::BatchGivenUp(why),
    }
}

/// Faults of items: in JSON by a pointer into the body, else by row and column.
fn item_faults(faults: Vec<ItemFault>, format: Format) -> ApiError {
    let fault = |fault: ItemFault| {
        let field = fault.field;
        let (pointer, place) = match (fault.line, format) {
            (None, _) => (String::new(), String::new()),
            (Some(line), Format::Json) => {
                (format!("/items/{}", line.saturating_sub(1)), String::new())
            }
            (Some(line), Format::Jsonl | Format::Csv | Format::Xlsx) => (
                format!("/rows/{line}"),
                match &field {
                    Some(field) => format!("row {line}, column {field}: "),
                    None => format!("row {line}: "),
                },
            ),
        };
        Fault {
            pointer: match field {
                Some(field) => format!("{pointer}/{field}"),
                None => pointer,
            },
            message: format!("{place}{}", fault.message),
        }
    };
    ApiError::Invalid {
        refusal: Refusal::Unprocessable,
        faults: faults.into_iter().map(fault).collect(),
    }
}

/// Lists batches, newest first.
#[utoipa::path(
    get, path = "/api/v1/batches", tag = "batches",
    params(
        ("kind" = Option<Kind>, Query, description = "By kind"),
        ("state" = Option<BatchState>, Query, description = "By state"),
        ("limit" = Option<u32>, Query, description = "How many, 1-500; default 50", minimum = 1, maximum = 500),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before"),
    ),
    responses(
        (status = 200, description = "The batches", body = BatchList),
        (status = 422, description = "invalid-request", body = Problem, content_type = "application/problem+json"),
    ),
)]
async fn list_batches(
    State(state): State<ApiState>,
    mut params: Params,
) -> Result<Json<BatchList>, ApiError> {
    let filter = BatchFilter {
        kind: params.take("kind"),
        state: params.take("state"),
    };
    let (limit, cursor) = (params.limit(), params.cursor());
    params.finish()?;
    let page = state.store.batches(filter, cursor.as_ref(), limit).await?;
    let mut items = Vec::with_capacity(page.items.len());
    for batch in page.items {
        items.push(BatchView::load(&state, batch).await?);
    }
    Ok(Json(BatchList {
        items,
        next_cursor: page.next_cursor.map(|cursor| cursor.0),
    }))
}

/// Reads a batch: how far it is, and what it came to.
#[utoipa::path(
    get, path = "/api/v1/batches/{batch_id}", tag = "batches",
    params(
        ("batch_id" = Uuid, Path, description = "The batch"),
        ("If-None-Match" = Option<String>, Header, description = "ETags of this route: 304 if one still holds"),
    ),
    responses(
        (status = 200, description = "The batch", body = BatchView, headers(("ETag" = String, description = "Its version"))),
        (status = 304, description = "Not changed"),
        (status = 404, description = "batch-not-found", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "invalid-request", body = Problem, content_type = "application/problem+json"),
    ),
)]
async fn get_batch(
    State(state): State<ApiState>,
    Segment(batch_id): Segment,
    params: Params,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let id = batch_id_of(&batch_id, params)?;
    let batch = state.store.batch(id).await?;
    let batch = batch.ok_or(ApiError::BatchNotFound(id))?;
    json_or_unchanged(&headers, &BatchView::load(&state, batch).await?)
}

/// Stops a batch: none of its items begins, those that run end. Pausing twice is well.
#[utoipa::path(
    post, path = "/api/v1/batches/{batch_id}/pause", tag = "batches",
    params(("batch_id" = Uuid, Path, description = "The batch")),
    responses(
        (status = 200, description = "The batch, paused now or before", body = BatchView),
        (status = 404, description = "batch-not-found", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "batch-state", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "invalid-request", body = Problem, content_type = "application/problem+json"),
    ),
)]
async fn pause_batch(
    State(state): State<ApiState>,
    Segment(batch_id): Segment,
    params: Params,
) -> Result<Json<BatchView>, ApiError> {
    let id = batch_id_of(&batch_id, params)?;
    let moved = state.store.pause_batch(id).await?;
    let batch = done(&state, id, moved, (EventType::BatchPaused, "pause"))?;
    Ok(Json(BatchView::load(&state, batch).await?))
}

/// Lets a paused batch go on. Resuming a running one is well.
#[utoipa::path(
    post, path = "/api/v1/batches/{batch_id}/resume", tag = "batches",
    params(("batch_id" = Uuid, Path, description = "The batch")),
    responses(
        (status = 200, description = "The batch, running", body = BatchView),
        (status = 404, description = "batch-not-found", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "batch-state", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "invalid-request", body = Problem, content_type = "application/problem+json"),
    ),
)]
async fn resume_batch(
    State(state): State<ApiState>,
    Segment(batch_id): Segment,
    params: Params,
) -> Result<Json<BatchView>, ApiError> {
    let id = batch_id_of(&batch_id, params)?;
    let moved = state.store.resume_batch(id, state.clock.now()).await?;
    let batch = done(&state, id, moved, (EventType::BatchResumed, "resume"))?;
    state.enqueue.push_batch(id).await;
    Ok(Json(BatchView::load(&state, batch).await?))
}

/// Cancels a batch with all its items that haven't ended. What it came to until then stays. Cancelling twice is well.
#[utoipa::path(
    post, path = "/api/v1/batches/{batch_id}/cancel", tag = "batches",
    params(("batch_id" = Uuid, Path, description = "The batch")),
    responses(
        (status = 200, description = "The batch, cancelled now or before", body = BatchView),
        (status = 404, description = "batch-not-found", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "batch-state", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "invalid-request", body = Problem, content_type = "application/problem+json"),
    ),
)]
async fn cancel_batch(
    State(state): State<ApiState>,
    Segment(batch_id): Segment,
    params: Params,
) -> Result<Json<BatchView>, ApiError> {
    let id = batch_id_of(&batch_id, params)?;
    let moved = state.store.cancel_batch(id, state.clock.now()).await?;
    let batch = done(&state, id, moved, (EventType::BatchCancelled, "cancel"))?;
    Ok(Json(BatchView::load(&state, batch).await?))
}

/// Queues the failed items of a batch again, with their counters reset; a completed batch runs again.
#[utoipa::path(
    post, path = "/api/v1/batches/{batch_id}/retry-errors", tag = "batches",
    params(("batch_id" = Uuid, Path, description = "The batch")),
    responses(
        (status = 200, description = "How many items were queued again, and the batch", body = BatchRetried),
        (status = 404, description = "batch-not-found", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "batch-state", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "invalid-request", body = Problem, content_type = "application/problem+json"),
    ),
)]
async fn retry_errors(
    State(state): State<ApiState>,
    Segment(batch_id): Segment,
    params: Params,
) -> Result<Json<BatchRetried>, ApiError> {
    let id = batch_id_of(&batch_id, params)?;
    let (moved, queued_again) = state.enqueue.retry_batch(id).await?;
    let batch = match moved {
        Moved::Now(batch) | Moved::Already(batch) => batch,
        Moved::Refused(batch) => return Err(conflict(&batch, "retry-errors")),
        Moved::Unknown => return Err(ApiError::BatchNotFound(id)),
    };
    Ok(Json(BatchRetried {
        queued_again,
        batch: BatchView::load(&state, batch).await?,
    }))
}

fn batch_id_of(text: &str, params: Params) -> Result<Uuid, ApiError> {
    let id = uuid(text, "batch_id", Refusal::Unprocessable)?;
    params.finish()?;
    Ok(id)
}

/// The batch that a move led to; what was done now is told.
fn done(
    state: &ApiState,
    id: Uuid,
    moved: Moved,
    (event, verb): (EventType, &'static str),
) -> Result<BatchRow, ApiError> {
    match moved {
        Moved::Now(batch) => {
            state.enqueue.tell_batch(event, &batch);
            Ok(batch)
        }
        Moved::Already(batch) => Ok(batch),
        Moved::Refused(batch) => Err(conflict(&batch, verb)),
        Moved::Unknown => Err(ApiError::BatchNotFound(id)),
    }
}

fn conflict(batch: &BatchRow, verb: &'static str) -> ApiError {
    ApiError::BatchState {
        batch_id: batch.batch_id,
        state: batch.state,
        verb,
    }
}
