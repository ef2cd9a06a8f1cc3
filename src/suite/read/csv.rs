//! CSV: a header line, then records. The delimiter is a comma, semicolon or tab, named or used in the first line. Empty lines, and records
//! with empty cells only, are skipped.

use std::io::{BufRead as _, BufReader, Chain, Cursor, Read};

use serde_json::{Map, Value};

use super::table::{Cell, Header};
use super::{Limits, ReadOptions, RowSource, encoding, too_large, unreadable};
use crate::suite::SuiteError;

/// Possible delimiters; on a tie, the last wins.
const DELIMITERS: [u8; 3] = [b'\t', b';', b','];

pub(super) struct Records<R> {
    input: RecordReader<BufReader<Chain<Cursor<Vec<u8>>, R>>>,
    header: Header,
}

struct RecordReader<R> {
    input: R,
    delimiter: u8,
    limits: Limits,
    /// Concatenated cells of the last record, and the end of each.
    text: Vec<u8>,
    ends: Vec<usize>,
    /// Row of the last record, as a spreadsheet counts it, with empty lines.
    row: u64,
    /// Number of rows read.
    rows: u64,
    /// Whether the last byte was a carriage return, so that a line feed after it ends no other line.
    after_return: bool,
}

/// Parser state within a cell.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Begin,
    Bare,
    Quoted,
    /// After a quote within quotes: the closing one, or the first of two.
    Closing,
    /// After a closing quote in a cell that continues.
    Stray,
}

impl<R: std::io::BufRead> RecordReader<R> {
    fn new(input: R, delimiter: u8, limits: Limits) -> Self {
        Self {
            input,
            delimiter,
            limits,
            text: Vec::new(),
            ends: Vec::new(),
            row: 1,
            rows: 0,
            after_return: false,
        }
    }

    /// Reads the next record that isn't an empty line; returns `false` at the end.
    fn next(&mut self) -> Result<bool, SuiteError> {
        self.text.clear();
        self.ends.clear();
        let (mut place, mut bytes) = (Place::Begin, 0);
        while let Some(byte) = self.input.by_ref().bytes().next() {
            let byte = byte.map_err(unreadable)?;
            self.row = self.rows + 1;
            let is_second = self.after_return && byte == b'\n';
            self.after_return = byte == b'\r';
            let next = self.see(place, byte);
            self.rows += u64::from(next.is_none() && !is_second);
            match next {
                Some(Place::Stray) => return Err(SuiteError::row(self.row, STRAY)),
                Some(next) => (place, bytes) = (next, bytes + 1),
                None if bytes == 0 => {}
                None => {
                    self.ends.push(self.text.len());
                    return Ok(true);
                }
            }
            if bytes > self.limits.item_bytes {
                let mut fault = too_large(self.row, self.limits);
                fault.message.push_str("; is a quote not closed?");
                return Err(fault);
            }
        }
        match place {
            Place::Quoted => Err(SuiteError::row(self.row, UNCLOSED)),
            Place::Begin if self.ends.is_empty() => Ok(false),
            Place::Begin | Place::Bare | Place::Closing | Place::Stray => {
                self.ends.push(self.text.len());
                Ok(true)
            }
        }
    }

    /// Handles a byte of a record; `None`: it ends the record.
    fn see(&mut self, place: Place, byte: u8) -> Option<Place> {
        let next = match (place, byte) {
            (Place::Begin, b'"') => return Some(Place::Quoted),
            (Place::Quoted, b'"') => return Some(Place::Closing),
            (Place::Closing, b'"') => Place::Quoted,
            (Place::Quoted, _) => place,
            (Place::Begin | Place::Bare | Place::Closing, b'\r' | b'\n') => return None,
            (Place::Begin | Place::Bare | Place::Closing, _) if byte == self.delimiter => {
                self.ends.push(self.text.len());
                return Some(Place::Begin);
            }
            (Place::Closing, byte) if byte != b' ' => return Some(Place::Stray),
            (Place::Begin | Place::Bare | Place::Closing, _) => Place::Bare,
            (Place::Stray, _) => place,
        };
        self.text.push(byte);
        Some(next)
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

impl<R: Read> Records<R> {
    pub(super) fn open(mut source: R, reading: &ReadOptions<'_>) -> Result<Self, SuiteError> {
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
        let mut is_there = input.next()?;
        let first: Vec<&[u8]> = input.cells().collect();
        if named_delimiter(&first.join(&delimiter)).is_some() {
            is_there = input.next()?;
        }
        if !is_there {
            return Err(SuiteError::whole("the file is empty"));
        }
        if let Some(found) = encoding(&input.text) {
            let fault = format!("is {found}: save the file as CSV UTF-8");
            return Err(SuiteError::row(input.row, fault));
        }
        let names = input
            .cells()
            .map(|name| Some(String::from_utf8_lossy(name).into_owned()));
        let names: Vec<Option<String>> = names.collect();
        if let [Some(name)] = names.as_slice()
            && name.contains('|')
        {
            let fault = "has its cells separated by |: separate them by commas, semicolons or tabs, or put a line `sep=|` before the header";
            return Err(SuiteError::row(input.row, fault));
        }
        let header = Header::read(&names, input.row, reading)?;
        Ok(Self { input, header })
    }
}

impl<R: Read> RowSource for Records<R> {
    fn advance(&mut self) -> Result<bool, SuiteError> {
        while self.input.next()? {
            if !self.input.text.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn item(&self) -> (u64, &[u8]) {
        (self.input.row, &self.input.text)
    }

    fn fields(&mut self) -> Result<Map<String, Value>, SuiteError> {
        let line = self.input.row;
        let (cells, columns) = (self.input.ends.len(), self.header.len());
        if cells != columns {
            return Err(SuiteError::row(
                line,
                format!(
                    "has {cells} cells where the header has {columns}: a comma, a quote or a line break within a cell \
                     needs quotes around the cell"
                ),
            ));
        }
        let texts = self.input.cells().map(std::str::from_utf8);
        let cells = texts.enumerate().map(|(place, text)| {
            let text = text.map(|text| Cell::Text(text.to_owned()));
            (
                place,
                text.unwrap_or_else(|_| Cell::Fault(NOT_UTF8.to_owned())),
            )
        });
        self.header.fields(line, cells)
    }
}

const STRAY: &str = "has text behind a closing quote: double each quote within a cell";
const UNCLOSED: &str = "has an unclosed quote, so the rest of the file is one cell: close it, or double a quote within a cell";
const NOT_UTF8: &str = "is not UTF-8: save the file as CSV UTF-8";
