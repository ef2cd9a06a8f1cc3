//! Reads a message.

use serde::Deserialize;
use serde_json::Value;

use crate::provider::call::{Stop, Tokens};
use crate::provider::reply::{self, RawReply, Unreadable, count, sum};

#[derive(Deserialize)]
struct Message {
    model: Option<String>,
    content: Option<Vec<Block>>,
    stop_reason: Option<String>,
    stop_details: Option<Value>,
    usage: Option<Usage>,
    simulated: Option<Value>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Block {
    #[serde(rename = "type")]
    kind: Option<String>,
    text: Option<String>,
    input: Option<Value>,
}

#[derive(Deserialize)]
struct Usage {
    input_tokens: Option<i64>,
    output_tokens: Option<i64>,
    cache_creation_input_tokens: Option<i64>,
    cache_read_input_tokens: Option<i64>,
}

pub(super) fn read(body: &[u8]) -> Result<RawReply, Unreadable> {
    let message: Message = reply::parse(
        body,
        "answered 200 with a body that is no message; check base_url",
    )?;
    let Some(content) = message.content else {
        let error = message.error.as_ref();
        return Err(reply::without_answer(error, "answered 200 with no content"));
    };
    Ok(RawReply {
        text: text(content),
        stop: stop(
            message.stop_reason.as_deref(),
            message.stop_details.as_ref(),
        ),
        model: message.model,
        simulated: message.simulated,
        usage: message.usage.and_then(tokens),
    })
}

/// The tool's input where one was called, else the texts: thoughts and what a model says before it calls are no reply.
fn text(content: Vec<Block>) -> String {
    let mut texts = String::new();
    for block in content {
        match (block.kind.as_deref(), block.input, block.text) {
            (Some("tool_use"), Some(input), _) => return input.to_string(),
            (Some("text"), _, Some(text)) => texts.push_str(&text),
            _ => {}
        }
    }
    texts
}

fn stop(reason: Option<&str>, details: Option<&Value>) -> Stop {
    match reason {
        // Servers that leave the reason out have said all they had to say.
        None | Some("end_turn" | "tool_use" | "") => Stop::Complete,
        Some("max_tokens" | "model_context_window_exceeded") => Stop::Truncated,
        Some("refusal") => Stop::Refused(words(details)),
        Some(other) => Stop::Unknown(other.to_owned()),
    }
}

/// Whatever words there are beside a refusal.
fn words(details: Option<&Value>) -> String {
    let said = |key: &str| details?.get(key)?.as_str();
    let words: Vec<&str> = ["category", "explanation"]
        .into_iter()
        .filter_map(said)
        .chain(details.and_then(Value::as_str))
        .collect();
    if words.is_empty() {
        "it gave no reason".to_owned()
    } else {
        words.join(": ")
    }
}

/// What was read from the cache, and what was written to it, stands beside the other tokens here, and is part of the input
/// for us.
fn tokens(usage: Usage) -> Option<Tokens> {
    usage.input_tokens?;
    Some(Tokens {
        input: sum(&[
            usage.input_tokens,
            usage.cache_creation_input_tokens,
            usage.cache_read_input_tokens,
        ]),
        cached: count(usage.cache_read_input_tokens),
        cache_written: count(usage.cache_creation_input_tokens),
        output: count(usage.output_tokens),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read_value(message: &Value) -> Result<RawReply, Unreadable> {
        read(message.to_string().as_bytes())
    }

    #[test]
    fn only_the_answer_is_read_whatever_stands_before_it() {
        let thinking =
            json!({ "type": "thinking", "thinking": "{\"total\": 1}", "signature": "x" });
        let hidden = json!({ "type": "redacted_thinking", "data": "x" });
        let said = |text: &str| json!({ "type": "text", "text": text });
        let called = json!({ "type": "tool_use", "id": "t", "name": "score", "input": { "why": "w", "total": 7 } });
        let table = [
            (json!([said("a"), said("b")]), "ab"),
            (json!([thinking, hidden, said("a")]), "a"),
            (json!([said("I call."), called]), r#"{"why":"w","total":7}"#),
            (json!([{ "type": "novel", "text": "x" }]), ""),
            (json!([]), ""),
        ];
        for (content, text) in table {
            let reply = read_value(&json!({ "content": content })).unwrap();
            assert_eq!(reply.text, text);
            assert_eq!((reply.model, reply.usage), (None, None));
        }
    }

    #[test]
    fn each_stop_reason_has_its_meaning_and_unknown_ones_are_named() {
        let table = [
            ("end_turn", Stop::Complete),
            ("tool_use", Stop::Complete),
            ("max_tokens", Stop::Truncated),
            ("model_context_window_exceeded", Stop::Truncated),
            ("refusal", Stop::Refused("cyber: no".to_owned())),
            ("pause_turn", Stop::Unknown("pause_turn".to_owned())),
        ];
        for (reason, expected) in table {
            let message = json!({
                "content": [], "stop_reason": reason,
                "stop_details": { "category": "cyber", "explanation": "no" },
            });
            assert_eq!(read_value(&message).unwrap().stop, expected, "{reason}");
        }
        assert_eq!(stop(None, None), Stop::Complete);
        assert_eq!(words(Some(&json!("no"))), "no");
        assert_eq!(words(None), "it gave no reason");
    }

    #[test]
    fn cached_tokens_are_part_of_the_input() {
        let usage = json!({ "content": [], "usage": {
            "input_tokens": 500, "cache_creation_input_tokens": 100,
            "cache_read_input_tokens": 400, "output_tokens": 100,
        }});
        let expected = Tokens {
            input: 1000,
            cached: 400,
            cache_written: 100,
            output: 100,
        };
        assert_eq!(read_value(&usage).unwrap().usage, Some(expected));
    }

    #[test]
    fn what_is_no_message_is_told_apart() {
        let error = json!({ "type": "error", "error": { "type": "api_error" } });
        assert_eq!(read_value(&error), Err(Unreadable::ErrorInside));
        assert!(matches!(read_value(&json!({})), Err(Unreadable::Other(_))));
        assert!(matches!(read_value(&json!(7)), Err(Unreadable::Other(_))));
    }
}
