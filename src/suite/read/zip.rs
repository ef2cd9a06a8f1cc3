//! Checks the inflated size of an XLSX file before calamine reads it, because a small file may contain gigabytes, and a count in it may
//! request more memory than available.
//!
//! Opens the archive as calamine does, which inflates no part beyond its declared size, and uses the same XML parser, so that both see the
//! same cells.

use std::io::{BufReader, Read, Seek, SeekFrom};

use quick_xml::events::Event;
use zip::ZipArchive;
use zip::read::Config;
use zip::unstable::read::ZipIterable;

use super::{Limits, unreadable};
use crate::memory::JsonShape;
use crate::suite::SuiteError;

/// Maximum parts of an archive.
const PARTS: usize = 10_000;
/// Maximum shared texts.
const TEXTS: u64 = 10_000_000;
/// Memory of a shared text without its characters, bytes: its entry in a list that doubles when full.
const TEXT_BYTES: u64 = 56;
/// Maximum bytes of each part that describes sheets and styles.
const HEAD_BYTES: u64 = 16 << 20;
/// Maximum nesting of elements in a cell.
const DEPTH: usize = 16;

/// Checks that all parts together inflate to at most the maximum file size, and that no text or count requests more memory than an item may
/// use. Returns the weight of the heaviest cell and the memory of the shared texts.
pub(super) fn check<R: Read + Seek>(
    source: &mut R,
    limits: Limits,
) -> Result<(u64, u64), SuiteError> {
    // Counted first, because opening an archive loads all its entries.
    let parts = ZipIterable::try_new(&mut *source, Config::default()).map_err(|_| not_xlsx())?;
    if parts.len() > PARTS {
        return Err(not_xlsx());
    }
    let mut archive = ZipArchive::new(&mut *source).map_err(|_| not_xlsx())?;
    let mut left = limits.file_bytes;
    let (mut longest, mut beside) = (0, 0);
    for at in 0..archive.len() {
        let part = archive.by_index(at).map_err(|_| not_xlsx())?;
        let size = part.size();
        left = left
            .checked_sub(size)
            .ok_or_else(|| too_much(limits.file_bytes))?;
        let name = part.name_raw().to_ascii_lowercase();
        let is_head = [&b"workbook.xml"[..], b"styles.xml", b".rels"]
            .iter()
            .any(|end| name.ends_with(end));
        if is_head && size > HEAD_BYTES {
            return Err(too_much(HEAD_BYTES));
        }
        let found = walk(part, 2 * limits.item_bytes)?;
        longest = longest.max(found.longest);
        beside += if is_head { 4 * size } else { 0 };
        if name.ends_with(b"sharedstrings.xml") {
            beside += 2 * size + found.texts * TEXT_BYTES;
        }
    }
    source.seek(SeekFrom::Start(0)).map_err(unreadable)?;
    Ok((JsonShape::heaviest(longest), beside))
}

#[derive(Default)]
struct PartSize {
    texts: u64,
    /// Bytes of the longest cell or shared text.
    longest: u64,
}

/// Reads the elements of a part one at a time. calamine joins the texts within a cell, so cells must not be long, and their elements must
/// be closed in order. calamine stops at the same parse errors.
fn walk(part: impl Read, longest: u64) -> Result<PartSize, SuiteError> {
    let mut xml = quick_xml::Reader::from_reader(BufReader::new(part.take(0)));
    xml.config_mut().expand_empty_elements = true;
    xml.config_mut().check_end_names = false;
    let mut found = PartSize::default();
    // Names of the open cell and of the open elements in it; start of the cell.
    let (mut open, mut begin): (Vec<String>, u64) = (Vec::new(), 0);
    let mut buffer = Vec::new();
    loop {
        buffer.clear();
        // Limit for one element, or the text between two.
        xml.get_mut().get_mut().set_limit(longest);
        match xml.read_event_into(&mut buffer) {
            Ok(Event::Start(start)) => {
                let name = start.local_name();
                let name: &str = name.as_ref();
                if name == "sst" && is_absurd(start.attributes_raw()) {
                    return Err(too_many_texts());
                }
                if open.is_empty() && (name == "c" || name == "si") {
                    begin = xml.buffer_position();
                    found.texts += u64::from(name == "si");
                    open.push(start.name().as_ref().to_owned());
                } else if !open.is_empty() {
                    if open.len() >= DEPTH {
                        return Err(not_xlsx());
                    }
                    open.push(start.name().as_ref().to_owned());
                }
            }
            Ok(Event::End(end)) => {
                if open
                    .pop()
                    .is_some_and(|name| name.as_str() != end.name().as_ref())
                {
                    return Err(not_xlsx());
                }
                if open.is_empty() {
                    begin = xml.buffer_position();
                }
            }
            Ok(Event::Eof) | Err(_) if xml.get_ref().get_ref().limit() == 0 => {
                return Err(too_long());
            }
            Ok(Event::Eof) => return Ok(found),
            Err(quick_xml::Error::Io(_)) => return Err(not_xlsx()),
            Err(_) => return Ok(found),
            Ok(_) => {}
        }
        if !open.is_empty() {
            let bytes = xml.buffer_position() - begin;
            found.longest = found.longest.max(bytes);
            if bytes > longest {
                return Err(too_long());
            }
        }
    }
}

fn is_absurd(attributes: &str) -> bool {
    attributes.split("uniqueCount").skip(1).any(|rest| {
        let digits = rest.trim_start_matches(|c: char| !c.is_ascii_digit());
        let end = digits.find(|c: char| !c.is_ascii_digit());
        let digits = &digits[..end.unwrap_or(digits.len())];
        !digits.is_empty() && digits.parse().map_or(true, |count: u64| count > TEXTS)
    })
}

pub(super) fn not_xlsx() -> SuiteError {
    SuiteError::whole("the file is no XLSX workbook, or a broken one: save it as .xlsx again")
}

fn too_many_texts() -> SuiteError {
    SuiteError::whole(format!(
        "the workbook declares more than {TEXTS} texts: split it"
    ))
}

fn too_long() -> SuiteError {
    SuiteError::whole(
        "a cell or a picture of the workbook exceeds the maximum size of an item: shorten or omit it",
    )
}

fn too_much(max: u64) -> SuiteError {
    SuiteError::whole(format!(
        "the workbook holds more than {max} bytes when it is unpacked: split it"
    ))
}
