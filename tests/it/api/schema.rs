//! Validates real responses against the document: types, closed sets, missing fields and undocumented fields.

use std::sync::OnceLock;

use serde_json::{Map, Value, json};

fn document() -> &'static Value {
    static DOCUMENT: OnceLock<Value> = OnceLock::new();
    DOCUMENT.get_or_init(|| serde_json::from_str(&gavel::api::openapi_json()).unwrap())
}

/// Fails the test unless the document has this response for a method of the path.
#[track_caller]
pub(super) fn check_answer(path: &str, status: u16, body: &Value) {
    let Some(item) = item(path) else {
        return;
    };
    let answers = item.as_object().unwrap().values();
    let schemas = answers.filter_map(|operation| {
        let content = operation["responses"][status.to_string()]["content"].as_object()?;
        let json = content
            .get("application/json")
            .or(content.get("application/problem+json"));
        json?.get("schema")
    });
    let mut faults = vec![format!("status {status} is not documented")];
    for schema in schemas {
        faults = schema_violations(schema, body);
        if faults.is_empty() {
            return;
        }
    }
    panic!("{path} {status} isn't as the document says: {faults:#?}\n{body:#}");
}

/// Returns the documented path of a real one, preferring the fewest parameters.
fn item(path: &str) -> Option<&'static Value> {
    let asked: Vec<&str> = path.split('/').collect();
    let fits = |known: &str| {
        let known: Vec<&str> = known.split('/').collect();
        let mut pairs = known.iter().zip(&asked);
        known.len() == asked.len()
            && pairs.all(|(known, asked)| known == asked || known.starts_with('{'))
    };
    let paths = document()["paths"].as_object().unwrap().iter();
    let fitting = paths.filter(|(known, _)| fits(known));
    fitting
        .min_by_key(|(known, _)| known.matches('{').count())
        .map(|(_, item)| item)
}

/// Violations of a schema by a value.
pub(super) fn schema_violations(schema: &Value, value: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    check(schema, value, "", &mut faults);
    faults
}

pub(super) fn closed_set(schema: &Value) -> Option<&Vec<Value>> {
    let one_of = schema["oneOf"].as_array();
    let branch = one_of.and_then(|all| all.iter().find(|branch| branch["$ref"].is_string()));
    resolved(branch.unwrap_or(schema))["enum"].as_array()
}

fn resolved(schema: &Value) -> &Value {
    match schema["$ref"].as_str() {
        Some(place) => document().pointer(place.trim_start_matches('#')).unwrap(),
        None => schema,
    }
}

/// Collects the properties and required fields of all parts of an object schema.
fn members<'a>(
    schema: &'a Value,
    properties: &mut Map<String, Value>,
    required: &mut Vec<&'a str>,
) {
    let schema = resolved(schema);
    for part in schema["allOf"].as_array().into_iter().flatten() {
        members(part, properties, required);
    }
    let own = schema["properties"].as_object().into_iter().flatten();
    properties.extend(own.map(|(name, schema)| (name.clone(), schema.clone())));
    required.extend(
        schema["required"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str),
    );
}

fn check(schema: &Value, value: &Value, at: &str, faults: &mut Vec<String>) {
    let schema = resolved(schema);
    for choice in ["oneOf", "anyOf"] {
        let Some(branches) = schema[choice].as_array() else {
            continue;
        };
        let mut last = Vec::new();
        let fits = |branch: &Value| {
            last.clear();
            check(branch, value, at, &mut last);
            last.is_empty()
        };
        if !branches.iter().any(fits) {
            faults.append(&mut last);
        }
        return;
    }
    let types: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(all) => all.iter().filter_map(Value::as_str).collect(),
        _ if schema["allOf"].is_array() => vec!["object"],
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => Vec::new(),
    };
    if !types.is_empty() && !types.iter().any(|kind| is_of(value, kind)) {
        faults.push(format!("{at}: {value} is not {types:?}"));
        return;
    }
    if let Some(closed) = schema["enum"].as_array()
        && !closed.contains(value)
    {
        faults.push(format!("{at}: {value} is not among {closed:?}"));
    }
    match value {
        Value::String(text) => {
            let fits = match schema["format"].as_str() {
                Some("uuid") => text.parse::<uuid::Uuid>().is_ok(),
                Some("date-time") => text.parse::<chrono::DateTime<chrono::Utc>>().is_ok(),
                _ => true,
            };
            if !fits {
                faults.push(format!("{at}: {text:?} is no {}", schema["format"]));
            }
        }
        Value::Array(items) => {
            for (n, item) in items.iter().enumerate() {
                check(&schema["items"], item, &format!("{at}/{n}"), faults);
            }
        }
        Value::Object(object) => check_object(schema, object, at, faults),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn check_object(schema: &Value, object: &Map<String, Value>, at: &str, faults: &mut Vec<String>) {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    members(schema, &mut properties, &mut required);
    for name in required {
        if !object.contains_key(name) {
            faults.push(format!("{at}/{name} is missing"));
        }
    }
    let is_open = properties.is_empty() || schema["additionalProperties"] == json!(true);
    for (name, value) in object {
        let at = format!("{at}/{name}");
        match (properties.get(name), &schema["additionalProperties"]) {
            (Some(schema), _) => check(schema, value, &at, faults),
            (None, more @ Value::Object(_)) => check(more, value, &at, faults),
            (None, _) if is_open => {}
            (None, _) => faults.push(format!("{at} is not documented")),
        }
    }
}

fn is_of(value: &Value, kind: &str) -> bool {
    match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        _ => value.is_object(),
    }
}
