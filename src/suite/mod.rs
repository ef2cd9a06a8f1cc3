//! Suites: files of items as payloads, and runs of them against agents and a service. Scores nothing itself.

use serde_json::{Map, Value};

/// What a file of items is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// One JSON list of objects, or an object that holds it as `items` or `questions`.
    Json,
    /// One JSON object a line.
    Jsonl,
    /// A header line, then a row each; lists and objects are JSON in the cell.
    Csv,
    /// The first sheet: a header row, then a row each; lists and objects are JSON in the cell.
    Xlsx,
}

/// One item as its file has it, its cells already typed by its kind's fields.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Its place among the items, from 0.
    pub item_no: u64,
    /// Where it stands in the file, as people count: the line of a JSONL or CSV file, the row of a sheet, the item of a list; from 1.
    pub line: u64,
    /// Its fields by name.
    pub fields: Map<String, Value>,
}

/// Why a file can't be taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}", place(*line, column.as_deref()))]
pub struct SuiteError {
    /// Where, as in [`Row::line`]; `None`: the file as a whole.
    pub line: Option<u64>,
    /// The column or field.
    pub column: Option<String>,
    /// What is wrong, and the remedy.
    pub message: String,
}

fn place(line: Option<u64>, column: Option<&str>) -> String {
    match (line, column) {
        (Some(line), Some(column)) => format!("row {line}, column {column}: "),
        (Some(line), None) => format!("row {line}: "),
        (None, Some(column)) => format!("column {column}: "),
        (None, None) => String::new(),
    }
}
