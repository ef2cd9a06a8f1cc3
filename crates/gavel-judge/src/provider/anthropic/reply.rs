//! Reads a message.

use serde_json::{Value, json};

use crate::provider::call::Tokens;
use crate::provider::events::Events;
use crate::provider::reply::{
    self, RawReply, Unreadable, count, error_at, given, optional_count, text_at, without_answer,
};

pub(super) fn read(body: &[u8]) -> Result<RawReply, Unreadable> {
    let message = reply::parse(
        body,
        joined,
        "answered 200 with a body that is no message; check base_url",
    )?;
    let Some(content) = message.get("content").and_then(Value::as_array) else {
        return Err(without_answer(&message, "answered 200 with no content"));
    };
    let text = text(content);
    let has_thoughts = content
        .iter()
        .any(|block| text_at(block, "/thinking").is_some());
    Ok(RawReply {
        text_in: (text.is_empty() && has_thoughts).then_some("thinking"),
        text,
        stop: reply::stop(message.get("stop_reason"), |_| {
            words(given(&message, "/stop_details"))
        }),
        error: error_at(&message, "/error"),
        model: text_at(&message, "/model").map(str::to_owned),
        simulated: message["simulated"] == json!(true),
        usage: given(&message, "/usage").and_then(tokens),
    })
}

/// A stream of which one event is the whole message, or an error; no server of this family is known to send one unasked.
fn joined(stream: Events) -> Option<Value> {
    let kinds = ["message", "error"].map(Some);
    let mut events = stream.events.into_iter();
    events.find(|event| kinds.contains(&event["type"].as_str()))
}

/// The tool's input where one was called, else the texts: thoughts and what a model says before it calls are no reply.
fn text(content: &[Value]) -> String {
    let of_kind = |kind| content.iter().filter(move |block| block["type"] == kind);
    match of_kind("tool_use").find_map(|block| given(block, "/input")) {
        Some(input) => input.to_string(),
        None => of_kind("text")
            .filter_map(|block| block["text"].as_str())
            .collect(),
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
fn tokens(usage: &Value) -> Option<Tokens> {
    let cached = optional_count(usage, "/cache_read_input_tokens")?;
    let cache_written = optional_count(usage, "/cache_creation_input_tokens")?;
    let tokens = Tokens {
        input: count(usage, &["/input_tokens"])? + cached + cache_written,
        cached,
        cache_written,
        output: count(usage, &["/output_tokens"])?,
    };
    tokens.believed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::call::Stop;

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
            ("pause_turn", Stop::Other("pause_turn".to_owned())),
        ];
        for (reason, expected) in table {
            let message = json!({
                "content": [], "stop_reason": reason,
                "stop_details": { "category": "cyber", "explanation": "no" },
            });
            assert_eq!(read_value(&message).unwrap().stop, expected, "{reason}");
        }
        assert_eq!(
            read_value(&json!({ "content": [] })).unwrap().stop,
            Stop::Complete
        );
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
        assert!(matches!(
            read_value(&error),
            Err(Unreadable::ErrorInside(_))
        ));
        assert!(matches!(read_value(&json!({})), Err(Unreadable::Other(_))));
        assert!(matches!(read_value(&json!(7)), Err(Unreadable::Other(_))));
    }
}
