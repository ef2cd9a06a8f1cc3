//! A file of ratings: read and checked whole, every fault by row and column, before anything is stored.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::path::Path;

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::cli::outcome::CliError;
use crate::client::{Client, Rated};
use crate::clock::read_time;
use crate::score::{Field, FieldForm};
use crate::suite::{Columns, Format, Limits, Reading, Row, SuiteError, read};
use crate::wire::{HumanRating, Quality, Rating};

/// Faults that are told at once.
const TOLD: usize = 20;
/// How far the clock of whoever wrote the file may be ahead; the service takes as much.
const AHEAD: TimeDelta = TimeDelta::minutes(5);

/// The columns.
const COLUMNS: [Field; 8] = {
    const fn text(name: &'static str) -> Field {
        Field {
            name,
            form: FieldForm::Text,
        }
    }
    [
        text("session_id"),
        text("score_id"),
        text("total"),
        text("rating"),
        text("quality"),
        text("by"),
        text("comment"),
        text("at"),
    ]
};

/// One rating of a file.
pub(super) struct FileRating {
    /// Where it stands in the file.
    pub(super) line: u64,
    /// What it is about.
    pub(super) rated: Rated,
    /// Who gave it, if the file says so.
    by: Option<String>,
    /// What is sent.
    pub(super) body: Value,
}

/// The ratings of a file, and what is wrong with it.
pub(super) struct Ratings {
    /// Those that can be sent.
    pub(super) rows: Vec<FileRating>,
    faults: Vec<SuiteError>,
}

impl Ratings {
    /// Reads a file, as of `now`. The faults of its rows are kept, to be told with those of what they rate.
    ///
    /// # Errors
    /// A file that can't be read.
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
        let reading = Reading {
            format,
            columns: Columns::Named,
            also: &COLUMNS,
            limits: Limits::default(),
        };
        let (mut ratings, mut faults) = (Vec::new(), Vec::new());
        let rows = match read(file, &reading) {
            Ok(rows) => rows,
            Err(fault) => return Err(told(path, &[fault])),
        };
        for row in rows {
            match row
                .map_err(|fault| vec![fault])
                .and_then(|row| rating(row, now))
            {
                Ok(rating) => ratings.push(rating),
                Err(found) => faults.extend(found),
            }
        }
        faults.extend(given_twice(&ratings));
        Ok(Self {
            rows: ratings,
            faults,
        })
    }

    /// Whether its rows are as they should be.
    ///
    /// # Errors
    /// All their faults, the first 20 in words.
    pub(super) fn check(&self, path: &Path) -> Result<(), CliError> {
        if self.faults.is_empty() {
            Ok(())
        } else {
            Err(told(path, &self.faults))
        }
    }

    /// Whether its rows are as they should be, and everything that is rated is there.
    ///
    /// # Errors
    /// All faults in the order of the rows, the first 20 in words.
    pub(super) async fn check_there(&self, path: &Path, client: &Client) -> Result<(), CliError> {
        let (mut seen, mut faults) = (HashSet::new(), self.faults.clone());
        for FileRating { line, rated, .. } in &self.rows {
            if !seen.insert(*rated) {
                continue;
            }
            match client.ratings::<HumanRating>(*rated, 1).await {
                Ok(_) => {}
                Err(error)
                    if matches!(
                        error.problem(),
                        Some("score-not-found" | "session-not-found")
                    ) =>
                {
                    let (column, message) = match rated {
                        Rated::Score(id) => ("score_id", format!("score {id} is not known")),
                        Rated::Session(id) => (
                            "session_id",
                            format!("session {id} is not known: import it first"),
                        ),
                    };
                    faults.push(fault(*line, column, message));
                }
                Err(error) => return Err(error.into()),
            }
        }
        faults.sort_by_key(|fault| fault.line);
        if faults.is_empty() {
            Ok(())
        } else {
            Err(told(path, &faults))
        }
    }
}

/// Rows that rate for a person what an earlier row of the file rates for the same person: which of them is meant, nobody knows.
fn given_twice(ratings: &[FileRating]) -> Vec<SuiteError> {
    let mut first: HashMap<(Rated, Option<&str>), u64> = HashMap::new();
    let mut faults = Vec::new();
    for FileRating {
        line, rated, by, ..
    } in ratings
    {
        let by = by.as_deref();
        match first.entry((*rated, by)) {
            Entry::Vacant(place) => drop(place.insert(*line)),
            Entry::Occupied(earlier) => {
                let (column, what) = match rated {
                    Rated::Score(_) => ("score_id", "score"),
                    Rated::Session(_) => ("session_id", "session"),
                };
                let who = by.map_or_else(|| "the same person".to_owned(), |by| format!("{by:?}"));
                let message = format!(
                    "rates this {what} for {who} again, as row {} does: keep one of the two",
                    earlier.get()
                );
                faults.push(fault(*line, column, message));
            }
        }
    }
    faults
}

fn told(path: &Path, faults: &[SuiteError]) -> CliError {
    let mut lines: Vec<String> = faults
        .iter()
        .take(TOLD)
        .map(|fault| format!("{}: {fault}", path.display()))
        .collect();
    if faults.len() > TOLD {
        lines.push(format!("and {} more faults", faults.len() - TOLD));
    }
    lines.push("nothing is stored".to_owned());
    CliError::usage(lines.join("\n"))
}

fn fault(line: u64, column: &str, message: impl Into<String>) -> SuiteError {
    SuiteError {
        line: Some(line),
        column: (!column.is_empty()).then(|| column.to_owned()),
        message: message.into(),
    }
}

/// Reads one row; all its faults at once.
fn rating(row: Row, now: DateTime<Utc>) -> Result<FileRating, Vec<SuiteError>> {
    let line = row.line;
    let mut faults = Vec::new();
    for name in row.fields.keys() {
        let known = COLUMNS.iter().any(|column| column.name == name);
        if !known {
            faults.push(fault(line, name, "is no column of ratings"));
        }
    }
    let cell = |name: &str| text(&row.fields, name);
    let rated = rated(line, cell("session_id"), cell("score_id"), &mut faults);
    let mut body = Map::new();
    match given(line, &row.fields) {
        Ok((name, given)) => drop(body.insert(name.to_owned(), given)),
        Err(fault) => faults.push(fault),
    }
    let by = cell("by");
    if let Some(by) = &by {
        if by.chars().count() > 255 || by.chars().any(char::is_control) {
            faults.push(fault(
                line,
                "by",
                "must be at most 255 characters, without control characters",
            ));
        }
        body.insert("by".to_owned(), json!(by));
    }
    if let Some(comment) = cell("comment") {
        if comment.chars().count() > 4_000 {
            faults.push(fault(line, "comment", "is longer than 4,000 characters"));
        }
        body.insert("comment".to_owned(), json!(comment));
    }
    if let Some(at) = cell("at") {
        match read_time(&at) {
            // What the service would refuse, when the rows before it are stored.
            Ok(at) if at > now + AHEAD => faults.push(fault(line, "at", "lies in the future")),
            Ok(_) => {}
            Err(wrong) => faults.push(fault(line, "at", format!("{at:?} {wrong}"))),
        }
        body.insert("at".to_owned(), json!(at));
    }
    match rated {
        Some(rated) if faults.is_empty() => Ok(FileRating {
            line,
            rated,
            by,
            body: Value::Object(body),
        }),
        Some(_) | None => Err(faults),
    }
}

/// What a row gives: the column's name, and what is sent.
fn given(line: u64, fields: &Map<String, Value>) -> Result<(&'static str, Value), SuiteError> {
    let cell = |name: &str| text(fields, name);
    match (cell("total"), cell("rating"), cell("quality")) {
        (Some(total), None, None) => match total.parse::<u8>() {
            Ok(total @ 0..=100) => Ok(("total", json!(total))),
            Ok(_) | Err(_) => Err(fault(
                line,
                "total",
                format!("is {total:?}; a whole number of 0-100 is expected"),
            )),
        },
        (None, Some(word), None) => match word.parse::<Rating>() {
            Ok(word) => Ok(("rating", json!(word.as_str()))),
            Err(error) => Err(fault(line, "rating", error.to_string())),
        },
        (None, None, Some(word)) => match word.parse::<Quality>() {
            Ok(word) => Ok(("quality", json!(word.as_str()))),
            Err(error) => Err(fault(line, "quality", error.to_string())),
        },
        (None, None, None) => Err(fault(
            line,
            "",
            "holds none of total, rating and quality: give one",
        )),
        (Some(_), _, _) | (_, Some(_), _) => Err(fault(
            line,
            "",
            "holds more than one of total, rating and quality: give one",
        )),
    }
}

/// What a row is about; a fault is noted.
fn rated(
    line: u64,
    session: Option<String>,
    score: Option<String>,
    faults: &mut Vec<SuiteError>,
) -> Option<Rated> {
    let (column, text, of): (_, _, fn(Uuid) -> Rated) = match (session, score) {
        (Some(text), None) => ("session_id", text, Rated::Session),
        (None, Some(text)) => ("score_id", text, Rated::Score),
        (None, None) => {
            faults.push(fault(
                line,
                "",
                "holds neither session_id nor score_id: give one",
            ));
            return None;
        }
        (Some(_), Some(_)) => {
            faults.push(fault(
                line,
                "",
                "holds both session_id and score_id: give one",
            ));
            return None;
        }
    };
    match Uuid::try_parse(&text) {
        Ok(id) => Some(of(id)),
        Err(_) => {
            faults.push(fault(
                line,
                column,
                format!("is {text:?}; a UUID is expected"),
            ));
            None
        }
    }
}

/// A cell as text, trimmed; `None` if it is empty or isn't there.
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
