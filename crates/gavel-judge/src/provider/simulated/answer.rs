//! Fills a JSON schema from a digest: the same digest, the same reply.

use std::cell::Cell;

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::question::QuestionDigest;

/// A schema nested deeper than this is answered with null.
const DEEPEST: usize = 32;
/// A reply with more values than this ends in nulls: a schema that refers to itself could ask for any number.
const MOST_VALUES: u32 = 10_000;
/// What a simulated score is worth at least and at most, in percent of its maximum.
const LOWEST: u64 = 40;
const HIGHEST: u64 = 85;

const TOOLS: [&str; 10] = [
    "kubectl_get_events",
    "prometheus_query_range",
    "process_tree",
    "network_flow_logs",
    "registry_image_history",
    "audit_log_search",
    "pod_exec_history",
    "node_journal",
    "threat_intel_lookup",
    "dns_query_log",
];
const APPROACHES: [&str; 6] = [
    "Start from the process tree",
    "Compare with the last known good deployment",
    "Follow the network flows first",
    "Build a timeline before reading logs",
    "Rule out the benign explanations first",
    "Ask the audit log who changed what",
];
const REMARKS: [&str; 6] = [
    "the order of the steps leaves a gap between the first finding and the conclusion",
    "one failed tool call was not followed up with another tool",
    "the stated confidence is higher than the evidence carries",
    "the timestamps at hand were not used to narrow the window",
    "a benign explanation was not considered",
    "the recommendation is broader than what was found",
];

/// A reply that fits the schema; without a schema, a small object.
pub(super) fn answer(schema: Option<&Value>, digest: &QuestionDigest) -> Value {
    let Some(schema) = schema else {
        return json!({ "reasoning": text("reasoning", Sample(*digest)) });
    };
    let mut value = Filler {
        root: schema,
        left: Cell::new(MOST_VALUES),
    }
    .fill(schema, "", Sample(*digest), 0);
    total_is_the_sum(&mut value);
    value
}

/// A total beside a breakdown is its sum, as an honest judge's would be.
fn total_is_the_sum(value: &mut Value) {
    let sum = value
        .get("score_breakdown")
        .and_then(Value::as_object)
        .map(|breakdown| breakdown.values().filter_map(Value::as_u64).sum::<u64>());
    if let (Some(sum), Some(total)) = (sum, value.get_mut("total_score")) {
        *total = json!(sum);
    }
}

/// Numbers sampled from a digest by path: neighbours in a reply don't depend on one another.
#[derive(Clone, Copy)]
struct Sample([u8; 32]);

impl Sample {
    fn at(self, step: &str) -> Self {
        let mut hash = Sha256::new();
        hash.update(self.0);
        hash.update(step.as_bytes());
        Self(hash.finalize().into())
    }

    fn below(self, bound: u64) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = self.0;
        u64::from_be_bytes([a, b, c, d, e, f, g, h]) % bound.max(1)
    }

    fn pick<T: Copy>(self, choices: &[T]) -> Option<T> {
        let at = self.below(choices.len() as u64);
        choices.get(usize::try_from(at).unwrap_or(0)).copied()
    }
}

struct Filler<'a> {
    root: &'a Value,
    left: Cell<u32>,
}

impl Filler<'_> {
    fn fill(&self, schema: &Value, name: &str, sample: Sample, depth: usize) -> Value {
        let left = self.left.get();
        if depth > DEEPEST || left == 0 {
            return Value::Null;
        }
        self.left.set(left - 1);
        if let Some(constant) = schema.get("const") {
            return constant.clone();
        }
        if let Some(Value::Array(choices)) = schema.get("enum") {
            let choices: Vec<&Value> = choices.iter().collect();
            return sample.pick(&choices).cloned().unwrap_or(Value::Null);
        }
        if let Some(target) = self.referred(schema) {
            return self.fill(target, name, sample, depth + 1);
        }
        if let Some(first) = ["anyOf", "oneOf", "allOf"]
            .into_iter()
            .find_map(|key| first_real(schema.get(key)?.as_array()?))
        {
            return self.fill(first, name, sample, depth + 1);
        }
        match type_of(schema) {
            "object" => self.object(schema, sample, depth),
            "array" => self.array(schema, name, sample, depth),
            "integer" | "number" => number(schema, sample),
            "boolean" => Value::Bool(sample.below(2) == 1),
            "null" => Value::Null,
            _ => string(schema, name, sample),
        }
    }

    fn referred(&self, schema: &Value) -> Option<&Value> {
        let pointer = schema.get("$ref")?.as_str()?.strip_prefix('#')?;
        self.root.pointer(pointer)
    }

    fn object(&self, schema: &Value, sample: Sample, depth: usize) -> Value {
        let mut map = Map::new();
        let properties = schema.get("properties").and_then(Value::as_object);
        let count = properties.map_or(1, Map::len).max(1) as u64;
        for (name, property) in properties.into_iter().flatten() {
            let value = if depth == 1
                && is_bare_number(property)
                && described_maximum(property).is_none()
            {
                // A breakdown without maxima: its parts share 100.
                let shared = json!({ "type": "integer", "minimum": 0, "maximum": 100 / count });
                number(&shared, sample.at(name))
            } else {
                self.fill(property, name, sample.at(name), depth + 1)
            };
            map.insert(name.clone(), value);
        }
        Value::Object(map)
    }

    fn array(&self, schema: &Value, name: &str, sample: Sample, depth: usize) -> Value {
        let bound = |key, default| schema.get(key).and_then(Value::as_u64).unwrap_or(default);
        let least = bound("minItems", 0);
        let most = bound("maxItems", least.max(3)).max(least);
        let count = least + sample.at("count").below(most - least + 1).min(3);
        let any = json!({ "type": "string" });
        let items = schema.get("items").unwrap_or(&any);
        (0..count)
            .map(|at| self.fill(items, name, sample.at(&at.to_string()), depth + 1))
            .collect()
    }
}

fn is_bare_number(schema: &Value) -> bool {
    matches!(type_of(schema), "integer" | "number") && schema.get("maximum").is_none()
}

/// The maximum that a description gives as "from 0 to N": strict providers refuse it as a keyword.
fn described_maximum(schema: &Value) -> Option<f64> {
    let description = schema.get("description")?.as_str()?.to_ascii_lowercase();
    let (_, described) = description.split_once("from 0 to ")?;
    let digits = described.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

fn first_real(choices: &[Value]) -> Option<&Value> {
    choices.iter().find(|choice| type_of(choice) != "null")
}

fn type_of(schema: &Value) -> &str {
    match schema.get("type") {
        Some(Value::String(name)) => name,
        Some(Value::Array(names)) => names
            .iter()
            .filter_map(Value::as_str)
            .find(|name| *name != "null")
            .unwrap_or("null"),
        _ if schema.get("properties").is_some() => "object",
        _ if schema.get("items").is_some() => "array",
        _ => "string",
    }
}

/// A whole number of 40-85 % of the maximum, and not below the minimum.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "bounds of a score are small; `as` saturates for those that aren't"
)]
fn number(schema: &Value, sample: Sample) -> Value {
    let bound = |key, default: f64| schema.get(key).and_then(Value::as_f64).unwrap_or(default);
    let minimum = bound("minimum", 0.0);
    let described = described_maximum(schema).unwrap_or(100.0);
    let maximum = bound("maximum", described).max(minimum);
    if maximum <= 1.0 && type_of(schema) == "number" {
        let percent = (LOWEST + sample.below(HIGHEST - LOWEST + 1)) as f64;
        return json!((maximum * percent / 100.0).max(minimum));
    }
    let least = (maximum * LOWEST as f64 / 100.0).max(minimum).ceil();
    let most = (maximum * HIGHEST as f64 / 100.0).floor().max(least);
    let span = (most - least) as u64 + 1;
    let value = (least + sample.below(span) as f64).min(maximum);
    if value < 0.0 {
        json!(value as i64)
    } else {
        json!(value as u64)
    }
}

fn string(schema: &Value, name: &str, sample: Sample) -> Value {
    let mut text = text(name, sample);
    if let Some(most) = schema.get("maxLength").and_then(Value::as_u64) {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        text.truncate(text.floor_char_boundary(most));
    }
    Value::String(text)
}

fn text(name: &str, sample: Sample) -> String {
    let remark = |step| sample.at(step).pick(&REMARKS).unwrap_or_default();
    match name {
        "tool_name" => sample.pick(&TOOLS).unwrap_or_default().to_owned(),
        "name" => sample.pick(&APPROACHES).unwrap_or_default().to_owned(),
        "steps" => format!(
            "SIMULATED step: query {} for the alert's window",
            sample.pick(&TOOLS).unwrap_or_default()
        ),
        name if name.contains("reason") => format!(
            "SIMULATED: {}. No model has read this: remarks and score are made of a hash of the evidence, and \
             say nothing of its quality.",
            three_remarks(sample).join("; "),
        ),
        _ => format!("SIMULATED: {}", remark("only")),
    }
}

/// Three remarks, each another.
fn three_remarks(sample: Sample) -> Vec<&'static str> {
    let mut left = REMARKS.to_vec();
    ["first", "second", "third"]
        .into_iter()
        .filter_map(|step| {
            let remark = sample.at(step).pick(&left)?;
            left.retain(|other| *other != remark);
            Some(remark)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::question::digest;
    use super::*;

    fn session_schema() -> Value {
        let dimension = json!({ "type": "number", "minimum": 0, "maximum": 25 });
        let text = json!({ "type": "string" });
        json!({
            "type": "object",
            "properties": {
                "score_reasoning": text,
                "score_breakdown": { "type": "object", "properties": {
                    "logical_flow": dimension, "consistency": dimension,
                    "tool_relevance": dimension, "synthesis_quality": dimension,
                }},
                "total_score": { "type": "integer", "minimum": 0, "maximum": 100 },
                "missing_tools": { "type": "array", "items": { "type": "object", "properties": {
                    "tool_name": text, "rationale": text,
                }}},
                "alternative_approaches": { "type": "array", "items": { "type": "object", "properties": {
                    "name": text, "description": text, "steps": { "type": "array", "items": text },
                }}},
            },
        })
    }

    fn without_maxima(mut schema: Value) -> Value {
        let breakdown = &mut schema["properties"]["score_breakdown"]["properties"];
        for (_, dimension) in breakdown.as_object_mut().into_iter().flatten() {
            *dimension = json!({ "type": "number" });
        }
        schema["properties"]["total_score"] = json!({ "type": "integer" });
        schema
    }

    #[test]
    fn a_sessions_total_is_the_sum_of_its_breakdown_and_varies_plausibly() {
        for schema in [session_schema(), without_maxima(session_schema())] {
            let mut totals = std::collections::BTreeSet::new();
            for session in 0..300 {
                let reply = answer(Some(&schema), &digest(&format!("session {session}")));
                let breakdown = reply["score_breakdown"].as_object().cloned();
                let parts: Vec<u64> = breakdown
                    .unwrap_or_default()
                    .values()
                    .filter_map(Value::as_u64)
                    .collect();
                assert_eq!(parts.len(), 4);
                assert!(parts.iter().all(|part| *part <= 25), "{parts:?}");
                let total = reply["total_score"].as_u64().unwrap_or_default();
                assert_eq!(total, parts.iter().sum::<u64>());
                assert!((40..=85).contains(&total), "{total}");
                totals.insert(total);
            }
            assert!(totals.len() > 20, "{totals:?}");
        }
    }

    #[test]
    fn a_maximum_that_only_the_description_tells_is_kept() {
        let maxima = [
            ("outcome", 40),
            ("evidence", 20),
            ("tools", 15),
            ("reasoning", 15),
            ("completeness", 10),
        ];
        let part = |max: u64| json!({ "type": "number", "description": format!("Points for it, from 0 to {max}.") });
        let parts: Map<String, Value> = maxima
            .iter()
            .map(|(name, max)| ((*name).to_owned(), part(*max)))
            .collect();
        let mut schema = without_maxima(session_schema());
        schema["properties"]["score_breakdown"]["properties"] = Value::Object(parts);
        for session in 0..100 {
            let reply = answer(Some(&schema), &digest(&format!("session {session}")));
            for (name, max) in maxima {
                let points = reply["score_breakdown"][name].as_u64();
                assert!(
                    points.is_some_and(|points| points <= max),
                    "{name}: {reply}"
                );
            }
        }
    }

    #[test]
    fn lists_hold_what_their_items_ask_for_and_reasoning_begins_simulated() {
        let replies: Vec<Value> = (0..50)
            .map(|session| answer(Some(&session_schema()), &digest(&session.to_string())))
            .collect();
        let tools = |reply: &Value| {
            reply["missing_tools"]
                .as_array()
                .cloned()
                .unwrap_or_default()
        };
        assert!(replies.iter().any(|reply| !tools(reply).is_empty()));
        for reply in &replies {
            let reasoning = reply["score_reasoning"].as_str().unwrap_or_default();
            assert!(reasoning.starts_with("SIMULATED"));
            let described = |remark: &&&str| reasoning.matches(**remark).count() == 1;
            assert_eq!(REMARKS.iter().filter(described).count(), 3, "{reasoning}");
            for tool in tools(reply) {
                assert!(TOOLS.iter().any(|known| tool["tool_name"] == **known));
                assert!(tool["rationale"].is_string());
            }
        }
    }

    #[test]
    fn any_schema_is_filled() {
        let schema = json!({
            "type": "object",
            "properties": {
                "verdict": { "enum": ["yes", "no"] },
                "kind": { "const": "k" },
                "score": { "type": "number", "minimum": 0, "maximum": 1 },
                "note": { "type": ["string", "null"], "maxLength": 12 },
                "flag": { "type": "boolean" },
                "part": { "$ref": "#/$defs/part" },
                "maybe": { "anyOf": [{ "type": "null" }, { "type": "integer", "minimum": 5, "maximum": 5 }] },
                "two": { "type": "array", "minItems": 2, "maxItems": 2, "items": { "type": "integer" } },
            },
            "$defs": { "part": { "type": "object", "properties": { "x": { "type": "string" } } } },
        });
        let reply = answer(Some(&schema), &digest("q"));
        assert!(["yes", "no"].iter().any(|word| reply["verdict"] == **word));
        assert_eq!(reply["kind"], "k");
        let score = reply["score"].as_f64().unwrap_or(9.0);
        assert!((0.4..=0.85).contains(&score));
        assert_eq!(reply["note"].as_str().map(str::len), Some(12));
        assert!(reply["flag"].is_boolean());
        assert!(reply["part"]["x"].is_string());
        assert_eq!(reply["maybe"], 5);
        assert_eq!(reply["two"].as_array().map(Vec::len), Some(2));
        assert_eq!(reply, answer(Some(&schema), &digest("q")));
    }

    #[test]
    fn a_schema_that_refers_to_itself_ends() {
        let schema = json!({
            "type": "object",
            "properties": {
                "next": { "$ref": "#" },
                "all": { "type": "array", "minItems": 3, "items": { "$ref": "#" } },
            },
        });
        let reply = answer(Some(&schema), &digest("q"));
        assert!(reply.to_string().len() < 1_000_000);
    }
}
