//! What an XLSX file would be when it is inflated, before calamine reads it: a small file may hold gigabytes, and a count in
//! it may ask for more memory than there is.
//!
//! Opens the archive as calamine does, which inflates no part beyond the size that is declared for it.

use std::io::{BufReader, Read, Seek, SeekFrom};

use quick_xml::events::Event;
use zip::ZipArchive;
use zip::read::Config;
use zip::unstable::read::ZipIterable;

use super::unreadable;
use crate::suite::SuiteError;

/// The most parts of an archive.
const PARTS: usize = 10_000;
/// The largest count of shared texts that is believed.
const TEXTS: u64 = 10_000_000;

/// Checks that all parts together inflate to at most `max` bytes, and that the count of texts is believable.
pub(super) fn check<R: Read + Seek>(source: &mut R, max: u64) -> Result<(), SuiteError> {
    // Counted first, since an archive holds all its entries in memory.
    let parts = ZipIterable::try_new(&mut *source, Config::default()).map_err(|_| not_xlsx())?;
    if parts.len() > PARTS {
        return Err(not_xlsx());
    }
    let mut archive = ZipArchive::new(&mut *source).map_err(|_| not_xlsx())?;
    let mut left = max;
    for at in 0..archive.len() {
        let part = archive.by_index(at).map_err(|_| not_xlsx())?;
        left = left.checked_sub(part.size()).ok_or_else(|| too_much(max))?;
        let name = part.name_raw().to_ascii_lowercase();
        if name.ends_with(b"sharedstrings.xml") && counts_too_many(part) {
            return Err(SuiteError::whole(format!(
                "the workbook says that it holds more than {TEXTS} texts: split it"
            )));
        }
    }
    source.seek(SeekFrom::Start(0)).map_err(unreadable)?;
    Ok(())
}

/// Whether a part claims so many shared texts that a reader who believes it makes room for too much.
fn counts_too_many(part: impl Read) -> bool {
    let mut xml = quick_xml::Reader::from_reader(BufReader::new(part));
    xml.config_mut().expand_empty_elements = true;
    xml.config_mut().check_end_names = false;
    let mut buffer = Vec::new();
    loop {
        buffer.clear();
        match xml.read_event_into(&mut buffer) {
            Ok(Event::Start(start)) if start.local_name().as_ref() == "sst" => {
                return is_absurd(start.attributes_raw());
            }
            Ok(Event::Eof) | Err(_) => return false,
            Ok(_) => {}
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

fn too_much(max: u64) -> SuiteError {
    SuiteError::whole(format!(
        "the workbook holds more than {max} bytes when it is unpacked: split it"
    ))
}
