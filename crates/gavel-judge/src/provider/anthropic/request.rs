//! The request's body.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::schema::accepted;
use crate::entries::spec::JudgeSpec;
use crate::provider::body::{Body, temperature};
use crate::provider::call::CallRequest;
use crate::provider::shape::{Rung, Shape};

pub(super) fn body(
    spec: &JudgeSpec,
    request: &CallRequest,
    shape: Shape,
) -> Result<Vec<u8>, serde_json::Error> {
    let entry = spec.entry();
    let mut body = Body::new(request, shape.rung);
    body.set("model", spec.model())?;
    // Some gateways stream unless they are told not to.
    body.set("stream", &false)?;
    body.set("max_tokens", &request.max_output_tokens)?;
    match shape.rung {
        Rung::JsonSchema => {
            let format = BySchema {
                schema: accepted(request.schema.value()),
                kind: "json_schema",
            };
            body.set("output_config", &BTreeMap::from([("format", format)]))?;
        }
        Rung::Tool => {
            let name = request.schema_name;
            let tool = Tool {
                description: "Takes the whole answer.",
                input_schema: request.schema.json(),
                name,
            };
            body.set("tools", &[tool])?;
            body.set("tool_choice", &json!({ "type": "tool", "name": name }))?;
        }
        // There is no such rung on this ladder.
        Rung::JsonObject | Rung::Prompt => {}
    }
    body.set_chat();
    if let Some(temperature) = temperature(entry, shape) {
        body.set("temperature", &temperature)?;
    }
    for (key, value) in &entry.extra_body {
        body.set(key, value)?;
    }
    body.written()
}

#[derive(Serialize)]
struct BySchema {
    schema: Value,
    #[serde(rename = "type")]
    kind: &'static str,
}

#[derive(Serialize)]
struct Tool<'a> {
    description: &'static str,
    input_schema: &'a RawValue,
    name: &'static str,
}
