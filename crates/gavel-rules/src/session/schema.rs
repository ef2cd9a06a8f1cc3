//! Schema of a reply: closed objects with every property required, as strict providers demand.
//!
//! Ranges and lengths are only in descriptions, because those providers reject `minimum` and similar keywords;
//! [`super::reply`] enforces them. The reasoning is first, because models score better after reasoning.

use serde_json::{Value, json};

use crate::criteria::Dimension;

/// Increment on any change of the schema's meaning. Part of the template hash, but not of criteria hashes.
pub(super) const VERSION: &str = "session-reply-1";

/// Returns the schema of a reply with these dimensions, with properties in the order to be written.
pub(super) fn of_reply(dimensions: &[Dimension]) -> Value {
    let points = |Dimension { name, max }: &Dimension| {
        let description = format!("Points for {name}, from 0 to {max}.");
        (
            name.clone(),
            json!({ "type": "number", "description": description }),
        )
    };
    let parts: Value = dimensions.iter().map(points).collect();
    let tool = json!({
        "tool_name": text("The tool's name, at most 255 characters."),
        "rationale": text("Which evidence it would have given, and which gap that closes."),
    });
    let approach = json!({
        "name": text("A short name, at most 255 characters."),
        "description": text("What it does differently, and why that is better."),
        "steps": list(
            "Its steps in order, naming tools seen in the session.",
            json!({ "type": "string" }),
        ),
    });
    let session = json!({
        "score_reasoning": text(
            "The justification, at least 200 words: what was examined, and for every dimension each deduction with the evidence that it rests on.",
        ),
        "score_breakdown": closed("Points for each dimension.", &parts),
        "total_score": {
            "type": "integer",
            "description": "A whole number from 0 to 100: the sum of score_breakdown.",
        },
        "missing_tools": list(
            "Tools that would have given direct evidence or closed a critical gap; empty if there are none.",
            closed("One tool.", &tool),
        ),
        "alternative_approaches": list(
            "None to three other ways to investigate, only where they are truly better.",
            closed("One approach.", &approach),
        ),
    });
    closed("The score of one session.", &session)
}

fn text(description: &str) -> Value {
    json!({ "type": "string", "description": description })
}

fn list(description: &str, items: Value) -> Value {
    json!({ "type": "array", "description": description, "items": items })
}

fn closed(description: &str, properties: &Value) -> Value {
    let required: Vec<&String> = properties
        .as_object()
        .into_iter()
        .flatten()
        .map(|it| it.0)
        .collect();
    json!({
        "type": "object",
        "description": description,
        "required": required,
        "additionalProperties": false,
        "properties": properties,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;
    use crate::criteria::default_dimensions;

    fn visit(schema: &Value, seen: &mut dyn FnMut(&Map<String, Value>)) {
        match schema {
            Value::Object(map) => {
                seen(map);
                map.values().for_each(|value| visit(value, seen));
            }
            Value::Array(items) => items.iter().for_each(|value| visit(value, seen)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    #[test]
    fn objects_are_closed_and_require_all_properties() {
        let mut objects = 0;
        visit(&of_reply(&default_dimensions()), &mut |map| {
            if map.get("type") == Some(&json!("object")) {
                objects += 1;
                assert_eq!(map["additionalProperties"], json!(false));
                let keys: Vec<&String> = map["properties"]
                    .as_object()
                    .into_iter()
                    .flat_map(Map::keys)
                    .collect();
                assert_eq!(map["required"], json!(keys));
            }
        });
        assert_eq!(objects, 4);
    }

    #[test]
    fn schema_has_no_keywords_rejected_by_providers() {
        visit(&of_reply(&default_dimensions()), &mut |map| {
            for refused in [
                "minimum",
                "maximum",
                "minLength",
                "maxLength",
                "maxItems",
                "format",
                "default",
            ] {
                assert!(!map.contains_key(refused), "{refused}");
            }
        });
    }

    #[test]
    fn reasoning_comes_before_score() {
        let text = of_reply(&default_dimensions()).to_string();
        let order = [
            "\"score_reasoning\":{",
            "\"score_breakdown\":{",
            "\"total_score\":{",
            "\"missing_tools\":{",
        ];
        let places: Vec<Option<usize>> = order.iter().map(|name| text.find(name)).collect();
        assert!(
            places.iter().all(Option::is_some) && places.is_sorted(),
            "{places:?}"
        );
    }

    #[test]
    fn breakdown_has_dimensions_of_criteria() {
        let schema = of_reply(&[
            Dimension {
                name: "outcome".to_owned(),
                max: 40,
            },
            Dimension {
                name: "tools".to_owned(),
                max: 60,
            },
        ]);
        let breakdown = &schema["properties"]["score_breakdown"];
        assert_eq!(breakdown["required"], json!(["outcome", "tools"]));
        assert_eq!(
            breakdown["properties"]["tools"]["description"],
            json!("Points for tools, from 0 to 60.")
        );
    }
}
