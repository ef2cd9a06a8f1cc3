//! The request's body.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::judge::provider::body::{self, raw};
use crate::judge::provider::schema::Ordered;
use crate::judge::provider::shape::{Rung, Sent, Shape};
use crate::judge::provider::{CallRequest, Role};
use crate::judge::providers::JudgeSpec;

const CONFIG: &str = "generationConfig";
const JSON: &str = "application/json";

#[derive(Serialize)]
struct Content<'a> {
    role: &'static str,
    parts: [Part<'a>; 1],
}

#[derive(Serialize)]
struct Part<'a> {
    text: &'a str,
}

/// The body of one call.
pub(super) fn body(
    spec: &JudgeSpec,
    request: &CallRequest,
    shape: Shape,
) -> Result<Vec<u8>, serde_json::Error> {
    let schema = raw(&Ordered(request.schema.as_ref()))?;
    let messages = body::messages(request, shape.rung, &schema);
    let contents: Vec<Content<'_>> = messages
        .iter()
        .map(|message| Content {
            role: match message.role {
                Role::User => "user",
                Role::Assistant => "model",
            },
            parts: [Part {
                text: &message.text,
            }],
        })
        .collect();
    let text: usize = messages.iter().map(|message| message.text.len()).sum();
    let text = text + schema.get().len();
    let mut fields: BTreeMap<&str, Box<RawValue>> = BTreeMap::new();
    fields.insert("contents", raw(&contents)?);
    fields.insert(CONFIG, raw(&config(spec, request, shape, schema)?)?);
    for (key, value) in &spec.entry().extra_body {
        if key != CONFIG {
            fields.insert(key, raw(value)?);
        }
    }
    body::write(&fields, text)
}

/// How to generate; what the entry says of it (`extra_body.generationConfig`) goes on top.
fn config<'a>(
    spec: &'a JudgeSpec,
    request: &CallRequest,
    shape: Shape,
    schema: Box<RawValue>,
) -> Result<BTreeMap<&'a str, Box<RawValue>>, serde_json::Error> {
    let entry = spec.entry();
    let mut config = BTreeMap::new();
    config.insert("maxOutputTokens", raw(&request.max_output_tokens)?);
    if let (Some(temperature), Sent::Yes) = (entry.temperature, shape.temperature) {
        config.insert("temperature", raw(&temperature)?);
    }
    match shape.rung {
        Rung::JsonSchema => {
            config.insert("responseMimeType", raw(JSON)?);
            config.insert("responseJsonSchema", schema);
        }
        Rung::JsonObject => {
            config.insert("responseMimeType", raw(JSON)?);
        }
        // There is no tool on this family's ladder.
        Rung::Tool | Rung::Prompt => {}
    }
    if let Some(Value::Object(more)) = entry.extra_body.get(CONFIG) {
        for (key, value) in more {
            config.insert(key, raw(value)?);
        }
    }
    Ok(config)
}
