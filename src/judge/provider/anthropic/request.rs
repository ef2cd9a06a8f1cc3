//! The request's body.

use std::collections::BTreeMap;

use serde_json::json;
use serde_json::value::RawValue;

use super::schema::accepted;
use crate::judge::provider::body::{self, raw};
use crate::judge::provider::schema::Ordered;
use crate::judge::provider::shape::{Rung, Sent, Shape};
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
    let mut fields: BTreeMap<&str, Box<RawValue>> = BTreeMap::new();
    fields.insert("model", raw(spec.model())?);
    fields.insert("max_tokens", raw(&request.max_output_tokens)?);
    match shape.rung {
        Rung::JsonSchema => {
            let schema = accepted(request.schema.as_ref());
            let format = ByKind("json_schema", &raw(&Ordered(&schema))?).written()?;
            fields.insert("output_config", raw(&BTreeMap::from([("format", format)]))?);
        }
        Rung::Tool => {
            let name = request.schema_name;
            let tool = BTreeMap::from([
                ("name", raw(name)?),
                ("description", raw("Takes the whole answer.")?),
                ("input_schema", schema.clone()),
            ]);
            fields.insert("tools", raw(&[tool])?);
            fields.insert(
                "tool_choice",
                raw(&json!({ "type": "tool", "name": name }))?,
            );
        }
        // There is no such rung on this family's ladder.
        Rung::JsonObject | Rung::Prompt => {}
    }
    let messages = body::messages(request, shape.rung, &schema);
    let mut text = schema.get().len();
    let mut spoken = Vec::with_capacity(messages.len());
    for message in &messages {
        text += message.text.len();
        let role = match message.role {
            Role::User => "user",
            Role::Assistant => "assistant",
        };
        spoken.push(BTreeMap::from([("role", role), ("content", &message.text)]));
    }
    fields.insert("messages", raw(&spoken)?);
    if let (Some(temperature), Sent::Yes) = (entry.temperature, shape.temperature) {
        fields.insert("temperature", raw(&temperature)?);
    }
    for (key, value) in &entry.extra_body {
        fields.insert(key, raw(value)?);
    }
    body::write(&fields, text)
}

/// `{"type": kind, "schema": schema}`.
struct ByKind<'a>(&'static str, &'a RawValue);

impl ByKind<'_> {
    fn written(&self) -> Result<Box<RawValue>, serde_json::Error> {
        raw(&BTreeMap::from([
            ("type", &*raw(self.0)?),
            ("schema", self.1),
        ]))
    }
}
