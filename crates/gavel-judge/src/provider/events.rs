//! A stream of events (SSE) that came in the place of one body, though `stream: false` was sent.

use serde_json::Value;

use crate::json;

/// What ends a stream.
const DONE: &str = "[DONE]";

/// What a stream held.
#[derive(Debug, PartialEq)]
pub(super) struct Events {
    pub(super) events: Vec<Value>,
    /// Whether it was ended as streams are.
    pub(super) is_done: bool,
}

/// Whether what follows a whole body is nothing, or the mark of a stream's end.
pub(super) fn is_end(rest: &[u8]) -> bool {
    let rest = rest.trim_ascii();
    let data = rest.strip_prefix(b"data:").map(<[u8]>::trim_ascii);
    rest.is_empty() || data == Some(DONE.as_bytes())
}

/// Whether a body holds events.
pub(super) fn are_in(body: &[u8]) -> bool {
    let mut lines = body.split(|byte| *byte == b'\n');
    lines.any(|line| line.starts_with(b"data:"))
}

/// The JSON of the events; `None` where one can't be read. A whole body that stands before the first event is one as well.
///
/// An event ends at an empty line, or at a `data:` line that is JSON by itself, because some servers leave the empty lines out.
pub(super) fn read(body: &[u8]) -> Option<Events> {
    let text = String::from_utf8_lossy(body);
    let (mut events, mut open, mut is_done) = (Vec::new(), String::new(), false);
    for line in text.lines().chain([""]) {
        let data = line.strip_prefix("data:").map(str::trim);
        is_done |= data == Some(DONE);
        let ends = line.is_empty() || data == Some(DONE);
        if let Some(event) = data.and_then(whole) {
            events.push(event);
        } else if ends {
            if !open.trim().is_empty() {
                events.push(whole(&open)?);
            }
            open.clear();
        } else if !is_other_field(line) {
            open.push_str(data.unwrap_or(line));
            open.push('\n');
        }
    }
    Some(Events { events, is_done })
}

fn whole(text: &str) -> Option<Value> {
    let text = text.trim();
    let leading = json::leading(text.as_bytes()).ok()?;
    (leading.length == text.len()).then_some(leading.value)
}

/// A comment, or a field that holds no data.
fn is_other_field(line: &str) -> bool {
    let fields = [":", "event:", "id:", "retry:"];
    fields.iter().any(|field| line.starts_with(field))
}

/// Adds a part of a message to what is there: texts that come in pieces are joined, entries of lists by their `index`, and
/// everything else is replaced unless the part says nothing.
pub(super) fn merge(whole: &mut Value, part: Value) {
    match (whole, part) {
        (_, Value::Null) => {}
        (Value::Object(whole), Value::Object(part)) => {
            for (key, value) in part {
                match (whole.get_mut(&key), value) {
                    (Some(Value::String(text)), Value::String(more)) if comes_in_pieces(&key) => {
                        text.push_str(&more);
                    }
                    (Some(known), value) => merge(known, value),
                    (None, value) => {
                        whole.insert(key, value);
                    }
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

fn comes_in_pieces(key: &str) -> bool {
    const KEYS: [&str; 6] = [
        "content",
        "reasoning_content",
        "reasoning",
        "refusal",
        "text",
        "arguments",
    ];
    KEYS.contains(&key)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
            assert_eq!(read.events, [json!({"a": 1}), json!({"b": 2})], "{body}");
            assert_eq!(read.is_done, body.contains("DONE"), "{body}");
        }
        assert_eq!(read(b"data: {\"a\":\n\n"), None);
        assert!(!are_in(b"<html>no data: here</html>"));
    }

    #[test]
    fn pieces_of_text_are_joined_and_entries_are_told_apart_by_their_index() {
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
