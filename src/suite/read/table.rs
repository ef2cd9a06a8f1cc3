//! What CSV and XLSX have in common: a header whose names are fields, and cells typed by them. In files of cases a column that is
//! meant for no field is a note of whoever made it, and stays beside the fields.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::{Columns, Limits, ParseFault, ReadOptions, parse};
use crate::job::Kind;
use crate::score::{Field, FieldForm, MAX_FIELDS, about, field, fields, nearest, parse_python};
use crate::suite::SuiteError;

/// How many columns beside the first are told that are no fields.
const MOST_LISTED: usize = 9;

pub(super) struct Header {
    /// By place; `None`: a column without a name, where nothing may stand.
    columns: Vec<Option<Column>>,
    limits: Limits,
}

#[derive(PartialEq)]
struct Column {
    name: Cow<'static, str>,
    form: FieldForm,
}

impl Column {
    fn new(field: Field) -> Self {
        Self {
            name: Cow::Borrowed(field.name),
            form: field.form,
        }
    }

    fn note(name: &str) -> Self {
        Self {
            name: Cow::Owned(name.to_owned()),
            form: FieldForm::Text,
        }
    }
}

pub(super) enum Cell {
    Text(String),
    /// A typed value: a number, a boolean.
    Value(Value),
}

impl Header {
    /// Reads the names of a header that stands in `line`.
    pub(super) fn read(
        names: &[Option<String>],
        line: u64,
        reading: &ReadOptions<'_>,
    ) -> Result<Self, SuiteError> {
        if names.len() > MAX_FIELDS {
            let fault = format!(
                "has {} columns; at most {MAX_FIELDS} are taken: leave some out",
                names.len()
            );
            return Err(SuiteError::row(line, fault));
        }
        let kinds: Vec<Kind> = match reading.columns {
            Columns::OfKind(kind) => vec![kind],
            Columns::OfCases => Kind::ALL
                .iter()
                .copied()
                .filter(|kind| kind.is_case())
                .collect(),
            Columns::Named => Vec::new(),
        };
        let known = || {
            let own = kinds.iter().flat_map(|kind| fields(*kind));
            own.chain(reading.also).map(|field| field.name)
        };
        let takes_notes = !kinds.is_empty() && kinds.iter().all(|kind| kind.is_case());
        let mut columns: Vec<Option<Column>> = Vec::with_capacity(names.len());
        let mut faults: Vec<SuiteError> = Vec::new();
        let own: Vec<&str> = kinds
            .iter()
            .flat_map(|kind| about(*kind).distinctive)
            .copied()
            .collect();
        let has_own = names
            .iter()
            .flatten()
            .any(|name| own.contains(&name.trim()));
        for (n, name) in names.iter().enumerate() {
            let Some(name) = name else {
                columns.push(None);
                continue;
            };
            let name = name.trim().trim_start_matches('\u{feff}').trim();
            if name.is_empty() {
                let fault = format!("column {} of the header has no name", n + 1);
                return Err(SuiteError::row(line, fault));
            }
            let also = || reading.also.iter().find(|field| field.name == name);
            let own = kinds.iter().find_map(|kind| field(*kind, name));
            let column = match own.or_else(|| also().copied()) {
                Some(field) => Column::new(field),
                None if takes_notes && names.len() > 1 && wanted(name, known()).is_none() => {
                    Column::note(name)
                }
                None => {
                    faults.push(match kind_with(name).filter(|_| !has_own) {
                        Some(kind) => {
                            let fault = format!("is a field of kind {kind}: choose that kind");
                            SuiteError::cell(line, name, fault)
                        }
                        None => unknown(name, line, known()),
                    });
                    continue;
                }
            };
            if columns.iter().flatten().any(|known| *known == column) {
                let fault = "stands in the header twice";
                return Err(SuiteError::cell(line, name, fault));
            }
            columns.push(Some(column));
        }
        let mut faults = faults.into_iter();
        if let Some(mut first) = faults.next() {
            for other in faults.take(MOST_LISTED) {
                let column = other.column.as_deref().unwrap_or_default();
                let message = &other.message;
                first
                    .message
                    .push_str(&format!("; column {column} {message}"));
            }
            return Err(first);
        }
        if columns.iter().all(Option::is_none) {
            return Err(SuiteError::whole(
                "the file has no header: its first row must name the fields of a payload",
            ));
        }
        Ok(Self {
            columns,
            limits: reading.limits,
        })
    }

    pub(super) fn len(&self) -> usize {
        self.columns.len()
    }

    pub(super) fn name(&self, place: usize) -> String {
        match self.columns.get(place) {
            Some(Some(column)) => column.name.clone().into_owned(),
            Some(None) | None => (place + 1).to_string(),
        }
    }

    /// Puts an empty text into a row's fields where a column may be empty and its cell is.
    pub(super) fn fill(&self, row: &mut Map<String, Value>) {
        let columns = self.columns.iter().flatten();
        for column in columns.filter(|column| column.form == FieldForm::TextOrEmpty) {
            let name = column.name.clone().into_owned();
            row.entry(name).or_insert_with(|| Value::from(""));
        }
    }

    /// Puts a cell into a row's fields, typed by its column.
    pub(super) fn put(
        &self,
        row: &mut Map<String, Value>,
        (line, place): (u64, usize),
        cell: Cell,
    ) -> Result<(), SuiteError> {
        let Some(Some(field)) = self.columns.get(place) else {
            return match cell {
                Cell::Text(text) if text.is_empty() => Ok(()),
                Cell::Text(_) | Cell::Value(_) => Err(SuiteError::cell(
                    line,
                    self.name(place),
                    "holds something, and the header has no name for it",
                )),
            };
        };
        let value = match (field.form, cell) {
            (FieldForm::Text | FieldForm::TextOrEmpty, Cell::Text(text)) if text.is_empty() => {
                return Ok(());
            }
            (FieldForm::Text | FieldForm::TextOrEmpty, Cell::Text(text)) => Value::String(text),
            (FieldForm::Text | FieldForm::TextOrEmpty, Cell::Value(value)) => {
                Value::String(value.to_string())
            }
            (FieldForm::Json | FieldForm::Flag, Cell::Value(value)) => value,
            (FieldForm::Json | FieldForm::Flag, Cell::Text(text)) if text.trim().is_empty() => {
                return Ok(());
            }
            // Spreadsheets write TRUE and FALSE.
            (FieldForm::Flag, Cell::Text(text)) if is(&text, "true") => Value::Bool(true),
            (FieldForm::Flag, Cell::Text(text)) if is(&text, "false") => Value::Bool(false),
            (FieldForm::Json | FieldForm::Flag, Cell::Text(text)) => {
                match parse(text.as_bytes(), self.limits) {
                    Ok(value) => value,
                    Err(ParseFault::Refused { pointer, message }) => {
                        let place = format!("{}{pointer}", field.name);
                        return Err(SuiteError::cell(line, place, message));
                    }
                    // pandas writes lists and dicts as Python prints them.
                    Err(ParseFault::Syntax(_)) => {
                        parse_python(&text).unwrap_or(Value::String(text))
                    }
                }
            }
        };
        row.insert(field.name.clone().into_owned(), value);
        Ok(())
    }
}

/// Whether a cell says this word, in any case.
fn is(text: &str, word: &str) -> bool {
    text.trim().eq_ignore_ascii_case(word)
}

/// The field that a column's name was probably meant for.
fn wanted<'k>(name: &str, known: impl Iterator<Item = &'k str> + Clone) -> Option<&'k str> {
    let spelled = name.to_lowercase().replace([' ', '-'], "_");
    nearest(&spelled, known)
}

/// The kind that alone has a field of this name.
fn kind_with(name: &str) -> Option<Kind> {
    let mut kinds = Kind::ALL.iter().copied();
    kinds.find(|kind| about(*kind).distinctive.contains(&name))
}

fn unknown<'k>(name: &str, line: u64, known: impl Iterator<Item = &'k str>) -> SuiteError {
    let shown: String = name.chars().take(80).collect();
    let mut names: Vec<&str> = Vec::new();
    for name in known {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let message = match wanted(name, names.iter().copied()) {
        Some(near) => format!("is no field; did you mean `{near}`?"),
        None => format!("is no field; there are [{}]", names.join(", ")),
    };
    SuiteError::cell(line, shown, message)
}
