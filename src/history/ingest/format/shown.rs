//! JSON of a transcript as text for the judge.

use serde_json::{Map, Value};

use super::field::{Fields, fields_except, first, is_one_of};
use super::kind::{Kind, type_of};
use crate::history::ingest::input::with_texts;

/// Longer strings of base64 are replaced by their length, because a judge can't read them.
const MAX_BASE64: usize = 256;
/// Fields of a part with its text. The first with a value is used.
pub(super) const TEXT_FIELDS: &str = "text content refusal thinking summary value";
/// Types of the objects that Vercel's AI SDK wraps around a result.
const WRAPPERS: &str = "text json content error-text error-json";

/// Returns a value as text: lists of text parts as their texts, other JSON without base64.
pub(super) fn shown(value: &Value) -> String {
    let kind = value["type"].as_str().unwrap_or("-");
    let is_wrapper = is_one_of(kind, WRAPPERS) && value.as_object().map(Map::len) == Some(2);
    let wrapped = value.get("value").or(value.get("text"));
    match (value, wrapped.filter(|_| is_wrapper)) {
        (_, Some(wrapped)) => shown(wrapped),
        (Value::Null, _) => String::new(),
        (Value::String(text), _) => text.clone(),
        (Value::Array(parts), _) if are_texts(parts) => joined(parts.iter().map(part_text)),
        _ => without_base64(value).to_string(),
    }
}

fn are_texts(values: &[Value]) -> bool {
    let is_part = |value: &Value| {
        let name = type_of(value).unwrap_or_default();
        let mut fields = Fields::of(value, &name);
        let is_text = matches!(Kind::of(&name, value), Kind::Text | Kind::Thinking);
        is_text && fields.take(TEXT_FIELDS).is_some() && fields.rest().is_empty()
    };
    let is_text = |value: &Value| value.is_string() || is_part(value);
    values.iter().any(is_part) && values.iter().all(is_text)
}

/// Joins the texts that aren't blank by newlines.
pub(super) fn joined(texts: impl Iterator<Item = String>) -> String {
    let texts: Vec<String> = texts.filter(|text| !text.trim().is_empty()).collect();
    texts.join("\n")
}

/// Returns the text of a text part or a thinking part.
pub(super) fn part_text(part: &Value) -> String {
    match first(part, TEXT_FIELDS) {
        Some(found) => shown(found),
        None if part.is_string() || part.is_array() => shown(part),
        None => String::new(),
    }
}

/// Returns unknown fields as JSON after their names, except those that repeat the text next to them.
pub(super) fn unread(fields: &Map<String, Value>, said: &str) -> String {
    let words = |text: &str| text.split_whitespace().collect::<String>();
    let said = words(said);
    let new = fields.iter().filter(|(_, it)| words(&shown(it)) != said);
    joined(new.map(|(name, value)| format!("{name}: {}", without_base64(value))))
}

/// Returns a part of an unknown type as JSON after its name; empty if it has only a type and an id.
pub(super) fn unknown(name: &str, part: &Value) -> String {
    match !part.is_object() || !fields_except(part, "type id").is_empty() {
        true => format!("{name}: {}", without_base64(part)),
        false => String::new(),
    }
}

/// Replaces each long string of base64 by its media type and length.
pub(super) fn without_base64(value: &Value) -> Value {
    with_texts(value, &|text| {
        if text.len() <= MAX_BASE64 || !is_base64(text) {
            return text.replace('\0', "\u{fffd}");
        }
        let url = text.strip_prefix("data:");
        let media = url.and_then(|url| Some(url.split_once(";base64,")?.0));
        let media = media.unwrap_or("base64");
        format!("({media}, {} characters, left out)", text.len())
    })
}

fn is_base64(text: &str) -> bool {
    let data = text.split_once(";base64,").map_or(text, |(_, data)| data);
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=-_\r\n".contains(&byte);
    data.bytes().all(is_digit)
}
