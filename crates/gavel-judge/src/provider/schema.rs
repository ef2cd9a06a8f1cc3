//! A JSON schema on the wire: properties in the order in which `required` lists them.
//!
//! Models fill a schema in the order of its text, and a judge that gives its reasons first scores better. A JSON map of
//! ours is sorted by name; the list isn't.

use serde::ser::{Serialize, SerializeMap as _, SerializeSeq as _, Serializer};
use serde_json::{Map, Value};

/// Serializes a schema with its properties in order.
pub(super) struct Ordered<'a>(pub(super) &'a Value);

impl Serialize for Ordered<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Object(schema) => {
                let mut map = serializer.serialize_map(Some(schema.len()))?;
                for (key, value) in schema {
                    match value {
                        Value::Object(properties) if key == "properties" => {
                            map.serialize_entry(key, &Properties { schema, properties })?;
                        }
                        Value::Object(_)
                        | Value::Array(_)
                        | Value::String(_)
                        | Value::Number(_)
                        | Value::Bool(_)
                        | Value::Null => map.serialize_entry(key, &Ordered(value))?,
                    }
                }
                map.end()
            }
            Value::Array(items) => {
                let mut seq = serializer.serialize_seq(Some(items.len()))?;
                for item in items {
                    seq.serialize_element(&Ordered(item))?;
                }
                seq.end()
            }
            scalar @ (Value::String(_) | Value::Number(_) | Value::Bool(_) | Value::Null) => {
                scalar.serialize(serializer)
            }
        }
    }
}

struct Properties<'a> {
    schema: &'a Map<String, Value>,
    properties: &'a Map<String, Value>,
}

impl Serialize for Properties<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let required: Vec<&str> = self
            .schema
            .get("required")
            .and_then(Value::as_array)
            .map(|names| names.iter().filter_map(Value::as_str).collect())
            .unwrap_or_default();
        let place = |name: &str| {
            let at = required.iter().position(|known| *known == name);
            at.unwrap_or(required.len())
        };
        let mut ordered: Vec<(&String, &Value)> = self.properties.iter().collect();
        ordered.sort_by_key(|(name, _)| place(name));
        serializer.collect_map(
            ordered
                .into_iter()
                .map(|(name, property)| (name, Ordered(property))),
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn properties_stand_in_the_order_of_required_at_every_depth() {
        let inner = json!({
            "type": "object", "required": ["z", "a"],
            "properties": { "a": { "type": "string" }, "z": { "enum": ["y", "x"] } },
        });
        let schema = json!({
            "type": "object", "required": ["why", "list"],
            "properties": {
                "extra": { "type": ["null", "string"] },
                "list": { "type": "array", "items": inner },
                "why": { "type": "string" },
            },
        });
        let text = serde_json::to_string(&Ordered(&schema)).unwrap();
        let at = |name: &str| text.find(&format!("\"{name}\":{{")).unwrap();
        assert!(at("why") < at("list") && at("list") < at("extra"), "{text}");
        assert!(at("z") < at("a"), "{text}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), schema);
    }
}
