//! Chat completions: OpenAI and every compatible server (Azure, vLLM, Ollama, llama.cpp, LiteLLM).
//!
//! Assumes only the wire format, uses the address as given and ignores unknown fields.

use serde_json::{Value, json};

use super::batch::BatchForm;
use super::body::Body;
use super::call::{CallRequest, Stop, Tokens};
use super::format::WireFormat;
use super::headers::RateHeaders;
use super::reply::{self, RawReply, Read, Unreadable, count, error_at, given, is_error, text_at};
use super::shape::{NEW_CAP, Rung, Shape};
use crate::entries::spec::JudgeSpec;
use crate::gate::Span;

/// Fields of a message with thinking outside the content.
const THOUGHTS: [&str; 2] = ["reasoning_content", "reasoning"];
const USAGE: [&str; 3] = ["/usage", "/choices/0/usage", "/x_groq/usage"];
/// Names of the fields of the output mode. Servers that compile the schema use the last ones.
const FORMATS: &str = "response_format|json_schema|json_object|response_json_schema|response_schema|responseSchema|schema|grammar|\
    structured output|structured outputs";

pub(super) static FORMAT: WireFormat = WireFormat {
    name: "openai",
    path: "/chat/completions",
    auth_header: "Authorization",
    auth_prefix: "Bearer ",
    headers: &[],
    ladder: &[
        (Rung::JsonSchema, FORMATS),
        (Rung::JsonObject, FORMATS),
        (Rung::Prompt, ""),
    ],
    has_new_cap: true,
    body,
    read,
    no_reply: "with a body that is no chat completion; check base_url",
    rate_headers: Some(RateHeaders {
        name: |what, part| format!("x-ratelimit-{part}-{what}"),
        quantities: &["requests", "tokens"],
        // For most servers and models the span is a minute, for some a day; the headers don't report it.
        span: Span::Unsaid,
    }),
    batches: Some(BatchForm::Files),
};

fn body(spec: &JudgeSpec, request: &CallRequest, shape: &Shape) -> Body {
    let mut body = Body::chat(spec.model(), spec.entry().temperature, request, shape);
    match shape.rung {
        Rung::JsonSchema => {
            let (name, schema) = (request.schema_name, request.schema.value());
            let schema = json!({ "name": name, "strict": true, "schema": schema });
            let format = json!({ "type": "json_schema", "json_schema": schema });
            body.set("response_format", format);
        }
        Rung::JsonObject => body.set("response_format", json!({ "type": "json_object" })),
        Rung::Tool | Rung::Prompt => {}
    }
    let new_cap = Some(NEW_CAP).filter(|cap| shape.has(cap));
    body.set(new_cap.unwrap_or("max_tokens"), request.max_output_tokens);
    body.extend(&spec.entry().extra_body, shape);
    body
}

fn read(completion: &Value) -> Read {
    const NO_CHOICES: &str = "answered with no choices; if it goes on, check base_url and type";
    let choices = completion["choices"].as_array();
    if choices.is_none() && is_error(completion) {
        return Err(Unreadable::ErrorInside(completion.clone()));
    }
    let choices = choices.map(Vec::as_slice).unwrap_or_default();
    let first = choices.iter().find(|choice| choice["index"] == json!(0));
    let choice = first.or(choices.first());
    let message = choice.map(|choice| {
        let message = given(choice, "/message").or(given(choice, "/delta"));
        message.unwrap_or(choice)
    });
    let answer = message.and_then(answer);
    let stop = match (choice, message.and_then(refusal)) {
        (None, _) => Stop::Failed(NO_CHOICES.to_owned()),
        (Some(_), Some(refusal)) => Stop::Refused(refusal.to_owned()),
        (Some(choice), None) => reply::stop(choice.get("finish_reason"), |reason| {
            format!("its content filter cut the reply: {reason}")
        }),
    };
    let usage = USAGE.iter().find_map(|at| tokens(given(completion, at)?));
    let thoughts = message.filter(|_| answer.is_none()).and_then(|message| {
        let mut keys = THOUGHTS.into_iter();
        let thoughts = keys.find(|key| text_at(message, &format!("/{key}")).is_some());
        thoughts.or(given(message, "/tool_calls/0").map(|_| "tool_calls"))
    });
    let reply = RawReply::new(completion, answer.unwrap_or_default(), stop, usage);
    Ok(RawReply {
        text_in: thoughts,
        error: choice.and_then(error_at).or(reply.error),
        ..reply
    })
}

/// Returns the content's text, otherwise the arguments of all tool calls, the SDK's parsed content or a text completion.
fn answer(message: &Value) -> Option<String> {
    const ELSEWHERE: &str = "/function/arguments /function_call/arguments /parsed /text";
    let text = match message.get("content") {
        Some(Value::String(text)) => text.clone(),
        // Some servers answer with parts or with parsed JSON.
        Some(Value::Array(parts)) => parts.iter().filter_map(part).collect(),
        Some(it @ Value::Object(_)) => part(it).map_or(it.to_string(), str::to_owned),
        Some(Value::Null | Value::Bool(_) | Value::Number(_)) | None => String::new(),
    };
    if !text.trim().is_empty() {
        return Some(text);
    }
    let calls = message["tool_calls"].as_array().into_iter().flatten();
    let places = calls.chain([message]);
    let answers = places.filter_map(|place| ELSEWHERE.split(' ').find_map(|at| given(place, at)));
    let texts = answers.map(|it| it.as_str().map_or(it.to_string(), str::to_owned));
    let texts: Vec<String> = texts.collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}

/// Returns the text of a part, unless it is thinking.
fn part(part: &Value) -> Option<&str> {
    let is_thought = matches!(part["type"].as_str(), Some("thinking" | "reasoning"));
    let text = text_at(part, "/text").or_else(|| text_at(part, "/text/value"));
    text.filter(|_| !is_thought)
}

fn refusal(message: &Value) -> Option<&str> {
    let mut parts = message["content"].as_array().into_iter().flatten();
    text_at(message, "/refusal").or_else(|| parts.find_map(|part| text_at(part, "/refusal")))
}

/// Derives the output from the total if that is larger, because xAI and Gemini count (and bill) hidden reasoning only in the total.
fn tokens(usage: &Value) -> Option<Tokens> {
    let total = count(usage, &["/total_tokens"]);
    let input = count(usage, &["/prompt_tokens", "/input_tokens"])?;
    let output = count(usage, &["/completion_tokens", "/output_tokens"]);
    let others = total.map(|total| total.saturating_sub(input).max(0));
    let cached = [
        "/prompt_tokens_details/cached_tokens",
        "/prompt_cache_hit_tokens",
        "/cached_tokens",
    ];
    let cached = count(usage, &cached).unwrap_or(0);
    Tokens::new(input, cached, 0, output.max(others)?)
}

#[cfg(test)]
mod tests;
