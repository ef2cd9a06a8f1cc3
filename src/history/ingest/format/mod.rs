//! Sessions as other tools record them, each format in our one form of a session. Pure: JSON in, sessions or faults out.
//!
//! A format finds messages, tool calls and results; `parts` reads them in every dialect and `transcript` makes a conversation of
//! them. A fault names its place, and then no session of the file is returned.

mod calls;
mod field;
mod inspect;
mod kind;
mod known;
mod logs;
mod messages;
mod parts;
mod repeats;
mod runs;
mod shown;
mod spans;
mod step;
mod trace;
mod transcript;

use std::collections::HashMap;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use self::field::{first, text};
use self::messages::is_message;
use self::transcript::{Entry, Item};
pub(in crate::history) use self::transcript::{THINKING, tool_text};
use super::file::FileFault;
use super::input::{SessionFault, SessionInput};
use crate::wire::SessionFormat;

/// One JSON value of a file, with its place there.
pub(super) struct Document {
    pub(super) place: String,
    pub(super) value: Value,
}

/// A session with its place in the file.
pub(super) type Placed = (String, SessionInput);

/// The form of a session file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// The body of `PUT /api/v1/sessions/{id}`.
    Own,
    Other(SessionFormat),
}

/// Returns the form that a value's fields show, by fields that no other form has; `None` for an unknown one.
pub(super) fn detect(value: &Value) -> Option<Form> {
    let has = |name: &str| value.get(name).is_some_and(|value| !value.is_null());
    let format = if has("conversation") || has("alert_data") && !has("messages") {
        return Some(Form::Own);
    } else if spans::is_trace(value) {
        SessionFormat::Spans
    } else if let Some(format) = runs::format_of(value) {
        format
    } else if has("eval") && has("plan") || value["samples"][0]["messages"].is_array() {
        SessionFormat::Inspect
    } else if let Some(format) = logs::format_of(value) {
        format
    } else if messages::is_conversation(value) || is_message(value) {
        SessionFormat::Messages
    } else if has("status")
        && !has("type")
        && first(value, "session_id external_id final_analysis").is_some()
    {
        return Some(Form::Own);
    } else {
        return None;
    };
    Some(Form::Other(format))
}

/// The error for a value of an unknown form.
pub(super) fn unknown_form() -> String {
    let formats: Vec<&str> = SessionFormat::ALL
        .iter()
        .map(|format| format.as_str())
        .collect();
    format!(
        "is in no known form; known are Gavel's own (status with alert_data or conversation) and the formats {}",
        formats.join(", ")
    )
}

/// Reads the documents of one file.
pub(super) fn read(
    format: SessionFormat,
    mut documents: Vec<Document>,
) -> Result<Vec<Placed>, Vec<FileFault>> {
    match format {
        SessionFormat::Messages => {
            if documents
                .first()
                .is_some_and(|first| is_message(&first.value))
            {
                documents = conversations(documents);
            }
            each(&documents, messages::read)
        }
        SessionFormat::Inspect => each(&documents, inspect::read),
        SessionFormat::Spans => trace::sessions(spans::steps(&documents)?, format),
        SessionFormat::LangSmith | SessionFormat::Langfuse | SessionFormat::Braintrust => {
            trace::sessions(runs::steps(format, &documents)?, format)
        }
        SessionFormat::ClaudeCode | SessionFormat::Codex => logs::read(format, &documents),
    }
}

/// Returns the conversations of a file with a message per entry: one, or one for each id that the messages name.
fn conversations(messages: Vec<Document>) -> Vec<Document> {
    const IDS: &str = "session_id sessionId thread_id threadId conversation_id conversationId";
    let mut conversations: Vec<(Option<String>, Document)> = Vec::new();
    let mut known: HashMap<Option<String>, usize> = HashMap::new();
    for Document { place, value } in messages {
        let id = text(&value, IDS);
        let at = *known.entry(id.clone()).or_insert(conversations.len());
        if at == conversations.len() {
            let place = if id.is_some() { place } else { String::new() };
            let value = match &id {
                Some(id) => json!({ "session_id": id, "messages": [] }),
                None => json!([]),
            };
            conversations.push((id, Document { place, value }));
        }
        let conversation = conversations
            .get_mut(at)
            .map(|(_, document)| &mut document.value);
        let messages = conversation.and_then(|value| match value.is_array() {
            true => value.as_array_mut(),
            false => value["messages"].as_array_mut(),
        });
        messages
            .into_iter()
            .for_each(|messages| messages.push(value.clone()));
    }
    conversations
        .into_iter()
        .map(|(_, conversation)| conversation)
        .collect()
}

/// Reads documents independently of each other.
fn each(
    documents: &[Document],
    read: impl Fn(&Value) -> Result<Vec<Placed>, Vec<SessionFault>>,
) -> Result<Vec<Placed>, Vec<FileFault>> {
    let (mut sessions, mut faults) = (Vec::new(), Vec::new());
    for Document { place, value } in documents {
        match read(value) {
            Ok(read) => sessions.extend(read.into_iter().map(|(within, session)| {
                let parts = [place.as_str(), &within];
                let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
                (parts.join(", "), session)
            })),
            Err(found) => faults.extend(found.into_iter().map(|fault| FileFault {
                place: place.clone(),
                fault,
            })),
        }
    }
    if faults.is_empty() {
        Ok(sessions)
    } else {
        Err(faults)
    }
}

/// Sets the ids of a session. A UUID stays unchanged, and of another text an id is derived, always the same one. Without an id it is
/// derived from `content`, so that the same file is the same session.
fn identify(
    session: &mut SessionInput,
    format: SessionFormat,
    id: Option<String>,
    content: &Value,
) {
    match id {
        Some(id) if id.len() == 36 && Uuid::try_parse(&id).is_ok() => {
            session.session_id = Uuid::try_parse(&id).ok();
        }
        Some(id) => {
            session.session_id = Some(derived_id(format.as_str(), &id));
            session.external_id = Some(id);
        }
        None => session.session_id = Some(derived_id(format.as_str(), &content.to_string())),
    }
}

/// Our id of a session that its source calls otherwise.
pub(super) fn derived_id(source: &str, external_id: &str) -> Uuid {
    let digest = Sha256::new()
        .chain_update(source)
        .chain_update([0])
        .chain_update(external_id)
        .finalize();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}

/// An item whose agent and time aren't recorded.
fn entry(item: Item) -> Entry {
    Entry {
        item,
        agent: None,
        at: None,
    }
}

fn fault(pointer: impl Into<String>, message: impl Into<String>) -> SessionFault {
    SessionFault {
        pointer: pointer.into(),
        message: message.into(),
    }
}

#[cfg(test)]
mod tests;
