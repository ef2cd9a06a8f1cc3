//! Common parts of the requests of all formats.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};

use super::call::CallRequest;
use super::shape::{Rung, Shape};
use crate::PromptText;

#[derive(Serialize)]
pub(super) struct Body(BTreeMap<String, Field>);

#[derive(Serialize)]
#[serde(untagged)]
enum Field {
    Value(Value),
    /// Most of the body, shared until it is written.
    Text(PromptText),
    Fields(BTreeMap<&'static str, Field>),
    List(Vec<Field>),
}

impl Body {
    /// Returns the common part of chat completions and Anthropic's messages.
    pub(super) fn chat(
        model: &str,
        temperature: Option<f64>,
        request: &CallRequest,
        shape: &Shape,
    ) -> Self {
        let mut body = Self::new(request, shape.rung, false);
        if shape.has("temperature") {
            body.set("temperature", temperature);
        }
        body.set("model", model);
        // Some gateways stream by default.
        body.set("stream", false);
        body
    }

    /// Returns a body with the messages. The first message ends with the schema, unless the server enforces it.
    pub(super) fn new(request: &CallRequest, rung: Rung, is_gemini: bool) -> Self {
        let is_enforced = matches!(rung, Rung::JsonSchema | Rung::Tool);
        let schema = request.schema.json().get();
        let messages = request.messages.iter().enumerate().map(|(at, message)| {
            let mut text = message.clone();
            if !is_enforced && at == 0 {
                text = text.followed_by(format!(
                    "\n\nReply with one JSON object that matches this JSON schema, and with nothing else:\n{schema}\n"
                ));
            }
            let role = match (at % 2, is_gemini) {
                (0, _) => "user",
                (_, false) => "assistant",
                (_, true) => "model",
            };
            let text = Field::Text(text);
            let fields = |name, field| Field::Fields(BTreeMap::from([(name, field)]));
            let content = match is_gemini {
                true => ("parts", Field::List(vec![fields("text", text)])),
                false => ("content", text),
            };
            Field::Fields(BTreeMap::from([content, ("role", Field::Value(role.into()))]))
        });
        let key = if is_gemini { "contents" } else { "messages" };
        let messages = Field::List(messages.collect());
        Self(BTreeMap::from([(key.to_owned(), messages)]))
    }

    /// Adds the entry's own fields, without a seed that the server rejects.
    pub(super) fn extend(&mut self, own: &Map<String, Value>, shape: &Shape) {
        for (key, value) in own {
            if key != "seed" || shape.has("seed") {
                self.set(key, value.clone());
            }
        }
    }

    pub(super) fn set(&mut self, key: &str, value: impl Into<Value>) {
        self.0.insert(key.to_owned(), Field::Value(value.into()));
    }
}
