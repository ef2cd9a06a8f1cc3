//! Common parts of CSV and XLSX: a header that names fields, and cells typed by them. In files of cases, an unknown column is a note and is
//! stored with the fields.

use serde_json::{Map, Value};

use super::{Columns, Limits, ReadOptions, parse};
use crate::job::Kind;
use crate::score::{FieldForm, MAX_FIELDS, about, field, fields, nearest, parse_python};
use crate::suite::SuiteError;

/// Maximum unknown columns listed after the first.
const MAX_LISTED: usize = 9;
/// Length at which Excel cuts a cell, in UTF-16 units.
const EXCEL_CUT: usize = 32_767;
/// Maximum characters shown of a column's name.
const SHOWN: usize = 80;

#[derive(Default)]
pub(super) struct Header {
    /// Names and forms by position; `None`: a column without a name, which must be empty.
    columns: Vec<Option<(String, FieldForm)>>,
    limits: Limits,
}

pub(super) enum Cell {
    Text(String),
    Value(Value),
    Fault(String),
}

impl Header {
    /// Reads the names of a header in line `line`.
    pub(super) fn read(
        names: &[Option<String>],
        line: u64,
        reading: &ReadOptions<'_>,
    ) -> Result<Self, SuiteError> {
        if names.len() > MAX_FIELDS {
            let fault = format!(
                "has {} columns; the maximum is {MAX_FIELDS}: omit some",
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
        let mut known: Vec<&str> = Vec::new();
        let own = kinds.iter().flat_map(|kind| fields(*kind));
        for field in own.chain(reading.also) {
            if !known.contains(&field.name) {
                known.push(field.name);
            }
        }
        let has_own = names.iter().flatten().any(|name| {
            let mut kinds = kinds.iter();
            kinds.any(|kind| about(*kind).distinctive.contains(&name.trim()))
        });
        let takes_notes =
            names.len() > 1 && !kinds.is_empty() && kinds.iter().all(|kind| kind.is_case());
        let mut columns = Vec::with_capacity(names.len());
        let mut faults: Vec<(String, String)> = Vec::new();
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
            let own = kinds.iter().find_map(|kind| field(*kind, name));
            let also = || reading.also.iter().find(|field| field.name == name);
            let column = match own.or_else(|| also().copied()) {
                Some(field) => (field.name.to_owned(), field.form),
                None => {
                    let spelled = name.to_lowercase().replace([' ', '-'], "_");
                    let near = nearest(&spelled, known.iter().copied());
                    if takes_notes && near.is_none() {
                        (name.to_owned(), FieldForm::Text)
                    } else {
                        let fault = match (kind_with(name).filter(|_| !has_own), near) {
                            (Some(kind), _) => {
                                format!("is a field of kind {kind}: choose that kind")
                            }
                            (None, Some(near)) => format!("is no field; did you mean `{near}`?"),
                            (None, None) => {
                                format!("is no field; there are [{}]", known.join(", "))
                            }
                        };
                        faults.push((name.chars().take(SHOWN).collect(), fault));
                        continue;
                    }
                }
            };
            if columns.contains(&Some(column.clone())) {
                let fault = "is in the header more than once";
                return Err(SuiteError::cell(line, name, fault));
            }
            columns.push(Some(column));
        }
        if let Some((name, fault)) = faults.first() {
            let others = faults.iter().skip(1).take(MAX_LISTED);
            let others: String = others
                .map(|(name, fault)| format!("; column {name} {fault}"))
                .collect();
            return Err(SuiteError::cell(line, name, format!("{fault}{others}")));
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
            Some(Some((name, _))) => name.clone(),
            Some(None) | None => (place + 1).to_string(),
        }
    }

    /// Returns the fields of a row from its cells with their positions. A column that may be empty is present even if its cell is empty.
    pub(super) fn fields(
        &self,
        line: u64,
        cells: impl Iterator<Item = (usize, Cell)>,
    ) -> Result<Map<String, Value>, SuiteError> {
        let mut row = Map::new();
        for (place, cell) in cells {
            self.put(&mut row, (line, place), cell)?;
        }
        for (name, form) in self.columns.iter().flatten() {
            if *form == FieldForm::TextOrEmpty && !row.contains_key(name) {
                row.insert(name.clone(), Value::from(""));
            }
        }
        Ok(row)
    }

    fn put(
        &self,
        row: &mut Map<String, Value>,
        (line, place): (u64, usize),
        cell: Cell,
    ) -> Result<(), SuiteError> {
        let fault = |fault: &str| Err(SuiteError::cell(line, self.name(place), fault));
        let column = self.columns.get(place).and_then(Option::as_ref);
        if matches!(&cell, Cell::Text(text) if text.is_empty()) {
            return Ok(());
        }
        let Some((name, form)) = column else {
            return fault("holds something, and the header has no name for it");
        };
        let is_text = matches!(form, FieldForm::Text | FieldForm::TextOrEmpty);
        let is_flag = *form == FieldForm::Flag;
        let value = match cell {
            Cell::Fault(what) => return fault(&what),
            Cell::Text(text) if is_text => Value::String(text),
            Cell::Value(value) if is_text => Value::String(value.to_string()),
            Cell::Value(value) => value,
            Cell::Text(text) => match text.trim() {
                "" => return Ok(()),
                // Spreadsheets write TRUE and FALSE.
                word if is_flag && word.eq_ignore_ascii_case("true") => true.into(),
                word if is_flag && word.eq_ignore_ascii_case("false") => false.into(),
                _ => match parse(text.as_bytes(), self.limits) {
                    Ok(value) => value,
                    Err(fault) if fault.is_json => {
                        let place = format!("{name}{}", fault.pointer);
                        return Err(SuiteError::cell(line, place, fault.message));
                    }
                    // pandas writes lists and dicts in Python syntax.
                    Err(_) => match parse_python(&text) {
                        Some(value) => value,
                        None if text.starts_with(['[', '{'])
                            && text.encode_utf16().count() == EXCEL_CUT =>
                        {
                            return fault(
                                "breaks off in the middle of its JSON, at the 32,767 characters where Excel cuts a cell: save the rows as \
                                 JSON, or as CSV without a spreadsheet",
                            );
                        }
                        None => Value::String(text),
                    },
                },
            },
        };
        row.insert(name.clone(), value);
        Ok(())
    }
}

/// Returns the kind that is the only one with a field of this name.
fn kind_with(name: &str) -> Option<Kind> {
    let mut kinds = Kind::ALL.iter().copied();
    kinds.find(|kind| about(*kind).distinctive.contains(&name))
}
