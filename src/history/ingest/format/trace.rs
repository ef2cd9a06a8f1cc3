//! Makes sessions of traces: the steps of one trace, or of all traces of one conversation, in the order of time.
//!
//! Each model call is recorded with its full history. Items that earlier calls of the same agent hold are skipped. A tool's step is
//! skipped if a message has its result.

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::field::{once, rfc3339};
use super::known::Known;
use super::parts::read_any;
use super::repeats::{Said, Tools};
use super::step::{Step, StepKind, count_leaves_as_tools};
use super::transcript::{Entry, Item, conversation};
use super::{Placed, fault, identify};
use crate::history::ingest::file::FileFault;
use crate::history::ingest::input::SessionInput;
use crate::wire::{SessionFormat, SessionStatus};

/// Limit of the steps above a step, because a parent may be its own child.
const HIGHEST: usize = 64;

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
        count_leaves_as_tools(&mut steps);
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

    fn is_root(&self, step: &Step) -> bool {
        let parent = step.parent.as_deref();
        parent.is_none_or(|parent| !self.by_id.contains_key(parent))
    }

    fn roots(&self) -> impl Iterator<Item = &'a Step> {
        self.steps.iter().filter(|step| self.is_root(step))
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
        let mut traces: Vec<Vec<&Step>> = Vec::new();
        let mut known: HashMap<&str, usize> = HashMap::new();
        for step in self.steps {
            let at = *known.entry(step.trace.as_str()).or_insert(traces.len());
            match traces.get_mut(at) {
                Some(steps) => steps.push(step),
                None => traces.push(vec![step]),
            }
        }
        let mut before = HashMap::new();
        let entries = traces
            .iter()
            .map(|steps| self.trace_entries(steps, &mut before));
        entries.collect::<Vec<_>>().concat()
    }

    fn trace_entries(
        &self,
        steps: &[&'a Step],
        before: &mut HashMap<Option<&'a str>, Known>,
    ) -> Vec<Entry> {
        let mut tools = Tools::new(steps);
        let mut nested = self.outputs_within(steps);
        let mut errors = HashSet::new();
        let mut entries = Vec::new();
        for step in steps {
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
                        if remove(nested.get_mut(step.id.as_str()), &item.key()) {
                            continue;
                        }
                        before.add(item);
                        entries.push(entry(item.clone(), step.ended_at));
                    }
                }
                (_, Some((call, result))) if !self.is_nested_tool(step) => {
                    for item in tools.missing(call, result) {
                        let is_call = matches!(item, Item::Call(_));
                        let at = if is_call {
                            step.started_at
                        } else {
                            step.ended_at
                        };
                        entries.push(entry(item, at));
                    }
                }
                (StepKind::Tool | StepKind::Agent | StepKind::Work | StepKind::Other, _) => {}
            }
            let error = step.error.as_ref().filter(|_| step.tool.is_none());
            // Steps above repeat the error of the one that failed.
            if let Some(error) = error.filter(|error| errors.insert(*error)) {
                let item = Item::Text {
                    role: "system".to_owned(),
                    text: format!("Error: {error}"),
                };
                entries.push(entry(item, step.ended_at));
            }
        }
        for entry in &mut entries {
            let key = entry.item.key();
            if let Item::Result(result) = &mut entry.item {
                result.is_error |= tools.failed.contains(&key);
            }
        }
        self.with_outermost(steps, entries)
    }

    /// Adds the question and the answer of the outermost steps where no message holds them.
    fn with_outermost(&self, steps: &[&'a Step], mut entries: Vec<Entry>) -> Vec<Entry> {
        let roots: Vec<&Step> = steps
            .iter()
            .copied()
            .filter(|step| self.is_root(step))
            .collect();
        let mut said = Said::new(&entries, roots.len());
        let (mut questions, mut answers) = (Vec::new(), Vec::new());
        for root in roots {
            let sides = [
                (&root.question, "user", root.started_at),
                (&root.answer, "assistant", root.ended_at),
            ];
            for (value, side, at) in sides {
                let items = value
                    .as_ref()
                    .map(|value| read_any(value, side))
                    .unwrap_or_default();
                for item in items {
                    let is_new = match &item {
                        Item::Text { role, text } => role == side && said.is_new(text, side),
                        Item::Call(_) | Item::Result(_) => false,
                    };
                    let entry = Entry {
                        item,
                        agent: None,
                        at: at.map(rfc3339),
                    };
                    match (is_new, side) {
                        (true, "user") => questions.push(entry),
                        (true, _) => answers.push(entry),
                        (false, _) => {}
                    }
                }
            }
        }
        entries.splice(0..0, questions);
        entries.extend(answers);
        entries
    }

    /// Returns the keys of the output of models by each model step above them.
    fn outputs_within(&self, steps: &[&'a Step]) -> HashMap<&'a str, Vec<String>> {
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

    /// Whether a tool's step is within one of the same tool.
    fn is_nested_tool(&self, step: &'a Step) -> bool {
        self.above(step)
            .any(|above| above.tool.is_some() && above.name == step.name)
    }

    /// Returns the steps above a step, the nearest first.
    fn above(&self, step: &'a Step) -> impl Iterator<Item = &'a Step> {
        let parent = |step: &&'a Step| self.by_id.get(step.parent.as_deref()?).copied();
        std::iter::successors(parent(&step), parent).take(HIGHEST)
    }
}

/// Removes a key from a list and returns whether it was there.
fn remove(keys: Option<&mut Vec<String>>, key: &str) -> bool {
    let Some(keys) = keys else { return false };
    let at = keys.iter().position(|known| known == key);
    at.map(|at| keys.swap_remove(at)).is_some()
}
