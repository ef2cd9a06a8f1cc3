//! Batch requests: format, fields other than items, and errors.

use std::fs::File;
use std::sync::Arc;

use axum::http::{HeaderMap, header};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::api::http::body::typed;
use crate::api::http::params::Params;
use crate::api::http::problem::ApiError;
use crate::enqueue::{BatchError, Item, ItemFault, ItemStream, OpenItems};
use crate::job::Kind;
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

/// Fields other than `items`.
const HEAD: [&str; 7] = [
    "kind",
    "name",
    "threshold",
    "budget_usd",
    "criteria_hash",
    "priority",
    "force_rescore",
];

/// Rejects query parameters of a JSON batch that belong in its body.
pub(crate) fn reject_body_fields(mut params: Params) -> Result<(), ApiError> {
    for name in HEAD {
        if params.is_given(name) {
            let message = "belongs in the JSON body of a batch, next to `items`: move it there";
            params.fault(name, message.to_owned());
        }
    }
    params.drop_invalid();
    params.finish()
}

/// Parses the query parameters of a file of items.
pub(crate) fn head_of_query(mut params: Params) -> Result<BatchRequest, ApiError> {
    let kind = params.take::<Kind>("kind");
    let head = BatchRequest {
        kind: kind.unwrap_or(Kind::UNNAMED),
        name: params.text("name"),
        threshold: params.number("threshold"),
        budget_usd: params.number("budget_usd"),
        criteria_hash: params.text("criteria_hash"),
        priority: params.take("priority"),
        force_rescore: params.flag("force_rescore"),
        items: Vec::new(),
    };
    if kind.is_none() && !params.is_invalid("kind") {
        params.fault(
            "kind",
            "is missing: set the kind in the query string, for example ?kind=query".to_owned(),
        );
    }
    params.finish()?;
    Ok(head)
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

/// Returns a function that reopens the file for each pass.
pub(crate) fn opener(file: Stoppable<Arc<File>>, reading: ReadOptions<'static>) -> OpenItems {
    Arc::new(move || {
        let rows = suite::read(file.clone(), &reading).map_err(item_error)?;
        let items = rows.map(|row| match row {
            Ok(row) => Ok(Item {
                line: row.line,
                payload: Value::Object(row.fields),
            }),
            Err(error) => Err(item_error(error)),
        });
        Ok(Box::new(items) as ItemStream)
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
        BatchError::Enqueue(error) => ApiError::from(error),
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
