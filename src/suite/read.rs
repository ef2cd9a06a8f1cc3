//! Reads files of items: one row after the other, each checked for its form. What a payload means is its kind's to check.
//!
//! One item is in memory at a time; of a workbook its shared texts, too.

mod csv;
mod json;
mod jsonl;
mod table;
mod xlsx;
mod zip;

use std::io::{Read, Seek, SeekFrom};

use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::{Format, SuiteError, SuiteRow};
use crate::job::Kind;
use crate::memory::JsonShape;
use crate::score::{Field, JsonError, parse_json};
use crate::wire::words;

/// What the list of items may be called.
const LISTS: [&str; 2] = ["items", "questions"];
/// What items take on their way into the store: some chunks of 4 MiB.
const CHUNKS_BYTES: u64 = 32 << 20;

/// How much is read at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub items: u64,
    pub item_bytes: u64,
    pub file_bytes: u64,
    pub depth: usize,
    /// What an item may weigh, as [`JsonShape::weight`] has it.
    pub item_weight: u64,
}

impl Default for Limits {
    /// 1,000,000 items of 8 MiB, 256 MiB a file, 64 levels; an item of as many values as 384 MiB of memory hold.
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

/// Whose fields the columns of a table are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Columns {
    OfKind(Kind),
    /// Those of every kind of case.
    OfCases,
    /// Those that the reader of the rows names are all there are.
    Named,
}

/// How a file is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadOptions<'a> {
    pub format: Format,
    pub columns: Columns,
    /// Columns beside those that the reader of the rows knows; of objects in JSON any field is taken.
    pub also: &'a [Field],
    pub limits: Limits,
}

impl ReadOptions<'static> {
    /// A file of payloads of a kind, with the usual limits.
    pub fn of_kind(format: Format, kind: Kind) -> Self {
        Self {
            format,
            columns: Columns::OfKind(kind),
            also: &[],
            limits: Limits::default(),
        }
    }
}

/// The rows of a file, in its order. After an error of the file's form there are no more; after one of a row's content
/// (`SuiteError` with a `line`) the rest may still be read, so that all faults can be told at once.
pub struct SuiteRows {
    source: Box<dyn RowSource + Send>,
    items: u64,
    limits: Limits,
    ended: bool,
}

/// The items of a file in one format, one after the other.
trait RowSource {
    /// Moves to the next item; `false` at the end.
    fn advance(&mut self) -> Result<bool, SuiteError>;

    /// The line of the item, and its text as far as it is JSON or has JSON in it.
    fn item(&self) -> (u64, &[u8]);

    /// The fields of the item.
    fn fields(&mut self) -> Result<Map<String, Value>, SuiteError>;
}

/// Opens a file, from its beginning, and reads its header if it is a table.
///
/// # Errors
/// A file that is larger than it may be, is no file of its format, or whose header has a column that nobody knows.
pub fn read<R: Read + Seek + Send + 'static>(
    source: R,
    reading: &ReadOptions<'_>,
) -> Result<SuiteRows, SuiteError> {
    Ok(SuiteRows {
        source: open(source, reading)?,
        items: 0,
        limits: reading.limits,
        ended: false,
    })
}

fn open<R: Read + Seek + Send + 'static>(
    mut source: R,
    reading: &ReadOptions<'_>,
) -> Result<Box<dyn RowSource + Send>, SuiteError> {
    let limits = reading.limits;
    check_size(&mut source, limits.file_bytes)?;
    Ok(match reading.format {
        Format::Json => Box::new(json::Items::open(source, limits)?),
        Format::Jsonl => Box::new(jsonl::Lines::open(source, limits)),
        Format::Csv => Box::new(csv::Records::open(source, reading)?),
        Format::Xlsx => Box::new(xlsx::Sheet::open(source, reading)?),
    })
}

/// What a JSON object holds beside its list of items.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Envelope {
    /// Its other fields, each at most 64 KiB.
    pub fields: Map<String, Value>,
    /// The name of the list's field; `None`: the file is a bare list.
    pub list: Option<String>,
}

/// Reads what a JSON file holds beside its items, wherever it stands. Costs a walk through the file; the items are not kept.
pub fn envelope<R: Read + Seek>(mut source: R, limits: Limits) -> Result<Envelope, SuiteError> {
    check_size(&mut source, limits.file_bytes)?;
    json::Items::open(source, limits)?.into_envelope()
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

impl SuiteRows {
    fn row(&mut self) -> Result<Option<SuiteRow>, SuiteError> {
        if !self.source.advance()? {
            return Ok(None);
        }
        let (max, item_no) = (self.limits.items, self.items);
        if item_no == max {
            let fault = format!("the file has more than {max} items: split it");
            return Err(SuiteError::whole(fault));
        }
        self.items += 1;
        // An error from here on is one of this row.
        self.ended = false;
        Ok(Some(SuiteRow {
            item_no,
            line: self.source.item().0,
            fields: self.source.fields()?,
        }))
    }
}

impl Iterator for SuiteRows {
    type Item = Result<SuiteRow, SuiteError>;

    fn next(&mut self) -> Option<Self::Item> {
        // Until a row is found.
        if std::mem::replace(&mut self.ended, true) {
            return None;
        }
        self.row().transpose()
    }
}

/// About how many bytes of memory reading a file takes: that of its heaviest item, as far as the file can be read, and of a workbook that
/// of its shared texts.
///
/// # Errors
/// Those of [`read`] that an opened file has.
pub fn weight<R: Read + Seek + Send + 'static>(
    mut source: R,
    reading: &ReadOptions<'_>,
) -> Result<u64, SuiteError> {
    let limits = reading.limits;
    let (mut item, mut beside) = (0, 0);
    if reading.format == Format::Xlsx {
        check_size(&mut source, limits.file_bytes)?;
        (item, beside) = zip::check(&mut source, limits)?;
    } else {
        let mut items = open(source, reading)?;
        while let Ok(true) = items.advance() {
            item = item.max(JsonShape::of_any(items.item().1).weight());
        }
    }
    // Items that weigh more are refused before they are read.
    Ok(item.min(limits.item_weight) + CHUNKS_BYTES.min(8 * item) + beside)
}

fn unreadable(error: std::io::Error) -> SuiteError {
    SuiteError::whole(format!("the file can't be read: {error}"))
}

fn too_large(line: u64, limits: Limits) -> SuiteError {
    let max = limits.item_bytes;
    SuiteError::row(line, format!("the item has more than {max} bytes"))
}

/// Reads the bytes of one JSON value, whose nesting and whose values are counted before anything sees it that takes stack or memory.
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
                let message = format!("is not JSON: {}", words::json_fault(&message));
                fault(String::new(), message, false)
            }
            (JsonError::Syntax(_), Some(encoding)) => {
                let message = format!("is {encoding}: save the file as UTF-8");
                fault(String::new(), message, false)
            }
        }
    })
}

/// Why bytes weren't read as JSON.
struct ParseFault {
    /// Where in the value; empty: as a whole.
    pointer: String,
    message: String,
    /// Whether they are JSON, and can't be taken.
    is_json: bool,
}

/// What bytes seem to be written in that are no UTF-8; `None`: they are, and it is something else that is wrong.
fn encoding(bytes: &[u8]) -> Option<&'static str> {
    // Texts in UTF-16 are half zeros as long as they are in Latin letters, and JSON's signs are.
    let utf_16 = bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff");
    if utf_16 || bytes.contains(&0) {
        return Some("UTF-16, not UTF-8");
    }
    std::str::from_utf8(bytes)
        .is_err()
        .then_some("not UTF-8 (perhaps Latin-1 or Windows-1252)")
}

fn object(bytes: &[u8], line: u64, limits: Limits) -> Result<Map<String, Value>, SuiteError> {
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

/// A source that can't be read any more once nobody waits for it: reading takes processor time, and goes on without its client otherwise.
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
            true => Err(std::io::Error::other("nobody waits for it any more")),
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
