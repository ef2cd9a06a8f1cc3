//! Streams of events (SSE), which some servers send in place of one body despite `stream: false`.

use serde_json::{Value, json};

use super::reply::given;
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

/// Merges the events of a stream into one body: chunks of chat completions are joined; of other events one must be a complete body. `None` if
/// the stream broke.
pub(super) fn joined(body: &[u8]) -> Option<Value> {
    const COMPLETE: [&str; 3] = ["/content", "/candidates", "/error"];
    const ENDS: [&str; 3] = ["/choices/0/finish_reason", "/choices/0/message", "/error"];
    let has = |event: &Value, any: [&str; 3]| any.iter().any(|at| given(event, at).is_some());
    let (events, is_done) = read(body)?;
    let is_chunk = |event: &Value| given(event, "/choices").is_some();
    if events.iter().any(is_chunk) {
        let mut completion = json!({});
        for event in events {
            merge(&mut completion, event);
        }
        return (is_done || has(&completion, ENDS)).then_some(completion);
    }
    let is_alone = events.len() == 1;
    let events = events.into_iter();
    let mut complete = events.filter(|event| is_alone || has(event, COMPLETE));
    let first = complete.next()?;
    complete.next().is_none().then_some(first)
}

/// Returns the JSON of the events, and whether the stream has an end; `None` if an event is invalid. A complete body before the first event
/// counts as one. JSON separates the events, because some servers omit the empty lines.
fn read(body: &[u8]) -> Option<(Vec<Value>, bool)> {
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
        let leading = lenient::leading_object(rest).ok()?;
        events.push(leading.value);
        rest = rest.get(leading.length..)?.trim_ascii();
    }
    Some((events, is_done))
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
        assert_eq!(read(b"data: {\"a\":\n\n"), None);
        assert!(!are_in(b"<html>no data: here</html>"));
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
