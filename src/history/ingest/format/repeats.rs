//! Recognises items that a trace records more than once.

use std::collections::{HashMap, HashSet, VecDeque};

use serde_json::Value;

use super::known::Known;
use super::step::Step;
use super::transcript::{Call, CallResult, Entry, Item, THINKING};

/// Traces with more outermost steps have their questions compared with whole texts only.
const MAX_ROOTS_WITHIN: usize = 100;

/// The texts of a trace.
pub(super) struct Said {
    texts: Vec<String>,
    /// Each text, and JSON of each text that is JSON, without white space.
    known: HashSet<String>,
    /// Whether questions are looked for within texts, because prompts are often made of them.
    looks_within: bool,
}

impl Said {
    pub(super) fn new(entries: &[Entry], roots: usize) -> Self {
        let texts = entries.iter().filter_map(|entry| match &entry.item {
            Item::Text { role, text } if role != THINKING => Some(text.trim().to_owned()),
            Item::Text { .. } | Item::Call(_) | Item::Result(_) => None,
        });
        let texts: Vec<String> = texts.collect();
        let json = texts
            .iter()
            .filter_map(|text| json_of(text))
            .map(|value| value.to_string());
        Self {
            known: json.chain(texts.iter().cloned()).collect(),
            looks_within: roots <= MAX_ROOTS_WITHIN,
            texts,
        }
    }

    /// Whether neither a text nor the longest text of its JSON was said; it is known from then on.
    pub(super) fn is_new(&mut self, text: &str, side: &str) -> bool {
        let value = json_of(text);
        let mut longest = text.trim();
        if let Some(value) = &value {
            longest = "";
            longest_text(value, &mut longest);
        }
        let is_known = |text: &str| !text.is_empty() && self.known.contains(text);
        let is_said = is_known(longest)
            || value
                .as_ref()
                .is_some_and(|value| is_known(&value.to_string()));
        let is_within = || self.texts.iter().any(|text| text.contains(longest));
        let looks = self.looks_within && side == "user" && !longest.is_empty();
        let is_new = !(is_said || looks && is_within());
        self.known.insert(text.trim().to_owned());
        is_new
    }
}

fn json_of(text: &str) -> Option<Value> {
    let value: Option<Value> = serde_json::from_str(text).ok();
    value.filter(|value| value.is_object() || value.is_array())
}

fn longest_text<'v>(value: &'v Value, longest: &mut &'v str) {
    match value {
        Value::String(text) if text.trim().len() > longest.len() => *longest = text.trim(),
        Value::Array(items) => items.iter().for_each(|item| longest_text(item, longest)),
        Value::Object(fields) => fields
            .values()
            .for_each(|field| longest_text(field, longest)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Things that are found by any of their keys, each once and in order.
struct Lookup<'a, T> {
    items: Vec<Option<&'a T>>,
    by_key: HashMap<String, VecDeque<usize>>,
}

impl<'a, T> Lookup<'a, T> {
    fn add(&mut self, item: &'a T, keys: impl Iterator<Item = String>) {
        for key in keys {
            self.by_key
                .entry(key)
                .or_default()
                .push_back(self.items.len());
        }
        self.items.push(Some(item));
    }

    fn take(&mut self, keys: impl Iterator<Item = String>) -> Option<&'a T> {
        for key in keys {
            while let Some(index) = self.by_key.get_mut(&key).and_then(VecDeque::pop_front) {
                if let Some(item) = self.items.get_mut(index).and_then(Option::take) {
                    return Some(item);
                }
            }
        }
        None
    }
}

/// Calls and results in messages. A tool's step repeats one of each, and may lack the id of its call.
pub(super) struct Tools<'a> {
    calls: Lookup<'a, Call>,
    results: Lookup<'a, CallResult>,
    /// Keys of results in messages that are errors only by their step.
    pub(super) failed: HashSet<String>,
}

impl<'a> Tools<'a> {
    pub(super) fn new(steps: &[&'a Step]) -> Self {
        let mut tools = Self {
            calls: Lookup {
                items: Vec::new(),
                by_key: HashMap::new(),
            },
            results: Lookup {
                items: Vec::new(),
                by_key: HashMap::new(),
            },
            failed: HashSet::new(),
        };
        let mut known = Known::default();
        for step in steps {
            // Each history repeats the ones before.
            known.start_history();
            for item in step.input.iter().chain(&step.output) {
                match item {
                    Item::Call(call) if known.is_new(item) => {
                        tools.calls.add(call, call_keys(call))
                    }
                    Item::Result(result) if known.is_new(item) => {
                        tools
                            .results
                            .add(result, result_keys(result.id.as_ref(), result));
                    }
                    Item::Text { .. } | Item::Call(_) | Item::Result(_) => {}
                }
            }
        }
        tools
    }

    /// Returns a tool's call and result as far as messages lack them.
    pub(super) fn missing(&mut self, call: &Call, result: &CallResult) -> Vec<Item> {
        let known = self.calls.take(call_keys(call));
        let id = known.map_or(call.id.as_ref(), |known| known.id.as_ref());
        match (self.results.take(result_keys(id, result)), known) {
            (Some(known), _) => {
                if result.is_error {
                    self.failed.insert(Item::Result(known.clone()).key());
                }
                Vec::new()
            }
            (None, Some(known)) => vec![Item::Result(CallResult {
                id: known.id.clone(),
                ..result.clone()
            })],
            (None, None) => vec![Item::Call(call.clone()), Item::Result(result.clone())],
        }
    }
}

/// Keys of a call: its id, then its name and arguments.
fn call_keys(call: &Call) -> impl Iterator<Item = String> {
    let id = call.id.as_ref().map(|id| format!("id {id}"));
    id.into_iter().chain([call.signature()])
}

/// Keys of a result: the id of its call, then its content.
fn result_keys(id: Option<&String>, result: &CallResult) -> impl Iterator<Item = String> {
    let content = result.content.trim();
    let content = (!content.is_empty()).then(|| format!("content {content}"));
    id.map(|id| format!("id {id}")).into_iter().chain(content)
}
