//! Fills a JSON schema with values derived from a digest.

use fastrand::Rng;
use serde_json::{Value, json};

/// Bounds of a simulated score, in percent of its maximum.
const LOWEST: u64 = 40;
const HIGHEST: u64 = 85;

const TOOLS: [&str; 6] = [
    "kubectl_get_events",
    "prometheus_query_range",
    "process_tree",
    "network_flow_logs",
    "audit_log_search",
    "pod_exec_history",
];
const APPROACHES: [&str; 4] = [
    "Start from the process tree",
    "Compare with the last known good deployment",
    "Build a timeline before reading logs",
    "Rule out the benign explanations first",
];
const REMARKS: [&str; 6] = [
    "the order of the steps leaves a gap between the first finding and the conclusion",
    "one failed tool call was not followed up with another tool",
    "the stated confidence is higher than the evidence carries",
    "the timestamps at hand were not used to narrow the window",
    "a benign explanation was not considered",
    "the recommendation is broader than what was found",
];

/// Returns a reply that matches the schema; its objects must be closed. Without a schema, returns a small object.
pub(super) fn answer(schema: Option<&Value>, digest: u64) -> Value {
    let mut random = Rng::with_seed(digest);
    let Some(schema) = schema else {
        return json!({ "reasoning": text("reasoning", &mut random) });
    };
    let mut value = fill(schema, "", &mut random);
    // The total is the sum of its parts.
    let parts = value.get("score_breakdown").and_then(Value::as_object);
    let sum = parts.map(|parts| parts.values().filter_map(Value::as_u64).sum::<u64>());
    if let (Some(sum), Some(total)) = (sum, value.get_mut("total_score")) {
        *total = json!(sum);
    }
    value
}

fn fill(schema: &Value, name: &str, random: &mut Rng) -> Value {
    if let Some(Value::Array(choices)) = schema.get("enum") {
        return random.choice(choices).cloned().unwrap_or_default();
    }
    match schema["type"].as_str() {
        Some("object") => {
            let properties = schema["properties"].as_object().into_iter().flatten();
            let filled = properties.map(|(name, at)| (name.clone(), fill(at, name, random)));
            filled.collect()
        }
        Some("array") => {
            let entries = std::iter::repeat_n(&schema["items"], random.u8(..4).into());
            entries.map(|it| fill(it, name, random)).collect()
        }
        Some("integer" | "number") => number(schema, random),
        Some(_) | None => Value::String(text(name, random)),
    }
}

/// Returns an integer of 40-85 % of the maximum, or a fraction if that is 1. The description contains "from 0 to N"; the default is 100.
fn number(schema: &Value, random: &mut Rng) -> Value {
    let description = schema["description"].as_str().unwrap_or_default();
    // Without the first letter, because it may be upper case.
    let described = description.split_once("rom 0 to ");
    let digits = described.and_then(|(_, rest)| rest.split(|c: char| !c.is_ascii_digit()).next());
    let maximum: u64 = digits.and_then(|digits| digits.parse().ok()).unwrap_or(100);
    if maximum == 1 && schema["type"] == "number" {
        return json!(random.u64(LOWEST..=HIGHEST) as f64 / 100.0);
    }
    let least = maximum.saturating_mul(LOWEST).div_ceil(100);
    let most = (maximum.saturating_mul(HIGHEST) / 100).max(least);
    json!(random.u64(least..=most))
}

fn text(name: &str, random: &mut Rng) -> String {
    let mut one_of = |texts: &[&'static str]| random.choice(texts).copied().unwrap_or_default();
    match name {
        "tool_name" => one_of(&TOOLS).to_owned(),
        "name" => one_of(&APPROACHES).to_owned(),
        "steps" => {
            let tool = one_of(&TOOLS);
            format!("SIMULATED step: query {tool} for the alert's window")
        }
        name if name.contains("reason") => format!(
            "SIMULATED: {}. No model has read this: remarks and score are made of a hash of the evidence, and \
             say nothing of its quality.",
            random.choose_multiple(REMARKS, 3).join("; "),
        ),
        _ => format!("SIMULATED: {}", one_of(&REMARKS)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::question::digest;
    use super::*;

    fn session_schema() -> Value {
        let part = |max: u64| json!({ "type": "number", "description": format!("Points for it, from 0 to {max}.") });
        let text = json!({ "type": "string" });
        json!({
            "type": "object",
            "properties": {
                "score_reasoning": text,
                "score_breakdown": { "type": "object", "properties": {
                    "outcome": part(40), "evidence": part(20), "tools": part(15),
                    "reasoning": part(15), "completeness": part(10),
                }},
                "total_score": { "type": "integer", "description": "A whole number from 0 to 100." },
                "missing_tools": { "type": "array", "items": { "type": "object", "properties": {
                    "tool_name": text, "rationale": text,
                }}},
                "alternative_approaches": { "type": "array", "items": { "type": "object", "properties": {
                    "name": text, "description": text, "steps": { "type": "array", "items": text },
                }}},
            },
        })
    }

    #[test]
    fn a_sessions_total_is_the_sum_of_its_breakdown_and_varies_plausibly() {
        let maxima = [
            ("outcome", 40),
            ("evidence", 20),
            ("tools", 15),
            ("reasoning", 15),
            ("completeness", 10),
        ];
        let mut totals = std::collections::BTreeSet::new();
        for session in 0..300 {
            let reply = answer(
                Some(&session_schema()),
                digest(&format!("session {session}")),
            );
            let mut sum = 0;
            for (name, max) in maxima {
                let points = reply["score_breakdown"][name].as_u64().unwrap();
                assert!(points <= max, "{name}: {reply}");
                sum += points;
            }
            assert_eq!(reply["total_score"].as_u64(), Some(sum));
            assert!((40..=85).contains(&sum), "{sum}");
            totals.insert(sum);
        }
        assert!(totals.len() > 20, "{totals:?}");
    }

    #[test]
    fn lists_match_their_items_and_reasoning_is_marked() {
        let replies: Vec<Value> = (0..50)
            .map(|session| answer(Some(&session_schema()), digest(&session.to_string())))
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
    fn grades_labels_and_replies_depend_on_the_digest() {
        let schema = json!({
            "type": "object",
            "properties": {
                "verdict": { "enum": ["yes", "no"] },
                "grade": { "type": "number", "description": "From 0 to 1, with two decimals." },
                "bare": { "type": "integer" },
            },
        });
        let reply = answer(Some(&schema), digest("q"));
        assert!(["yes", "no"].iter().any(|word| reply["verdict"] == **word));
        let grade = reply["grade"].as_f64().unwrap();
        assert!((0.4..=0.85).contains(&grade));
        let bare = reply["bare"].as_u64().unwrap();
        assert!((40..=85).contains(&bare));
        assert_eq!(reply, answer(Some(&schema), digest("q")));
        assert_ne!(reply, answer(Some(&schema), digest("r")));
    }
}
