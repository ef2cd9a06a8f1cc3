//! Session files: one JSON object, an array of them, or JSONL (one object a line), in our own form or in one of others.

use std::collections::HashMap;
use std::fmt;

use serde_json::value::RawValue;
use uuid::Uuid;

use super::format::{self, Document, Form};
use super::input::{InvalidSession, SessionFault, SessionInput};
use super::text::json_text;
use crate::score::{JsonError, parse_json, readable_json};
use crate::wire::{SessionFormat, words};

/// Faults that are told of one file.
const MAX_FAULTS: usize = 20;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileFault {
    /// `line 3` of JSONL, `item 2` of an array (from 0, as in a JSON pointer), empty for a file of one object.
    pub place: String,
    /// The fault in the session that stands there.
    pub fault: SessionFault,
}

/// A file that can't be imported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionFileError {
    /// The file's name.
    pub file: String,
    /// Its faults; at least one, at most 20.
    pub faults: Vec<FileFault>,
}

impl fmt::Display for SessionFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, FileFault { place, fault }) in self.faults.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            match place.as_str() {
                "" => write!(f, "{}: {fault}", self.file)?,
                place => write!(f, "{}: {place}: {fault}", self.file)?,
            }
        }
        Ok(())
    }
}

impl std::error::Error for SessionFileError {}

/// Reads a session file whole: every session in it is checked as it would be when stored, each has a `session_id`, and no
/// id stands in it twice. One fault anywhere, and no session is returned. Without a `format` the first object of a known form decides.
pub fn parse_session_file(
    file_name: &str,
    bytes: &[u8],
    format: Option<SessionFormat>,
) -> Result<Vec<SessionInput>, SessionFileError> {
    let mut file = FileReader::default();
    match json_text(bytes) {
        Ok(text) => file.read(&text, format),
        Err(message) => file.fault(String::new(), "", message),
    }
    if file.faults.is_empty() {
        return Ok(file.sessions);
    }
    Err(SessionFileError {
        file: file_name.to_owned(),
        faults: file.faults,
    })
}

/// Reads the one session of a request's body; a field `format` says that it is in a form of others.
pub fn parse_session(text: &str) -> Result<SessionInput, InvalidSession> {
    let text = &*readable_json(text);
    /// What a body says of its form; in our own it says nothing.
    #[derive(serde::Deserialize)]
    struct Tag {
        format: Option<String>,
    }
    let Ok(Tag { format: Some(word) }) = serde_json::from_str(text) else {
        return SessionInput::from_json(text);
    };
    let invalid = |pointer: &str, message: String| InvalidSession {
        faults: vec![SessionFault {
            pointer: pointer.to_owned(),
            message,
        }],
    };
    let format: SessionFormat = word
        .parse()
        .map_err(|unknown: crate::wire::UnknownText| invalid("/format", unknown.to_string()))?;
    let value = parse_json(text.as_bytes()).map_err(|error| match error {
        JsonError::RepeatedField { pointer, name } => invalid(&pointer, repeated(&name)),
        JsonError::Syntax(error) => invalid("", error.to_string()),
    })?;
    let place = String::new();
    match format::read(format, vec![Document { place, value }]) {
        Ok(sessions) if sessions.len() == 1 => {
            let mut sessions = sessions.into_iter().map(|(_, session)| session);
            let session = sessions.next().unwrap_or_default();
            // The id is the request's to say.
            Ok(SessionInput {
                session_id: None,
                ..session
            })
        }
        Ok(sessions) => Err(invalid(
            "",
            format!(
                "holds {} sessions, and one is put; send a file of them by POST /api/v1/sessions",
                sessions.len()
            ),
        )),
        Err(faults) => Err(InvalidSession {
            faults: faults.into_iter().map(|fault| fault.fault).collect(),
        }),
    }
}

/// Returns the values of a file, each with its place: those of a list, or one after another. An error has a place, too.
fn pieces(text: &str) -> Result<Vec<(String, &str)>, (String, String)> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
    let mut pieces: Vec<(usize, &str)> = Vec::new();
    let (mut line, mut counted) = (1, 0);
    loop {
        let rest = text.get(values.byte_offset()..).unwrap_or_default();
        let start = text.len() - rest.trim_start().len();
        line += text
            .get(counted..start)
            .unwrap_or_default()
            .matches('\n')
            .count();
        counted = start;
        match values.next() {
            Some(Ok(value)) => pieces.push((line, value.get())),
            None => break,
            Some(Err(error)) => {
                let place = match pieces.is_empty() {
                    true => String::new(),
                    false => format!("line {line}"),
                };
                let message = words::json_fault(&error.to_string());
                return Err((place, format!("is not JSON: {message}")));
            }
        }
    }
    let placed = match pieces.as_slice() {
        [(_, list)] if list.starts_with('[') => {
            let items: Vec<&RawValue> = serde_json::from_str(list).unwrap_or_default(); // it was read above
            let items = items.into_iter().enumerate();
            items
                .map(|(index, item)| (format!("item {index}"), item.get()))
                .collect()
        }
        [(_, only)] => vec![(String::new(), *only)],
        pieces => pieces
            .iter()
            .map(|(line, text)| (format!("line {line}"), *text))
            .collect(),
    };
    Ok(placed)
}

#[derive(Default)]
struct FileReader {
    sessions: Vec<SessionInput>,
    places: HashMap<Uuid, String>,
    faults: Vec<FileFault>,
}

impl FileReader {
    fn read(&mut self, text: &str, format: Option<SessionFormat>) {
        let pieces = match pieces(text) {
            Ok(pieces) => pieces,
            Err((place, message)) => return self.fault(place, "", message),
        };
        let Some((place, _)) = pieces.first() else {
            let message =
                "holds no session; a JSON object, an array of them, or one a line is expected";
            return self.fault(String::new(), "", message);
        };
        let form = format.map(Form::Other).or_else(|| {
            let mut values = pieces
                .iter()
                .filter_map(|(_, piece)| serde_json::from_str(piece).ok());
            values.find_map(|value| format::detect(&value))
        });
        match form {
            Some(Form::Other(format)) => self.others(format, pieces),
            Some(Form::Own) => {
                for (place, piece) in pieces {
                    self.session(place, piece);
                }
            }
            None => self.fault(place.clone(), "", format::unknown_form()),
        }
    }

    fn session(&mut self, place: String, text: &str) {
        // A field that is there twice is told from a field of the wrong type.
        if let Err(JsonError::RepeatedField { pointer, name }) = parse_json(text.as_bytes()) {
            return self.fault(place, &pointer, repeated(&name));
        }
        match SessionInput::from_json(text) {
            Ok(session) => self.check(place, session),
            Err(InvalidSession { faults }) => self.all(&place, faults),
        }
    }

    /// Sessions in another tool's format.
    fn others(&mut self, format: SessionFormat, pieces: Vec<(String, &str)>) {
        let mut documents = Vec::new();
        for (place, piece) in pieces {
            match parse_json(piece.as_bytes()) {
                Ok(value) => documents.push(Document { place, value }),
                Err(JsonError::RepeatedField { pointer, name }) => {
                    self.fault(place, &pointer, repeated(&name));
                }
                Err(JsonError::Syntax(error)) => {
                    let message = words::json_fault(&error.to_string());
                    self.fault(place, "", format!("is not JSON: {message}"));
                }
            }
        }
        if !self.faults.is_empty() {
            return;
        }
        match format::read(format, documents) {
            Ok(sessions) if sessions.is_empty() => {
                self.fault(
                    String::new(),
                    "",
                    format!("holds no session of the format {format}"),
                );
            }
            Ok(sessions) => {
                for (place, session) in sessions {
                    self.check(place, session);
                }
            }
            Err(faults) => self.faults.extend(faults.into_iter().take(MAX_FAULTS)),
        }
    }

    fn check(&mut self, place: String, mut session: SessionInput) {
        if session.session_id.is_none() {
            let external = session.external_id.as_deref();
            session.session_id = external.map(|id| format::derived_id("gavel", id));
        }
        let id = session.session_id;
        // A missing id is one fault; the others are told with it.
        if let Err(InvalidSession { faults }) =
            session.clone().into_record(id.unwrap_or_default(), "file")
        {
            self.all(&place, faults);
        }
        let Some(id) = id else {
            self.fault(
                place,
                "/session_id",
                "is missing; a UUID is expected, or any text as external_id",
            );
            return;
        };
        match self.places.get(&id) {
            Some(first) => {
                let message = format!("{id} stands in the file twice, first at {first}");
                self.fault(place, "/session_id", message);
            }
            None => {
                self.places.insert(id, place);
                self.sessions.push(session);
            }
        }
    }

    fn all(&mut self, place: &str, faults: Vec<SessionFault>) {
        for fault in faults {
            self.fault(place.to_owned(), &fault.pointer, fault.message);
        }
    }

    fn fault(&mut self, place: String, pointer: &str, message: impl Into<String>) {
        if self.faults.len() < MAX_FAULTS {
            self.faults.push(FileFault {
                place,
                fault: SessionFault {
                    pointer: pointer.to_owned(),
                    message: message.into(),
                },
            });
        }
    }
}

fn repeated(name: &str) -> String {
    format!("has the field {name} twice in one object: keep one")
}

#[cfg(test)]
mod tests;
