//! The request's body.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value as raw};
use serde_json::{Value, json};

use crate::PromptText;
use crate::entries::spec::JudgeSpec;
use crate::provider::body::{Body, temperature};
use crate::provider::call::{CallRequest, Role};
use crate::provider::shape::{Rung, Shape};

const CONFIG: &str = "generationConfig";

#[derive(Serialize)]
struct Content<'a> {
    role: &'static str,
    parts: [BTreeMap<&'static str, &'a PromptText>; 1],
}

pub(super) fn body(
    spec: &JudgeSpec,
    request: &CallRequest,
    shape: Shape,
) -> Result<Vec<u8>, serde_json::Error> {
    let mut body = Body::new(request, shape.rung);
    let contents = body.messages.iter().map(|message| Content {
        role: match message.role {
            Role::User => "user",
            Role::Assistant => "model",
        },
        parts: [BTreeMap::from([("text", message.text.as_ref())])],
    });
    let contents = raw(&contents.collect::<Vec<_>>())?;
    body.set("contents", &contents)?;
    body.set(CONFIG, &config(spec, request, shape)?)?;
    for (key, value) in &spec.entry().extra_body {
        if key != CONFIG {
            body.set(key, value)?;
        }
    }
    body.written()
}

/// How to generate; what the entry says of it (`extra_body.generationConfig`) goes on top.
fn config<'a>(
    spec: &'a JudgeSpec,
    request: &CallRequest,
    shape: Shape,
) -> Result<BTreeMap<&'a str, Box<RawValue>>, serde_json::Error> {
    let entry = spec.entry();
    let json = raw(&json!("application/json"))?;
    let mut config = BTreeMap::from([("maxOutputTokens", raw(&request.max_output_tokens)?)]);
    if let Some(temperature) = temperature(entry, shape) {
        config.insert("temperature", raw(&temperature)?);
    }
    match shape.rung {
        Rung::JsonSchema => {
            config.insert("responseMimeType", json);
            config.insert("responseJsonSchema", request.schema.json().to_owned());
        }
        Rung::JsonObject => {
            config.insert("responseMimeType", json);
        }
        // There is no tool on this ladder.
        Rung::Tool | Rung::Prompt => {}
    }
    if let Some(Value::Object(more)) = entry.extra_body.get(CONFIG) {
        for (key, value) in more {
            config.insert(key, raw(value)?);
        }
    }
    Ok(config)
}
