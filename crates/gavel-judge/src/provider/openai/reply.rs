//! Reads a chat completion.

use serde_json::{Value, json};

use crate::provider::call::{Stop, Tokens};
use crate::provider::events::{self, Events};
use crate::provider::reply::{
    self, RawReply, Unreadable, count, error_at, given, text_at, without_answer,
};

/// Where servers put thoughts that are no part of the content.
const THOUGHTS: [&str; 2] = ["reasoning_content", "reasoning"];
/// Where servers put usage.
const USAGE: [&str; 3] = ["/usage", "/choices/0/usage", "/x_groq/usage"];

pub(super) fn read(body: &[u8]) -> Result<RawReply, Unreadable> {
    let completion = reply::parse(
        body,
        joined,
        "answered 200 with a body that is no chat completion; check base_url",
    )?;
    let choice = match completion.get("choices") {
        Some(Value::Array(choices)) => {
            let first = choices.iter().find(|choice| choice["index"] == json!(0));
            first.or(choices.first())
        }
        Some(Value::Null) if given(&completion, "/error").is_none() => None,
        Some(_) | None => {
            return Err(without_answer(&completion, "answered 200 with no choices"));
        }
    };
    let message = choice.and_then(|choice| given(choice, "/message").or(given(choice, "/delta")));
    let answer = message.and_then(answer);
    let error = choice.and_then(|choice| error_at(choice, "/error"));
    Ok(RawReply {
        text_in: message.filter(|_| answer.is_none()).and_then(|message| {
            THOUGHTS
                .into_iter()
                .find(|key| text_at(message, &format!("/{key}")).is_some())
        }),
        text: answer.unwrap_or_default(),
        stop: match (choice, message.and_then(refusal)) {
            (None, _) => Stop::Failed("answered 200 with no choices".to_owned()),
            (Some(_), Some(refusal)) => Stop::Refused(refusal),
            (Some(choice), None) => reply::stop(choice.get("finish_reason"), |reason| {
                format!("its content filter cut the reply: {reason}")
            }),
        },
        error: error.or_else(|| error_at(&completion, "/error")),
        model: text_at(&completion, "/model").map(str::to_owned),
        simulated: completion["simulated"] == json!(true),
        usage: USAGE
            .into_iter()
            .find_map(|at| tokens(given(&completion, at)?)),
    })
}

/// One completion of the chunks of a stream; `None` where it broke off.
fn joined(stream: Events) -> Option<Value> {
    let mut completion = json!({});
    for event in stream.events {
        events::merge(&mut completion, event);
    }
    let ends = ["/choices/0/finish_reason", "/choices/0/message", "/error"];
    let has_end = ends.iter().any(|end| given(&completion, end).is_some());
    (stream.is_done || has_end).then_some(completion)
}

/// The content's text, else the arguments of the one call by which the model answered; `None` for neither.
fn answer(message: &Value) -> Option<String> {
    let text = match message.get("content") {
        Some(Value::String(text)) => text.clone(),
        // Some servers answer with parts instead of a text.
        Some(Value::Array(parts)) => parts.iter().filter_map(part).collect(),
        // Some read the JSON that they asked the model for.
        Some(Value::Object(content)) => {
            let content = Value::from(content.clone());
            part(&content).map_or_else(|| content.to_string(), str::to_owned)
        }
        Some(Value::Null | Value::Bool(_) | Value::Number(_)) | None => String::new(),
    };
    match text.trim().is_empty() {
        false => Some(text),
        true => called(message),
    }
}

/// A part's text; thoughts are none.
fn part(part: &Value) -> Option<&str> {
    let kind = part.get("type").and_then(Value::as_str);
    if matches!(kind, Some("thinking" | "reasoning")) {
        return None;
    }
    text_at(part, "/text").or_else(|| text_at(part, "/text/value"))
}

fn called(message: &Value) -> Option<String> {
    let arguments = match message.get("tool_calls").and_then(Value::as_array) {
        Some(calls) => match calls.as_slice() {
            [call] => given(call, "/function/arguments")?,
            [] | [_, ..] => return None,
        },
        None => given(message, "/function_call/arguments")?,
    };
    let text = arguments.as_str().map(str::to_owned);
    Some(text.unwrap_or_else(|| arguments.to_string()))
}

fn refusal(message: &Value) -> Option<String> {
    let parts = message.get("content").and_then(Value::as_array);
    let in_parts = parts.and_then(|parts| parts.iter().find_map(|part| text_at(part, "/refusal")));
    text_at(message, "/refusal").or(in_parts).map(str::to_owned)
}

/// The total tells what the parts leave out: xAI and Gemini count hidden reasoning there alone, and bill it as output.
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
    let tokens = Tokens {
        input,
        cached: count(usage, &cached).unwrap_or(0),
        // Writing to the cache costs nothing here.
        cache_written: 0,
        output: output.max(others)?,
    };
    tokens.believed()
}

#[cfg(test)]
mod tests;
