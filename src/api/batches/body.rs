//! Batch requests: format, fields other than items, and errors.

use std::fs::File;
use std::sync::Arc;

use axum::http::{HeaderMap, header};
use serde::Deserialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use utoipa::IntoParams as _;

use crate::api::http::body::typed;
use crate::api::http::extract::{QueryPart, unknown};
use crate::api::http::problem::{ApiError, escape};
use crate::enqueue::{BatchError, Item, ItemFault, ReadItems};
use crate::job::{Kind, Priority};
use crate::memory::blocking;
use crate::score::about;
use crate::suite::{self, Format, Limits, ReadOptions, Stoppable, SuiteError};
use crate::wire::{BatchRequest, RequestFault};

/// Maximum length of a name, characters.
pub(crate) const MAX_NAME: usize = 200;

pub(crate) fn format_of(headers: &HeaderMap) -> Result<Format, ApiError> {
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
    format_named(declared)
}

pub(crate) fn format_named(media_type: Option<String>) -> Result<Format, ApiError> {
    let format = media_type.as_deref().and_then(Format::of_media_type);
    format.ok_or(ApiError::BatchMediaType(media_type))
}

/// Returns the fields other than `items`, at any position in the file.
pub(crate) async fn read_json_head(
    file: Arc<File>,
    limits: Limits,
) -> Result<BatchRequest, ApiError> {
    let stop = CancellationToken::new();
    let file = Stoppable::new(file, stop.clone());
    // Stops reading if the client disconnects and drops this future.
    let _stops = stop.drop_guard();
    let envelope = blocking(move || suite::envelope(file, limits))
        .await
        .map_err(|error| item_errors(vec![item_error(error)], Format::Json))?;
    if envelope.list.as_deref() != Some("items") {
        let fault =
            "must be a JSON object with the kind as `kind` and the list of payloads as `items`";
        return Err(ApiError::fault("/items", fault));
    }
    typed("", Value::Object(envelope.fields))
}

/// Fields of a batch whose file has only items.
#[derive(Debug, Default, PartialEq, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(crate) struct FileHead {
    /// JSONL, CSV, XLSX: the kind; required there
    pub(crate) kind: Option<Kind>,
    /// JSONL, CSV, XLSX: your name for it
    pub(crate) name: Option<String>,
    /// JSONL, CSV, XLSX: threshold of items without a threshold
    #[param(minimum = 0, maximum = 1)]
    pub(crate) threshold: Option<f64>,
    /// JSONL, CSV, XLSX: stored criteria of the kind
    pub(crate) criteria_hash: Option<String>,
    /// JSONL, CSV, XLSX: `bulk` (default) or `interactive`
    pub(crate) priority: Option<Priority>,
    /// JSONL, CSV, XLSX: whether cached replies are skipped
    pub(crate) force_rescore: bool,
    /// JSONL, CSV, XLSX: the batch is paused once its judge calls cost this
    #[param(exclusive_minimum = 0)]
    pub(crate) budget_usd: Option<f64>,
}

impl QueryPart for FileHead {
    fn faults(&self) -> Vec<RequestFault> {
        let message = "is missing: set the kind in the query string, for example ?kind=query";
        let missing = self.kind.is_none();
        missing
            .then(|| RequestFault::new("kind", message))
            .into_iter()
            .collect()
    }
}

impl From<FileHead> for BatchRequest {
    fn from(head: FileHead) -> Self {
        Self {
            kind: head.kind.unwrap_or(Kind::UNNAMED),
            name: head.name,
            threshold: head.threshold,
            budget_usd: head.budget_usd,
            criteria_hash: head.criteria_hash,
            priority: head.priority,
            force_rescore: head.force_rescore,
            items: Vec::new(),
        }
    }
}

/// Rejects query parameters of a JSON batch, because its body has these fields.
pub(crate) fn reject_query(pairs: &[(String, String)]) -> Result<(), ApiError> {
    let params = FileHead::into_params(|| None);
    let fault = |(name, _): &(String, String)| match params.iter().any(|it| it.name == *name) {
        true => RequestFault::new(
            name,
            "belongs in the JSON body of a batch, next to `items`: move it there",
        ),
        false => RequestFault::new(&escape(name), unknown(&params, name)),
    };
    match pairs {
        [] => Ok(()),
        pairs => Err(ApiError::Invalid(pairs.iter().map(fault).collect())),
    }
}

/// Checks the fields other than `items`. Returns all errors.
pub(crate) fn check(head: &BatchRequest) -> Result<(), ApiError> {
    let mut faults = Vec::new();
    for checked in [
        check_budget(head.budget_usd),
        check_name(head.name.as_deref()),
        check_threshold(head.kind, head.threshold),
    ] {
        match checked {
            Ok(()) => {}
            Err(ApiError::Invalid(found)) => faults.extend(found),
            Err(other) => return Err(other),
        }
    }
    if faults.is_empty() {
        return Ok(());
    }
    Err(ApiError::Invalid(faults))
}

fn check_threshold(kind: Kind, threshold: Option<f64>) -> Result<(), ApiError> {
    let Some(threshold) = threshold else {
        return Ok(());
    };
    let message = match about(kind).has_threshold {
        true if (0.0..=1.0).contains(&threshold) => return Ok(()),
        true => "must be between 0 and 1".to_owned(),
        false => format!("kind {kind} has no threshold"),
    };
    Err(ApiError::fault("/threshold", message))
}

/// Checks that a budget is a finite amount above 0.
pub(crate) fn check_budget(budget_usd: Option<f64>) -> Result<(), ApiError> {
    match budget_usd {
        Some(budget) if !budget.is_finite() || budget <= 0.0 => Err(ApiError::fault(
            "/budget_usd",
            "must be more than 0, USD; omitted or null: no budget",
        )),
        Some(_) | None => Ok(()),
    }
}

pub(crate) fn check_name(name: Option<&str>) -> Result<(), ApiError> {
    let Some(name) = name else { return Ok(()) };
    let length = name.chars().count();
    if length == 0 || length > MAX_NAME || name.chars().any(char::is_control) {
        let message = format!("must be 1-{MAX_NAME} printable characters");
        return Err(ApiError::fault("/name", message));
    }
    Ok(())
}

/// Estimates the memory for reading the file.
pub(crate) async fn weight(
    file: Stoppable<Arc<File>>,
    reading: ReadOptions<'static>,
) -> Result<u64, ApiError> {
    blocking(move || suite::weight(file, &reading))
        .await
        .map_err(|error| item_errors(vec![item_error(error)], reading.format))
}

/// Returns a function that reads the file from its start for each pass.
pub(crate) fn reader(file: Stoppable<Arc<File>>, reading: ReadOptions<'static>) -> ReadItems {
    Arc::new(move |visit| {
        let read = suite::read(file.clone(), &reading, &mut |row| {
            let item = row.map(|row| Item {
                line: row.line,
                payload: Value::Object(row.fields),
            });
            visit(item.map_err(item_error))
        });
        read.map_err(item_error)
    })
}

fn item_error(error: SuiteError) -> ItemFault {
    ItemFault {
        line: error.line,
        field: error.column,
        message: error.message,
    }
}

pub(crate) fn refused(error: BatchError, format: Format) -> ApiError {
    match error {
        BatchError::Items(faults) => item_errors(faults, format),
        BatchError::Enqueue(error) => error.into(),
        BatchError::Broken(why) => ApiError::BatchGivenUp(why),
    }
}

/// Maps item errors: in JSON to a pointer into the body, otherwise to row and column.
fn item_errors(faults: Vec<ItemFault>, format: Format) -> ApiError {
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
        RequestFault {
            pointer: match field {
                Some(field) => format!("{pointer}/{field}"),
                None => pointer,
            },
            message: format!("{place}{}", fault.message),
        }
    };
    ApiError::Invalid(faults.into_iter().map(fault).collect())
}
