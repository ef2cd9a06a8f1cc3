//! What the requests of all families have in common: how a body is written, and the schema in words.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use super::shape::Rung;
use super::{CallRequest, Role};

/// Room for what a body holds besides the conversation and the schema.
const OTHER_FIELDS: usize = 512;

/// A message's text, with the schema told behind the first one where the server isn't given it.
pub(super) struct Spoken<'a> {
    pub(super) role: Role,
    pub(super) text: Cow<'a, str>,
}

/// The messages of a call, as they are sent on a rung.
pub(super) fn messages<'a>(
    request: &'a CallRequest,
    rung: Rung,
    schema: &RawValue,
) -> Vec<Spoken<'a>> {
    let mut messages: Vec<Spoken<'_>> = request
        .messages
        .iter()
        .map(|message| Spoken {
            role: message.role,
            text: Cow::Borrowed(&message.content),
        })
        .collect();
    let told = match rung {
        Rung::JsonSchema | Rung::Tool => false,
        Rung::JsonObject | Rung::Prompt => true,
    };
    if let (true, Some(first)) = (told, messages.first_mut()) {
        // The server won't hold the model to the schema, so the model must be told it.
        first.text.to_mut().push_str(&format!(
            "\n\nReply with one JSON object that matches this JSON schema, and with nothing else:\n{schema}\n"
        ));
    }
    messages
}

/// A value, written.
pub(super) fn raw<T: Serialize + ?Sized>(value: &T) -> Result<Box<RawValue>, serde_json::Error> {
    to_raw_value(value)
}

/// Writes a body whose conversation and schema are `text` bytes long.
///
/// Written once, and held as long as the call lasts: neither grown by doubling nor much too large.
pub(super) fn write<T: Serialize>(
    fields: &BTreeMap<&str, T>,
    text: usize,
) -> Result<Vec<u8>, serde_json::Error> {
    let escapes = text / 32;
    let mut bytes = Vec::with_capacity(text + escapes + OTHER_FIELDS);
    serde_json::to_writer(&mut bytes, fields)?;
    if bytes.capacity() - bytes.len() > escapes + OTHER_FIELDS {
        bytes.shrink_to_fit();
    }
    Ok(bytes)
}
