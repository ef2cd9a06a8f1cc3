//! The request's body.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

use crate::judge::provider::body::{self, raw};
use crate::judge::provider::schema::Ordered;
use crate::judge::provider::shape::{Cap, Rung, Sent, Shape};
use crate::judge::provider::{CallRequest, Role};
use crate::judge::providers::JudgeSpec;

/// The body of one call.
pub(super) fn body(
    spec: &JudgeSpec,
    request: &CallRequest,
    shape: Shape,
) -> Result<Vec<u8>, serde_json::Error> {
    let entry = spec.entry();
    let schema = raw(&Ordered(request.schema.as_ref()))?;
    let messages = messages(request, shape, &schema);
    let text: usize = messages.iter().map(|message| message.content.len()).sum();
    let mut fields: BTreeMap<&str, Part<'_>> = BTreeMap::new();
    fields.insert("model", Part::Raw(raw(spec.model())?));
    fields.insert("messages", Part::Messages(&messages));
    match shape.rung {
        Rung::JsonSchema => {
            let format = BySchema {
                kind: "json_schema",
                json_schema: NamedSchema {
                    name: request.schema_name,
                    strict: true,
                    schema: &schema,
                },
            };
            fields.insert("response_format", Part::Raw(raw(&format)?));
        }
        Rung::JsonObject => {
            let format = json!({ "type": "json_object" });
            fields.insert("response_format", Part::Raw(raw(&format)?));
        }
        // There is no tool on this family's ladder.
        Rung::Tool | Rung::Prompt => {}
    }
    let cap = match shape.cap {
        Cap::MaxCompletionTokens => "max_completion_tokens",
        Cap::MaxTokens => "max_tokens",
    };
    fields.insert(cap, Part::Raw(raw(&request.max_output_tokens)?));
    if let (Some(temperature), Sent::Yes) = (entry.temperature, shape.temperature) {
        fields.insert("temperature", Part::Raw(raw(&temperature)?));
    }
    for (key, value) in &entry.extra_body {
        if key != "seed" || shape.seed == Sent::Yes {
            fields.insert(key, Part::Raw(raw(value)?));
        }
    }
    body::write(&fields, text + schema.get().len())
}

/// The value of one field.
#[derive(Serialize)]
#[serde(untagged)]
enum Part<'a> {
    Messages(&'a [WireMessage<'a>]),
    Raw(Box<RawValue>),
}

#[derive(Serialize)]
struct BySchema<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    json_schema: NamedSchema<'a>,
}

#[derive(Serialize)]
struct NamedSchema<'a> {
    name: &'static str,
    strict: bool,
    schema: &'a RawValue,
}

#[derive(Serialize)]
struct WireMessage<'a> {
    role: &'static str,
    content: Cow<'a, str>,
}

fn messages<'a>(request: &'a CallRequest, shape: Shape, schema: &RawValue) -> Vec<WireMessage<'a>> {
    body::messages(request, shape.rung, schema)
        .into_iter()
        .map(|message| WireMessage {
            role: match message.role {
                Role::User => "user",
                Role::Assistant => "assistant",
            },
            content: message.text,
        })
        .collect()
}
