//! From a reply's JSON to its parts: types, ranges and lengths, whatever the provider claims to enforce.
//!
//! Faults are written for the model that has to mend them. Unknown keys are ignored: a judge that adds a field has still
//! given its score.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{AlternativeApproach, MissingTool};
use crate::judge::Fault;
use crate::score::criteria::Dimension;

/// The longest name, in characters: what the tables hold.
const MAX_NAME: usize = 255;
/// The longest reasoning, in bytes.
const MAX_REASONING: usize = 64 * 1024;
/// The longest other text, in bytes.
const MAX_TEXT: usize = 16 * 1024;
/// The most items of any list.
const MAX_ITEMS: usize = 100;
/// The most faults that are told; a repair turn needs no more.
const MAX_FAULTS: usize = 20;

/// What a reply says.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Parsed {
    pub(super) total: u8,
    pub(super) breakdown: Option<BTreeMap<String, f64>>,
    pub(super) reasoning: Option<String>,
    pub(super) missing_tools: Vec<MissingTool>,
    pub(super) alternative_approaches: Vec<AlternativeApproach>,
}

impl Parsed {
    /// Whether the total came without its reasoning or without its breakdown.
    pub(super) fn is_partial(&self) -> bool {
        self.breakdown.is_none() || self.reasoning.is_none()
    }

    /// Whether the total isn't the breakdown's sum. A total is whole and points may be halves, so either way of rounding
    /// the sum is right.
    pub(super) fn sum_differs(&self) -> bool {
        self.breakdown.as_ref().is_some_and(|parts| {
            let sum: f64 = parts.values().sum();
            (sum - f64::from(self.total)).abs() > 0.5 + 1e-6
        })
    }
}

/// Reads a reply, or lists what is wrong with it: at most 20 faults.
pub(super) fn read(value: &Value, dimensions: &[Dimension]) -> Result<Parsed, Vec<Fault>> {
    let Value::Object(reply) = value else {
        return Err(vec![Fault {
            pointer: String::new(),
            message: format!("the reply must be one JSON object, not {}", kind(value)),
        }]);
    };
    let mut faults = Faults::default();
    let total = total(reply, &mut faults);
    let parsed = Parsed {
        total: total.unwrap_or_default(),
        breakdown: breakdown(reply, dimensions, &mut faults),
        reasoning: reasoning(reply, &mut faults),
        missing_tools: items(reply, "", "missing_tools", &mut faults, missing_tool),
        alternative_approaches: items(reply, "", "alternative_approaches", &mut faults, approach),
    };
    faults.into_result(parsed)
}

/// A pointer as people read it: the whole reply has the empty one.
pub(super) fn shown(pointer: &str) -> &str {
    if pointer.is_empty() {
        "(the reply)"
    } else {
        pointer
    }
}

#[derive(Default)]
struct Faults(Vec<Fault>);

impl Faults {
    fn add(&mut self, pointer: impl Into<String>, message: impl Into<String>) {
        if self.0.len() < MAX_FAULTS {
            self.0.push(Fault {
                pointer: pointer.into(),
                message: message.into(),
            });
        }
    }

    fn into_result<T>(self, parsed: T) -> Result<T, Vec<Fault>> {
        if self.0.is_empty() {
            Ok(parsed)
        } else {
            Err(self.0)
        }
    }
}

/// 0-100 and whole; `72.0` is whole.
fn total(reply: &Map<String, Value>, faults: &mut Faults) -> Option<u8> {
    const EXPECTED: &str = "a whole number from 0 to 100 is expected";
    let problem = match reply.get("total_score") {
        None => format!("is missing; {EXPECTED}"),
        Some(Value::Number(number)) => match number.as_f64() {
            Some(total) if total.fract() == 0.0 && (0.0..=100.0).contains(&total) => {
                return Some(total as u8);
            }
            _ => format!("is {number}; {EXPECTED}"),
        },
        Some(other) => format!("is {}; {EXPECTED}", kind(other)),
    };
    faults.add("/total_score", problem);
    None
}

fn breakdown(
    reply: &Map<String, Value>,
    dimensions: &[Dimension],
    faults: &mut Faults,
) -> Option<BTreeMap<String, f64>> {
    let parts = match reply.get("score_breakdown") {
        None | Some(Value::Null) => return None,
        Some(Value::Object(parts)) => parts,
        Some(other) => {
            let names: Vec<&str> = dimensions.iter().map(|d| d.name.as_str()).collect();
            faults.add(
                "/score_breakdown",
                format!(
                    "is {}; an object with the numbers {} is expected",
                    kind(other),
                    names.join(", ")
                ),
            );
            return None;
        }
    };
    let mut read = BTreeMap::new();
    for Dimension { name, max } in dimensions {
        let points = match parts.get(name) {
            Some(Value::Number(number)) => match number.as_f64() {
                Some(points) if (0.0..=f64::from(*max)).contains(&points) => Ok(points),
                _ => Err(format!("is {number}")),
            },
            Some(other) => Err(format!("is {}", kind(other))),
            None => Err("is missing".to_owned()),
        };
        match points {
            Ok(points) => {
                read.insert(name.clone(), points);
            }
            Err(problem) => faults.add(
                format!("/score_breakdown/{name}"),
                format!("{problem}; a number from 0 to {max} is expected"),
            ),
        }
    }
    Some(read)
}

/// Absent, null and blank are the same: no reasoning.
fn reasoning(reply: &Map<String, Value>, faults: &mut Faults) -> Option<String> {
    match reply.get("score_reasoning") {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) if text.len() > MAX_REASONING => {
            faults.add(
                "/score_reasoning",
                format!(
                    "has {} bytes; at most {MAX_REASONING} are allowed, so shorten it",
                    text.len()
                ),
            );
            None
        }
        Some(Value::String(text)) => Some(storable(text.trim())).filter(|text| !text.is_empty()),
        Some(other) => {
            faults.add(
                "/score_reasoning",
                format!("is {}; a string is expected", kind(other)),
            );
            None
        }
    }
}

fn missing_tool(item: &Map<String, Value>, at: &str, faults: &mut Faults) -> Option<MissingTool> {
    let tool_name = name(item, at, "tool_name", faults);
    let rationale = text(item, at, "rationale", faults);
    Some(MissingTool {
        tool_name: tool_name?,
        rationale: rationale?,
    })
}

fn approach(
    item: &Map<String, Value>,
    at: &str,
    faults: &mut Faults,
) -> Option<AlternativeApproach> {
    let title = name(item, at, "name", faults);
    let description = text(item, at, "description", faults);
    Some(AlternativeApproach {
        steps: steps(item, at, faults),
        name: title?,
        description: description?,
    })
}

fn steps(item: &Map<String, Value>, at: &str, faults: &mut Faults) -> Vec<String> {
    let mut read = Vec::new();
    for (index, step) in list(item, at, "steps", faults).iter().enumerate() {
        let pointer = format!("{at}/steps/{index}");
        match step {
            Value::String(step) if step.len() <= MAX_TEXT => read.push(storable(step.trim())),
            Value::String(step) => faults.add(pointer, too_long(step)),
            other @ (Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::Array(_)
            | Value::Object(_)) => {
                faults.add(pointer, format!("is {}; a string is expected", kind(other)));
            }
        }
    }
    read
}

fn items<T>(
    parent: &Map<String, Value>,
    at: &str,
    key: &str,
    faults: &mut Faults,
    read: fn(&Map<String, Value>, &str, &mut Faults) -> Option<T>,
) -> Vec<T> {
    let mut all = Vec::new();
    for (index, item) in list(parent, at, key, faults).iter().enumerate() {
        let pointer = format!("{at}/{key}/{index}");
        match item.as_object() {
            Some(map) => all.extend(read(map, &pointer, faults)),
            None => faults.add(pointer, format!("is {}; an object is expected", kind(item))),
        }
    }
    all
}

/// A list; absent and null are the empty one.
fn list<'a>(
    parent: &'a Map<String, Value>,
    at: &str,
    key: &str,
    faults: &mut Faults,
) -> &'a [Value] {
    match parent.get(key) {
        None | Some(Value::Null) => &[],
        Some(Value::Array(items)) if items.len() <= MAX_ITEMS => items,
        Some(Value::Array(items)) => {
            faults.add(
                format!("{at}/{key}"),
                format!("has {} items; at most {MAX_ITEMS} are allowed", items.len()),
            );
            &[]
        }
        Some(other) => {
            faults.add(
                format!("{at}/{key}"),
                format!("is {}; an array is expected", kind(other)),
            );
            &[]
        }
    }
}

fn name(item: &Map<String, Value>, at: &str, key: &str, faults: &mut Faults) -> Option<String> {
    let read = text(item, at, key, faults)?;
    let length = read.chars().count();
    if (1..=MAX_NAME).contains(&length) {
        return Some(read);
    }
    faults.add(
        format!("{at}/{key}"),
        format!("has {length} characters; 1 to {MAX_NAME} are allowed"),
    );
    None
}

fn text(item: &Map<String, Value>, at: &str, key: &str, faults: &mut Faults) -> Option<String> {
    let problem = match item.get(key) {
        Some(Value::String(text)) if text.len() <= MAX_TEXT => return Some(storable(text.trim())),
        Some(Value::String(text)) => too_long(text),
        Some(other) => format!("is {}; a string is expected", kind(other)),
        None => "is missing; a string is expected".to_owned(),
    };
    faults.add(format!("{at}/{key}"), problem);
    None
}

fn too_long(text: &str) -> String {
    format!(
        "has {} bytes; at most {MAX_TEXT} are allowed, so shorten it",
        text.len()
    )
}

/// Postgres keeps no NUL in a text: a reply that holds one is kept with the replacement character.
fn storable(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
