//! CSV: a header line, then records. The delimiter is a comma, semicolon or tab, named or used in the first line. Empty lines, and records
//! with empty cells only, are skipped.

use std::io::{BufRead, BufReader, Cursor, Read};

use super::table::{Cell, Header};
use super::{Fields, ItemVisitor, Limits, ReadOptions, Stop, encoding, too_large, unreadable};
use crate::suite::SuiteError;

/// Possible delimiters; on a tie, the last wins.
const DELIMITERS: [u8; 3] = [b'\t', b';', b','];

/// Parser of records. Not that of the crate `csv`, which reads a broken quote without an error and a record without a limit.
struct RecordReader<R> {
    input: R,
    delimiter: u8,
    limits: Limits,
    /// Concatenated cells of the last record, and the end of each.
    text: Vec<u8>,
    ends: Vec<usize>,
    /// Number of the last record, as a spreadsheet counts rows: from 1, with empty lines.
    row: u64,
}

/// Parser state within a cell.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Begin,
    Bare,
    Quoted,
    /// After a quote within quotes: the closing one, or the first of two.
    Closing,
}

impl<R: BufRead> RecordReader<R> {
    fn new(input: R, delimiter: u8, limits: Limits) -> Self {
        Self {
            input,
            delimiter,
            limits,
            text: Vec::new(),
            ends: Vec::new(),
            row: 0,
        }
    }

    fn byte(&mut self) -> Result<Option<u8>, SuiteError> {
        let byte = self.input.fill_buf().map_err(unreadable)?.first().copied();
        self.input.consume(usize::from(byte.is_some()));
        Ok(byte)
    }

    /// Reads the next record that isn't an empty line; returns `false` at the end.
    fn next(&mut self) -> Result<bool, SuiteError> {
        self.text.clear();
        self.ends.clear();
        let (mut place, mut bytes) = (Place::Begin, 0);
        self.row += 1;
        while let Some(byte) = self.byte()? {
            place = match (place, byte) {
                (Place::Begin, b'"') => Place::Quoted,
                (Place::Quoted, b'"') => Place::Closing,
                (Place::Quoted, _) | (Place::Closing, b'"') => {
                    self.text.push(byte);
                    Place::Quoted
                }
                (_, b'\r' | b'\n') => {
                    let next = self.input.fill_buf().map_err(unreadable)?.first();
                    let is_pair = byte == b'\r' && next == Some(&b'\n');
                    self.input.consume(usize::from(is_pair));
                    if bytes == 0 {
                        self.row += 1;
                        continue;
                    }
                    self.ends.push(self.text.len());
                    return Ok(true);
                }
                (_, _) if byte == self.delimiter => {
                    self.ends.push(self.text.len());
                    Place::Begin
                }
                (Place::Closing, _) if byte != b' ' => {
                    return Err(SuiteError::row(self.row, STRAY));
                }
                (_, _) => {
                    self.text.push(byte);
                    Place::Bare
                }
            };
            bytes += 1;
            if bytes > self.limits.item_bytes {
                let mut fault = too_large(self.row, self.limits);
                fault.message.push_str("; is a quote not closed?");
                return Err(fault);
            }
        }
        if place == Place::Quoted {
            return Err(SuiteError::row(self.row, UNCLOSED));
        }
        if bytes > 0 {
            self.ends.push(self.text.len());
        }
        Ok(bytes > 0)
    }

    fn cells(&self) -> impl Iterator<Item = &[u8]> {
        let begins = std::iter::once(0).chain(self.ends.iter().copied());
        let cells = begins.zip(&self.ends);
        cells.map(|(begin, end)| self.text.get(begin..*end).unwrap_or_default())
    }
}

/// Returns the delimiter: named by Excel's line `sep=;`, otherwise the delimiter with most columns in the header.
fn delimiter(head: &[u8], limits: Limits) -> u8 {
    let line = head
        .trim_ascii_start()
        .split(|byte| matches!(byte, b'\r' | b'\n'))
        .next();
    if let Some(said) = named_delimiter(line.unwrap_or_default()) {
        return said;
    }
    let cells = |delimiter: &u8| {
        let mut record = RecordReader::new(head, *delimiter, limits);
        record.next().map_or(0, |_| record.ends.len())
    };
    DELIMITERS.into_iter().max_by_key(cells).unwrap_or(b',')
}

/// Returns the delimiter named by the first line, which then isn't the header.
fn named_delimiter(line: &[u8]) -> Option<u8> {
    let bare = line
        .strip_prefix(b"\"")
        .and_then(|line| line.strip_suffix(b"\""));
    match bare.unwrap_or(line) {
        [b's' | b'S', b'e' | b'E', b'p' | b'P', b'=', delimiter] => Some(*delimiter),
        _ => None,
    }
}

pub(super) fn read(
    mut source: impl Read,
    reading: &ReadOptions<'_>,
    visit: &mut ItemVisitor<'_>,
) -> Result<(), Stop> {
    let limits = reading.limits;
    // The first line that isn't empty, and the bytes read ahead of it.
    let mut head = Vec::new();
    let mut input = BufReader::with_capacity(64 << 10, &mut source).take(limits.item_bytes);
    while head.trim_ascii().is_empty() {
        if input.read_until(b'\n', &mut head).map_err(unreadable)? == 0 {
            break;
        }
    }
    head.extend_from_slice(input.into_inner().buffer());
    if head.starts_with(b"\xef\xbb\xbf") {
        head.drain(..3);
    }
    let delimiter = delimiter(&head, limits);
    let input = BufReader::with_capacity(64 << 10, Cursor::new(head).chain(source));
    let mut input = RecordReader::new(input, delimiter, limits);
    let header = input.header(reading)?;
    while input.next()? {
        if !input.text.is_empty() {
            visit(input.row, &input.text, &mut || input.fields(&header))?;
        }
    }
    Ok(())
}

impl<R: BufRead> RecordReader<R> {
    fn header(&mut self, reading: &ReadOptions<'_>) -> Result<Header, SuiteError> {
        let mut is_there = self.next()?;
        let first: Vec<&[u8]> = self.cells().collect();
        if named_delimiter(&first.join(&self.delimiter)).is_some() {
            is_there = self.next()?;
        }
        if !is_there {
            return Err(SuiteError::whole("the file is empty"));
        }
        if let Some(found) = encoding(&self.text) {
            let fault = format!("is {found}: save the file as CSV UTF-8");
            return Err(SuiteError::row(self.row, fault));
        }
        let names = self.cells().map(String::from_utf8_lossy);
        let names: Vec<Option<String>> = names.map(|name| Some(name.into_owned())).collect();
        if let [Some(name)] = names.as_slice()
            && name.contains('|')
        {
            let fault = "has its cells separated by |: separate them by commas, semicolons or tabs, or put a line `sep=|` before the header";
            return Err(SuiteError::row(self.row, fault));
        }
        Header::read(&names, self.row, reading)
    }

    fn fields(&self, header: &Header) -> Fields {
        let (cells, columns) = (self.ends.len(), header.len());
        if cells != columns {
            return Err(SuiteError::row(
                self.row,
                format!(
                    "has {cells} cells where the header has {columns}: a comma, a quote or a line break within a cell \
                     needs quotes around the cell"
                ),
            ));
        }
        let cells = self.cells().map(|text| match std::str::from_utf8(text) {
            Ok(text) => Cell::Text(text.to_owned()),
            Err(_) => Cell::Fault(NOT_UTF8.to_owned()),
        });
        header.fields(self.row, cells.enumerate())
    }
}

const STRAY: &str = "has text behind a closing quote: double each quote within a cell";
const UNCLOSED: &str = "has an unclosed quote, so the rest of the file is one cell: close it, or double a quote within a cell";
const NOT_UTF8: &str = "is not UTF-8: save the file as CSV UTF-8";
