//! Parsing of payloads of any kind but `session`. Used by enqueue, suites and runs.

use serde_json::{Map, Value};

use super::{Field, ReadCase, about};
use crate::Fault;
use gavel_wire::Kind;

/// Parses and validates a payload, and returns every error with its JSON pointer. A session payload is an error, because sessions
/// are scored by id.
pub fn read_case(kind: Kind, payload: &Value) -> ReadCase {
    (about(kind).read)(payload).map_err(|faults| {
        let meant = payload.as_object().and_then(kind_of);
        if let Some(meant) = meant.filter(|meant| *meant != kind && !has_own_field(kind, payload)) {
            let message =
                format!("has the fields of kind {meant}, and none of {kind}: choose kind {meant}");
            // Errors about fields of this kind would be misleading, so only the other kind is reported.
            return vec![Fault {
                pointer: String::new(),
                message,
            }];
        }
        faults
    })
}

fn has_own_field(kind: Kind, payload: &Value) -> bool {
    let mut own = about(kind).distinctive.iter();
    own.any(|name| payload.get(name).is_some())
}

pub fn kind_of(fields: &Map<String, Value>) -> Option<Kind> {
    let has = |names: &[&str]| names.iter().any(|name| fields.contains_key(*name));
    let mut kinds = Kind::ALL.iter().copied();
    kinds.find(|kind| has(about(*kind).distinctive))
}

/// Returns the field of a kind by name: `generated_sql`, and for kind `sql_metrics` also `generatedSql`.
pub fn field(kind: Kind, name: &str) -> Option<Field> {
    let about = about(kind);
    let mut fields = about.fields.iter();
    fields
        .find(|field| about.spelling.accepts(field, name))
        .copied()
}

pub fn name_of(kind: Kind, fields: &Map<String, Value>) -> Option<String> {
    match fields.get(about(kind).name)? {
        Value::String(name) => Some(name.trim().to_owned()).filter(|name| !name.is_empty()),
        Value::Number(name) => Some(name.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

pub fn fields(kind: Kind) -> &'static [Field] {
    about(kind).fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payload_of_another_kind_is_one_error() {
        let payload = serde_json::json!({"generated_sql": "select 1", "golden_sql": "select 1", "thresholt": 2});
        let told = |kind| {
            let faults = read_case(kind, &payload).err().unwrap_or_default();
            let said = faults.into_iter().map(|fault| fault.message);
            said.collect::<Vec<_>>()
        };
        assert_eq!(
            told(Kind::Query),
            ["has the fields of kind sql_metrics, and none of query: choose kind sql_metrics"]
        );
        assert!(
            told(Kind::SqlMetrics)
                .iter()
                .all(|said| !said.contains("choose kind"))
        );
    }
}
