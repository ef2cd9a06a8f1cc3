//! CSV: a header line, then records; read one after the other, each bounded before it is in memory. Empty lines, and records
//! whose cells are all empty, are skipped.

use std::collections::VecDeque;
use std::io::{self, Read};

use csv::{ByteRecord, Reader, ReaderBuilder};
use serde_json::Map;

use super::table::{Cell, Header};
use super::{Limits, ReadOptions, too_large, too_many, unreadable};
use crate::memory::JsonShape;
use crate::suite::{SuiteError, SuiteRow};

/// How far the reader reads ahead, bytes.
const BUFFER: usize = 64 << 10;

pub(super) struct Records<R> {
    input: Reader<Bounded<R>>,
    limits: Limits,
    header: Header,
    record: ByteRecord,
    item_no: u64,
    ended: bool,
}

/// Breaks off when one record takes more bytes than it may: a quote that is never closed would take the whole file. Knows
/// on which line a record begins, which the reader of records doesn't: it counts neither the second half of a CRLF nor empty
/// lines before the record.
struct Bounded<R> {
    source: R,
    left: u64,
    /// Where the record that is being read begins, or white space before it.
    from: u64,
    offset: u64,
    line: u64,
    /// Whether that was a carriage return, a line feed, or neither.
    last: Option<u8>,
    /// Whether a cell in quotes is being read, and on which line it began.
    quoting: Quoting,
    ended: bool,
    /// Where lines begin that hold something, and which they are: from the record's own to what is read ahead.
    starts: VecDeque<(u64, u64)>,
}

/// Where in a cell the text is that was read ahead.
#[derive(Clone, Copy)]
enum Quoting {
    /// A cell begins.
    Begins,
    Bare,
    Quoted {
        line: u64,
    },
    /// Behind a quote within quotes: it closes them, or is the first of two.
    Closes {
        line: u64,
    },
}

impl Quoting {
    fn after(self, byte: u8, line: u64) -> Self {
        match (self, byte) {
            (Self::Begins, b'"') => Self::Quoted { line },
            (Self::Quoted { line }, b'"') => Self::Closes { line },
            (Self::Closes { line }, b'"') => Self::Quoted { line },
            (Self::Quoted { .. }, _) => self,
            (Self::Begins | Self::Bare | Self::Closes { .. }, b',' | b'\r' | b'\n') => Self::Begins,
            (Self::Begins | Self::Bare | Self::Closes { .. }, _) => Self::Bare,
        }
    }
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let read = self.source.read(buffer)?;
        self.left = self.left.saturating_sub(read as u64);
        self.ended = read == 0;
        // All that was read before is the record's: its later lines are within a cell.
        self.forget_before();
        self.starts.truncate(1);
        for byte in buffer.get(..read).unwrap_or_default() {
            self.see(*byte);
        }
        Ok(read)
    }
}

impl<R> Bounded<R> {
    fn new(source: R, limits: Limits) -> Self {
        Self {
            source,
            left: limits.item_bytes + BUFFER as u64,
            from: 0,
            offset: 0,
            line: 1,
            last: Some(b'\n'),
            quoting: Quoting::Begins,
            ended: false,
            starts: VecDeque::new(),
        }
    }

    /// A record begins at `from`, or behind line ends there.
    fn begin(&mut self, from: u64, limits: Limits) {
        self.from = from;
        self.left = limits.item_bytes + BUFFER as u64;
    }

    /// The line of the quote that is never closed, once all before `read` is in records.
    fn unclosed(&self, read: u64) -> Option<u64> {
        match self.quoting {
            Quoting::Quoted { line } if self.ended && read >= self.offset => Some(line),
            Quoting::Quoted { .. } | Quoting::Begins | Quoting::Bare | Quoting::Closes { .. } => {
                None
            }
        }
    }

    fn see(&mut self, byte: u8) {
        self.quoting = self.quoting.after(byte, self.line);
        match (byte, self.last) {
            (b'\n', Some(b'\r')) => self.last = Some(b'\n'),
            (b'\r' | b'\n', _) => {
                self.line += 1;
                self.last = Some(byte);
            }
            (_, Some(_)) => {
                self.starts.push_back((self.offset, self.line));
                self.last = None;
            }
            (_, None) => {}
        }
        self.offset += 1;
    }

    fn forget_before(&mut self) {
        while self.starts.front().is_some_and(|(at, _)| *at < self.from) {
            self.starts.pop_front();
        }
    }

    fn line(&mut self) -> u64 {
        self.forget_before();
        self.starts.front().map_or(self.line, |(_, line)| *line)
    }
}

impl<R: Read> Records<R> {
    pub(super) fn open(source: R, reading: &ReadOptions<'_>) -> Result<Self, SuiteError> {
        let limits = reading.limits;
        let mut input = ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .buffer_capacity(BUFFER)
            .from_reader(Bounded::new(source, limits));
        let mut record = ByteRecord::new();
        let there = input
            .read_byte_record(&mut record)
            .map_err(|error| fault(error, 1, limits))?;
        if !there {
            return Err(SuiteError::whole("the file is empty"));
        }
        let line = input.get_mut().line();
        let names: Vec<Option<String>> = record
            .iter()
            .map(|name| {
                std::str::from_utf8(name)
                    .map(|name| Some(name.to_owned()))
                    .map_err(|_| SuiteError::row(line, NOT_UTF8))
            })
            .collect::<Result<_, _>>()?;
        let header = Header::read(&names, line, reading)?;
        Ok(Self {
            input,
            limits,
            header,
            record,
            item_no: 0,
            ended: false,
        })
    }

    /// What its heaviest record weighs, up to the first that can't be read.
    pub(super) fn heaviest(mut self) -> u64 {
        let mut most = 0;
        loop {
            let from = self.input.position().byte();
            self.input.get_mut().begin(from, self.limits);
            if !matches!(self.input.read_byte_record(&mut self.record), Ok(true)) {
                return most;
            }
            most = most.max(JsonShape::of_any(self.record.as_slice()).weight());
        }
    }

    pub(super) fn next(&mut self) -> Option<Result<SuiteRow, SuiteError>> {
        if self.ended {
            return None;
        }
        loop {
            let from = self.input.position().byte();
            self.input.get_mut().begin(from, self.limits);
            let read = self.input.read_byte_record(&mut self.record);
            let line = self.input.get_mut().line();
            let read_to = self.input.position().byte();
            if let Some(line) = self.input.get_ref().unclosed(read_to) {
                self.ended = true;
                return Some(Err(SuiteError::row(line, UNCLOSED)));
            }
            match read {
                Ok(true) if self.record.iter().all(<[u8]>::is_empty) => {}
                Ok(true) => return Some(self.item(line)),
                Ok(false) => {
                    self.ended = true;
                    return None;
                }
                Err(error) => {
                    self.ended = true;
                    return Some(Err(fault(error, line, self.limits)));
                }
            }
        }
    }

    fn item(&mut self, line: u64) -> Result<SuiteRow, SuiteError> {
        let item_no = self.item_no;
        if item_no >= self.limits.items {
            self.ended = true;
            return Err(too_many(self.limits));
        }
        self.item_no += 1;
        self.row(item_no, line)
    }

    fn row(&self, item_no: u64, line: u64) -> Result<SuiteRow, SuiteError> {
        if self.record.as_slice().len() as u64 > self.limits.item_bytes {
            return Err(too_large(line, self.limits));
        }
        let (cells, columns) = (self.record.len(), self.header.len());
        if cells != columns {
            return Err(SuiteError::row(
                line,
                format!(
                    "has {cells} cells where the header has {columns}: a comma, a quote or a line break within a cell \
                     needs quotes around the cell"
                ),
            ));
        }
        let mut fields = Map::new();
        for (place, cell) in self.record.iter().enumerate() {
            let text = std::str::from_utf8(cell)
                .map_err(|_| SuiteError::cell(line, self.header.name(place), NOT_UTF8))?;
            let cell = Cell::Text(text.to_owned());
            self.header.put(&mut fields, (line, place), cell)?;
        }
        self.header.fill(&mut fields);
        Ok(SuiteRow {
            item_no,
            line,
            fields,
        })
    }
}

const UNCLOSED: &str = "has a quote that is never closed, so that all behind it is in one cell: close it, or double a quote within a cell";
const NOT_UTF8: &str = "is not UTF-8: save the file as CSV UTF-8";

fn fault(error: csv::Error, line: u64, limits: Limits) -> SuiteError {
    let said = error.to_string();
    let csv::ErrorKind::Io(error) = error.into_kind() else {
        return SuiteError::row(line, format!("is not CSV: {said}"));
    };
    if error.kind() != io::ErrorKind::FileTooLarge {
        return unreadable(error);
    }
    let mut fault = too_large(line, limits);
    fault.message.push_str("; is a quote not closed?");
    fault
}
