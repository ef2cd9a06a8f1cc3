//! Reads a chat completion.

use serde::Deserialize;

use crate::provider::call::{Stop, Tokens};
use crate::provider::reply::{self, RawReply, Unreadable, count};

#[derive(Deserialize)]
struct Completion {
    model: Option<String>,
    choices: Option<Vec<Choice>>,
    usage: Option<Usage>,
    simulated: Option<serde_json::Value>,
    error: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct Choice {
    message: Option<Message>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Message {
    content: Option<Content>,
    refusal: Option<String>,
}

/// Some servers answer with parts instead of a text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Deserialize)]
struct Part {
    text: Option<String>,
}

#[derive(Deserialize)]
struct Usage {
    prompt_tokens: Option<i64>,
    completion_tokens: Option<i64>,
    prompt_tokens_details: Option<PromptDetails>,
}

#[derive(Deserialize)]
struct PromptDetails {
    cached_tokens: Option<i64>,
}

pub(super) fn read(body: &[u8]) -> Result<RawReply, Unreadable> {
    let completion: Completion = reply::parse(
        body,
        "answered 200 with a body that is no chat completion; check base_url",
    )?;
    let choices = completion.choices.unwrap_or_default();
    let Some(choice) = choices.into_iter().next() else {
        let error = completion.error.as_ref();
        return Err(reply::without_answer(error, "answered 200 with no choices"));
    };
    let (content, refusal) = choice
        .message
        .map_or((None, None), |message| (message.content, message.refusal));
    Ok(RawReply {
        text: text(content),
        stop: stop(choice.finish_reason, refusal),
        model: completion.model,
        simulated: completion.simulated,
        usage: completion.usage.and_then(tokens),
    })
}

fn text(content: Option<Content>) -> String {
    match content {
        None => String::new(),
        Some(Content::Text(text)) => text,
        Some(Content::Parts(parts)) => parts.into_iter().filter_map(|part| part.text).collect(),
    }
}

fn stop(finish_reason: Option<String>, refusal: Option<String>) -> Stop {
    if let Some(refusal) = refusal.filter(|refusal| !refusal.trim().is_empty()) {
        return Stop::Refused(refusal);
    }
    match finish_reason.as_deref() {
        // Servers that leave the reason out have said all they had to say.
        None | Some("stop" | "") => Stop::Complete,
        Some("length") => Stop::Truncated,
        Some("content_filter") => Stop::Refused("its content filter cut the reply".to_owned()),
        Some(other) => Stop::Unknown(other.to_owned()),
    }
}

fn tokens(usage: Usage) -> Option<Tokens> {
    Some(Tokens {
        input: count(Some(usage.prompt_tokens?)),
        cached: count(
            usage
                .prompt_tokens_details
                .and_then(|details| details.cached_tokens),
        ),
        // Writing to the cache costs nothing here.
        cache_written: 0,
        output: count(usage.completion_tokens),
    })
}
