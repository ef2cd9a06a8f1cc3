//! The form into which every dialect is read, and the decisions made on it: the call of each result, the place of both, and the conclusion.

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::field::{is_one_of, parsed, rfc3339};
use super::shown::{joined, shown};
use crate::score::parse_python;
use crate::score::session::Message;

/// Role of a model's thinking, which is marked for the judge and can't be the conclusion.
pub(in crate::history) const THINKING: &str = "thinking";
/// Role of further answers to one request, which the agent didn't use.
pub(super) const ALTERNATIVE: &str = "alternative";
/// Role of an agent's parts of unknown types and of unknown fields.
pub(super) const UNKNOWN: &str = "unknown";
/// Roles of messages that may follow the conclusion, in addition to those above.
const PROGRAM: &str = "system developer";

/// Open calls that a result is compared with.
const MAX_OPEN_CALLS: usize = 1_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum ItemKind {
    #[default]
    Text,
    Call,
    Result,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Item {
    pub(super) kind: ItemKind,
    /// Role of a text.
    pub(super) role: String,
    /// A text, or the result of a call.
    pub(super) text: String,
    pub(super) id: Option<String>,
    pub(super) name: Option<String>,
    /// Arguments of the call. A result has them if its record repeats the call, or is the call's only record.
    pub(super) arguments: Option<Value>,
    pub(super) is_error: bool,
    /// Unknown fields of a call or a result, as text.
    pub(super) unread: String,
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

    pub(super) fn of(self, agent: Option<String>, at: Option<DateTime<Utc>>) -> Self {
        Self { agent, at, ..self }
    }

    /// Returns a key that is equal for an item and its repetitions in later histories.
    pub(super) fn key(&self) -> String {
        match (self.kind, &self.id) {
            (ItemKind::Text, _) => format!("{}\n{}", self.role, self.text.trim()),
            (ItemKind::Call, _) => self.call_key(),
            (ItemKind::Result, Some(id)) => format!("result {id}"),
            (ItemKind::Result, None) => format!("result\n{:?}\n{}", self.name, self.text.trim()),
        }
    }

    /// Returns a key that is equal for records of one call.
    pub(super) fn call_key(&self) -> String {
        let id = self.id.as_ref().map(|id| format!("call {id}"));
        id.unwrap_or_else(|| self.signature())
    }

    /// Returns name and arguments, which are equal for arguments as JSON, as its text and as a Python literal.
    pub(super) fn signature(&self) -> String {
        let json = self.arguments.as_ref().and_then(Value::as_str);
        let json = json.and_then(|text| parsed(text).or_else(|| parse_python(text)));
        let arguments = json.as_ref().or(self.arguments.as_ref());
        format!("call\n{:?}\n{arguments:?}", self.name)
    }
}

/// Whether items repeat others from the first on.
pub(super) fn begins_with(items: &[Item], others: &[Item]) -> bool {
    let start = items.get(..others.len());
    start.is_some_and(|start| start.iter().map(Item::key).eq(others.iter().map(Item::key)))
}

/// Counts of keys. An item of a history is new if its key occurs there more often than before.
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

    /// Adds the next key of the history and returns whether it is new.
    pub(super) fn is_new(&mut self, key: String) -> bool {
        let in_history = self.in_history.entry(key.clone()).or_default();
        *in_history += 1;
        let known = self.counts.entry(key).or_default();
        let is_new = *known < *in_history;
        *known += usize::from(is_new);
        is_new
    }
}

/// Returns the messages of a transcript and its conclusion: the agent's last text, unless a call, a result or another speaker follows it.
/// Errors and notices of the program may follow.
///
/// Messages name their agent if there are several.
pub(super) fn conversation(items: &[Item]) -> (Vec<Message>, Option<String>) {
    let agents: HashSet<&String> = items.iter().filter_map(|it| it.agent.as_ref()).collect();
    let call_of = pairs(items);
    let answered: HashSet<usize> = call_of.values().copied().collect();
    let (mut messages, mut concluding) = (Vec::new(), None);
    let (mut instructions, mut is_start): (Vec<&str>, bool) = (Vec::new(), true);
    for (index, item) in items.iter().enumerate() {
        let call = call_of.get(&index).map(|call| &items[*call]);
        let arguments = call.and_then(|call| call.arguments.as_ref());
        let arguments = arguments.or(item.arguments.as_ref());
        // Frameworks repeat their instructions with each request.
        let is_repeated =
            item.role == "system" && instructions.iter().any(|known| known.contains(&item.text));
        let (role, content) = match item.kind {
            ItemKind::Text if is_repeated => continue,
            ItemKind::Text => (item.role.as_str(), item.text.clone()),
            // A call is part of the message with its result.
            ItemKind::Call if answered.contains(&index) => continue,
            ItemKind::Call => ("assistant", tool_text(arguments, None)),
            ItemKind::Result => {
                let result = Some((item.text.as_str(), item.is_error));
                ("tool", tool_text(arguments, result))
            }
        };
        let unread = [call, Some(item)].into_iter().flatten();
        let unread = joined(unread.map(|item| item.unread.clone()));
        let content = match unread.is_empty() {
            true => content,
            false => format!("{content}\nOther fields:\n{unread}"),
        };
        is_start &= role == "system";
        if is_start {
            instructions.push(&item.text);
        }
        let follows = [THINKING, ALTERNATIVE, UNKNOWN].contains(&role) || is_one_of(role, PROGRAM);
        if !follows {
            let concludes = role == "assistant" && item.kind == ItemKind::Text;
            concluding = concludes.then_some(messages.len());
        }
        let name = call.and_then(|call| call.name.clone());
        messages.push(Message {
            role: role.to_owned(),
            content,
            tool_name: name.or_else(|| item.name.clone()),
            agent: item.agent.clone().filter(|_| agents.len() > 1),
            stage: None,
            at: item.at.map(rfc3339),
        });
    }
    // A conclusion without other messages stays a message, because a session without messages can't be scored.
    let concluding = concluding.filter(|_| messages.len() > 1);
    let conclusion = concluding.map(|last| messages.remove(last).content);
    (messages, conclusion)
}

/// Maps the index of each result to that of its call. The call has the id of the result, otherwise it is the first open one with no result's
/// id and no other name or arguments. If several calls have the id, those of the latest turn before the result count, in order.
fn pairs(items: &[Item]) -> HashMap<usize, usize> {
    let results = || items.iter().filter(|item| item.kind == ItemKind::Result);
    let returned: HashSet<&str> = results().filter_map(|it| it.id.as_deref()).collect();
    let has_arguments = results().any(|result| result.arguments.is_some());
    let signature = |item: &Item| has_arguments.then(|| item.signature());
    let signatures: Vec<Option<String>> = items.iter().map(signature).collect();
    // Open calls with the number of their turn, by their id if a result has it.
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
        let id = result.id.as_deref();
        let id = id.filter(|id| open.contains_key(&Some(id)));
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

/// Returns the text of a tool call. `result` is the result and whether it is an error, or `None` if no result is recorded.
pub(in crate::history) fn tool_text(
    arguments: Option<&Value>,
    result: Option<(&str, bool)>,
) -> String {
    let arguments = arguments.filter(|arguments| !arguments.is_null());
    let arguments = arguments.map(|arguments| format!("Arguments: {}\n", shown(arguments)));
    let result = match result {
        Some((result, true)) => format!("Error:\n{result}"),
        Some((result, false)) => format!("Result:\n{result}"),
        None => "No result is recorded.".to_owned(),
    };
    arguments.unwrap_or_default() + &result
}
