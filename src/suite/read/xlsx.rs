//! XLSX: the first sheet, a header row, then a row each. Its rows lie in a temporary file, one of them in memory at a time; the
//! workbook's shared texts are all held.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek, Write as _};

use calamine::{DataRef, ExcelDateTime, Reader as _, Xlsx};
use serde_json::de::IoRead;
use serde_json::{Map, Number, StreamDeserializer, Value};

use super::table::{Cell, Header};
use super::zip::{self, not_xlsx};
use super::{Limits, ReadOptions, SourceRow, too_large};
use crate::score::MAX_FIELDS;
use crate::suite::SuiteError;

/// What a cell takes beside its text, bytes.
const CELL_BYTES: u64 = 16;
/// What a formula without its value is.
const UNCOMPUTED: &str = "holds a formula whose value is not in the file: open and save it in a spreadsheet program, or write the value";

pub(super) struct Sheet(StreamDeserializer<'static, IoRead<BufReader<File>>, SourceRow>);

/// A row on its way: its number in the sheet, and its cells by column.
struct Gathering {
    line: u64,
    cells: Vec<(usize, Cell)>,
    bytes: u64,
}

impl Sheet {
    pub(super) fn open<R: Read + Seek>(
        mut source: R,
        reading: &ReadOptions<'_>,
    ) -> Result<Self, SuiteError> {
        zip::check(&mut source, reading.limits)?;
        let mut workbook = Xlsx::new(source).map_err(|_| not_xlsx())?;
        let Some(name) = workbook.sheet_names().into_iter().next() else {
            return Err(SuiteError::whole("the workbook has no sheet"));
        };
        let mut cells = workbook
            .worksheet_cells_reader(&name)
            .map_err(|_| not_xlsx())?;
        let mut sheet = Filling {
            reading,
            name,
            header: None,
            rows: BufWriter::new(tempfile::tempfile().map_err(no_room)?),
            bytes: 0,
        };
        let mut gathering: Option<Gathering> = None;
        while let Some(cell) = cells
            .next_cell_with_formula_metadata()
            .map_err(|_| not_xlsx())?
        {
            let (row, column) = cell.pos;
            let line = u64::from(row) + 1;
            let Some((value, text_bytes)) = typed(&cell.value, line, column, &sheet)? else {
                // A program that wrote the sheet without computing it: the cell only looks empty.
                if cell.formula.is_some() && matches!(cell.value, DataRef::Empty) {
                    return Err(sheet.fault(line, column, UNCOMPUTED));
                }
                continue;
            };
            if column as usize >= MAX_FIELDS {
                let fault = format!("has more than {MAX_FIELDS} columns: leave some out");
                return Err(SuiteError::row(line, fault));
            }
            if gathering.as_ref().is_some_and(|row| row.line != line)
                && let Some(row) = gathering.take()
            {
                sheet.take(row)?;
            }
            let row = gathering.get_or_insert_with(|| Gathering {
                line,
                cells: Vec::new(),
                bytes: 0,
            });
            row.bytes += text_bytes;
            sheet.count(text_bytes + CELL_BYTES)?;
            row.cells.push((column as usize, value));
        }
        if let Some(row) = gathering {
            sheet.take(row)?;
        }
        match sheet.header {
            Some(_) => Self::of_rows(sheet.rows),
            None => Err(SuiteError::whole(format!(
                "the workbook's first sheet, {:?}, is empty: the first one is read, so put the items there",
                sheet.name
            ))),
        }
    }

    fn of_rows(rows: BufWriter<File>) -> Result<Self, SuiteError> {
        let mut file = rows
            .into_inner()
            .map_err(|error| no_room(error.into_error()))?;
        file.rewind().map_err(no_room)?;
        let rows = serde_json::Deserializer::from_reader(BufReader::new(file));
        Ok(Self(rows.into_iter()))
    }

    pub(super) fn next(&mut self) -> Result<Option<SourceRow>, SuiteError> {
        let row = self.0.next().transpose();
        row.map_err(|error| no_room(error.into()))
    }
}

struct Filling<'a> {
    reading: &'a ReadOptions<'a>,
    name: String,
    header: Option<Header>,
    rows: BufWriter<File>,
    bytes: u64,
}

impl Filling<'_> {
    fn fault(&self, line: u64, column: u32, message: impl Into<String>) -> SuiteError {
        let name = match &self.header {
            Some(header) => header.name(column as usize),
            None => (column + 1).to_string(),
        };
        SuiteError::cell(line, name, message)
    }

    /// Counts a cell. A text that is stored once may stand in a million cells, so that the size of the file says nothing.
    fn count(&mut self, bytes: u64) -> Result<(), SuiteError> {
        let max = self.reading.limits.file_bytes;
        self.bytes += bytes;
        if self.bytes > max {
            return Err(SuiteError::whole(format!(
                "the cells of the first sheet hold more than {max} bytes: split it"
            )));
        }
        Ok(())
    }

    fn take(&mut self, row: Gathering) -> Result<(), SuiteError> {
        let limits: Limits = self.reading.limits;
        let Some(header) = &self.header else {
            // A workbook may begin with a page for people.
            let header = header(&row, self.reading).map_err(|error| SuiteError {
                message: format!(
                    "{} (of the first sheet, {:?}, which is the one that is read)",
                    error.message, self.name
                ),
                ..error
            })?;
            self.header = Some(header);
            return Ok(());
        };
        let line = row.line;
        let fields = match row.bytes > limits.item_bytes {
            true => Err(too_large(line, limits)),
            false => fields(row, header),
        };
        let kept = SourceRow { line, fields };
        serde_json::to_writer(&mut self.rows, &kept).map_err(|error| no_room(error.into()))?;
        self.rows.write_all(b"\n").map_err(no_room)
    }
}

fn no_room(error: std::io::Error) -> SuiteError {
    SuiteError::whole(format!(
        "the sheet's rows can't be kept in a temporary file: {error}"
    ))
}

fn header(row: &Gathering, reading: &ReadOptions<'_>) -> Result<Header, SuiteError> {
    let width = row.cells.iter().map(|(column, _)| column + 1).max();
    let mut names: Vec<Option<String>> = vec![None; width.unwrap_or(0)];
    for (column, cell) in &row.cells {
        let name = match cell {
            Cell::Text(text) => text.clone(),
            Cell::Value(value) => value.to_string(),
        };
        if let Some(place) = names.get_mut(*column) {
            *place = Some(name);
        }
    }
    Header::read(&names, row.line, reading)
}

fn fields(row: Gathering, header: &Header) -> Result<Map<String, Value>, SuiteError> {
    let mut fields = Map::new();
    for (column, cell) in row.cells {
        header.put(&mut fields, (row.line, column), cell)?;
    }
    header.fill(&mut fields);
    Ok(fields)
}

/// A cell's value and about its size; `None`: it is empty.
fn typed(
    cell: &DataRef<'_>,
    line: u64,
    column: u32,
    sheet: &Filling<'_>,
) -> Result<Option<(Cell, u64)>, SuiteError> {
    let text = |text: &str| {
        let size = text.len() as u64;
        (!text.is_empty()).then(|| (Cell::Text(text.to_owned()), size))
    };
    Ok(match cell {
        DataRef::Empty => None,
        DataRef::String(value) | DataRef::DateTimeIso(value) | DataRef::DurationIso(value) => {
            text(value)
        }
        DataRef::SharedString(value) => text(value),
        DataRef::Bool(value) => Some((Cell::Value(Value::Bool(*value)), 8)),
        DataRef::Int(value) => Some((Cell::Value(Value::from(*value)), 8)),
        DataRef::Float(value) => Some((Cell::Value(number(*value)), 8)),
        DataRef::DateTime(value) => text(&moment(value)),
        DataRef::Error(error) => {
            let fault = format!("holds the spreadsheet's error {error}");
            return Err(sheet.fault(line, column, fault));
        }
    })
}

/// A spreadsheet knows floats alone: those that are whole are written as whole.
fn number(value: f64) -> Value {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() <= EXACT {
        #[expect(clippy::cast_possible_truncation, reason = "within 2^53, and whole")]
        return Value::from(value as i64);
    }
    Number::from_f64(value).map_or(Value::Null, Value::Number)
}

/// A date, a date with a time, or a time of day, which has no date: it is less than a day. Of a duration the hours, minutes and seconds.
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
