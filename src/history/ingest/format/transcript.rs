//! The one form that every dialect is read into, and the decisions that are made in it once: which result belongs to which call, where
//! both stand, and what the agent concluded.

use std::collections::{HashMap, HashSet, VecDeque};

use serde_json::Value;

use super::shown::shown;
use crate::score::session::Message;

/// The role of what a model thinks before it answers: the judge sees it marked, and it is never the conclusion.
pub(in crate::history) const THINKING: &str = "thinking";

/// A result without an id is compared with so many open calls at most.
const MAX_OPEN_CALLS: usize = 1_000;

/// One thing that was said, called or returned.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Item {
    Text { role: String, text: String },
    Call(Call),
    Result(CallResult),
}

/// A tool call.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Call {
    pub(super) id: Option<String>,
    pub(super) name: Option<String>,
    pub(super) arguments: Option<Value>,
}

/// What a tool call returned.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct CallResult {
    /// Id of the call.
    pub(super) id: Option<String>,
    pub(super) name: Option<String>,
    pub(super) content: String,
    pub(super) is_error: bool,
    /// Its call, where the result repeats it.
    pub(super) origin: Option<Call>,
}

/// An item with its agent and its time (RFC 3339), where they are recorded.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub(super) item: Item,
    pub(super) agent: Option<String>,
    pub(super) at: Option<String>,
}

impl Item {
    /// Equal for an item and its repetitions in later histories.
    pub(super) fn key(&self) -> String {
        match self {
            Self::Text { role, text } => format!("{role}\n{}", text.trim()),
            Self::Call(call) => match &call.id {
                Some(id) => format!("call {id}"),
                None => call.signature(),
            },
            Self::Result(result) => match &result.id {
                Some(id) => format!("result {id}"),
                None => format!("result\n{:?}\n{}", result.name, result.content.trim()),
            },
        }
    }
}

impl Call {
    /// Name and arguments, equal for arguments as JSON and as its text.
    pub(super) fn signature(&self) -> String {
        let arguments = self.arguments.as_ref().map(canonical);
        format!("call\n{:?}\n{arguments:?}", self.name)
    }
}

/// JSON text as its value, so that white space doesn't count.
fn canonical(value: &Value) -> Value {
    let text = value.as_str().map(serde_json::from_str);
    text.and_then(Result::ok).unwrap_or_else(|| value.clone())
}

/// Returns the messages of a transcript and its conclusion: the agent's last text, unless a call or somebody else comes after it.
///
/// Messages name their agent where there are several.
pub(super) fn conversation(entries: Vec<Entry>) -> (Vec<Message>, Option<String>) {
    let agents: HashSet<&str> = entries
        .iter()
        .filter_map(|entry| entry.agent.as_deref())
        .collect();
    let has_several = agents.len() > 1;
    let mut call_of = pairs(&entries);
    let answered: HashSet<usize> = call_of.values().copied().collect();
    let (mut messages, mut is_text) = (Vec::new(), Vec::new());
    let (mut instructions, mut is_start) = (Vec::new(), true);
    for (index, entry) in entries.iter().enumerate() {
        let (role, content, tool_name) = match &entry.item {
            // Frameworks repeat their instructions with each request.
            Item::Text { role, text } if role == "system" && is_known(&instructions, text) => {
                continue;
            }
            Item::Text { role, text } => (role.clone(), text.clone(), None),
            // A call stands where its result does.
            Item::Call(_) if answered.contains(&index) => continue,
            Item::Call(call) => {
                let content = tool_text(call.arguments.as_ref(), None);
                ("assistant".to_owned(), content, call.name.clone())
            }
            Item::Result(result) => {
                let call = call_of.remove(&index).and_then(|call| entries.get(call));
                let call = match call.map(|entry| &entry.item) {
                    Some(Item::Call(call)) => Some(call),
                    Some(Item::Text { .. } | Item::Result(_)) | None => None,
                };
                let call = call.or(result.origin.as_ref());
                let arguments = call.and_then(|call| call.arguments.as_ref());
                let name = call.and_then(|call| call.name.clone());
                (
                    "tool".to_owned(),
                    tool_text(arguments, Some((&result.content, result.is_error))),
                    name.or_else(|| result.name.clone()),
                )
            }
        };
        is_start &= role == "system";
        if is_start {
            instructions.extend(own_text(&entry.item));
        }
        is_text.push(own_text(&entry.item).is_some());
        messages.push(Message {
            role,
            content,
            tool_name,
            agent: entry.agent.clone().filter(|_| has_several),
            stage: None,
            at: entry.at.clone(),
        });
    }
    let last = messages
        .iter()
        .rposition(|message| message.role != THINKING);
    // A conclusion that stands alone is the whole conversation, and is judged as such.
    let concludes = last.is_some_and(|last| {
        messages.len() > 1 && messages[last].role == "assistant" && is_text[last]
    });
    let conclusion = last.filter(|_| concludes).map(|last| messages.remove(last));
    (messages, conclusion.map(|message| message.content))
}

/// Whether the instructions at the start include a text.
fn is_known(instructions: &[&String], text: &str) -> bool {
    instructions.iter().any(|known| known.contains(text))
}

fn own_text(item: &Item) -> Option<&String> {
    match item {
        Item::Text { text, .. } => Some(text),
        Item::Call(_) | Item::Result(_) => None,
    }
}

/// A call without a result so far.
struct OpenCall<'a> {
    index: usize,
    /// Number of the row of calls that it belongs to.
    turn: usize,
    call: &'a Call,
    signature: String,
}

impl OpenCall<'_> {
    /// Whether name and arguments of a result aren't those of another call.
    fn fits(&self, result: &CallResult, origin: Option<&String>) -> bool {
        let names = self.call.name.as_ref().zip(result.name.as_ref());
        names.is_none_or(|(called, returned)| called == returned)
            && origin.is_none_or(|origin| *origin == self.signature)
    }
}

/// Returns the index of the call for the index of each result that has one: by id, else the first open call whose id no result has
/// and whose name and arguments aren't others. Of calls with one id the latest turn before the result counts, in order.
fn pairs(entries: &[Entry]) -> HashMap<usize, usize> {
    let results = entries.iter().filter_map(|entry| match &entry.item {
        Item::Result(result) => Some(result),
        Item::Text { .. } | Item::Call(_) => None,
    });
    let has_origins = results.clone().any(|result| result.origin.is_some());
    let returned: HashSet<&str> = results.filter_map(|result| result.id.as_deref()).collect();
    let mut by_id: HashMap<&str, Vec<OpenCall<'_>>> = HashMap::new();
    let mut others: VecDeque<OpenCall<'_>> = VecDeque::new();
    let (mut turn, mut is_call) = (0, false);
    for (index, entry) in entries.iter().enumerate() {
        let Item::Call(call) = &entry.item else {
            is_call = false;
            continue;
        };
        turn += usize::from(!is_call);
        is_call = true;
        let open = OpenCall {
            index,
            turn,
            call,
            signature: if has_origins {
                call.signature()
            } else {
                String::new()
            },
        };
        match call.id.as_deref().filter(|id| returned.contains(id)) {
            Some(id) => by_id.entry(id).or_default().push(open),
            None => others.push_back(open),
        }
    }
    let mut call_of = HashMap::new();
    for (index, entry) in entries.iter().enumerate() {
        let Item::Result(result) = &entry.item else {
            continue;
        };
        let origin = result.origin.as_ref().map(Call::signature);
        let fits = |open: &OpenCall<'_>| open.fits(result, origin.as_ref());
        let found = match result.id.as_deref().and_then(|id| by_id.get_mut(id)) {
            Some(calls) => {
                let rank = |(_, open): &(usize, &OpenCall<'_>)| {
                    let before = open.index < index;
                    let turn = if before {
                        open.turn
                    } else {
                        usize::MAX - open.turn
                    };
                    (fits(open), before, turn, usize::MAX - open.index)
                };
                let best = calls
                    .iter()
                    .take(MAX_OPEN_CALLS)
                    .enumerate()
                    .max_by_key(rank);
                best.map(|(position, _)| position)
                    .map(|position| calls.remove(position))
            }
            None => {
                let mut before = others
                    .iter()
                    .take(MAX_OPEN_CALLS)
                    .take_while(|open| open.index < index);
                before
                    .position(fits)
                    .and_then(|position| others.remove(position))
            }
        };
        call_of.extend(found.map(|open| (index, open.index)));
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
