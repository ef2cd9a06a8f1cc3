//! XLSX: a sheet with a header and one row per item. The workbook's shared texts all stay in memory.

use std::io::{Read, Seek};

use calamine::{DataRef, ExcelDateTime, Reader as _, SheetType, SheetVisible, Xlsx};
use serde_json::{Number, Value};

use super::table::{Cell, Header};
use super::zip::{self, not_xlsx};
use super::{Fields, ItemVisitor, LISTS, Limits, ReadOptions, Stop, too_large};
use crate::score::MAX_FIELDS;
use crate::suite::SuiteError;

/// Memory of a cell without its text, bytes.
const CELL_BYTES: u64 = 16;
const UNCOMPUTED: &str = "contains a formula without a stored value: open and save the file in a spreadsheet program, or write the value";

#[derive(Default)]
struct Row {
    line: u64,
    cells: Vec<(usize, Cell)>,
    bytes: u64,
}

impl Row {
    fn header(self, reading: &ReadOptions<'_>) -> Result<Header, SuiteError> {
        let width = self.cells.iter().map(|(column, _)| column + 1).max();
        let mut names: Vec<Option<String>> = vec![None; width.unwrap_or(0)];
        for (column, cell) in self.cells {
            names[column] = Some(match cell {
                Cell::Text(text) => text,
                Cell::Value(value) => value.to_string(),
                Cell::Fault(fault) => {
                    return Err(SuiteError::cell(self.line, (column + 1).to_string(), fault));
                }
            });
        }
        Header::read(&names, self.line, reading)
    }

    fn fields(&mut self, header: &Header, limits: Limits) -> Fields {
        if self.bytes > limits.item_bytes {
            return Err(too_large(self.line, limits));
        }
        header.fields(self.line, self.cells.drain(..))
    }
}

/// Reads the rows that aren't empty, one at a time.
pub(super) fn read<R: Read + Seek>(
    mut source: R,
    reading: &ReadOptions<'_>,
    visit: &mut ItemVisitor<'_>,
) -> Result<(), Stop> {
    let limits = reading.limits;
    zip::check(&mut source, limits)?;
    let mut workbook = Xlsx::new(source).map_err(|_| not_xlsx())?;
    let name = sheet_of_items(&mut workbook)?;
    let cells = workbook.worksheet_cells_reader(&name);
    let mut cells = cells.map_err(|_| not_xlsx())?;
    let mut header: Option<Header> = None;
    let mut add = |mut row: Row| -> Result<(), Stop> {
        match &header {
            Some(header) => visit(row.line, &[], &mut || row.fields(header, limits)),
            None => {
                header = Some(row.header(reading)?);
                Ok(())
            }
        }
    };
    let (mut row, mut bytes) = (Row::default(), 0);
    while let Some(found) = cells
        .next_cell_with_formula_metadata()
        .map_err(|_| not_xlsx())?
    {
        let (line, column) = (u64::from(found.pos.0) + 1, found.pos.1 as usize);
        let cell = match typed(&found.value) {
            // Written by a program that didn't compute the formula, so the cell isn't really empty.
            None if found.formula.is_some() && matches!(found.value, DataRef::Empty) => {
                Cell::Fault(UNCOMPUTED.to_owned())
            }
            None => continue,
            Some(cell) => cell,
        };
        if column >= MAX_FIELDS {
            let fault = format!("has more than {MAX_FIELDS} columns: leave some out");
            return Err(SuiteError::row(line, fault).into());
        }
        if line != row.line && row.line > 0 {
            add(std::mem::take(&mut row))?;
        }
        let length = match &cell {
            Cell::Text(text) => text.len() as u64,
            Cell::Value(_) | Cell::Fault(_) => 8,
        };
        // A shared text may be used by a million cells, so the size of the file is no bound.
        bytes += length + CELL_BYTES;
        if bytes > limits.file_bytes {
            return Err(SuiteError::whole(format!(
                "the cells of the sheet {name:?} hold more than {} bytes: split it",
                limits.file_bytes
            ))
            .into());
        }
        row.line = line;
        row.bytes += length;
        row.cells.push((column, cell));
    }
    add(row)
}

/// Returns the name of the sheet with the items: the only visible sheet that isn't empty, or of several the sheet named `items` or
/// `questions`.
fn sheet_of_items<R: Read + Seek>(workbook: &mut Xlsx<R>) -> Result<String, SuiteError> {
    let sheets = workbook.sheets_metadata().iter();
    let sheets = sheets.filter(|sheet| {
        sheet.typ == SheetType::WorkSheet && sheet.visible == SheetVisible::Visible
    });
    let names: Vec<String> = sheets.map(|sheet| sheet.name.clone()).collect();
    let mut filled = Vec::new();
    for name in names {
        let cells = workbook.worksheet_cells_reader(&name);
        let mut cells = cells.map_err(|_| not_xlsx())?;
        while let Some(cell) = cells.next_cell().map_err(|_| not_xlsx())? {
            if typed(cell.get_value()).is_some() {
                filled.push(name);
                break;
            }
        }
    }
    let is_list = |name: &&String| {
        let mut lists = LISTS.iter();
        lists.any(|list| list.eq_ignore_ascii_case(name.trim()))
    };
    let lists: Vec<&String> = filled.iter().filter(is_list).collect();
    match (filled.as_slice(), lists.as_slice()) {
        ([name], _) => Ok(name.clone()),
        (_, [name]) => Ok((*name).clone()),
        ([], _) => Err(SuiteError::whole(
            "no sheet of the workbook has anything in it; sheets that are hidden are not read",
        )),
        (several, _) => Err(SuiteError::whole(format!(
            "the workbook has {} sheets with content, {several:?}, but only one is read: name the sheet with the items `items`, and hide \
             or delete the others",
            several.len()
        ))),
    }
}

fn typed(cell: &DataRef<'_>) -> Option<Cell> {
    let text = |text: &str| (!text.is_empty()).then(|| Cell::Text(text.to_owned()));
    match cell {
        DataRef::Empty => None,
        DataRef::String(value) | DataRef::DateTimeIso(value) | DataRef::DurationIso(value) => {
            text(value)
        }
        DataRef::SharedString(value) => text(value),
        DataRef::Bool(value) => Some(Cell::Value(Value::Bool(*value))),
        DataRef::Int(value) => Some(Cell::Value(Value::from(*value))),
        DataRef::Float(value) => Some(Cell::Value(number(*value))),
        DataRef::DateTime(value) => text(&moment(value)),
        DataRef::Error(error) => Some(Cell::Fault(format!(
            "contains the spreadsheet's error {error}: correct its formula, or leave the cell empty"
        ))),
    }
}

/// Converts a float, the only number type of spreadsheets, to an integer if it is integral.
fn number(value: f64) -> Value {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() <= EXACT {
        #[expect(clippy::cast_possible_truncation, reason = "an integer within 2^53")]
        return Value::from(value as i64);
    }
    Number::from_f64(value).map_or(Value::Null, Value::Number)
}

/// Formats a date, a date with time, a time of day (less than a day, without date), or a duration in hours, minutes and seconds.
fn moment(value: &ExcelDateTime) -> String {
    let days = value.as_f64();
    if value.is_duration() || (0.0..1.0).contains(&days) {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the largest number of a date is far below 2^53 milliseconds"
        )]
        let millis = (days * 86_400_000.0).round() as i64;
        let sign = if millis < 0 { "-" } else { "" };
        let (seconds, millis) = (millis.abs() / 1_000, millis.abs() % 1_000);
        let clock = format!(
            "{sign}{:02}:{:02}:{:02}",
            seconds / 3_600,
            seconds / 60 % 60,
            seconds % 60
        );
        return match millis {
            0 => clock,
            _ => format!("{clock}.{millis:03}"),
        };
    }
    let (year, month, day, hour, minute, second, milli) = value.to_ymd_hms_milli();
    let date = format!("{year:04}-{month:02}-{day:02}");
    match (hour, minute, second, milli) {
        (0, 0, 0, 0) => date,
        (_, _, _, 0) => format!("{date}T{hour:02}:{minute:02}:{second:02}"),
        _ => format!("{date}T{hour:02}:{minute:02}:{second:02}.{milli:03}"),
    }
}
