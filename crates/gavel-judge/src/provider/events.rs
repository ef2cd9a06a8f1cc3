//! Streams of events (SSE), which some servers send in place of one body despite `stream: false`.

use serde_json::{Value, json};

use super::reply::{CUT_OFF, Unreadable, given, text_at};
use crate::json as lenient;

const DONE: &str = "[DONE]";

/// Whether the rest after a complete body is empty or the end of a stream.
pub(super) fn is_end(rest: &[u8]) -> bool {
    let rest = rest.trim_ascii();
    let data = rest.strip_prefix(b"data:").map(<[u8]>::trim_ascii);
    rest.is_empty() || data == Some(DONE.as_bytes())
}

pub(super) fn are_in(body: &[u8]) -> bool {
    let mut lines = body.split(|byte| *byte == b'\n');
    lines.any(|line| line.starts_with(b"data:"))
}

/// Merges the events of a stream into one body: chunks of chat completions are joined; of other events one must be a complete body. The ids of
/// chunks don't tell replies apart, because LiteLLM often gives each chunk its own.
pub(super) fn joined(body: &[u8]) -> Result<Value, Unreadable> {
    const SEVERAL: &str = "with the chunks of several replies in one stream";
    const IN_PARTS: &str = "with a stream of events in place of one reply";
    const TEXTS: [&str; 3] = ["/delta/content", "/message/content", "/text"];
    const COMPLETE: [&str; 3] = ["/content", "/candidates", "/error"];
    const ENDS: [&str; 3] = ["/choices/0/finish_reason", "/choices/0/message", "/error"];
    let has = |event: &Value, any: [&str; 3]| any.iter().any(|at| given(event, at).is_some());
    let (events, is_done) = read(body)?;
    let is_chunk = |event: &Value| given(event, "/choices").is_some();
    if events.iter().any(is_chunk) {
        let mut completion = json!({});
        for event in events {
            let has_ended = given(&completion, ENDS[0]).is_some();
            let choice = event["choices"].get(0).unwrap_or(&Value::Null);
            let goes_on = || TEXTS.iter().any(|at| text_at(choice, at).is_some());
            if has_ended && event["id"] != completion["id"] && goes_on() {
                return Err(Unreadable::passing(SEVERAL));
            }
            merge(&mut completion, event);
        }
        return match is_done || has(&completion, ENDS) {
            true => Ok(completion),
            false => Err(Unreadable::passing(CUT_OFF)),
        };
    }
    let is_alone = events.len() == 1;
    let events = events.into_iter();
    let mut complete = events.filter(|event| is_alone || has(event, COMPLETE));
    match (complete.next(), complete.next()) {
        (Some(only), None) => Ok(only),
        _ => Err(Unreadable::passing(IN_PARTS)),
    }
}

/// Returns the JSON of the events, and whether the stream has an end. A complete body before the first event
/// counts as one. JSON separates the events, because some servers omit the empty lines.
fn read(body: &[u8]) -> Result<(Vec<Value>, bool), Unreadable> {
    const NO_JSON: &str = "with an event that isn't JSON";
    /// Comments and fields without data.
    const OTHERS: [&str; 4] = [":", "event:", "id:", "retry:"];
    let text = String::from_utf8_lossy(body);
    let (mut data, mut is_done) = (String::new(), false);
    for line in text.lines() {
        let content = line.strip_prefix("data:").map_or(line, str::trim);
        if content == DONE {
            is_done = true;
        } else if !OTHERS.iter().any(|other| line.starts_with(other)) {
            data.push_str(content);
            data.push('\n');
        }
    }
    let (mut events, mut rest) = (Vec::new(), data.as_bytes().trim_ascii());
    while !rest.is_empty() {
        let leading = lenient::leading_object(rest);
        let leading = leading.map_err(|error| Unreadable::of(error.category, NO_JSON))?;
        events.push(leading.value);
        rest = rest.split_at(leading.length).1.trim_ascii();
    }
    Ok((events, is_done))
}

/// Adds a part of a message: appends text, merges entries of lists with the same `index`, and replaces other values unless the part has none.
fn merge(whole: &mut Value, part: Value) {
    const IN_PIECES: &str = "content reasoning_content reasoning refusal text arguments";
    match (whole, part) {
        (_, Value::Null) => {}
        (Value::Object(whole), Value::Object(part)) => {
            for (key, value) in part {
                let is_in_pieces = IN_PIECES.split(' ').any(|known| known == key);
                match (whole.entry(key).or_insert(Value::Null), value) {
                    (Value::String(text), Value::String(more)) if is_in_pieces => {
                        text.push_str(&more);
                    }
                    (known, value) => merge(known, value),
                }
            }
        }
        (Value::Array(whole), Value::Array(part)) => {
            for value in part {
                let index = value.get("index");
                let known = whole.iter_mut().find(|known| known.get("index") == index);
                match known {
                    Some(known) => merge(known, value),
                    None => whole.push(value),
                }
            }
        }
        (whole, part) => *whole = part,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_however_their_lines_are_laid_out() {
        let table = [
            "data: {\"a\":1}\n\ndata: {\"b\":2}\n\ndata: [DONE]\n\n",
            "data:{\"a\":1}\ndata:{\"b\":2}\ndata:[DONE]",
            ": ping\r\nevent: x\r\nid: 1\r\ndata: {\"a\":1}\r\n\r\nretry: 3\r\ndata: {\"b\":2}\r\n\r\n",
            "data: {\ndata: \"a\": 1}\n\ndata: {\"b\":2}",
            "{\n\"a\": 1\n}\n\ndata: {\"b\":2}\n\ndata: [DONE]",
            "{\"a\": 1}\ndata: [DONE]\ndata: {\"b\":2}",
        ];
        for body in table {
            assert!(are_in(body.as_bytes()), "{body}");
            let read = read(body.as_bytes()).unwrap();
            assert_eq!(read.0, [json!({"a": 1}), json!({"b": 2})], "{body}");
            assert_eq!(read.1, body.contains("DONE"), "{body}");
        }
        let table = [
            ("{\"a\":", Unreadable::passing(CUT_OFF)),
            (
                "{\"a\": None}",
                Unreadable::passing("with an event that isn't JSON"),
            ),
            (
                "{\"a\": 1, \"a\": 2}",
                Unreadable::of(lenient::Category::Data, ""),
            ),
        ];
        for (event, error) in table {
            let body = format!("data: {event}\n\n");
            assert_eq!(joined(body.as_bytes()), Err(error), "{event}");
        }
        assert!(!are_in(b"<html>no data: here</html>"));
    }

    #[test]
    fn ids_of_chunks_may_differ_but_no_text_of_another_reply_follows_the_end() {
        let chunk = |id: &str, text: &str, reason: Option<&str>| {
            let choice =
                json!({ "index": 0, "delta": { "content": text }, "finish_reason": reason });
            let chunk = json!({ "id": id, "choices": [choice] });
            format!("data: {chunk}\n\n")
        };
        let one = [
            chunk("a", "x", None),
            chunk("b", "y", None),
            chunk("c", "", Some("stop")),
            chunk("d", "", None),
        ];
        let whole = joined(one.concat().as_bytes()).unwrap();
        assert_eq!(whole["choices"][0]["delta"]["content"], "xy");
        // Some servers repeat the reason in each chunk.
        let repeated = [chunk("a", "x", Some("stop")), chunk("a", "y", Some("stop"))];
        assert!(joined(repeated.concat().as_bytes()).is_ok());
        let several = [chunk("a", "x", Some("stop")), chunk("b", "y", Some("stop"))];
        let error = Unreadable::passing("with the chunks of several replies in one stream");
        assert_eq!(joined(several.concat().as_bytes()), Err(error));
    }

    #[test]
    fn joins_text_and_merges_entries_by_index() {
        let mut whole = json!({});
        for part in [
            json!({ "model": "m", "choices": [{ "index": 0, "delta": { "role": "assistant", "content": "a" } }], "usage": null }),
            json!({ "model": "m", "choices": [{ "index": 1, "delta": { "content": "x" } }] }),
            json!({ "choices": [{ "index": 0, "delta": { "content": "b" }, "finish_reason": "stop" }] }),
            json!({ "choices": [], "usage": { "prompt_tokens": 7 } }),
        ] {
            merge(&mut whole, part);
        }
        let expected = json!({
            "model": "m", "usage": { "prompt_tokens": 7 },
            "choices": [
                { "index": 0, "delta": { "role": "assistant", "content": "ab" }, "finish_reason": "stop" },
                { "index": 1, "delta": { "content": "x" } },
            ],
        });
        assert_eq!(whole, expected);
    }
}
