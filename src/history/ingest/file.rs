//! Session files: one JSON object, an array of them, or JSONL (one object a line), in our own form or in one of others.

use std::collections::HashMap;
use std::fmt;

use serde_json::value::RawValue;
use uuid::Uuid;

use super::format::{self, Document};
use super::input::{InvalidSession, SessionFault, SessionInput};
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
/// id stands in it twice. One fault anywhere, and nothing is given back. Without a `format` the first object shows it.
pub fn parse_session_file(
    file_name: &str,
    text: &str,
    format: Option<SessionFormat>,
) -> Result<Vec<SessionInput>, SessionFileError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut file = FileReader::default();
    match pieces(text) {
        Ok(pieces) if pieces.is_empty() => {
            file.fault(
                String::new(),
                "",
                "holds no session; a JSON object, an array of them, or one a line is expected",
            );
        }
        Ok(pieces) => match format.or_else(|| format_of(&pieces)) {
            Some(format) => file.others(format, pieces),
            None => {
                for (place, piece) in pieces {
                    file.session(place, piece);
                }
            }
        },
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

fn format_of(pieces: &[(String, &str)]) -> Option<SessionFormat> {
    let (_, first) = pieces.first()?;
    format::detect(&serde_json::from_str(first).ok()?)
}

/// Reads the one session of a request's body; a field `format` says that it is in a form of others.
pub fn parse_session(text: &str) -> Result<SessionInput, InvalidSession> {
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
    let value = serde_json::from_str(text).map_err(|error| invalid("", error.to_string()))?;
    let place = String::new();
    match format::read(format, &[Document { place, value }]) {
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

/// The sessions' texts, each with its place.
fn pieces(text: &str) -> Result<Vec<(String, &str)>, String> {
    let trimmed = text.trim();
    if trimmed.starts_with('[') {
        let items: Vec<&RawValue> =
            serde_json::from_str(text).map_err(|error| format!("not a JSON array: {error}"))?;
        let placed = items.into_iter().enumerate();
        return Ok(placed
            .map(|(index, item)| (format!("item {index}"), item.get()))
            .collect());
    }
    // One object may take many lines; only a first line that is whole by itself makes the file JSONL.
    let first = trimmed.lines().next().unwrap_or_default();
    let whole_first_line = serde_json::from_str::<&RawValue>(first).is_ok();
    if !trimmed.is_empty() && (first.len() == trimmed.len() || !whole_first_line) {
        return Ok(vec![(String::new(), text)]);
    }
    Ok(text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(number, line)| (format!("line {}", number + 1), line))
        .collect())
}

#[derive(Default)]
struct FileReader {
    sessions: Vec<SessionInput>,
    places: HashMap<Uuid, String>,
    faults: Vec<FileFault>,
}

impl FileReader {
    fn session(&mut self, place: String, text: &str) {
        match SessionInput::from_json(text) {
            Ok(session) => self.check(place, session),
            Err(InvalidSession { faults }) => self.all(&place, faults),
        }
    }

    /// Sessions in a form of others.
    fn others(&mut self, format: SessionFormat, pieces: Vec<(String, &str)>) {
        let mut documents = Vec::new();
        for (place, piece) in pieces {
            match serde_json::from_str(piece) {
                Ok(value) => documents.push(Document { place, value }),
                Err(error) => self.fault(
                    place,
                    "",
                    format!("is not JSON: {}", words::json_fault(&error.to_string())),
                ),
            }
        }
        if !self.faults.is_empty() {
            return;
        }
        let first = documents.first().map(|document| &document.value);
        if format == SessionFormat::Messages && first.is_some_and(format::is_message) {
            // The file is one conversation, a message an entry.
            let messages = documents.into_iter().map(|document| document.value);
            documents = vec![Document {
                place: String::new(),
                value: messages.collect(),
            }];
        }
        match format::read(format, &documents) {
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

#[cfg(test)]
mod tests;
