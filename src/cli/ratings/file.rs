//! A file of ratings. Read and checked completely, with all errors by row and column, before any rating is stored.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::path::Path;
use std::str::FromStr;

use chrono::{DateTime, Utc};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::cli::outcome::CliError;
use crate::client::{Client, Rated};
use crate::clock::read_time;
use crate::job::UnknownText;
use crate::score::{Field, FieldForm};
use crate::suite::{Columns, Format, Limits, ReadOptions, SuiteError, SuiteRow, read};
use crate::wire::RatingRequest;

const MAX_NAMED_ERRORS: usize = 20;

const COLUMNS: [Field; 8] = [
    column("session_id"),
    column("score_id"),
    column("total"),
    column("rating"),
    column("quality"),
    column("by"),
    column("comment"),
    column("at"),
];

const fn column(name: &'static str) -> Field {
    Field {
        name,
        form: FieldForm::Text,
    }
}

pub(super) struct FileRating {
    pub(super) line: u64,
    pub(super) rated: Rated,
    pub(super) body: RatingRequest,
}

pub(super) struct Ratings {
    pub(super) rows: Vec<FileRating>,
    faults: Vec<SuiteError>,
}

impl Ratings {
    /// Reads a file. `now` is the reference for times. Errors of rows are collected for the checks.
    ///
    /// # Errors
    /// The file can't be read.
    pub(super) fn read(path: &Path, now: DateTime<Utc>) -> Result<Self, CliError> {
        let format = Format::of_path(path).ok_or_else(|| {
            CliError::usage(format!(
                "{}: its name must end in .csv, .xlsx, .json or .jsonl",
                path.display()
            ))
        })?;
        let file = std::fs::File::open(path).map_err(|error| {
            CliError::usage(format!("{}: can't be read: {error}", path.display()))
        })?;
        let reading = ReadOptions {
            format,
            columns: Columns::Named,
            also: &COLUMNS,
            limits: Limits::default(),
        };
        let (mut ratings, mut faults) = (Vec::new(), Vec::new());
        let read = read(file, &reading, &mut |row| {
            let row = row.map_err(|fault| vec![fault]);
            match row.and_then(|row| rating(&row, now)) {
                Ok(rating) => ratings.push(rating),
                Err(found) => faults.extend(found),
            }
            ControlFlow::Continue(())
        });
        faults.extend(read.err());
        faults.extend(repeated(&ratings));
        Ok(Self {
            rows: ratings,
            faults,
        })
    }

    /// Checks the rows.
    ///
    /// # Errors
    /// All errors, the first 20 as text.
    pub(super) fn check(&self, path: &Path) -> Result<(), CliError> {
        match self.faults.as_slice() {
            [] => Ok(()),
            faults => Err(file_error(path, faults)),
        }
    }

    /// Checks the rows, and that the rated sessions and scores exist.
    ///
    /// # Errors
    /// All errors in row order, the first 20 as text.
    pub(super) async fn check_there(&self, path: &Path, client: &Client) -> Result<(), CliError> {
        let (mut seen, mut faults) = (HashSet::new(), self.faults.clone());
        for FileRating { line, rated, .. } in &self.rows {
            if !seen.insert(*rated) {
                continue;
            }
            let Err(error) = client.ratings(*rated, 1).await else {
                continue;
            };
            match (error.problem(), rated) {
                (Some("score-not-found"), Rated::Score(id)) => {
                    let message = format!("score {id} not found");
                    faults.push(fault(*line, "score_id", message));
                }
                (Some("session-not-found"), Rated::Session(id)) => {
                    let message = format!("session {id} not found: import it first");
                    faults.push(fault(*line, "session_id", message));
                }
                (_, _) => return Err(error.into()),
            }
        }
        faults.sort_by_key(|fault| fault.line);
        match faults.as_slice() {
            [] => Ok(()),
            faults => Err(file_error(path, faults)),
        }
    }
}

/// Errors for rows with the same subject and rater as an earlier row, because it is ambiguous which one counts.
fn repeated(ratings: &[FileRating]) -> Vec<SuiteError> {
    let mut first: HashMap<(Rated, Option<&str>), u64> = HashMap::new();
    let repeated = ratings.iter().filter_map(|rating| {
        let by = rating.body.by.as_deref();
        let earlier = *first.entry((rating.rated, by)).or_insert(rating.line);
        let (column, what) = match rating.rated {
            Rated::Score(_) => ("score_id", "score"),
            Rated::Session(_) => ("session_id", "session"),
        };
        let who = by.map_or_else(|| "the same rater".to_owned(), |by| format!("{by:?}"));
        let message = format!(
            "rates this {what} for {who} again, as row {earlier} does: keep one of the two"
        );
        (earlier != rating.line).then(|| fault(rating.line, column, message))
    });
    repeated.collect()
}

/// Error with all errors of a file, the first 20 as text.
fn file_error(path: &Path, faults: &[SuiteError]) -> CliError {
    let named = faults.iter().take(MAX_NAMED_ERRORS);
    let mut lines: Vec<String> = named
        .map(|fault| format!("{}: {fault}", path.display()))
        .collect();
    if faults.len() > MAX_NAMED_ERRORS {
        lines.push(format!(
            "and {} more errors",
            faults.len() - MAX_NAMED_ERRORS
        ));
    }
    lines.push("no rating is stored".to_owned());
    CliError::usage(lines.join("\n"))
}

fn fault(line: u64, column: &str, message: impl Into<String>) -> SuiteError {
    SuiteError {
        line: Some(line),
        column: (!column.is_empty()).then(|| column.to_owned()),
        message: message.into(),
    }
}

/// A row while it is parsed, with its errors.
struct Cells<'a> {
    row: &'a SuiteRow,
    faults: Vec<SuiteError>,
}

impl Cells<'_> {
    fn text(&self, column: &str) -> Option<String> {
        text(&self.row.fields, column)
    }

    /// Parses a cell. `None` if it is empty or invalid.
    fn read<T>(&mut self, column: &str, read: fn(&str) -> Result<T, String>) -> Option<T> {
        let read = read(&self.text(column)?);
        read.map_err(|message| self.faults.push(fault(self.row.line, column, message)))
            .ok()
    }
}

fn rating(row: &SuiteRow, now: DateTime<Utc>) -> Result<FileRating, Vec<SuiteError>> {
    let line = row.line;
    let is_unknown = |name: &&String| COLUMNS.iter().all(|column| column.name != *name);
    let unknown = row.fields.keys().filter(is_unknown);
    let faults = unknown.map(|name| fault(line, name, "is no column of ratings"));
    let faults = faults.collect();
    let mut cells = Cells { row, faults };
    let rated = rated(line, cells.text("session_id"), cells.text("score_id"));
    let rated = rated.map_err(|fault| cells.faults.push(fault)).ok();
    let body = RatingRequest {
        total: cells.read("total", |text| {
            let total = text.parse::<i64>();
            total.map_err(|_| format!("is {text:?}; an integer of 0-100 is expected"))
        }),
        rating: cells.read("rating", parse_label),
        quality: cells.read("quality", parse_label),
        by: cells.text("by"),
        comment: cells.text("comment"),
        at: cells.read("at", |text| {
            read_time(text).map_err(|wrong| format!("{text:?} {wrong}"))
        }),
    };
    // If a cell is invalid, it is unknown whether the row has a rating, so that error is dropped.
    let mut faults = cells.faults;
    let all_read = faults.is_empty();
    let wrong = body.faults(now).into_iter();
    let wrong = wrong.filter(|fault| all_read || !fault.pointer.is_empty());
    faults.extend(wrong.map(|wrong| {
        let column = wrong.pointer.trim_start_matches('/');
        fault(line, column, wrong.message)
    }));
    match rated {
        Some(rated) if faults.is_empty() => Ok(FileRating { line, rated, body }),
        Some(_) | None => Err(faults),
    }
}

fn parse_label<T: FromStr<Err = UnknownText>>(word: &str) -> Result<T, String> {
    word.parse().map_err(|error: UnknownText| error.to_string())
}

fn rated(line: u64, session: Option<String>, score: Option<String>) -> Result<Rated, SuiteError> {
    let (column, text, of): (_, _, fn(Uuid) -> Rated) = match (session, score) {
        (Some(text), None) => ("session_id", text, Rated::Session),
        (None, Some(text)) => ("score_id", text, Rated::Score),
        (None, None) => {
            let message = "has no session_id or score_id: give one";
            return Err(fault(line, "", message));
        }
        (Some(_), Some(_)) => {
            let message = "holds both session_id and score_id: give one";
            return Err(fault(line, "", message));
        }
    };
    Uuid::try_parse(&text)
        .map(of)
        .map_err(|_| fault(line, column, format!("is {text:?}; a UUID is expected")))
}

/// A cell as trimmed text. `None` if it is empty or missing.
fn text(fields: &Map<String, Value>, name: &str) -> Option<String> {
    let text = match fields.get(name)? {
        Value::Null => return None,
        Value::String(text) => text.trim().to_owned(),
        other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            other.to_string()
        }
    };
    (!text.is_empty()).then_some(text)
}
