//! Session files: one JSON object, an array of them, or JSONL (one object a line).

use std::collections::HashMap;
use std::fmt;

use serde_json::value::RawValue;
use uuid::Uuid;

use super::input::{InvalidSession, SessionFault, SessionInput};

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
/// id stands in it twice. One fault anywhere, and nothing is given back.
pub fn parse_session_file(
    file_name: &str,
    text: &str,
) -> Result<Vec<SessionInput>, SessionFileError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut file = Reading::default();
    match pieces(text) {
        Ok(pieces) if pieces.is_empty() => {
            file.fault(
                String::new(),
                "",
                "holds no session; a JSON object, an array of them, or one a line is expected",
            );
        }
        Ok(pieces) => {
            for (place, piece) in pieces {
                file.session(place, piece);
            }
        }
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
struct Reading {
    sessions: Vec<SessionInput>,
    places: HashMap<Uuid, String>,
    faults: Vec<FileFault>,
}

impl Reading {
    fn session(&mut self, place: String, text: &str) {
        match SessionInput::from_json(text) {
            Ok(session) => self.check(place, session),
            Err(InvalidSession { faults }) => self.all(&place, faults),
        }
    }

    fn check(&mut self, place: String, session: SessionInput) {
        let id = session.session_id;
        // A missing id is one fault; the others are told with it.
        if let Err(InvalidSession { faults }) =
            session.clone().into_record(id.unwrap_or_default(), "file")
        {
            self.all(&place, faults);
        }
        let Some(id) = id else {
            self.fault(place, "/session_id", "is missing; a UUID is expected");
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
