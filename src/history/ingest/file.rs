//! Session files: one JSON object, an array of them, or JSONL (one object a line), in our own form or in one of others.

use std::collections::HashMap;

use serde_json::value::RawValue;
use uuid::Uuid;

use super::format::{self, Document, Form};
use super::input::{
    InvalidSession, MAX_FAULTS, SessionFault, SessionInput, all, no_json, placed, read_json,
};
use super::text::json_text;
use crate::score::readable_json;
use crate::wire::{SessionFormat, UnknownText};

/// Reads a session file whole: every session in it is checked as it would be when stored, each has a `session_id`, and no
/// id stands in it twice. One fault anywhere, and no session is returned. Without a `format` the first object of a known form decides.
/// The faults' places begin with the file's name.
pub fn parse_session_file(
    file_name: &str,
    bytes: &[u8],
    format: Option<SessionFormat>,
) -> Result<Vec<SessionInput>, InvalidSession> {
    let text = json_text(bytes).map_err(|message| vec![SessionFault::new("", message)]);
    let sessions = text.and_then(|text| sessions(&text, format));
    sessions.map_err(|mut faults| {
        faults.truncate(MAX_FAULTS);
        placed(file_name, faults).into()
    })
}

/// Reads the one session of a request's body; a field `format` says that it is in a form of others.
pub fn parse_session(text: &str) -> Result<SessionInput, InvalidSession> {
    let value = read_json(&readable_json(text))?;
    let Some(word) = value["format"].as_str() else {
        return Ok(SessionInput::from_value(value)?);
    };
    let unknown = |unknown: UnknownText| SessionFault::new("/format", unknown.to_string());
    let format = word.parse().map_err(unknown)?;
    let place = String::new();
    let mut sessions = format::read(format, vec![Document { place, value }])?;
    match (sessions.pop(), sessions.len()) {
        // The id is the request's to say.
        (Some((_, session)), 0) => Ok(SessionInput {
            session_id: None,
            ..session
        }),
        (last, others) => {
            let message = format!(
                "holds {} sessions, and one is put; send a file of them by POST /api/v1/sessions",
                others + usize::from(last.is_some())
            );
            Err(SessionFault::new("", message).into())
        }
    }
}

/// Returns the values of a file, each with its place: those of a list, or one after another.
fn pieces(text: &str) -> Result<Vec<(String, &str)>, SessionFault> {
    let mut pieces: Vec<(String, &str)> = Vec::new();
    let (mut line, mut counted) = (1, 0);
    for value in serde_json::Deserializer::from_str(text).into_iter::<&RawValue>() {
        let value = value.map_err(|error| SessionFault {
            place: match pieces.is_empty() {
                true => String::new(),
                false => format!("line {}", error.line()),
            },
            ..no_json(&error)
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
            return Ok(items
                .map(|(n, item)| (format!("item {n}"), item.get()))
                .collect());
        }
        place.clear();
    }
    Ok(pieces)
}

fn sessions(
    text: &str,
    format: Option<SessionFormat>,
) -> Result<Vec<SessionInput>, Vec<SessionFault>> {
    let at = |place: &str, message: String| placed(place, vec![SessionFault::new("", message)]);
    let pieces = pieces(text).map_err(|fault| vec![fault])?.into_iter();
    let documents = all(pieces.map(|(place, piece)| {
        let value = read_json(piece).map_err(|fault| placed(&place, vec![fault]))?;
        Ok(Document { place, value })
    }))?;
    let Some(first) = documents.first() else {
        let message =
            "holds no session; a JSON object, an array of them, or one a line is expected";
        return Err(at("", message.to_owned()));
    };
    let detected = || documents.iter().find_map(|it| format::detect(&it.value));
    let mut places = HashMap::new();
    let mut check = |place: &str, session| {
        checked(place, session, &mut places).map_err(|faults| placed(place, faults))
    };
    match format.map(Form::Other).or_else(detected) {
        None => Err(at(&first.place, format::unknown_form())),
        Some(Form::Own) => all(documents.into_iter().map(|Document { place, value }| {
            let session = SessionInput::from_value(value);
            check(
                &place,
                session.map_err(|fault| placed(&place, vec![fault]))?,
            )
        })),
        Some(Form::Other(format)) => match format::read(format, documents)? {
            none if none.is_empty() => {
                Err(at("", format!("holds no session of the format {format}")))
            }
            sessions => all(sessions
                .into_iter()
                .map(|(place, session)| check(&place, session))),
        },
    }
}

/// Checks a session as it would be when stored, and that it has an id that no session at `places` has.
fn checked(
    place: &str,
    mut session: SessionInput,
    places: &mut HashMap<Uuid, String>,
) -> Result<SessionInput, Vec<SessionFault>> {
    let external = session.external_id.as_deref();
    let derived = external.map(|id| format::derived_id("gavel", id));
    session.session_id = session.session_id.or(derived);
    // A missing id is one fault; the others are told with it.
    let id = session.session_id.unwrap_or_default();
    let record = session.clone().into_record(id, "file");
    let mut faults = record.err().map(|it| it.faults).unwrap_or_default();
    let first = places.insert(id, place.to_owned());
    match (session.session_id, first) {
        (None, _) => faults.push(SessionFault::new(
            "/session_id",
            "is missing; a UUID is expected, or any text as external_id",
        )),
        (Some(id), Some(first)) => {
            let message = format!("{id} stands in the file twice, first at {first}");
            faults.push(SessionFault::new("/session_id", message));
        }
        (Some(_), None) => {}
    }
    match faults.is_empty() {
        true => Ok(session),
        false => Err(faults),
    }
}

#[cfg(test)]
mod tests;
