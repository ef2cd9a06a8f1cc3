//! What an XLSX file would be when it is inflated, before anything reads it: a small file may hold gigabytes, and a count in
//! it may ask for more memory than there is.
//!
//! Takes archives of the plain form alone (one directory at the very end, no comment, no ZIP64), so that every reader finds
//! the same parts in it.

use std::io::{BufReader, Read, Seek, SeekFrom};

use flate2::read::DeflateDecoder;

use super::unreadable;
use crate::suite::SuiteError;

/// The length of the record at the end.
const END: u64 = 22;
/// The most parts of an archive.
const PARTS: u16 = 10_000;
/// The largest count of shared texts that is believed.
const TEXTS: u64 = 10_000_000;

/// Checks that all parts together inflate to at most `max` bytes.
///
/// # Errors
/// A file that is no plain archive, or inflates to more.
pub(super) fn check<R: Read + Seek>(source: &mut R, max: u64) -> Result<(), SuiteError> {
    let size = source.seek(SeekFrom::End(0)).map_err(unreadable)?;
    let Some(end_at) = size.checked_sub(END) else {
        return Err(not_xlsx());
    };
    let end = bytes(source, end_at, END)?;
    let (parts, length, start) = (u16_at(&end, 10), u32_at(&end, 12), u32_at(&end, 16));
    let plain = end.starts_with(b"PK\x05\x06") && u16_at(&end, 20) == 0 && parts <= PARTS;
    if !plain || u64::from(start) + u64::from(length) != end_at {
        return Err(not_xlsx());
    }
    let directory = bytes(source, u64::from(start), u64::from(length))?;
    let large = directory
        .len()
        .checked_sub(20)
        .and_then(|at| directory.get(at..at + 4));
    if large == Some(b"PK\x06\x07") {
        return Err(not_xlsx());
    }
    let (mut rest, mut left) = (directory.as_slice(), max);
    for _ in 0..parts {
        if !rest.starts_with(b"PK\x01\x02") {
            return Err(not_xlsx());
        }
        let part = Part {
            method: u16_at(rest, 10),
            packed: u32_at(rest, 20),
            at: u32_at(rest, 42),
        };
        let names = [28, 30, 32].map(|at| usize::from(u16_at(rest, at)));
        rest = rest
            .get(46 + names.iter().sum::<usize>()..)
            .ok_or_else(not_xlsx)?;
        left = left
            .checked_sub(part.inflated(source, left)?)
            .ok_or_else(|| too_much(max))?;
    }
    source.seek(SeekFrom::Start(0)).map_err(unreadable)?;
    Ok(())
}

struct Part {
    method: u16,
    packed: u32,
    at: u32,
}

impl Part {
    /// How many bytes it inflates to; counting ends beyond `max`.
    fn inflated<R: Read + Seek>(&self, source: &mut R, max: u64) -> Result<u64, SuiteError> {
        let head = bytes(source, u64::from(self.at), 30)?;
        if !head.starts_with(b"PK\x03\x04") {
            return Err(not_xlsx());
        }
        let data_at =
            u64::from(self.at) + 30 + u64::from(u16_at(&head, 26)) + u64::from(u16_at(&head, 28));
        source.seek(SeekFrom::Start(data_at)).map_err(unreadable)?;
        let packed = BufReader::new(source.take(u64::from(self.packed)));
        match self.method {
            0 => count(packed, max),
            8 => count(DeflateDecoder::new(packed), max),
            _ => Err(not_xlsx()),
        }
    }
}

fn count(mut part: impl Read, max: u64) -> Result<u64, SuiteError> {
    let (mut buffer, mut seen, mut counts) = (vec![0; 64 << 10], 0_u64, Counts::default());
    loop {
        let read = part.read(&mut buffer).map_err(|_| not_xlsx())?;
        if read == 0 {
            return Ok(seen);
        }
        seen += read as u64;
        if seen > max {
            return Ok(seen);
        }
        for byte in buffer.get(..read).unwrap_or_default() {
            if counts.is_absurd_after(*byte) {
                return Err(SuiteError::whole(format!(
                    "the workbook says that it holds more than {TEXTS} texts: split it"
                )));
            }
        }
    }
}

/// Looks for a count of shared texts that a reader would make room for at once, in any encoding of 8 or 16 bits.
#[derive(Default)]
struct Counts {
    matched: usize,
    number: u64,
}

const COUNT: &[u8] = b"uniqueCount";

impl Counts {
    fn is_absurd_after(&mut self, byte: u8) -> bool {
        if byte == 0 {
            return false;
        }
        if self.matched < COUNT.len() {
            let next = COUNT.get(self.matched) == Some(&byte);
            self.matched = if next {
                self.matched + 1
            } else {
                usize::from(byte == b'u')
            };
            self.number = 0;
            return false;
        }
        match byte {
            b'0'..=b'9' => {
                self.number = self
                    .number
                    .saturating_mul(10)
                    .saturating_add(u64::from(byte - b'0'));
                self.number > TEXTS
            }
            b'=' | b'"' | b'\'' | b' ' | b'\t' | b'\r' | b'\n' if self.number == 0 => false,
            _ => {
                self.matched = 0;
                false
            }
        }
    }
}

fn bytes<R: Read + Seek>(source: &mut R, at: u64, length: u64) -> Result<Vec<u8>, SuiteError> {
    source.seek(SeekFrom::Start(at)).map_err(unreadable)?;
    let mut bytes = Vec::new();
    let read = source
        .take(length)
        .read_to_end(&mut bytes)
        .map_err(unreadable)?;
    if (read as u64) < length {
        return Err(not_xlsx());
    }
    Ok(bytes)
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    let two = bytes.get(at..at + 2).and_then(|two| two.try_into().ok());
    two.map_or(u16::MAX, u16::from_le_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let four = bytes.get(at..at + 4).and_then(|four| four.try_into().ok());
    four.map_or(u32::MAX, u32::from_le_bytes)
}

pub(super) fn not_xlsx() -> SuiteError {
    SuiteError::whole("the file is no XLSX workbook, or a broken one: save it as .xlsx again")
}

fn too_much(max: u64) -> SuiteError {
    SuiteError::whole(format!(
        "the workbook holds more than {max} bytes when it is unpacked: split it"
    ))
}
