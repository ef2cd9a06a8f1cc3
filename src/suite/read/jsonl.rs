//! JSONL: one object a line, read line by line; empty lines are skipped.

use std::io::{BufRead as _, BufReader, Read};

use super::{Limits, SourceRow, object, too_large, unreadable};
use crate::memory::JsonShape;
use crate::suite::SuiteError;

pub(super) struct Lines<R> {
    input: BufReader<R>,
    limits: Limits,
    buffer: Vec<u8>,
    line: u64,
    is_empty: bool,
}

impl<R: Read> Lines<R> {
    pub(super) fn open(source: R, limits: Limits) -> Self {
        Self {
            input: BufReader::with_capacity(64 << 10, source),
            limits,
            buffer: Vec::new(),
            line: 0,
            is_empty: true,
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

    pub(super) fn next(&mut self) -> Result<Option<SourceRow>, SuiteError> {
        if !self.line()? {
            return match self.is_empty {
                true => Err(SuiteError::whole("the file is empty")),
                false => Ok(None),
            };
        }
        self.is_empty = false;
        Ok(Some(SourceRow {
            line: self.line,
            fields: object(self.buffer.trim_ascii(), self.line, self.limits),
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
