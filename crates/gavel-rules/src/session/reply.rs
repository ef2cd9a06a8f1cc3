//! Parses and validates a reply: types, ranges and lengths, even if the provider claims to enforce them.
//!
//! Errors are written for the model that has to fix them. Unknown keys are allowed, because the score is still valid. Unknown
//! keys of the breakdown are stored.

use serde_json::{Map, Value};

use super::{AlternativeApproach, MissingTool, written};
use crate::Fault;
use crate::criteria::Dimension;

const MAX_NAME: usize = 255;
const MAX_REASONING: usize = 64 * 1024;
/// Maximum length of other texts, in bytes.
const MAX_TEXT: usize = 16 * 1024;
const MAX_ITEMS: usize = 100;
const MAX_FAULTS: usize = 20;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Parsed {
    pub(super) total: u8,
    /// Points by dimension, followed by other members, unchanged.
    pub(super) breakdown: Option<Map<String, Value>>,
    /// Reasons why the total can't be the sum of the breakdown. They cause a repair turn but no rejection, because only the total is
    /// required.
    pub(super) doubts: Vec<Fault>,
    pub(super) reasoning: Option<String>,
    pub(super) missing_tools: Vec<MissingTool>,
    pub(super) alternative_approaches: Vec<AlternativeApproach>,
}

impl Parsed {
    /// Whether the reasoning or the breakdown is missing.
    pub(super) fn is_partial(&self) -> bool {
        self.breakdown.is_none() || self.reasoning.is_none()
    }

    /// Whether `second` has the same total and points. If these contradict each other, one of the two may change.
    pub(super) fn has_same_judgement(&self, second: &Self, dimensions: &[Dimension]) -> bool {
        let points = |parsed: &Self, name: &str| parsed.breakdown.as_ref()?.get(name)?.as_f64();
        let keeps_total = self.total == second.total;
        let keeps_points = dimensions.iter().all(|Dimension { name, .. }| {
            let first = points(self, name);
            first.map_or(self.breakdown.is_none(), |first| {
                points(second, name) == Some(first)
            })
        });
        match self.doubts.is_empty() {
            true => keeps_total && keeps_points,
            false => keeps_total || keeps_points,
        }
    }
}

/// Parses a reply, or returns at most 20 errors.
pub(super) fn read(value: &Value, dimensions: &[Dimension]) -> Result<Parsed, Vec<Fault>> {
    let Value::Object(reply) = value else {
        return Err(vec![Fault {
            pointer: String::new(),
            message: format!("the reply must be one JSON object, not {}", kind(value)),
        }]);
    };
    let mut reader = ReplyReader(Vec::new());
    let reasoning = given(reply, "score_reasoning")
        .and_then(|text| reader.text(Some(text), "/score_reasoning", MAX_REASONING));
    let total = reader.total(reply);
    let (breakdown, doubts) = reader.breakdown(reply, dimensions, total).unzip();
    let parsed = Parsed {
        total: total.unwrap_or_default(),
        breakdown,
        doubts: doubts.unwrap_or_default(),
        reasoning: reasoning.filter(|text| !text.is_empty()),
        missing_tools: reader.items(reply, "missing_tools", ReplyReader::missing_tool),
        alternative_approaches: reader.items(
            reply,
            "alternative_approaches",
            ReplyReader::approach,
        ),
    };
    match reader.0.is_empty() {
        true => Ok(parsed),
        false => Err(reader.0),
    }
}

/// Returns a member of an object; null counts as absent.
fn given<'a>(object: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    object.get(name).filter(|value| !value.is_null())
}

struct ReplyReader(Vec<Fault>);

impl ReplyReader {
    fn fault(&mut self, pointer: &str, message: String) {
        if self.0.len() < MAX_FAULTS {
            let pointer = pointer.to_owned();
            self.0.push(Fault { pointer, message });
        }
    }

    fn wrong(&mut self, pointer: &str, found: Option<&Value>, expected: &str) {
        let found = match found {
            None => "missing".to_owned(),
            Some(found) => kind(found).to_owned(),
        };
        self.fault(pointer, format!("is {found}; {expected} is expected"));
    }

    /// Parses a number if `accepted`; the error repeats it.
    fn number(
        &mut self,
        (pointer, expected): (&str, &str),
        found: Option<&Value>,
        accepts: impl Fn(f64) -> bool,
    ) -> Option<f64> {
        let Some(Value::Number(number)) = found else {
            self.wrong(pointer, found, expected);
            return None;
        };
        let accepted = number.as_f64().filter(|number| accepts(*number));
        if accepted.is_none() {
            self.fault(pointer, format!("is {number}; {expected} is expected"));
        }
        accepted
    }

    /// Parses an integer from 0 to 100; `72.0` is valid.
    fn total(&mut self, reply: &Map<String, Value>) -> Option<u8> {
        let accepts = |total: f64| total.fract() == 0.0 && (0.0..=100.0).contains(&total);
        let place = ("/total_score", "a whole number from 0 to 100");
        let total = self.number(place, reply.get("total_score"), accepts)?;
        Some(total as u8)
    }

    /// Parses points by dimension and checks their sum. Other members are appended unchanged.
    fn breakdown(
        &mut self,
        reply: &Map<String, Value>,
        dimensions: &[Dimension],
        total: Option<u8>,
    ) -> Option<(Map<String, Value>, Vec<Fault>)> {
        let found = given(reply, "score_breakdown")?;
        let Value::Object(parts) = found else {
            let names: Vec<&str> = dimensions.iter().map(|d| d.name.as_str()).collect();
            let expected = format!("an object with the numbers {}", names.join(", "));
            self.wrong("/score_breakdown", Some(found), &expected);
            return None;
        };
        let mut doubts = Self(Vec::new());
        let (mut read, mut sum) = (Map::new(), 0.0);
        for Dimension { name, max } in dimensions {
            let pointer = format!("/score_breakdown/{name}");
            let expected = format!("a number from 0 to {max}");
            let accepts = |points: f64| (0.0..=f64::from(*max)).contains(&points);
            if let Some(points) = doubts.number((&pointer, &expected), parts.get(name), accepts) {
                read.insert(name.clone(), written(points));
                sum += points;
            }
        }
        if let (true, Some(total)) = (doubts.0.is_empty(), total) {
            doubts.sum(total, sum);
        }
        for (name, value) in parts {
            let is_kept = name.len() <= MAX_NAME && value.to_string().len() <= MAX_TEXT;
            if is_kept && read.len() < MAX_ITEMS && !read.contains_key(name) {
                read.insert(name.clone(), value.clone());
            }
        }
        Some((read, doubts.0))
    }

    /// The total is an integer and points may be halves, so both ways of rounding the sum are accepted.
    fn sum(&mut self, total: u8, sum: f64) {
        if (sum - f64::from(total)).abs() > 0.5 + 1e-6 {
            self.fault(
                "/total_score",
                format!("is {total}, and the numbers of score_breakdown add up to {sum}; the total is their sum"),
            );
        }
    }

    fn missing_tool(&mut self, item: &Map<String, Value>, at: &str) -> Option<MissingTool> {
        let tool_name = self.name(item, at, "tool_name");
        let rationale = self.member(item, at, "rationale");
        Some(MissingTool {
            tool_name: tool_name?,
            rationale: rationale?,
        })
    }

    fn approach(&mut self, item: &Map<String, Value>, at: &str) -> Option<AlternativeApproach> {
        let name = self.name(item, at, "name");
        let description = self.member(item, at, "description");
        let mut steps = Vec::new();
        let at = format!("{at}/steps");
        if given(item, "steps").is_none() {
            self.wrong(&at, item.get("steps"), "an array");
        }
        for (index, step) in self.list(item, &at, "steps").iter().enumerate() {
            steps.extend(self.text(Some(step), &format!("{at}/{index}"), MAX_TEXT));
        }
        Some(AlternativeApproach {
            name: name?,
            description: description?,
            steps,
        })
    }

    fn items<T>(
        &mut self,
        reply: &Map<String, Value>,
        key: &str,
        read: fn(&mut Self, &Map<String, Value>, &str) -> Option<T>,
    ) -> Vec<T> {
        let mut all = Vec::new();
        for (index, item) in self.list(reply, &format!("/{key}"), key).iter().enumerate() {
            let pointer = format!("/{key}/{index}");
            match item.as_object() {
                Some(map) => all.extend(read(self, map, &pointer)),
                None => self.wrong(&pointer, Some(item), "an object"),
            }
        }
        all
    }

    fn list<'a>(
        &mut self,
        parent: &'a Map<String, Value>,
        pointer: &str,
        key: &str,
    ) -> &'a [Value] {
        match given(parent, key) {
            None => &[],
            Some(Value::Array(items)) if items.len() <= MAX_ITEMS => items,
            Some(Value::Array(items)) => {
                let found = items.len();
                self.fault(
                    pointer,
                    format!("has {found} items; at most {MAX_ITEMS} are allowed"),
                );
                &[]
            }
            other => {
                self.wrong(pointer, other, "an array");
                &[]
            }
        }
    }

    fn name(&mut self, item: &Map<String, Value>, at: &str, key: &str) -> Option<String> {
        let read = self.member(item, at, key)?;
        let length = read.chars().count();
        if (1..=MAX_NAME).contains(&length) {
            return Some(read);
        }
        self.fault(
            &format!("{at}/{key}"),
            format!("has {length} characters; 1 to {MAX_NAME} are allowed"),
        );
        None
    }

    fn member(&mut self, item: &Map<String, Value>, at: &str, key: &str) -> Option<String> {
        self.text(item.get(key), &format!("{at}/{key}"), MAX_TEXT)
    }

    /// Parses text and trims it. Replaces NUL by the replacement character, because Postgres can't store it.
    fn text(&mut self, found: Option<&Value>, pointer: &str, most: usize) -> Option<String> {
        match found {
            Some(Value::String(text)) if text.len() <= most => {
                return Some(text.trim().replace('\0', "\u{fffd}"));
            }
            Some(Value::String(text)) => self.fault(
                pointer,
                format!(
                    "has {} bytes; at most {most} are allowed, so shorten it",
                    text.len()
                ),
            ),
            other => self.wrong(pointer, other, "a string"),
        }
        None
    }
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
