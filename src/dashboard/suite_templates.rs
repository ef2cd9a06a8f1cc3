//! Downloadable suite templates: the columns of each kind with two sample rows, in each upload format.

use axum::Router;
use axum::extract::Path;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use rust_xlsxwriter::Workbook;
use serde_json::{Map, Value};

use super::page::Page;
use super::state::PageState;
use super::words;
use crate::api::{ApiError, problem};
use crate::job::Kind;
use crate::score::about;

pub(super) fn routes() -> Router<PageState> {
    Router::new().route("/batches/template/{file}", get(template))
}

/// Converts a value to a table cell: strings unchanged, other values as JSON.
fn cell(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            value.to_string()
        }
    }
}

fn fields(sample: &Value) -> Map<String, Value> {
    sample.as_object().cloned().unwrap_or_default()
}

fn jsonl(samples: &[Value]) -> Vec<u8> {
    let lines = samples.iter().map(|sample| format!("{sample}\n"));
    lines.collect::<String>().into_bytes()
}

fn csv(samples: &[Value]) -> Result<Vec<u8>, String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let mut rows = vec![fields(&samples[0]).keys().cloned().collect::<Vec<_>>()];
    rows.extend(
        samples
            .iter()
            .map(|sample| fields(sample).values().map(cell).collect()),
    );
    for row in rows {
        writer.write_record(row).map_err(|e| e.to_string())?;
    }
    writer.into_inner().map_err(|e| e.to_string())
}

fn xlsx(samples: &[Value]) -> Result<Vec<u8>, String> {
    let mut workbook = Workbook::new();
    let sheet = workbook.add_worksheet();
    let write = |error: rust_xlsxwriter::XlsxError| error.to_string();
    for (row, sample) in (1_u32..).zip(samples) {
        for (column, (name, value)) in (0_u16..).zip(fields(sample)) {
            sheet.write(0, column, name).map_err(write)?;
            sheet.write(row, column, cell(&value)).map_err(write)?;
        }
    }
    workbook.save_to_buffer().map_err(write)
}

async fn template(Path(file): Path<String>) -> Page {
    let (name, end) = file.rsplit_once('.').unwrap_or((&file, ""));
    let unknown = || {
        let kinds = words::one_of(Kind::to_choose().iter().map(|kind| kind.as_str()));
        let fault = format!("is not a template: use {kinds} with the ending .xlsx, .csv or .jsonl");
        problem::of_field("file", &fault)
    };
    let kind: Kind = name.parse().map_err(|_| unknown())?;
    let samples = about(kind).samples();
    let (made, media_type) = match end {
        "jsonl" => (Ok(jsonl(&samples)), "application/x-ndjson"),
        "csv" => (csv(&samples), "text/csv; charset=utf-8"),
        "xlsx" => (
            xlsx(&samples),
            "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        ),
        _ => return Err(unknown().into()),
    };
    let bytes = made.map_err(ApiError::Internal)?;
    Ok(download(&format!("gavel-{kind}.{end}"), media_type, bytes))
}

fn download(name: &str, media_type: &'static str, bytes: Vec<u8>) -> Response {
    let disposition = HeaderValue::from_str(&format!("attachment; filename=\"{name}\""));
    let disposition = disposition.unwrap_or(HeaderValue::from_static("attachment"));
    let head = [
        (header::CONTENT_TYPE, HeaderValue::from_static(media_type)),
        (header::CONTENT_DISPOSITION, disposition),
    ];
    (head, bytes).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_a_kind_have_equal_columns() {
        for kind in Kind::ALL {
            let samples = about(*kind).samples();
            let columns = |at: usize| fields(&samples[at]).keys().cloned().collect::<Vec<_>>();
            assert_eq!((samples.len(), columns(0)), (2, columns(1)), "{kind}");
            let header = columns(0).join(",");
            assert!(csv(&samples).unwrap().starts_with(header.as_bytes()));
            assert!(xlsx(&samples).unwrap().starts_with(b"PK"));
        }
    }
}
