//! What the requests of all formats have in common: how a body is written, and the schema in words.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::call::{CallRequest, Role};
use super::shape::{Rung, Shape};
use crate::PromptText;

/// A request's body in the making.
pub(super) struct Body<'a> {
    fields: BTreeMap<&'a str, Field<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Field<'a> {
    Value(Value),
    /// Most of the body: written with it, and not before.
    Turns(Vec<Turn<'a>>),
}

#[derive(Serialize)]
#[serde(untagged)]
enum Turn<'a> {
    /// As chat completions and Anthropic have it.
    Message {
        content: Cow<'a, PromptText>,
        role: &'static str,
    },
    /// As Gemini has it.
    Content {
        parts: [BTreeMap<&'static str, Cow<'a, PromptText>>; 1],
        role: &'static str,
    },
}

impl<'a> Body<'a> {
    /// What bodies of chat completions and of Anthropic have in common.
    pub(super) fn chat(
        model: &str,
        temperature: Option<f64>,
        request: &'a CallRequest,
        shape: Shape,
    ) -> Self {
        let mut body = Self::new(request, shape.rung, false);
        if let Some(temperature) = temperature.filter(|_| shape.temperature) {
            body.set("temperature", json!(temperature));
        }
        body.set("model", json!(model));
        // Some gateways stream unless they are told not to.
        body.set("stream", json!(false));
        body
    }

    /// A body with a conversation, with the schema behind its first message where the server isn't given it.
    pub(super) fn new(request: &'a CallRequest, rung: Rung, is_gemini: bool) -> Self {
        let in_words = match rung {
            Rung::JsonSchema | Rung::Tool => false,
            Rung::JsonObject | Rung::Prompt => true,
        };
        let schema = request.schema.json().get();
        let turns = request.messages.iter().enumerate().map(|(at, message)| {
            let mut text = Cow::Borrowed(&message.content);
            if in_words && at == 0 {
                // The server won't hold the model to the schema, so the model must be told it.
                text = Cow::Owned(text.followed_by(format!(
                    "\n\nReply with one JSON object that matches this JSON schema, and with nothing else:\n{schema}\n"
                )));
            }
            let role = match (message.role, is_gemini) {
                (Role::User, _) => "user",
                (Role::Assistant, false) => "assistant",
                (Role::Assistant, true) => "model",
            };
            match is_gemini {
                true => Turn::Content { parts: [BTreeMap::from([("text", text)])], role },
                false => Turn::Message { content: text, role },
            }
        });
        let turns = Field::Turns(turns.collect());
        let key = if is_gemini { "contents" } else { "messages" };
        Self {
            fields: BTreeMap::from([(key, turns)]),
        }
    }

    /// Adds the entry's own fields, but for a seed that the server refuses.
    pub(super) fn extend(&mut self, own: &'a Map<String, Value>, shape: Shape) {
        for (key, value) in own {
            if key != "seed" || shape.seed {
                self.set(key, value.clone());
            }
        }
    }

    pub(super) fn set(&mut self, key: &'a str, value: Value) {
        self.fields.insert(key, Field::Value(value));
    }

    /// Writes it, not larger than it is: it is held as long as the call lasts.
    pub(super) fn written(self) -> Result<Vec<u8>, serde_json::Error> {
        let mut bytes = serde_json::to_vec(&self.fields)?;
        bytes.shrink_to_fit();
        Ok(bytes)
    }
}
