//! Reads files of items row by row and validates their form. The content of payloads is validated by their kind.
//!
//! Only one item is in memory at a time, and the shared texts of a workbook.

mod csv;
mod json;
mod jsonl;
mod table;
mod xlsx;
mod zip;

use std::io::{Read, Seek, SeekFrom};
use std::ops::ControlFlow;

use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::{Format, SuiteError, SuiteRow};
use crate::job::Kind;
use crate::memory::JsonShape;
use crate::score::{Field, JsonError, parse_json};
use crate::wire::words;

/// Accepted names of the list of items.
const LISTS: [&str; 2] = ["items", "questions"];
/// Memory of items on their way into the store: a few chunks of 4 MiB.
const CHUNKS_BYTES: u64 = 32 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub items: u64,
    pub item_bytes: u64,
    pub file_bytes: u64,
    pub depth: usize,
    /// Maximum weight of an item, as computed by [`JsonShape::weight`].
    pub item_weight: u64,
}

impl Default for Limits {
    /// 1,000,000 items of 8 MiB, 256 MiB per file, 64 levels, and an item weight of 384 MiB of memory.
    fn default() -> Self {
        Self {
            items: 1_000_000,
            item_bytes: 8 << 20,
            file_bytes: 256 << 20,
            depth: 64,
            item_weight: 384 << 20,
        }
    }
}

/// Fields that the columns of a table may name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Columns {
    OfKind(Kind),
    /// Fields of all kinds of cases.
    OfCases,
    /// Only the fields listed in `also`.
    Named,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadOptions<'a> {
    pub format: Format,
    pub columns: Columns,
    /// Additional columns. In JSON objects, any field is accepted.
    pub also: &'a [Field],
    pub limits: Limits,
}

impl ReadOptions<'static> {
    /// Returns the options for payloads of a kind, with the default limits.
    pub fn of_kind(format: Format, kind: Kind) -> Self {
        Self {
            format,
            columns: Columns::OfKind(kind),
            also: &[],
            limits: Limits::default(),
        }
    }
}

/// Fields of an item, or the error of its row.
type Fields = Result<Map<String, Value>, SuiteError>;

/// Called by the readers with each item: its row, its text if it is JSON or contains JSON, and a function that returns its fields.
type ItemVisitor<'a> = dyn FnMut(u64, &[u8], &mut dyn FnMut() -> Fields) -> Result<(), Stop> + 'a;

/// Reason for which a reader stops before the end of the file.
enum Stop {
    /// The caller needs no more rows.
    Ended,
    Fault(SuiteError),
}

impl From<SuiteError> for Stop {
    fn from(fault: SuiteError) -> Self {
        Self::Fault(fault)
    }
}

/// Calls `visit` with each row of a file in order, or with the error of the row, until it breaks. After an error in a row the next rows are
/// read, so that all errors are reported. Errors of the file end the reading: it is too large or has another format, its header has an
/// unknown column, or the start of the next row can't be found.
pub fn read<R: Read + Seek>(
    source: R,
    reading: &ReadOptions<'_>,
    visit: &mut dyn FnMut(Result<SuiteRow, SuiteError>) -> ControlFlow<()>,
) -> Result<(), SuiteError> {
    let (max, mut item_no) = (reading.limits.items, 0);
    let read = visit_items(source, reading, &mut |line, _, fields| {
        if item_no == max {
            let fault = format!("the file has more than {max} items: split it");
            return Err(SuiteError::whole(fault).into());
        }
        let row = fields().map(|fields| SuiteRow {
            item_no,
            line,
            fields,
        });
        item_no += 1;
        match visit(row) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Stop::Ended),
        }
    });
    match read {
        Ok(()) | Err(Stop::Ended) => Ok(()),
        Err(Stop::Fault(fault)) => Err(fault),
    }
}

fn visit_items<R: Read + Seek>(
    mut source: R,
    reading: &ReadOptions<'_>,
    visit: &mut ItemVisitor<'_>,
) -> Result<(), Stop> {
    let limits = reading.limits;
    check_size(&mut source, limits.file_bytes)?;
    match reading.format {
        Format::Json => json::read(source, limits, visit).map(drop),
        Format::Jsonl => jsonl::read(source, limits, visit),
        Format::Csv => csv::read(source, reading, visit),
        Format::Xlsx => xlsx::read(source, reading, visit),
    }
}

/// Content of a JSON object without its list of items.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Envelope {
    /// The other fields, each at most 64 KiB.
    pub fields: Map<String, Value>,
    /// Name of the list's field; `None`: the file is a bare list.
    pub list: Option<String>,
}

/// Reads the content of a JSON file before and after its list of items. Scans the items without storing them.
pub fn envelope<R: Read + Seek>(mut source: R, limits: Limits) -> Result<Envelope, SuiteError> {
    check_size(&mut source, limits.file_bytes)?;
    match json::read(source, limits, &mut |_, _, _| Ok(())) {
        Ok(envelope) => Ok(envelope),
        Err(Stop::Fault(fault)) => Err(fault),
        Err(Stop::Ended) => Ok(Envelope::default()),
    }
}

fn check_size(source: &mut impl Seek, max: u64) -> Result<(), SuiteError> {
    let size = source.seek(SeekFrom::End(0)).map_err(unreadable)?;
    if size > max {
        return Err(SuiteError::whole(format!(
            "the file has {size} bytes; at most {max} are read: split it"
        )));
    }
    source.seek(SeekFrom::Start(0)).map_err(unreadable)?;
    Ok(())
}

/// Returns the approximate memory for reading a file, in bytes: its heaviest item, and the shared texts of a workbook. Stops at the first
/// error, which [`read`] reports. Errors: the file is too large, or a workbook can't be unpacked.
pub fn weight<R: Read + Seek>(mut source: R, reading: &ReadOptions<'_>) -> Result<u64, SuiteError> {
    let limits = reading.limits;
    let (mut item, mut beside) = (0, 0);
    check_size(&mut source, limits.file_bytes)?;
    if reading.format == Format::Xlsx {
        (item, beside) = zip::check(&mut source, limits)?;
    } else {
        let _ = visit_items(source, reading, &mut |_, text, _| {
            item = item.max(JsonShape::of_any(text).weight());
            Ok(())
        });
    }
    // Heavier items are rejected before they are read.
    Ok(item.min(limits.item_weight) + CHUNKS_BYTES.min(8 * item) + beside)
}

fn unreadable(error: std::io::Error) -> SuiteError {
    SuiteError::whole(format!("the file can't be read: {error}"))
}

fn too_large(line: u64, limits: Limits) -> SuiteError {
    let max = limits.item_bytes;
    SuiteError::row(line, format!("the item has more than {max} bytes"))
}

/// Parses one JSON value. Nesting and number of values are checked first, to bound stack and memory.
fn parse(bytes: &[u8], limits: Limits) -> Result<Value, ParseFault> {
    let fault = |pointer: String, message: String, is_json| ParseFault {
        pointer,
        message,
        is_json,
    };
    let shape = JsonShape::measure(bytes);
    if shape.depth > limits.depth {
        let message = format!("is nested deeper than {} levels", limits.depth);
        return Err(fault(String::new(), message, true));
    }
    if shape.weight() > limits.item_weight {
        let message = "holds too many values to be compared: send fewer rows or columns";
        return Err(fault(String::new(), message.to_owned(), true));
    }
    parse_json(bytes).map_err(|error| {
        let message = error.to_string();
        match (error, encoding(bytes)) {
            (JsonError::RepeatedField { pointer, .. }, _) => fault(pointer, message, true),
            (JsonError::Syntax(_), None) => {
                let mut message = format!("is not JSON: {}", words::json_fault(&message));
                if message.contains("trailing characters") {
                    message.push_str(": remove them, or put each item on a line of its own");
                }
                fault(String::new(), message, false)
            }
            (JsonError::Syntax(_), Some(encoding)) => {
                let message = format!("is {encoding}: save the file as UTF-8");
                fault(String::new(), message, false)
            }
        }
    })
}

struct ParseFault {
    /// JSON pointer; empty: the root.
    pointer: String,
    message: String,
    /// Whether the bytes are JSON that exceeds a limit.
    is_json: bool,
}

/// Guesses the encoding of text that isn't UTF-8. Returns `None` if it is UTF-8 and has another error.
fn encoding(bytes: &[u8]) -> Option<&'static str> {
    // In UTF-16, every other byte of Latin letters and JSON punctuation is zero.
    let utf_16 = bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff");
    if utf_16 || bytes.contains(&0) {
        return Some("UTF-16, not UTF-8");
    }
    std::str::from_utf8(bytes)
        .is_err()
        .then_some("not UTF-8 (perhaps Latin-1 or Windows-1252)")
}

fn object(bytes: &[u8], line: u64, limits: Limits) -> Fields {
    let form = match parse(bytes, limits) {
        Ok(Value::Object(fields)) => return Ok(fields),
        Ok(Value::Null) => "null",
        Ok(Value::Bool(_)) => "a boolean",
        Ok(Value::Number(_)) => "a number",
        Ok(Value::String(_)) => "text",
        Ok(Value::Array(_)) => "a list",
        Err(fault) if !fault.pointer.is_empty() => {
            let place = fault.pointer.trim_start_matches('/');
            return Err(SuiteError::cell(line, place, fault.message));
        }
        Err(fault) => return Err(SuiteError::row(line, format!("the item {}", fault.message))),
    };
    let message = format!("an item must be a JSON object, and this is {form}");
    Err(SuiteError::row(line, message))
}

/// Reader that fails once it is stopped. Otherwise, reading would continue and use CPU time after its client left.
#[derive(Debug, Clone)]
pub struct Stoppable<R> {
    source: R,
    stop: CancellationToken,
}

impl<R> Stoppable<R> {
    pub fn new(source: R, stop: CancellationToken) -> Self {
        Self { source, stop }
    }
}

impl<R: Read> Read for Stoppable<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self.stop.is_cancelled() {
            true => Err(std::io::Error::other("the reader is closed")),
            false => self.source.read(buffer),
        }
    }
}

impl<R: Seek> Seek for Stoppable<R> {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        self.source.seek(to)
    }
}

#[cfg(test)]
mod tests;
