//! JSON fields with different names in different tools. Lists of names are separated by spaces; a name that starts with `/` is a pointer.

use std::hash::Hash;

use chrono::{DateTime, NaiveDateTime, SecondsFormat, Utc};
use indexmap::{IndexMap, IndexSet};
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

/// Whether a value has no content: it is blank, or all of its values are.
fn is_hollow(value: &Value) -> bool {
    match value {
        Value::Array(values) => values.iter().all(is_hollow),
        Value::Object(fields) => fields.values().all(is_hollow),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => is_blank(value),
    }
}

/// Fields that a judge doesn't need, on every level: types, ids, times, models, usage, signatures, caches and states. Any other field that no
/// reader takes is kept as JSON.
pub(super) const METADATA: &str = "type _type object kind part_kind block_type content_type version index step weight raw phase status state scope id uuid parent_uuid \
    message_id response_id provider_response_id run_id turn_id trace_id span_id session_id conversation_id thread_id tracking_id \
    request_id item_id container_id source_id invocation_id approval_id approval_request_id tool_call_id tool_use_id call_id \
    function_name plugin_name created created_at updated_at timestamp started_at completed_at expires_at time model model_name model_id \
    model_provider provider provider_id provider_name provider_url provider_details provider_metadata provider_options provider_data \
    provider_executed system_fingerprint service_tier usage usage_metadata models_usage token_usage tokens cost logprobs metrics \
    metadata meta response_metadata generation_info node_info additional_properties internal_chat_message_metadata_passthrough \
    canonical_system from_history stop_after_tool_call dynamic hosted redacted signature thought_signature encrypted_content \
    cache_control cache_point finish_reason native_finish_reason stop_reason stop_sequence";

/// The fields of an object that no reader has taken yet.
pub(super) struct Fields(pub(super) Value);

impl Fields {
    /// Returns the fields of an object. Those of the objects in it that have one of these names, in snake case, count as its own.
    pub(super) fn of(value: &Value, wrappers: &str) -> Self {
        let mut fields = Map::new();
        let mut wrapped = Vec::new();
        for (name, value) in value.as_object().into_iter().flatten() {
            if value.is_object() && is_one_of(&snake(name), wrappers) {
                wrapped.push((name, Self::of(value, wrappers)));
            } else {
                fields.insert(name.clone(), value.clone());
            }
        }
        for (wrapper, inner) in wrapped {
            for (name, value) in inner.0.as_object().into_iter().flatten() {
                let own = fields.get(name).filter(|own| !is_blank(own));
                let name = match own.filter(|own| *own != value) {
                    Some(_) if is_metadata(name) => continue,
                    Some(_) => format!("{wrapper}.{name}"),
                    None => name.clone(),
                };
                fields.insert(name, value.clone());
            }
        }
        Self(fields.into())
    }

    /// Takes the first of these fields that isn't blank, otherwise the first that isn't null, because a result may be empty.
    pub(super) fn take(&mut self, names: &str) -> Option<Value> {
        let fields = self.0.as_object_mut()?;
        let is_given = |name: &&str| fields.get(*name).is_some_and(|value| !value.is_null());
        let given = names.split(' ').filter(is_given);
        let name = given.min_by_key(|name| is_blank(&fields[*name]))?;
        fields.shift_remove(name)
    }

    /// Takes the first of these fields with a number or a text.
    pub(super) fn text(&mut self, names: &str) -> Option<String> {
        let mut names = names.split(' ');
        let (name, text) = names.find_map(|name| Some((name, text(&self.0, name)?)))?;
        self.take(name).map(|_| text)
    }

    /// Returns the other fields, except blank ones and metadata.
    pub(super) fn rest(&self) -> Map<String, Value> {
        let mut fields = fields_except(&self.0, "");
        fields.retain(|name, value| !is_metadata(name) && !is_hollow(value));
        fields
    }
}

pub(super) fn is_metadata(name: &str) -> bool {
    is_one_of(&snake(name), METADATA)
}

/// Returns a name in snake case.
pub(super) fn snake(name: &str) -> String {
    let mut snake = String::new();
    let mut is_upper = true;
    for c in name.chars() {
        if c.is_ascii_uppercase() && !is_upper && !snake.ends_with('_') {
            snake.push('_');
        }
        is_upper = c.is_ascii_uppercase();
        snake.push(c.to_ascii_lowercase());
    }
    snake.replace('-', "_")
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

/// Returns the value of JSON in a text.
pub(super) fn parsed(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok()
}

/// Returns the values of a list, of a JSON list in a text, or an object as the only value.
pub(super) fn list(value: &Value) -> Vec<Value> {
    let json = value.as_str().and_then(parsed);
    match json.as_ref().unwrap_or(value).as_array() {
        Some(items) => items.clone(),
        None if value.is_object() => vec![value.clone()],
        None => Vec::new(),
    }
}

/// Groups values by their keys, in the order of the first value of each key.
pub(super) fn grouped<K: Hash + Eq, V>(
    values: impl IntoIterator<Item = (K, V)>,
) -> IndexMap<K, Vec<V>> {
    let mut groups = IndexMap::<K, Vec<V>>::new();
    for (key, value) in values {
        groups.entry(key).or_default().push(value);
    }
    groups
}

/// Returns each name once, in order.
pub(super) fn once(names: impl Iterator<Item = String>) -> Vec<String> {
    Vec::from_iter(names.collect::<IndexSet<_>>())
}

/// Returns a time from RFC 3339, with or without an offset (default: UTC), or from a count since 1970 in seconds, milliseconds, microseconds
/// or nanoseconds, depending on its size.
pub(super) fn moment(value: &Value) -> Option<DateTime<Utc>> {
    let text = value.as_str().map(str::to_owned);
    let text = text.or_else(|| Some(value.as_number()?.to_string()))?;
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
