//! JSONL: one object per line; empty lines are skipped.

use std::io::{BufRead as _, BufReader, Read};

use super::{ItemVisitor, Limits, Stop, object, too_large, unreadable};
use crate::suite::SuiteError;

pub(super) fn read(
    source: impl Read,
    limits: Limits,
    visit: &mut ItemVisitor<'_>,
) -> Result<(), Stop> {
    let mut input = BufReader::with_capacity(64 << 10, source);
    let (mut buffer, mut line, mut is_empty) = (Vec::new(), 0, true);
    loop {
        buffer.clear();
        let mut bounded = (&mut input).take(limits.item_bytes + 2);
        let read = bounded.read_until(b'\n', &mut buffer);
        if read.map_err(unreadable)? == 0 {
            break;
        }
        line += 1;
        let text = buffer.as_slice();
        let text = match text.strip_prefix(b"\xef\xbb\xbf") {
            Some(text) if line == 1 => text.trim_ascii(),
            Some(_) | None => text.trim_ascii(),
        };
        if text.len() as u64 > limits.item_bytes {
            return Err(too_large(line, limits).into());
        }
        if !text.is_empty() {
            is_empty = false;
            visit(line, text, &mut || object(text, line, limits))?;
        }
    }
    match is_empty {
        true => Err(SuiteError::whole("the file is empty").into()),
        false => Ok(()),
    }
}
