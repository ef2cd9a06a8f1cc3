//! CSV: a header line, then records; read one after the other, each bounded before it is in memory.

use std::io::{self, Read};

use csv::{ByteRecord, Reader, ReaderBuilder};
use serde_json::Map;

use super::table::{Cell, Header};
use super::{Limits, Reading, too_large, too_many, unreadable};
use crate::suite::{Row, SuiteError};

/// How far the reader reads ahead, bytes.
const AHEAD: usize = 64 << 10;

/// The records of a CSV file.
pub(super) struct Records<R> {
    input: Reader<Bounded<R>>,
    limits: Limits,
    header: Header,
    record: ByteRecord,
    item_no: u64,
    ended: bool,
}

/// Breaks off when one record takes more bytes than it may: a quote that is never closed would take the whole file.
struct Bounded<R> {
    source: R,
    left: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let read = self.source.read(buffer)?;
        self.left = self.left.saturating_sub(read as u64);
        Ok(read)
    }
}

impl<R: Read> Records<R> {
    pub(super) fn open(source: R, reading: &Reading<'_>) -> Result<Self, SuiteError> {
        let limits = reading.limits;
        let bounded = Bounded {
            source,
            left: limits.item_bytes + AHEAD as u64,
        };
        let mut input = ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .buffer_capacity(AHEAD)
            .from_reader(bounded);
        let mut record = ByteRecord::new();
        let there = input
            .read_byte_record(&mut record)
            .map_err(|error| fault(error, 1, limits))?;
        if !there {
            return Err(SuiteError::whole("the file is empty"));
        }
        let line = line_of(&record);
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

    pub(super) fn next(&mut self) -> Option<Result<Row, SuiteError>> {
        if self.ended {
            return None;
        }
        self.input.get_mut().left = self.limits.item_bytes + AHEAD as u64;
        let at = self.input.position().line();
        match self.input.read_byte_record(&mut self.record) {
            Ok(true) => {}
            Ok(false) => {
                self.ended = true;
                return None;
            }
            Err(error) => {
                self.ended = true;
                return Some(Err(fault(error, at, self.limits)));
            }
        }
        let item_no = self.item_no;
        if item_no >= self.limits.items {
            self.ended = true;
            return Some(Err(too_many(self.limits)));
        }
        self.item_no += 1;
        Some(self.row(item_no))
    }

    fn row(&self, item_no: u64) -> Result<Row, SuiteError> {
        let line = line_of(&self.record);
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
        Ok(Row {
            item_no,
            line,
            fields,
        })
    }
}

const NOT_UTF8: &str = "is not UTF-8: save the file as CSV UTF-8";

fn line_of(record: &ByteRecord) -> u64 {
    record.position().map_or(1, csv::Position::line)
}

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
