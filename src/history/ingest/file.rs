//! Session files: one JSON object, an array of them, or JSONL (one object a line), in Gavel's format or in that of another tool.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::value::RawValue;
use uuid::Uuid;

use super::format::{self, Document, Form};
use super::input::{
    Faults, InvalidSession, MAX_FAULTS, SessionInput, all, fault, no_json, placed, read_json,
};
use crate::score::readable_json;
use crate::wire::{SessionFormat, UnknownText};

/// Reads a session file. Each session is checked as if it were stored, has a `session_id`, and no other session has the same one. Any
/// error rejects the file. The first object of a known form decides on the format, unless `format` is given. Places start with the file's name.
pub fn parse_session_file(
    file_name: &str,
    bytes: &[u8],
    format: Option<SessionFormat>,
) -> Result<Vec<SessionInput>, InvalidSession> {
    let text = json_text(bytes).map_err(|message| fault("", message));
    let sessions = text.and_then(|text| sessions(&text, format));
    sessions.map_err(|mut faults| {
        faults.truncate(MAX_FAULTS);
        placed(file_name, faults).into()
    })
}

/// Reads the session of a request's body. A field `format` names the format of another tool.
pub fn parse_session(text: &str) -> Result<SessionInput, InvalidSession> {
    let value = read_json(&readable_json(text))?;
    let Some(word) = value["format"].as_str() else {
        return Ok(SessionInput::from_value(value)?);
    };
    let unknown = |unknown: UnknownText| fault("/format", unknown.to_string());
    let format = word.parse().map_err(unknown)?;
    let place = String::new();
    let sessions = format::read(format, vec![Document { place, value }])?;
    let [(_, mut session)] = <[_; 1]>::try_from(sessions).map_err(|sessions| {
        let count = sessions.len();
        let remedy = "send a file of them by POST /api/v1/sessions";
        let message = format!("holds {count} sessions, and one is put; {remedy}");
        fault("", message)
    })?;
    // The request names the id.
    session.session_id = None;
    Ok(session)
}

/// Returns the JSON of a file; the error names the problem and the remedy.
fn json_text(bytes: &[u8]) -> Result<Cow<'_, str>, String> {
    if bytes.starts_with(b"PK\x03\x04") {
        return Err("is a ZIP archive; unpack it, or convert a log of Inspect: inspect log convert LOG --to json --output-dir DIR".to_owned());
    }
    if bytes.starts_with(&[0x1f, 0x8b]) {
        return Err("is compressed with gzip; unpack it".to_owned());
    }
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        return Err("is UTF-16; save it as UTF-8".to_owned());
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let before = bytes.get(..error.valid_up_to()).unwrap_or_default();
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        format!("is not UTF-8 at line {line}; save it as UTF-8")
    })?;
    Ok(readable_json(text.strip_prefix('\u{feff}').unwrap_or(text)))
}

/// Returns the values of a file with their places: the entries of one array, or the values of several lines.
fn pieces(text: &str) -> Result<Vec<(String, &str)>, Faults> {
    let mut pieces: Vec<(String, &str)> = Vec::new();
    let (mut line, mut counted) = (1, 0);
    for value in serde_json::Deserializer::from_str(text).into_iter::<&RawValue>() {
        let value = value.map_err(|error| match pieces.is_empty() {
            true => no_json(&error),
            false => placed(&format!("line {}", error.line()), no_json(&error)),
        })?;
        let start = value.get().as_ptr().addr() - text.as_ptr().addr();
        let before = text.get(counted..start).unwrap_or_default();
        line += before.matches('\n').count();
        counted = start;
        pieces.push((format!("line {line}"), value.get()));
    }
    if let [(place, only)] = pieces.as_mut_slice() {
        if only.starts_with('[') {
            let items: Vec<&RawValue> = serde_json::from_str(only).unwrap_or_default(); // it was read above
            let items = items.into_iter().enumerate();
            let items = items.map(|(n, item)| (format!("item {n}"), item.get()));
            return Ok(items.collect());
        }
        place.clear();
    }
    Ok(pieces)
}

fn sessions(text: &str, format: Option<SessionFormat>) -> Result<Vec<SessionInput>, Faults> {
    let documents = all(pieces(text)?.into_iter().map(|(place, piece)| {
        let value = read_json(piece).map_err(|faults| placed(&place, faults))?;
        Ok(Document { place, value })
    }))?;
    let Some(first) = documents.first() else {
        let message =
            "holds no session; a JSON object, an array of them, or one a line is expected";
        return Err(fault("", message));
    };
    let detected = || documents.iter().find_map(|it| format::detect(&it.value));
    let unknown = || placed(&first.place, fault("", format::unknown_form(&first.value)));
    let form = format.map(Form::Other).or_else(detected);
    let sessions: Vec<_> = match form.ok_or_else(unknown)? {
        Form::Own => {
            let read = |it: Document| (it.place, SessionInput::from_value(it.value));
            documents.into_iter().map(read).collect()
        }
        Form::Other(format) => match format::read(format, documents)?.into_iter() {
            none if none.len() == 0 => {
                let message = format!("holds no session of the format {format}");
                return Err(fault("", message));
            }
            sessions => sessions.map(|(place, it)| (place, Ok(it))).collect(),
        },
    };
    let mut places = HashMap::new();
    all(sessions.into_iter().map(|(place, session)| {
        let checked = session.and_then(|session| checked(&place, session, &mut places));
        checked.map_err(|faults| placed(&place, faults))
    }))
}

/// Checks a session as if it were stored, and that it has an id which no session of `places` has.
fn checked(
    place: &str,
    mut session: SessionInput,
    places: &mut HashMap<Uuid, String>,
) -> Result<SessionInput, Faults> {
    let external = session.external_id.as_deref();
    let derived = external.map(|id| format::derived_id("gavel", id));
    session.session_id = session.session_id.or(derived);
    // A missing id is reported together with the other errors.
    let id = session.session_id.unwrap_or_default();
    let record = session.clone().into_record(id, "file");
    let mut faults = record.err().map(|it| it.faults).unwrap_or_default();
    let first = places.insert(id, place.to_owned());
    if session.session_id.is_none() {
        let message = "is missing; a UUID is expected, or any text as external_id";
        faults.extend(fault("/session_id", message));
    } else if let Some(first) = first {
        let message = format!("{id} stands in the file twice, first at {first}");
        faults.extend(fault("/session_id", message));
    }
    match faults.is_empty() {
        true => Ok(session),
        false => Err(faults),
    }
}

#[cfg(test)]
mod tests;
