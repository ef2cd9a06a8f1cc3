//! JSONL: one object per line; empty lines are skipped.

use std::io::{BufRead as _, BufReader, Read};

use serde_json::{Map, Value};

use super::{Limits, RowSource, object, too_large, unreadable};
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
}

impl<R: Read> RowSource for Lines<R> {
    fn advance(&mut self) -> Result<bool, SuiteError> {
        loop {
            self.buffer.clear();
            let mut bounded = (&mut self.input).take(self.limits.item_bytes + 2);
            let read = bounded
                .read_until(b'\n', &mut self.buffer)
                .map_err(unreadable)?;
            if read == 0 && self.is_empty {
                return Err(SuiteError::whole("the file is empty"));
            }
            if read == 0 {
                return Ok(false);
            }
            self.line += 1;
            if self.line == 1 && self.buffer.starts_with(b"\xef\xbb\xbf") {
                self.buffer.drain(..3);
            }
            let length = self.buffer.trim_ascii().len() as u64;
            if length > self.limits.item_bytes {
                return Err(too_large(self.line, self.limits));
            }
            if length > 0 {
                self.is_empty = false;
                return Ok(true);
            }
        }
    }

    fn item(&self) -> (u64, &[u8]) {
        (self.line, self.buffer.trim_ascii())
    }

    fn fields(&mut self) -> Result<Map<String, Value>, SuiteError> {
        object(self.buffer.trim_ascii(), self.line, self.limits)
    }
}
