//! A JSON schema as Anthropic takes it: no ranges, and no object with other keys than are listed.
//!
//! What is taken out is checked by whoever asked; the schema in the request is only there to shape the reply.

use serde_json::{Map, Value};

/// Rules that the server refuses.
const REFUSED: &[&str] = &[
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
];
/// Keys whose value is a map of schemas by name.
const NAMED: &[&str] = &["properties", "$defs", "definitions"];
/// Keys whose value is no schema, whatever it looks like.
const PLAIN: &[&str] = &["enum", "const", "default", "required", "examples"];

/// The schema without the rules that the server refuses, every object closed.
pub(super) fn accepted(schema: &Value) -> Value {
    match schema {
        Value::Object(map) => Value::Object(accepted_map(map)),
        Value::Array(items) => Value::Array(items.iter().map(accepted).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => schema.clone(),
    }
}

fn accepted_map(schema: &Map<String, Value>) -> Map<String, Value> {
    let mut kept = Map::new();
    for (key, value) in schema {
        let key = key.as_str();
        if REFUSED.contains(&key) {
            continue;
        }
        let named = value.as_object().filter(|_| NAMED.contains(&key));
        let value = match named {
            Some(named) => Value::Object(
                named
                    .iter()
                    .map(|(name, schema)| (name.clone(), accepted(schema)))
                    .collect(),
            ),
            None if PLAIN.contains(&key) => value.clone(),
            None => accepted(value),
        };
        kept.insert(key.to_owned(), value);
    }
    if is_object(schema) {
        kept.insert("additionalProperties".to_owned(), Value::Bool(false));
    }
    kept
}

fn is_object(schema: &Map<String, Value>) -> bool {
    let named = match schema.get("type") {
        Some(Value::String(kind)) => kind == "object",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "object"),
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => false,
    };
    named || schema.contains_key("properties")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ranges_are_left_out_and_objects_closed_at_every_depth() {
        let schema = json!({
            "type": "object", "required": ["minimum", "list"],
            "properties": {
                "minimum": { "type": "integer", "minimum": 0, "maximum": 100 },
                "list": { "type": "array", "maxItems": 9, "items": {
                    "type": ["object", "null"], "minProperties": 1,
                    "properties": { "word": { "type": "string", "minLength": 1, "maxLength": 9 } },
                }},
                "kind": { "enum": ["maximum", { "minimum": 1 }] },
                "either": { "anyOf": [{ "type": "number", "multipleOf": 2 }, { "type": "null" }] },
            },
        });
        let expected = json!({
            "type": "object", "required": ["minimum", "list"], "additionalProperties": false,
            "properties": {
                "minimum": { "type": "integer" },
                "list": { "type": "array", "items": {
                    "type": ["object", "null"], "additionalProperties": false,
                    "properties": { "word": { "type": "string" } },
                }},
                "kind": { "enum": ["maximum", { "minimum": 1 }] },
                "either": { "anyOf": [{ "type": "number" }, { "type": "null" }] },
            },
        });
        let accepted = accepted(&schema);
        assert_eq!(accepted, expected);
        let order = |schema: &Value| -> Vec<String> {
            schema["properties"]
                .as_object()
                .unwrap()
                .keys()
                .cloned()
                .collect()
        };
        assert_eq!(order(&accepted), order(&schema));
    }

    #[test]
    fn an_object_that_allows_other_keys_is_closed() {
        let schema = json!({ "type": "object", "additionalProperties": { "type": "string" } });
        assert_eq!(accepted(&schema)["additionalProperties"], json!(false));
    }
}
