//! JSONL: one object a line, read line by line; empty lines are skipped.

use std::io::{BufRead as _, BufReader, Read};

use super::{Limits, object, too_large, too_many, unreadable};
use crate::memory::JsonShape;
use crate::suite::{SuiteError, SuiteRow};

pub(super) struct Lines<R> {
    input: BufReader<R>,
    limits: Limits,
    buffer: Vec<u8>,
    item_no: u64,
    line: u64,
    ended: bool,
}

impl<R: Read> Lines<R> {
    pub(super) fn open(source: R, limits: Limits) -> Self {
        Self {
            input: BufReader::with_capacity(64 << 10, source),
            limits,
            buffer: Vec::new(),
            item_no: 0,
            line: 0,
            ended: false,
        }
    }

    /// What its heaviest line weighs, up to the first that can't be read.
    pub(super) fn heaviest(mut self) -> u64 {
        let mut most = 0;
        while let Ok(true) = self.line() {
            most = most.max(JsonShape::of_any(&self.buffer).weight());
        }
        most
    }

    pub(super) fn next(&mut self) -> Option<Result<SuiteRow, SuiteError>> {
        if self.ended {
            return None;
        }
        match self.line() {
            Ok(true) => {}
            Ok(false) => {
                self.ended = true;
                let is_empty = self.item_no == 0;
                return is_empty.then(|| Err(SuiteError::whole("the file is empty")));
            }
            Err(error) => {
                self.ended = true;
                return Some(Err(error));
            }
        }
        let item_no = self.item_no;
        if item_no >= self.limits.items {
            self.ended = true;
            return Some(Err(too_many(self.limits)));
        }
        self.item_no += 1;
        let fields = object(self.buffer.trim_ascii(), self.line, self.limits);
        Some(fields.map(|fields| SuiteRow {
            item_no,
            line: self.line,
            fields,
        }))
    }

    /// Reads up to the next line that holds something; `false` at the end.
    fn line(&mut self) -> Result<bool, SuiteError> {
        loop {
            self.buffer.clear();
            let mut bounded = (&mut self.input).take(self.limits.item_bytes + 2);
            let read = bounded
                .read_until(b'\n', &mut self.buffer)
                .map_err(unreadable)?;
            if read == 0 {
                return Ok(false);
            }
            self.line += 1;
            if self.line == 1 && self.buffer.starts_with(b"\xef\xbb\xbf") {
                self.buffer.drain(..3);
            }
            if self.buffer.trim_ascii().len() as u64 > self.limits.item_bytes {
                return Err(too_large(self.line, self.limits));
            }
            if !self.buffer.trim_ascii().is_empty() {
                return Ok(true);
            }
        }
    }
}
