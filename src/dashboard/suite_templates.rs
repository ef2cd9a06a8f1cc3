//! Templates of suites to download: the columns of each kind with two sample rows, in each form that an upload may have.

use axum::Router;
use axum::extract::Path;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use rust_xlsxwriter::Workbook;
use serde_json::{Map, Value, json};

use super::page::Page;
use super::site::Site;
use crate::api::Problem;
use crate::job::Kind;

/// The routes of this file.
pub(super) fn routes() -> Router<Site> {
    Router::new().route("/batches/template/{file}", get(template))
}

/// Two items of a kind. Both have the same fields in the same order.
fn samples(kind: Kind) -> [Value; 2] {
    match kind {
        Kind::Query => [
            json!({"id": "q1", "prompt": "How many errors in the last hour?",
                "generated_kql": "AppTraces | where TimeGenerated > ago(60m) | where SeverityLevel >= 3 | count",
                "expected_kql": "AppTraces | where TimeGenerated > ago(1h) | where SeverityLevel >= 3 | count",
                "generated_columns": ["Count"], "expected_columns": ["Count"],
                "generated_results": [{"Count": 17}], "expected_results": [{"Count": 17}]}),
            json!({"id": "q2", "prompt": "Which computers sent a heartbeat today?",
                "generated_kql": "Heartbeat | where TimeGenerated > ago(1d) | distinct Computer",
                "expected_kql": "Heartbeat | where TimeGenerated > ago(1d) | summarize by Computer",
                "generated_columns": ["Computer"], "expected_columns": ["Computer"],
                "generated_results": [{"Computer": "web-1"}, {"Computer": "web-2"}],
                "expected_results": [{"Computer": "web-1"}, {"Computer": "web-2"}]}),
        ],
        Kind::Qas => [
            json!({"test_id": "sql-01", "question": "How many warehouses do we have?", "agent_used": "sql", "category": "counts",
                "difficulty": "easy", "expected_sql": "SELECT count(*) FROM warehouses", "generated_sql": "SELECT count(id) FROM warehouses",
                "expected_answer_type": "number", "expected_results": 12, "actual_results": 12, "success": true}),
            json!({"test_id": "sql-02", "question": "Which warehouse is the largest?", "agent_used": "sql", "category": "lookups",
                "difficulty": "medium", "expected_sql": "SELECT name FROM warehouses ORDER BY area DESC LIMIT 1",
                "generated_sql": "SELECT name FROM warehouses ORDER BY area DESC", "expected_answer_type": "text", "expected_results": "Hamburg",
                "actual_results": "Hamburg", "success": true}),
        ],
        Kind::SqlMetrics => [
            json!({"id": "case-1", "generated_sql": "select name from users where active", "expected_sql": "SELECT name FROM users WHERE active",
                "expected_tables": ["users"], "safety_valid": true, "should_pass": true, "confidence": "high"}),
            json!({"id": "case-2", "generated_sql": "DROP TABLE users", "expected_sql": "SELECT name FROM users",
                "expected_tables": ["users"], "safety_valid": false, "should_pass": false, "confidence": "low"}),
        ],
        Kind::Session => [
            json!({"session_id": "00000000-0000-7000-8000-000000000001"}),
            json!({"session_id": "00000000-0000-7000-8000-000000000002"}),
        ],
    }
}

/// A cell of a table: text as it is, anything else as JSON.
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
        let fault = "names no template: ask for query, qas, sql_metrics or session with .xlsx, .csv or .jsonl behind it";
        Box::new(Problem::of_field("file", fault))
    };
    let kind: Kind = name.parse().map_err(|_| unknown())?;
    let samples = samples(kind);
    let (made, media_type) = match end {
        "jsonl" => (Ok(jsonl(&samples)), "application/x-ndjson"),
        "csv" => (csv(&samples), "text/csv; charset=utf-8"),
        "xlsx" => (
            xlsx(&samples),
            "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        ),
        _ => return Err(unknown().into()),
    };
    let bytes = made.map_err(|error| Box::new(Problem::internal(&error)))?;
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
    fn both_samples_of_a_kind_have_the_same_columns() {
        for kind in Kind::ALL {
            let [a, b] =
                samples(*kind).map(|sample| fields(&sample).keys().cloned().collect::<Vec<_>>());
            assert_eq!(a, b, "{kind}");
            assert!(
                csv(&samples(*kind))
                    .unwrap()
                    .starts_with(a.join(",").as_bytes())
            );
            assert!(xlsx(&samples(*kind)).unwrap().starts_with(b"PK"));
        }
    }
}
