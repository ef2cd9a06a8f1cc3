//! Anthropic messages.
//!
//! Assumes only the wire format and ignores unknown fields. Requests no prompt cache, because only the framework, about 3,000 tokens, is
//! the same for every session: Opus and Haiku cache no prefix under 4,096 tokens, and with Sonnet the gain is under a tenth of the cost of an
//! average session. A cache requested by `extra_body: {cache_control: ..}` is counted and priced.

use serde_json::{Value, json};

use super::batch::BatchForm;
use super::body::Body;
use super::call::{CallRequest, Tokens};
use super::format::WireFormat;
use super::headers::RateHeaders;
use super::reply::{self, RawReply, Read, count, given, optional_count, text_at, without_answer};
use super::shape::{Rung, Shape};
use crate::entries::spec::JudgeSpec;
use crate::gate::Span;

pub(super) static FORMAT: WireFormat = WireFormat {
    name: "anthropic",
    path: "/v1/messages",
    auth_header: "x-api-key",
    auth_prefix: "",
    headers: &[("anthropic-version", "2023-06-01")],
    ladder: &[
        (
            Rung::JsonSchema,
            "output_config|output_format|json_schema|schema",
        ),
        (Rung::Tool, "tool_choice|tools|tool|input_schema"),
        (Rung::Prompt, ""),
    ],
    has_new_cap: false,
    body,
    read,
    no_reply: "with a body that is no message; check base_url",
    rate_headers: Some(RateHeaders {
        name: |what, part| format!("anthropic-ratelimit-{what}-{part}"),
        quantities: &["requests", "tokens", "input-tokens", "output-tokens"],
        span: Span::Minute,
    }),
    batches: Some(BatchForm::Requests),
};

fn body(spec: &JudgeSpec, request: &CallRequest, shape: &Shape) -> Body {
    let mut body = Body::chat(spec.model(), spec.entry().temperature, request, shape);
    body.set("max_tokens", request.max_output_tokens);
    let (name, schema) = (request.schema_name, request.schema.value());
    match shape.rung {
        Rung::JsonSchema => {
            let format = json!({ "type": "json_schema", "schema": schema });
            body.set("output_config", json!({ "format": format }));
        }
        Rung::Tool => {
            let description = "Takes the whole answer.";
            let tool = json!({ "name": name, "description": description, "input_schema": schema });
            body.set("tools", json!([tool]));
            body.set("tool_choice", json!({ "type": "tool", "name": name }));
        }
        Rung::JsonObject | Rung::Prompt => {}
    }
    body.extend(&spec.entry().extra_body, shape);
    body
}

fn read(message: &Value) -> Read {
    let Some(content) = message.get("content").and_then(Value::as_array) else {
        return Err(without_answer(message, "with no content"));
    };
    let text = text(content);
    let words = |_: &str| explanation(given(message, "/stop_details"));
    let stop = reply::stop(message.get("stop_reason"), words);
    let usage = given(message, "/usage").and_then(tokens);
    let mut blocks = content.iter();
    let has_thoughts = blocks.any(|block| text_at(block, "/thinking").is_some());
    Ok(RawReply {
        text_in: (text.is_empty() && has_thoughts).then_some("thinking"),
        ..RawReply::new(message, text, stop, usage)
    })
}

/// Returns the inputs of tools if the model called any, otherwise the texts. Thinking, and text before a call, are no reply.
fn text(content: &[Value]) -> String {
    let of_kind = |kind| content.iter().filter(move |block| block["type"] == kind);
    let inputs = of_kind("tool_use").filter_map(|block| given(block, "/input"));
    let inputs: Vec<String> = inputs.map(Value::to_string).collect();
    let texts = of_kind("text").filter_map(|it| it["text"].as_str());
    match inputs.as_slice() {
        [] => texts.collect(),
        inputs => inputs.join("\n"),
    }
}

/// Returns the explanation in `stop_details`.
fn explanation(details: Option<&Value>) -> String {
    let found = ["/category", "/explanation", ""].map(|at| details?.pointer(at)?.as_str());
    match found.into_iter().flatten().collect::<Vec<_>>().join(": ") {
        none if none.is_empty() => "it gave no reason".to_owned(),
        words => words,
    }
}

/// Adds the tokens read from the cache and written to it to the input, because the provider counts them separately.
fn tokens(usage: &Value) -> Option<Tokens> {
    let cached = optional_count(usage, "/cache_read_input_tokens")?;
    let cache_written = optional_count(usage, "/cache_creation_input_tokens")?;
    let input = count(usage, &["/input_tokens"])? + cached + cache_written;
    let output = count(usage, &["/output_tokens"])?;
    Tokens::new(input, cached, cache_written, output)
}

#[cfg(test)]
mod tests;
