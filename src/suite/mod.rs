//! Suites: files of items as payloads, and runs of them against agents and a service.

mod read;
pub mod run;

use std::path::Path;

use serde_json::{Map, Value};

pub use read::{Columns, Envelope, Limits, ReadOptions, Stoppable, envelope, read, weight};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A JSON list of objects, or an object with the list in `items` or `questions`.
    Json,
    Jsonl,
    /// A header and one line per row; lists and objects are JSON in the cell.
    Csv,
    /// A sheet with a header and one row per item; lists and objects are JSON in the cell.
    Xlsx,
}

impl Format {
    /// Returns the format by the extension `.json`, `.jsonl` or `.ndjson`, `.csv`, `.xlsx`; case-insensitive.
    pub fn of_path(path: &Path) -> Option<Self> {
        let ending = path.extension()?.to_str()?.to_ascii_lowercase();
        match ending.as_str() {
            "json" => Some(Self::Json),
            "jsonl" | "ndjson" => Some(Self::Jsonl),
            "csv" => Some(Self::Csv),
            "xlsx" => Some(Self::Xlsx),
            _ => None,
        }
    }

    /// Returns the format of a `Content-Type`, ignoring parameters.
    pub fn of_media_type(media_type: &str) -> Option<Self> {
        let essence = media_type.split(';').next().unwrap_or_default();
        match essence.trim().to_ascii_lowercase().as_str() {
            "application/json" => Some(Self::Json),
            "application/x-ndjson" | "application/jsonl" | "application/x-jsonlines" => {
                Some(Self::Jsonl)
            }
            "text/csv" => Some(Self::Csv),
            XLSX => Some(Self::Xlsx),
            other if other.starts_with("application/") && other.ends_with("+json") => {
                Some(Self::Json)
            }
            _ => None,
        }
    }

    pub fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Jsonl => "application/x-ndjson",
            Self::Csv => "text/csv",
            Self::Xlsx => XLSX,
        }
    }
}

const XLSX: &str = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet";

/// Item of a file, with cells typed by the fields of its kind.
#[derive(Debug, Clone, PartialEq)]
pub struct SuiteRow {
    /// Index among the items, from 0.
    pub item_no: u64,
    /// Line of a JSONL file, row of a sheet or CSV file (with empty rows), or item of a list; from 1.
    pub line: u64,
    pub fields: Map<String, Value>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}", place(*line, column.as_deref()))]
pub struct SuiteError {
    /// As in [`SuiteRow::line`]; `None`: the file.
    pub line: Option<u64>,
    pub column: Option<String>,
    pub message: String,
}

impl SuiteError {
    fn whole(message: impl Into<String>) -> Self {
        Self {
            line: None,
            column: None,
            message: message.into(),
        }
    }

    fn row(line: u64, message: impl Into<String>) -> Self {
        Self {
            line: Some(line),
            column: None,
            message: message.into(),
        }
    }

    fn cell(line: u64, column: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            line: Some(line),
            column: Some(column.into()),
            message: message.into(),
        }
    }
}

fn place(line: Option<u64>, column: Option<&str>) -> String {
    match (line, column) {
        (Some(line), Some(column)) => format!("row {line}, column {column}: "),
        (Some(line), None) => format!("row {line}: "),
        (None, Some(column)) => format!("column {column}: "),
        (None, None) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detects_format_by_extension_and_media_type() {
        for (path, format) in [
            ("a/suite.json", Some(Format::Json)),
            ("suite.JSONL", Some(Format::Jsonl)),
            ("suite.ndjson", Some(Format::Jsonl)),
            ("suite.csv", Some(Format::Csv)),
            ("my.suite.xlsx", Some(Format::Xlsx)),
            ("suite.xls", None),
            ("suite", None),
        ] {
            assert_eq!(Format::of_path(Path::new(path)), format, "{path}");
        }
        for format in [Format::Json, Format::Jsonl, Format::Csv, Format::Xlsx] {
            let declared = format!("{}; charset=utf-8", format.media_type().to_uppercase());
            assert_eq!(Format::of_media_type(&declared), Some(format));
        }
        assert_eq!(
            Format::of_media_type("application/problem+json"),
            Some(Format::Json)
        );
        assert_eq!(Format::of_media_type("text/plain"), None);
    }

    #[test]
    fn error_has_row_and_column() {
        let text = |error: SuiteError| error.to_string();
        assert_eq!(text(SuiteError::whole("empty")), "empty");
        assert_eq!(text(SuiteError::row(3, "bad")), "row 3: bad");
        assert_eq!(
            text(SuiteError::cell(3, "id", "bad")),
            "row 3, column id: bad"
        );
    }
}
