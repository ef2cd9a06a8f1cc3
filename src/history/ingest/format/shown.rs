//! JSON of a transcript as the text that a judge reads.

use serde_json::{Map, Value};

use super::field::{first, is_one_of};
use super::kind::{Kind, type_of};

/// Strings of base64 in JSON longer than this are named by their length, because a judge can't read them.
const MAX_BASE64: usize = 256;
/// Fields of a part that describe the record, not its content.
pub(super) const BOOKKEEPING: &str =
    "type id call_id status name object kind part_kind block_type content_type";
/// Types of results that Vercel's AI SDK wraps around a value.
const WRAPPERS: &str = "text json content error-text error-json";

/// Returns a value as text: lists of parts of text as their texts, other JSON without its base64.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(parts) if are_texts(parts) => joined(parts.iter().map(part_text)),
        Value::Object(fields)
            if fields.len() == 2 && is_one_of(value["type"].as_str().unwrap_or("-"), WRAPPERS) =>
        {
            match value.get("value").or(value.get("text")) {
                Some(inner) => shown(inner),
                None => without_base64(value).to_string(),
            }
        }
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            without_base64(value).to_string()
        }
    }
}

/// Whether a list consists of parts of text.
fn are_texts(values: &[Value]) -> bool {
    let is_part = |value: &Value| {
        let kind = type_of(value).map(|name| Kind::of(&name, value));
        matches!(kind, Some(Kind::Text | Kind::Thinking))
    };
    let is_text = |value: &Value| value.is_string() || is_part(value);
    values.iter().any(is_part) && values.iter().all(is_text)
}

/// Lines of the texts that aren't blank.
pub(super) fn joined(texts: impl Iterator<Item = String>) -> String {
    let texts: Vec<String> = texts.filter(|text| !text.trim().is_empty()).collect();
    texts.join("\n")
}

/// Returns the text of a part of text or thinking.
pub(super) fn part_text(part: &Value) -> String {
    match first(part, "text content refusal thinking summary value") {
        Some(found) => shown(found),
        None if part.is_string() || part.is_array() => shown(part),
        None => String::new(),
    }
}

/// Returns a part of an unknown type as JSON under its name; empty for one that is nothing but a type.
pub(super) fn unknown(name: &str, part: &Value) -> String {
    let has_more = |fields: &Map<String, Value>| fields.keys().any(|name| name != "type");
    match part.as_object().is_none_or(has_more) {
        true => format!("{name}: {}", without_base64(part)),
        false => String::new(),
    }
}

/// Returns JSON with each long string of base64 named by its length.
pub(super) fn without_base64(value: &Value) -> Value {
    match value {
        Value::String(text) if text.len() > MAX_BASE64 && is_base64(text) => {
            let media = text.split_once(";base64,").map(|(media, _)| media);
            let media = media
                .and_then(|media| media.strip_prefix("data:"))
                .unwrap_or("base64");
            Value::String(format!("({media}, {} characters, left out)", text.len()))
        }
        Value::Array(items) => items.iter().map(without_base64).collect(),
        Value::Object(fields) => {
            let fields = fields.iter();
            let fields = fields.map(|(name, value)| (name.clone(), without_base64(value)));
            Value::Object(fields.collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

fn is_base64(text: &str) -> bool {
    let data = text.split_once(";base64,").map_or(text, |(_, data)| data);
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=-_\r\n".contains(&byte);
    data.bytes().all(is_digit)
}
