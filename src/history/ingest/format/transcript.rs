//! The one form that every dialect is read into, and the decisions that are made in it once: which result belongs to which call, where
//! both stand, and what the agent concluded.

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::field::rfc3339;
use super::shown::shown;
use crate::score::session::Message;

/// The role of what a model thinks before it answers: the judge sees it marked, and it is never the conclusion.
pub(in crate::history) const THINKING: &str = "thinking";
/// The role of further answers to one request, which the agent didn't go on with.
pub(super) const ALTERNATIVE: &str = "alternative";

/// A result is compared with so many open calls at most.
const MAX_OPEN_CALLS: usize = 1_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum ItemKind {
    #[default]
    Text,
    Call,
    Result,
}

/// A text, a tool call, or the result of a call.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Item {
    pub(super) kind: ItemKind,
    /// Role of a text.
    pub(super) role: String,
    /// A text, or what a call returned.
    pub(super) text: String,
    /// Id of the call.
    pub(super) id: Option<String>,
    /// Name of the tool.
    pub(super) name: Option<String>,
    /// Arguments of the call. A result has them where its record repeats the call, or is its only record.
    pub(super) arguments: Option<Value>,
    pub(super) is_error: bool,
    pub(super) agent: Option<String>,
    pub(super) at: Option<DateTime<Utc>>,
}

impl Item {
    pub(super) fn text(role: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            role: role.into(),
            text: text.into(),
            ..Self::default()
        }
    }

    /// Equal for an item and its repetitions in later histories.
    pub(super) fn key(&self) -> String {
        match (self.kind, &self.id) {
            (ItemKind::Text, _) => format!("{}\n{}", self.role, self.text.trim()),
            (ItemKind::Call, _) => self.call_key(),
            (ItemKind::Result, Some(id)) => format!("result {id}"),
            (ItemKind::Result, None) => format!("result\n{:?}\n{}", self.name, self.text.trim()),
        }
    }

    /// Equal for records of one call.
    pub(super) fn call_key(&self) -> String {
        let id = self.id.as_ref().map(|id| format!("call {id}"));
        id.unwrap_or_else(|| self.signature())
    }

    /// Name and arguments, equal for arguments as JSON and as its text.
    pub(super) fn signature(&self) -> String {
        let arguments = self.arguments.as_ref().map(|arguments| {
            let text = arguments.as_str().map(serde_json::from_str);
            text.and_then(Result::ok)
                .unwrap_or_else(|| arguments.clone())
        });
        format!("call\n{:?}\n{arguments:?}", self.name)
    }
}

/// Counts of keys, which tell the items of a history that are new from repetitions: a second occurrence is new where one is known.
#[derive(Default)]
pub(super) struct Known {
    counts: HashMap<String, usize>,
    in_history: HashMap<String, usize>,
}

impl Known {
    pub(super) fn add(&mut self, key: String) {
        *self.counts.entry(key).or_default() += 1;
    }

    pub(super) fn start_history(&mut self) {
        self.in_history.clear();
    }

    /// Whether the next key of the history is new; it is known from then on.
    pub(super) fn is_new(&mut self, key: String) -> bool {
        let in_history = self.in_history.entry(key.clone()).or_default();
        *in_history += 1;
        let known = self.counts.entry(key).or_default();
        let is_new = *known < *in_history;
        *known += usize::from(is_new);
        is_new
    }
}

/// Returns the messages of a transcript and its conclusion: the agent's last text, unless a call or somebody else comes after it.
///
/// Messages name their agent where there are several.
pub(super) fn conversation(items: &[Item]) -> (Vec<Message>, Option<String>) {
    let agents: HashSet<&String> = items.iter().filter_map(|it| it.agent.as_ref()).collect();
    let call_of = pairs(items);
    let answered: HashSet<usize> = call_of.values().copied().collect();
    let is_known = |instructions: &[&String], text: &str| {
        instructions.iter().any(|known| known.contains(text))
    };
    let (mut messages, mut concluding) = (Vec::new(), None);
    let (mut instructions, mut is_start) = (Vec::new(), true);
    for (index, item) in items.iter().enumerate() {
        let call = call_of.get(&index).map(|call| &items[*call]);
        let arguments = call.and_then(|call| call.arguments.as_ref());
        let arguments = arguments.or(item.arguments.as_ref());
        let (role, content) = match item.kind {
            // Frameworks repeat their instructions with each request.
            ItemKind::Text if item.role == "system" && is_known(&instructions, &item.text) => {
                continue;
            }
            ItemKind::Text => (item.role.as_str(), item.text.clone()),
            // A call stands where its result does.
            ItemKind::Call if answered.contains(&index) => continue,
            ItemKind::Call => ("assistant", tool_text(arguments, None)),
            ItemKind::Result => {
                let result = Some((item.text.as_str(), item.is_error));
                ("tool", tool_text(arguments, result))
            }
        };
        is_start &= role == "system";
        if is_start {
            instructions.push(&item.text);
        }
        if role != THINKING && role != ALTERNATIVE {
            let concludes = role == "assistant" && item.kind == ItemKind::Text;
            concluding = concludes.then_some(messages.len());
        }
        messages.push(Message {
            role: role.to_owned(),
            content,
            tool_name: call
                .and_then(|call| call.name.clone())
                .or_else(|| item.name.clone()),
            agent: item.agent.clone().filter(|_| agents.len() > 1),
            stage: None,
            at: item.at.map(rfc3339),
        });
    }
    // A conclusion that stands alone is the whole conversation, and is judged as such.
    let conclusion = concluding
        .filter(|_| messages.len() > 1)
        .map(|last| messages.remove(last).content);
    (messages, conclusion)
}

/// Returns the index of the call for the index of each result that has one: by id, else the first open call whose id no result has
/// and whose name and arguments aren't others. Of calls with one id the latest turn before the result counts, in order.
fn pairs(items: &[Item]) -> HashMap<usize, usize> {
    let results = || items.iter().filter(|item| item.kind == ItemKind::Result);
    let returned: HashSet<&str> = results().filter_map(|it| it.id.as_deref()).collect();
    let has_arguments = results().any(|result| result.arguments.is_some());
    let signature = |item: &Item| has_arguments.then(|| item.signature());
    let signatures: Vec<Option<String>> = items.iter().map(signature).collect();
    // Open calls with the number of their row, by the id that a result has, else under none.
    let mut open: HashMap<Option<&str>, Vec<(usize, usize)>> = HashMap::new();
    let mut turn = 0;
    for (index, item) in items.iter().enumerate() {
        if item.kind == ItemKind::Call {
            let id = item.id.as_deref().filter(|id| returned.contains(id));
            open.entry(id).or_default().push((index, turn));
        } else {
            turn += 1;
        }
    }
    let mut call_of = HashMap::new();
    for (index, result) in items.iter().enumerate() {
        let id = result
            .id
            .as_deref()
            .filter(|id| open.contains_key(&Some(id)));
        // A result with its own id and arguments needs no call.
        let is_whole = id.is_none() && result.id.is_some() && result.arguments.is_some();
        if result.kind != ItemKind::Result || is_whole {
            continue;
        }
        let fits = |call: usize| {
            let names = items[call].name.as_ref().zip(result.name.as_ref());
            names.is_none_or(|(called, returned)| called == returned)
                && (result.arguments.is_none() || signatures[call] == signatures[index])
        };
        let rank = |(_, (call, turn)): &(usize, &(usize, usize))| {
            let is_before = *call < index;
            let turn = match (id, is_before) {
                (None, _) => 0,
                (Some(_), true) => *turn,
                (Some(_), false) => usize::MAX - turn,
            };
            (fits(*call), is_before, turn, usize::MAX - call)
        };
        let calls = open.entry(id).or_default();
        let near = calls.iter().take(MAX_OPEN_CALLS).enumerate();
        let near = near.filter(|(_, (call, _))| id.is_some() || *call < index && fits(*call));
        if let Some((position, _)) = near.max_by_key(rank) {
            call_of.insert(index, calls.remove(position).0);
        }
    }
    call_of
}

/// The arguments of a tool call and its result, which may be an error; `None`: no result is recorded.
pub(in crate::history) fn tool_text(
    arguments: Option<&Value>,
    result: Option<(&str, bool)>,
) -> String {
    let mut text = String::new();
    if let Some(arguments) = arguments.filter(|arguments| !arguments.is_null()) {
        text.push_str("Arguments: ");
        text.push_str(&shown(arguments));
        text.push('\n');
    }
    match result {
        Some((result, is_error)) => {
            text.push_str(if is_error { "Error:\n" } else { "Result:\n" });
            text.push_str(result);
        }
        None => text.push_str("No result is recorded."),
    }
    text
}
