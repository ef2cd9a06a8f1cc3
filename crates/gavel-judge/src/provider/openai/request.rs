//! The request's body.

use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

use crate::entries::spec::JudgeSpec;
use crate::provider::body::{Body, temperature};
use crate::provider::call::CallRequest;
use crate::provider::shape::{Cap, Rung, Sent, Shape};

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
    body.set_chat();
    match shape.rung {
        Rung::JsonSchema => {
            let format = BySchema {
                kind: "json_schema",
                json_schema: NamedSchema {
                    name: request.schema_name,
                    strict: true,
                    schema: request.schema.json(),
                },
            };
            body.set("response_format", &format)?;
        }
        Rung::JsonObject => body.set("response_format", &json!({ "type": "json_object" }))?,
        // There is no tool on this ladder.
        Rung::Tool | Rung::Prompt => {}
    }
    let cap = match shape.cap {
        Cap::MaxCompletionTokens => "max_completion_tokens",
        Cap::MaxTokens => "max_tokens",
    };
    body.set(cap, &request.max_output_tokens)?;
    if let Some(temperature) = temperature(entry, shape) {
        body.set("temperature", &temperature)?;
    }
    for (key, value) in &entry.extra_body {
        if key != "seed" || shape.seed == Sent::Yes {
            body.set(key, value)?;
        }
    }
    body.written()
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
