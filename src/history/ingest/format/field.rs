//! JSON fields with different names in different tools. Lists of names are separated by spaces; a name that starts with `/` is a pointer.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use chrono::{DateTime, NaiveDateTime, SecondsFormat, Utc};
use serde_json::{Map, Value, json};

/// Returns the first of these fields that isn't null or empty.
pub(super) fn first<'a>(value: &'a Value, names: &str) -> Option<&'a Value> {
    let field = |name: &str| match name.starts_with('/') {
        true => value.pointer(name),
        false => value.get(name),
    };
    let mut fields = names.split(' ').filter_map(field);
    fields.find(|value| !is_blank(value))
}

pub(super) fn is_blank(value: &Value) -> bool {
    [json!(null), json!(""), json!([]), json!({})].contains(value)
}

/// Returns the fields of an object that aren't blank, except these.
pub(super) fn fields_except(value: &Value, names: &str) -> Map<String, Value> {
    let mut fields = value.as_object().cloned().unwrap_or_default();
    fields.retain(|name, value| !is_blank(value) && !is_one_of(name, names));
    fields
}

pub(super) fn is_one_of(name: &str, names: &str) -> bool {
    names.split(' ').any(|known| known == name)
}

/// Returns the first of these fields with a number or a text, which is trimmed.
pub(super) fn text(value: &Value, names: &str) -> Option<String> {
    names.split(' ').find_map(|name| match first(value, name)? {
        Value::String(text) => Some(text.trim().to_owned()).filter(|text| !text.is_empty()),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    })
}

/// Returns the values of a list, of a JSON list in a text, or an object as the only value.
pub(super) fn list(value: &Value) -> Vec<Value> {
    let json = value.as_str();
    let json: Option<Value> = json.and_then(|text| serde_json::from_str(text).ok());
    match json.as_ref().unwrap_or(value).as_array() {
        Some(items) => items.clone(),
        None if value.is_object() => vec![value.clone()],
        None => Vec::new(),
    }
}

/// Groups values by their keys, in the order of the first value of each key.
pub(super) fn grouped<K: Hash + Eq + Clone, V>(
    values: impl IntoIterator<Item = (K, V)>,
) -> Vec<(K, Vec<V>)> {
    let mut groups: Vec<(K, Vec<V>)> = Vec::new();
    let mut known: HashMap<K, usize> = HashMap::new();
    for (key, value) in values {
        let at = *known.entry(key.clone()).or_insert(groups.len());
        match groups.get_mut(at) {
            Some((_, group)) => group.push(value),
            None => groups.push((key, vec![value])),
        }
    }
    groups
}

/// Returns each name once, in order.
pub(super) fn once(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut known = HashSet::new();
    names.filter(|name| known.insert(name.clone())).collect()
}

/// Returns a time from RFC 3339, with or without an offset (default: UTC), or from a count since 1970 in seconds, milliseconds, microseconds
/// or nanoseconds, depending on its size.
pub(super) fn moment(value: &Value) -> Option<DateTime<Utc>> {
    let text = match value.as_str() {
        Some(text) => text.to_owned(),
        None => value.as_number()?.to_string(),
    };
    if let Ok(count) = text.parse::<i64>() {
        return match count {
            ..=99_999_999_999 => DateTime::from_timestamp(count, 0),
            100_000_000_000..=99_999_999_999_999 => DateTime::from_timestamp_millis(count),
            100_000_000_000_000..=99_999_999_999_999_999 => DateTime::from_timestamp_micros(count),
            _ => Some(DateTime::from_timestamp_nanos(count)),
        };
    }
    if let Ok(seconds) = text.parse::<f64>() {
        return DateTime::from_timestamp_micros((seconds * 1e6) as i64);
    }
    let local = || NaiveDateTime::parse_from_str(&text.replace(' ', "T"), "%Y-%m-%dT%H:%M:%S%.f");
    let with_offset = DateTime::parse_from_rfc3339(&text).map(|at| at.to_utc());
    with_offset.or_else(|_| local().map(|at| at.and_utc())).ok()
}

pub(super) fn rfc3339(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::AutoSi, true)
}
