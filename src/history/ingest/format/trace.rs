//! Makes sessions of traces: the steps of one trace, or of all traces of one conversation, in the order of time.
//!
//! Each model call is recorded with its full history. Items that earlier calls of the same agent hold are skipped. A tool's step is
//! skipped if a message has its result.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::field::{once, rfc3339};
use super::parts::read_any;
use super::transcript::{Call, CallResult, Entry, Item, Known, THINKING, conversation};
use super::{Placed, fault, identify};
use crate::history::ingest::file::FileFault;
use crate::history::ingest::input::SessionInput;
use crate::wire::{SessionFormat, SessionStatus};

/// Limit of the steps above a step, because a parent may be its own child.
const HIGHEST: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum StepKind {
    /// A call of a model.
    Model,
    Tool,
    Agent,
    #[default]
    Other,
}

/// One step of a trace.
#[derive(Debug, Default)]
pub(super) struct Step {
    /// Place in the file.
    pub(super) place: String,
    pub(super) id: String,
    pub(super) parent: Option<String>,
    pub(super) trace: String,
    /// Conversation of its trace; not every step of a trace has it.
    pub(super) conversation: Option<String>,
    pub(super) kind: StepKind,
    pub(super) name: Option<String>,
    /// Agent that the step names itself.
    pub(super) agent: Option<String>,
    pub(super) author: Option<String>,
    pub(super) started_at: Option<DateTime<Utc>>,
    pub(super) ended_at: Option<DateTime<Utc>>,
    pub(super) failed: bool,
    /// The text of its error.
    pub(super) error: Option<String>,
    /// Messages that a model received and returned.
    pub(super) input: Vec<Item>,
    pub(super) output: Vec<Item>,
    /// A tool's call and its result.
    pub(super) tool: Option<(Call, CallResult)>,
    /// Names of the available tools.
    pub(super) tools: Vec<String>,
    /// Input and output of a step that is no model call, which models may not repeat.
    pub(super) question: Option<Value>,
    pub(super) answer: Option<Value>,
}

/// The sessions of these steps, in the order of the file.
pub(super) fn sessions(
    steps: Vec<Step>,
    format: SessionFormat,
) -> Result<Vec<Placed>, Vec<FileFault>> {
    let mut conversations: HashMap<String, String> = HashMap::new();
    for step in &steps {
        if let Some(conversation) = &step.conversation {
            conversations.insert(step.trace.clone(), conversation.clone());
        }
    }
    let mut groups: Vec<(String, Vec<Step>)> = Vec::new();
    let mut known: HashMap<String, usize> = HashMap::new();
    for step in steps {
        let name = conversations
            .get(&step.trace)
            .unwrap_or(&step.trace)
            .clone();
        let at = *known.entry(name.clone()).or_insert(groups.len());
        match groups.get_mut(at) {
            Some((_, group)) => group.push(step),
            None => groups.push((name, vec![step])),
        }
    }
    let (mut sessions, mut faults) = (Vec::new(), Vec::new());
    for (name, mut steps) in groups {
        // Steps of one moment stay in the file's order.
        steps.sort_by_key(|step| step.started_at);
        let trace = Trace::new(&name, &steps);
        match trace.session(format) {
            Ok(session) => sessions.push((trace.place(), session)),
            Err(found) => faults.push(found),
        }
    }
    if faults.is_empty() {
        Ok(sessions)
    } else {
        Err(faults)
    }
}

struct Trace<'a> {
    name: &'a str,
    steps: &'a [Step],
    by_id: HashMap<&'a str, &'a Step>,
}

impl<'a> Trace<'a> {
    fn new(name: &'a str, steps: &'a [Step]) -> Self {
        let by_id = steps.iter().map(|step| (step.id.as_str(), step)).collect();
        Self { name, steps, by_id }
    }

    fn place(&self) -> String {
        format!("trace {}", self.name)
    }

    fn roots(&self) -> impl Iterator<Item = &'a Step> {
        let is_root = move |step: &&Step| {
            let parent = step.parent.as_deref();
            parent.is_none_or(|parent| !self.by_id.contains_key(parent))
        };
        self.steps.iter().filter(is_root)
    }

    /// Returns the agent of a step: its own, else that of the nearest step above.
    fn agent(&self, step: &'a Step) -> Option<&'a str> {
        std::iter::once(step)
            .chain(self.above(step))
            .find_map(|step| {
                let own = (step.kind == StepKind::Agent).then_some(step.name.as_deref());
                step.agent.as_deref().or(own.flatten())
            })
    }

    fn session(&self, format: SessionFormat) -> Result<SessionInput, FileFault> {
        let said = self.entries();
        if !said
            .iter()
            .any(|entry| matches!(entry.item, Item::Text { .. }))
        {
            let first = self.steps.first();
            return Err(FileFault {
                place: first.map(|step| step.place.clone()).unwrap_or_default(),
                fault: fault(
                    "",
                    format!(
                        "{} holds no message; record what models and tools say (for OpenTelemetry: turn on the capture of message content)",
                        self.place()
                    ),
                ),
            });
        }
        let (conversation, final_analysis) = conversation(said);
        let status = if self.roots().any(|step| step.failed) {
            SessionStatus::Failed
        } else {
            SessionStatus::Completed
        };
        let agent = self.steps.iter().find_map(|step| self.agent(step));
        let root = self.roots().next();
        let mut session = SessionInput {
            status: Some(status.as_str().to_owned()),
            agent: agent.map(str::to_owned).or_else(|| root?.name.clone()),
            author: self.steps.iter().find_map(|step| step.author.clone()),
            conversation,
            final_analysis,
            tools: self.tools(),
            started_at: self
                .steps
                .iter()
                .filter_map(|step| step.started_at)
                .min()
                .map(rfc3339),
            completed_at: self
                .steps
                .iter()
                .filter_map(|step| step.ended_at)
                .max()
                .map(rfc3339),
            ..SessionInput::default()
        };
        identify(
            &mut session,
            format,
            Some(self.name.to_owned()),
            &Value::Null,
        );
        Ok(session)
    }

    /// Returns the names of the available and the used tools.
    fn tools(&self) -> Vec<String> {
        let used = self.steps.iter().filter(|step| step.kind == StepKind::Tool);
        let used = used.filter_map(|step| step.name.as_ref());
        let at_hand = self.steps.iter().flat_map(|step| &step.tools);
        once(at_hand.chain(used).cloned())
    }

    /// Returns the entries of all traces, one trace after another.
    fn entries(&self) -> Vec<Entry> {
        let traces = once(self.steps.iter().map(|step| step.trace.clone()));
        let mut before = HashMap::new();
        let mut entries = Vec::new();
        for trace in traces {
            let steps = self.steps.iter().filter(|step| step.trace == trace);
            let said = self.trace_entries(steps.collect(), &mut before);
            entries.extend(said);
        }
        entries
    }

    fn trace_entries(
        &self,
        steps: Vec<&'a Step>,
        before: &mut HashMap<Option<&'a str>, Known>,
    ) -> Vec<Entry> {
        let mut tools = Tools::new(&steps);
        let mut nested = self.said_within(&steps);
        let mut entries = Vec::new();
        for step in &steps {
            let agent = self.agent(step);
            let entry = |item, at: Option<DateTime<Utc>>| Entry {
                item,
                agent: agent.map(str::to_owned),
                at: at.map(rfc3339),
            };
            match (step.kind, &step.tool) {
                (StepKind::Model, _) => {
                    let before = before.entry(agent).or_default();
                    before.start_history();
                    let input = step.input.iter().filter(|item| before.is_new(item));
                    entries.extend(input.map(|item| entry(item.clone(), step.started_at)));
                    for item in &step.output {
                        // A span around another one of the same call repeats its output.
                        if take(nested.get_mut(step.id.as_str()), &item.key()) {
                            continue;
                        }
                        before.add(item);
                        entries.push(entry(item.clone(), step.ended_at));
                    }
                }
                (_, Some((call, result))) if !self.is_nested_tool(step) => {
                    let items = tools.missing(call, result).into_iter();
                    let at = |item: &Item| match item {
                        Item::Call(_) => step.started_at,
                        Item::Text { .. } | Item::Result(_) => step.ended_at,
                    };
                    entries.extend(items.map(|item| {
                        let at = at(&item);
                        entry(item, at)
                    }));
                }
                (StepKind::Tool | StepKind::Agent | StepKind::Other, _) => {}
            }
            let error = step.error.as_ref().filter(|_| step.kind != StepKind::Tool);
            let error = error.map(|error| Item::Text {
                role: "system".to_owned(),
                text: format!("Error: {error}"),
            });
            // Steps above repeat the error of the one that failed.
            if let Some(error) =
                error.filter(|error| !entries.iter().any(|known| known.item == *error))
            {
                entries.push(entry(error, step.ended_at));
            }
        }
        for entry in &mut entries {
            let key = entry.item.key();
            if let Item::Result(result) = &mut entry.item {
                result.is_error |= tools.failed.contains(&key);
            }
        }
        self.with_outermost(&steps, entries)
    }

    /// Adds the question and the answer of the outermost steps where no message holds them.
    fn with_outermost(&self, steps: &[&'a Step], mut entries: Vec<Entry>) -> Vec<Entry> {
        for root in self
            .roots()
            .filter(|root| steps.iter().any(|step| step.id == root.id))
        {
            let side = |value: &Option<Value>, role, at: Option<DateTime<Utc>>| {
                let items = value.as_ref().map(|value| read_any(value, role));
                let entry = |item| Entry {
                    item,
                    agent: None,
                    at: at.map(rfc3339),
                };
                items
                    .unwrap_or_default()
                    .into_iter()
                    .map(entry)
                    .collect::<Vec<_>>()
            };
            if !entries.iter().any(|entry| has_role(entry, "user")) {
                let question = side(&root.question, "user", root.started_at);
                entries.splice(0..0, question);
            }
            let is_new = |entry: &Entry| match &entry.item {
                Item::Text { role, text } if role == "assistant" => !is_said(text, &entries),
                Item::Text { .. } | Item::Call(_) | Item::Result(_) => false,
            };
            let answer = side(&root.answer, "assistant", root.ended_at);
            let answer: Vec<Entry> = answer.into_iter().filter(is_new).collect();
            entries.extend(answer);
        }
        entries
    }

    /// Returns the keys of the output of models by each model step above them.
    fn said_within(&self, steps: &[&'a Step]) -> HashMap<&'a str, Vec<String>> {
        let mut within: HashMap<&str, Vec<String>> = HashMap::new();
        for step in steps.iter().filter(|step| step.kind == StepKind::Model) {
            for above in self
                .above(step)
                .filter(|above| above.kind == StepKind::Model)
            {
                let keys = within.entry(above.id.as_str()).or_default();
                keys.extend(step.output.iter().map(Item::key));
            }
        }
        within
    }

    /// Whether a tool's step stands within one of the same tool.
    fn is_nested_tool(&self, step: &'a Step) -> bool {
        self.above(step)
            .any(|above| above.kind == StepKind::Tool && above.name == step.name)
    }

    /// The steps above a step, the nearest first.
    fn above(&self, step: &'a Step) -> impl Iterator<Item = &'a Step> {
        let parent = |step: &&'a Step| self.by_id.get(step.parent.as_deref()?).copied();
        std::iter::successors(parent(&step), parent).take(HIGHEST)
    }
}

fn has_role(entry: &Entry, wanted: &str) -> bool {
    matches!(&entry.item, Item::Text { role, .. } if role == wanted)
}

/// Whether a text, or a field of its JSON, is among the entries.
fn is_said(text: &str, entries: &[Entry]) -> bool {
    let said = entries.iter().filter_map(|entry| match &entry.item {
        Item::Text { role, text } if role != THINKING => Some(text.trim()),
        Item::Text { .. } | Item::Call(_) | Item::Result(_) => None,
    });
    let value: Option<Value> = serde_json::from_str(text).ok();
    let value = value.filter(|value| value.is_object() || value.is_array());
    let mut said = said.filter(|said| !said.is_empty());
    said.any(|said| match &value {
        None => said == text.trim(),
        Some(value) => {
            holds(value, said)
                || serde_json::from_str::<Value>(said).is_ok_and(|said| said == *value)
        }
    })
}

/// Whether JSON contains a text.
fn holds(value: &Value, wanted: &str) -> bool {
    match value {
        Value::String(text) => text.trim() == wanted,
        Value::Array(items) => items.iter().any(|item| holds(item, wanted)),
        Value::Object(fields) => fields.values().any(|field| holds(field, wanted)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Removes a key from a list and returns whether it was there.
fn take(keys: Option<&mut Vec<String>>, key: &str) -> bool {
    let Some(keys) = keys else { return false };
    let at = keys.iter().position(|known| known == key);
    at.map(|at| keys.swap_remove(at)).is_some()
}

/// Calls and results in messages. A tool's step repeats one of each, and may lack the id of its call.
struct Tools<'a> {
    calls: Vec<&'a Call>,
    results: Vec<&'a CallResult>,
    /// Keys of results in messages that are errors only by their step.
    failed: Vec<String>,
}

impl<'a> Tools<'a> {
    fn new(steps: &[&'a Step]) -> Self {
        let mut tools = Self {
            calls: Vec::new(),
            results: Vec::new(),
            failed: Vec::new(),
        };
        let mut known = Known::default();
        for step in steps {
            // Each history repeats the ones before.
            known.start_history();
            for item in step.input.iter().chain(&step.output) {
                match item {
                    Item::Call(call) if known.is_new(item) => tools.calls.push(call),
                    Item::Result(result) if known.is_new(item) => tools.results.push(result),
                    Item::Text { .. } | Item::Call(_) | Item::Result(_) => {}
                }
            }
        }
        tools
    }

    /// Returns a tool's call and result as far as messages lack them.
    fn missing(&mut self, call: &Call, result: &CallResult) -> Vec<Item> {
        let by_id = |known: &&Call| known.id.is_some() && known.id == call.id;
        let same = |known: &&Call| known.signature() == call.signature();
        let at = self.calls.iter().position(by_id);
        let at = at.or_else(|| self.calls.iter().position(same));
        let known = at.map(|at| self.calls.remove(at));
        let id = known.map_or(&call.id, |known| &known.id);
        let by_id = |known: &&CallResult| known.id.is_some() && known.id == *id;
        let same = |known: &&CallResult| {
            !known.content.trim().is_empty() && known.content.trim() == result.content.trim()
        };
        let at = self.results.iter().position(by_id);
        let at = at.or_else(|| self.results.iter().position(same));
        match (known, at) {
            (_, Some(at)) => {
                let known = self.results.remove(at);
                if result.is_error {
                    self.failed.push(Item::Result(known.clone()).key());
                }
                Vec::new()
            }
            (Some(known), None) => vec![Item::Result(CallResult {
                id: known.id.clone(),
                ..result.clone()
            })],
            (None, None) => vec![Item::Call(call.clone()), Item::Result(result.clone())],
        }
    }
}
