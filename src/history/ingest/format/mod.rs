//! Formats of other tools, each converted into sessions. No I/O.
//!
//! A format finds the messages and steps; `parts` reads them in every dialect and `transcript` makes the conversation. An error names its
//! place and rejects the file.

mod calls;
mod chats;
mod field;
mod kind;
mod logs;
mod parts;
mod shown;
mod spans;
mod steps;
mod trace;
mod transcript;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use self::field::first;
use self::transcript::{Item, begins_with, conversation};
pub(in crate::history) use self::transcript::{THINKING, tool_text};
use super::input::{Faults, SessionInput, all, placed, within};
use crate::score::session::Message;
use crate::wire::{SessionFormat, SessionStatus};

pub(super) struct Document {
    pub(super) place: String,
    pub(super) value: Value,
}

#[derive(Clone)]
struct Found {
    /// Place in the document, or in the file.
    place: String,
    id: Option<String>,
    items: Vec<Item>,
    /// Fields that don't follow from the items.
    session: SessionInput,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// The body of `PUT /api/v1/sessions/{id}`.
    Own,
    Other(SessionFormat),
}

/// Returns the form by fields that only one form has.
pub(super) fn detect(value: &Value) -> Option<Form> {
    let has = |name: &str| value.get(name).is_some_and(|value| !value.is_null());
    if has("conversation") || has("alert_data") && !has("messages") {
        return Some(Form::Own);
    }
    let is_log = has("eval") && has("plan") || value["samples"][0]["messages"].is_array();
    let is_messages = || chats::is_conversation(value) || chats::is_message(value);
    let format = steps::format_of(value)
        .or(is_log.then_some(SessionFormat::Inspect))
        .or_else(|| logs::format_of(value))
        .or_else(|| is_messages().then_some(SessionFormat::Messages));
    let is_own = first(value, "session_id external_id final_analysis").is_some();
    let own = || (is_own && has("status") && !has("type")).then_some(Form::Own);
    format.map(Form::Other).or_else(own)
}

pub(super) fn unknown_form(value: &Value) -> String {
    let formats = SessionFormat::ALL.iter().map(|format| format.as_str());
    let formats = formats.collect::<Vec<_>>().join(", ");
    let remedy = session_within(value).map(|remedy| format!("; {remedy}"));
    let remedy = remedy.unwrap_or_default();
    format!(
        "is in no known form; known are Gavel's own (status with alert_data or conversation) and the formats {formats}{remedy}"
    )
}

/// Returns the place of messages or of a session in a value, with the remedy.
fn session_within(value: &Value) -> Option<String> {
    let mut fields = value.as_object()?.iter();
    let sessions = fields
        .clone()
        .filter(|(_, it)| it.is_object() && detect(it).is_some());
    if let [(one, _), (other, _)] = sessions.collect::<Vec<_>>().as_slice() {
        return Some(format!(
            "/{one} and /{other} hold messages: name them request and response"
        ));
    }
    fields.find_map(|(name, inner)| {
        if inner.is_array() && chats::is_conversation(inner) {
            Some(format!("/{name} holds messages: name it messages"))
        } else if inner.is_object() && detect(inner).is_some() {
            Some(format!(
                "/{name} holds a session: write it alone into a file"
            ))
        } else {
            Some(format!("/{name}{}", session_within(inner)?))
        }
    })
}

/// Reads the sessions of one file, with their places.
pub(super) fn read(
    format: SessionFormat,
    mut documents: Vec<Document>,
) -> Result<Vec<(String, SessionInput)>, Faults> {
    let found = match format {
        SessionFormat::Messages => {
            let is_message = |first: &Document| chats::is_message(&first.value);
            if documents.first().is_some_and(is_message) {
                documents = chats::of_messages(documents);
            }
            each(documents, chats::read).map(last_state)
        }
        SessionFormat::Inspect => each(documents, chats::read_inspect),
        SessionFormat::ClaudeCode | SessionFormat::Codex => logs::read(format, documents),
        SessionFormat::Spans
        | SessionFormat::LangSmith
        | SessionFormat::Langfuse
        | SessionFormat::Braintrust => trace::sessions(steps::read(format, &documents)?),
    }?;
    let found = found.into_iter();
    Ok(found.map(|found| finish(format, found)).collect())
}

fn each(
    documents: Vec<Document>,
    read: impl Fn(&Value) -> Result<Vec<Found>, Faults>,
) -> Result<Vec<Found>, Faults> {
    let read = documents.into_iter().map(|Document { place, value }| {
        let mut read = read(&value);
        for found in read.iter_mut().flatten() {
            found.place = within(&place, &found.place);
        }
        read.map_err(|faults| placed(&place, faults))
    });
    Ok(all(read)?.concat())
}

/// Returns the last conversation if each repeats the one before it and goes on, as the states of a stream do, otherwise all.
fn last_state(mut found: Vec<Found>) -> Vec<Found> {
    let goes_on = |pair: &[Found]| {
        let (one, next) = (&pair[0], &pair[1]);
        one.id == next.id
            && one.items.len() < next.items.len()
            && begins_with(&next.items, &one.items)
    };
    if found.windows(2).all(goes_on) {
        found.drain(..found.len().saturating_sub(1));
    }
    found
}

/// Builds the messages, the conclusion and the ids of a session. A UUID stays unchanged; a session id is derived from any other id. Without
/// an id it is derived from the content, so that the same file is the same session.
fn finish(format: SessionFormat, found: Found) -> (String, SessionInput) {
    let mut session = found.session;
    let (messages, conclusion) = conversation(&found.items);
    let completed = || SessionStatus::Completed.to_string();
    session.status.get_or_insert_with(completed);
    session.conversation = messages;
    session.final_analysis = match (session.final_analysis.take(), conclusion) {
        // The agent's last text stays a message if another conclusion is given.
        (Some(given), Some(last)) if given.trim() != last.trim() => {
            session.conversation.push(Message {
                role: "assistant".to_owned(),
                content: last,
                ..Message::default()
            });
            Some(given)
        }
        (given, last) => given.or(last),
    };
    let uuid = found.id.as_deref().filter(|id| id.len() == 36);
    session.session_id = uuid.and_then(|id| Uuid::try_parse(id).ok());
    if session.session_id.is_none() {
        let content = || json!(session).to_string();
        let name = found.id.clone().unwrap_or_else(content);
        session.session_id = Some(derived_id(format.as_str(), &name));
        session.external_id = found.id;
    }
    (found.place, session)
}

/// Derives the session id of an id that is no UUID.
pub(super) fn derived_id(source: &str, external_id: &str) -> Uuid {
    let digest = Sha256::digest(format!("{source}\0{external_id}"));
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}

fn failure(error: &str) -> Item {
    Item::text("system", format!("Error: {error}"))
}

#[cfg(test)]
mod tests;
