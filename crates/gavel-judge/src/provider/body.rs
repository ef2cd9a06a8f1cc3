//! What the requests of all formats have in common: how a body is written, and the schema in words.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use super::call::{CallRequest, Role};
use super::shape::{Rung, Sent, Shape};
use crate::PromptText;
use crate::entries::spec::Entry;

/// Room for what a body holds besides the conversation and the schema.
const OTHER_FIELDS: usize = 512;

/// A request's body in the making.
pub(super) struct Body<'a> {
    pub(super) messages: Vec<Spoken<'a>>,
    fields: BTreeMap<&'a str, Field<'a>>,
    /// Bytes of the conversation and the schema.
    text: usize,
}

/// A message's text, with the schema behind the first one where the server isn't given it.
pub(super) struct Spoken<'a> {
    pub(super) role: Role,
    pub(super) text: Cow<'a, PromptText>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Field<'a> {
    Written(Box<RawValue>),
    /// Most of the body: written with it, and not before.
    Chat(Vec<Turn<'a>>),
}

/// A message as chat completions and Anthropic have it.
#[derive(Serialize)]
struct Turn<'a> {
    content: Cow<'a, PromptText>,
    role: &'static str,
}

impl<'a> Body<'a> {
    /// A body without fields, and what goes into its conversation on a rung.
    pub(super) fn new(request: &'a CallRequest, rung: Rung) -> Self {
        let messages = request.messages.iter().map(|message| Spoken {
            role: message.role,
            text: Cow::Borrowed(&message.content),
        });
        let mut messages: Vec<Spoken<'_>> = messages.collect();
        let in_words = match rung {
            Rung::JsonSchema | Rung::Tool => false,
            Rung::JsonObject | Rung::Prompt => true,
        };
        let schema = request.schema.json().get();
        if let (true, Some(first)) = (in_words, messages.first_mut()) {
            // The server won't hold the model to the schema, so the model must be told it.
            first.text = Cow::Owned(first.text.followed_by(format!(
                "\n\nReply with one JSON object that matches this JSON schema, and with nothing else:\n{schema}\n"
            )));
        }
        let text: usize = messages.iter().map(|message| message.text.bytes()).sum();
        Self {
            messages,
            fields: BTreeMap::new(),
            text: text + schema.len(),
        }
    }

    pub(super) fn set<T: Serialize + ?Sized>(
        &mut self,
        key: &'a str,
        value: &T,
    ) -> Result<(), serde_json::Error> {
        let value = Field::Written(to_raw_value(value)?);
        self.fields.insert(key, value);
        Ok(())
    }

    /// `messages` as chat completions and Anthropic have them.
    pub(super) fn set_chat(&mut self) {
        let messages = std::mem::take(&mut self.messages).into_iter();
        let turns = messages.map(|message| Turn {
            content: message.text,
            role: match message.role {
                Role::User => "user",
                Role::Assistant => "assistant",
            },
        });
        self.fields.insert("messages", Field::Chat(turns.collect()));
    }

    /// Writes it once, neither grown by doubling nor much too large: it is held as long as the call lasts.
    pub(super) fn written(self) -> Result<Vec<u8>, serde_json::Error> {
        let escapes = self.text / 32;
        let mut bytes = Vec::with_capacity(self.text + escapes + OTHER_FIELDS);
        serde_json::to_writer(&mut bytes, &self.fields)?;
        if bytes.capacity() - bytes.len() > escapes + OTHER_FIELDS {
            bytes.shrink_to_fit();
        }
        Ok(bytes)
    }
}

/// The temperature, where the entry has one and the server takes it.
pub(super) fn temperature(entry: &Entry, shape: Shape) -> Option<f64> {
    entry.temperature.filter(|_| shape.temperature == Sent::Yes)
}
