//! The request's body, and the fields that it can do without.

use serde_json::{Map, Value, json};

use crate::judge::provider::{CallRequest, Role};
use crate::judge::providers::{Entry, JudgeSpec, Structured};

/// Fields that some servers or models refuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    Temperature,
    MaxCompletionTokens,
    MaxTokens,
    ResponseFormat,
    Seed,
}

impl Field {
    pub(super) const ALL: [Self; 5] = [
        Self::Temperature,
        Self::MaxCompletionTokens,
        Self::MaxTokens,
        Self::ResponseFormat,
        Self::Seed,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Temperature => "temperature",
            Self::MaxCompletionTokens => "max_completion_tokens",
            Self::MaxTokens => "max_tokens",
            Self::ResponseFormat => "response_format",
            Self::Seed => "seed",
        }
    }
}

/// Which fields a request has. Narrower shapes compare greater, so that what two calls learned adds up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    format: Format,
    cap: Cap,
    temperature: Sent,
    seed: Sent,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Format {
    JsonSchema,
    JsonObject,
    Prompt,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Cap {
    MaxCompletionTokens,
    MaxTokens,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Sent {
    Yes,
    No,
}

impl Shape {
    /// What is tried first.
    pub(super) fn start(entry: &Entry) -> Self {
        let sent = |yes| if yes { Sent::Yes } else { Sent::No };
        Self {
            format: match entry.structured {
                Structured::Auto | Structured::JsonSchema => Format::JsonSchema,
                Structured::JsonObject => Format::JsonObject,
            },
            cap: Cap::MaxCompletionTokens,
            temperature: sent(entry.temperature.is_some()),
            // There is one only where the entry's extra_body says so.
            seed: sent(entry.extra_body.contains_key(Field::Seed.name())),
        }
    }

    /// What both can do without.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            format: self.format.max(other.format),
            cap: self.cap.max(other.cap),
            temperature: self.temperature.max(other.temperature),
            seed: self.seed.max(other.seed),
        }
    }

    /// Whether a request of this shape holds the field.
    pub(super) fn has(self, field: Field) -> bool {
        match field {
            Field::Temperature => self.temperature == Sent::Yes,
            Field::MaxCompletionTokens => self.cap == Cap::MaxCompletionTokens,
            Field::MaxTokens => self.cap == Cap::MaxTokens,
            Field::ResponseFormat => self.format != Format::Prompt,
            Field::Seed => self.seed == Sent::Yes,
        }
    }

    /// The next shape, with the field dropped, renamed or one rung down; `None` if nothing is left to try.
    pub(super) fn without(self, field: Field) -> Option<Self> {
        if !self.has(field) {
            return None;
        }
        match field {
            Field::Temperature => Some(Self {
                temperature: Sent::No,
                ..self
            }),
            Field::Seed => Some(Self {
                seed: Sent::No,
                ..self
            }),
            Field::MaxCompletionTokens => Some(Self {
                cap: Cap::MaxTokens,
                ..self
            }),
            // It was renamed to this one already.
            Field::MaxTokens => None,
            Field::ResponseFormat => Some(Self {
                format: match self.format {
                    Format::JsonSchema => Format::JsonObject,
                    Format::JsonObject | Format::Prompt => Format::Prompt,
                },
                ..self
            }),
        }
    }
}

/// The body of one call.
pub(super) fn body(spec: &JudgeSpec, request: &CallRequest, shape: Shape) -> Vec<u8> {
    let entry = spec.entry();
    let mut body = Map::new();
    body.insert("model".to_owned(), json!(spec.model()));
    body.insert("messages".to_owned(), messages(request, shape));
    match shape.format {
        Format::JsonSchema => {
            let format = json!({
                "type": "json_schema",
                "json_schema": {
                    "name": request.schema_name,
                    "strict": true,
                    "schema": request.schema,
                },
            });
            body.insert("response_format".to_owned(), format);
        }
        Format::JsonObject => {
            let format = json!({ "type": "json_object" });
            body.insert("response_format".to_owned(), format);
        }
        Format::Prompt => {}
    }
    let cap = match shape.cap {
        Cap::MaxCompletionTokens => Field::MaxCompletionTokens,
        Cap::MaxTokens => Field::MaxTokens,
    };
    body.insert(cap.name().to_owned(), json!(request.max_output_tokens));
    if let (Some(temperature), Sent::Yes) = (entry.temperature, shape.temperature) {
        body.insert("temperature".to_owned(), json!(temperature));
    }
    for (key, value) in &entry.extra_body {
        if key != Field::Seed.name() || shape.seed == Sent::Yes {
            body.insert(key.clone(), value.clone());
        }
    }
    Value::Object(body).to_string().into_bytes()
}

fn messages(request: &CallRequest, shape: Shape) -> Value {
    let mut messages: Vec<Value> = request
        .messages
        .iter()
        .map(|message| {
            let role = match message.role {
                Role::User => "user",
                Role::Assistant => "assistant",
            };
            json!({ "role": role, "content": message.content })
        })
        .collect();
    if shape.format != Format::JsonSchema
        && let Some(Value::String(content)) = messages
            .first_mut()
            .and_then(|first| first.get_mut("content"))
    {
        // The server won't hold the model to the schema, so the model must be told it.
        content.push_str(&format!(
            "\n\nReply with one JSON object that matches this JSON schema, and with nothing else:\n{}\n",
            request.schema
        ));
    }
    Value::Array(messages)
}
