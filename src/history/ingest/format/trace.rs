//! Converts traces into sessions: the steps of one trace, or of all traces of one conversation, in the order of time.
//!
//! Each model call is recorded with its complete history. Items known from earlier calls of the same agent are skipped, and steps of tools
//! with their result in a message.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet, VecDeque};

use serde_json::Value;

use super::calls::tool_names;
use super::field::{grouped, once, parsed, rfc3339};
use super::parts::{only_value, read_any, read_message};
use super::shown::{joined, shown};
use super::steps::{
    AGENTS, AUTHORS, CALL_IDS, INPUTS, NOTES, OUTPUTS, RAW_OUTPUT, Step, StepKind, TOOLS,
};
use super::transcript::{Item, ItemKind, Known, THINKING, begins_with};
use super::{Found, all, failure};
use crate::history::ingest::input::{Faults, SessionInput, fault, placed};
use crate::wire::SessionStatus;

/// Limit of the steps above a step, because a parent may be its own child.
const MAX_DEPTH: usize = 64;
/// In traces with more outermost steps a question is compared with complete texts only.
const MAX_ROOTS_WITHIN: usize = 100;
/// Limit of the results before a message that may be within it.
const MAX_STEPS_WITHIN: usize = 100;

/// Returns the sessions of these steps, in the order of the file.
pub(super) fn sessions(steps: Vec<Step>) -> Result<Vec<Found>, Faults> {
    let named = steps.iter();
    let named = named.filter_map(|step| Some((step.trace.clone(), step.conversation.clone()?)));
    let conversations: HashMap<String, String> = named.collect();
    let named = steps.into_iter().map(|step| {
        let name = conversations.get(&step.trace).unwrap_or(&step.trace);
        (name.clone(), step)
    });
    all(grouped(named).into_iter().map(|(name, mut steps)| {
        // Steps of one moment stay in the file's order.
        steps.sort_by_key(|step| step.started_at);
        let by_id = steps.iter().map(|step| (step.id.as_str(), step));
        let trace = Trace {
            by_id: by_id.collect(),
            parents: steps.iter().filter_map(|it| it.parent.as_deref()).collect(),
            steps: &steps,
        };
        trace.session(name)
    }))
}

struct Trace<'a> {
    steps: &'a [Step],
    by_id: HashMap<&'a str, &'a Step>,
    /// Ids of steps that contain steps.
    parents: HashSet<&'a str>,
}

impl<'a> Trace<'a> {
    fn session(&self, name: String) -> Result<Found, Faults> {
        let mut before = HashMap::new();
        let traces = grouped(self.steps.iter().map(|step| (step.trace.as_str(), step)));
        let mut items = Vec::new();
        for (_, steps) in traces {
            let new = self.items(&steps, &mut before);
            // The state of a thread contains the thread from its start.
            let known = Some(items.len()).filter(|_| begins_with(&new, &items));
            items.extend(new.into_iter().skip(known.unwrap_or_default()));
        }
        let place = format!("trace {name}");
        if !items.iter().any(|item| item.kind == ItemKind::Text) {
            let message = format!(
                "{place} holds no message; record what models and tools say (for OpenTelemetry: capture message content as attributes of spans, because messages in events aren't read)"
            );
            return Err(placed(&self.steps[0].place, fault("", message)));
        }
        let steps = || self.steps.iter();
        let mut roots = steps().filter(|step| self.is_root(step));
        let used = steps().filter(|step| step.kind == StepKind::Tool);
        let tools = steps().filter_map(|step| step.get(TOOLS));
        let tools = tools.flat_map(tool_names);
        let mut agents = steps().filter_map(|step| self.agent(step));
        let has_failed = roots.clone().any(|step| step.failed);
        let starts = steps().filter_map(|step| step.started_at);
        let ends = steps().filter_map(|step| step.ended_at);
        Ok(Found {
            place,
            id: Some(name),
            items,
            session: SessionInput {
                status: has_failed.then(|| SessionStatus::Failed.to_string()),
                started_at: starts.min().map(rfc3339),
                completed_at: ends.max().map(rfc3339),
                agent: agents.next().or_else(|| roots.next()?.name.clone()),
                author: steps().find_map(|step| step.text(AUTHORS)),
                tools: once(tools.chain(used.filter_map(|step| step.name.clone()))),
                ..SessionInput::default()
            },
        })
    }

    fn is_root(&self, step: &Step) -> bool {
        let parent = step.parent.as_deref();
        parent.is_none_or(|parent| !self.by_id.contains_key(parent))
    }

    /// Returns the agent of a step, by default that of the nearest step above.
    fn agent(&self, step: &'a Step) -> Option<String> {
        let mut steps = std::iter::once(step).chain(self.above(step));
        steps.find_map(|step| {
            let own = step.name.clone().filter(|_| step.kind == StepKind::Agent);
            step.text(AGENTS).or(own)
        })
    }

    /// Returns the steps above a step, the nearest first.
    fn above(&self, step: &'a Step) -> impl Iterator<Item = &'a Step> {
        let parent = |step: &&'a Step| self.by_id.get(step.parent.as_deref()?).copied();
        std::iter::successors(parent(&step), parent).take(MAX_DEPTH)
    }

    /// Whether a step is a tool's. Work that contains no steps counts as one, because some agents record their tools as plain spans.
    fn is_tool(&self, step: &Step) -> bool {
        let is_leaf = step.parent.is_some() && !self.parents.contains(step.id.as_str());
        let is_work = || is_leaf && step.get(INPUTS).or(step.get(OUTPUTS)).is_some();
        step.kind == StepKind::Tool || step.kind == StepKind::Work && is_work()
    }

    /// Returns the items of one trace. `known` are the items of the agents in earlier traces.
    fn items(&self, steps: &[&'a Step], known: &mut HashMap<Option<String>, Known>) -> Vec<Item> {
        // A model step above another one records the same call and repeats its output.
        let models = steps.iter().filter(|it| it.kind == StepKind::Model);
        let around = models.flat_map(|step| self.above(step));
        let around: HashSet<&str> = around.map(|step| step.id.as_str()).collect();
        let mut ended = steps.to_vec();
        let end = |step: &Step| step.ended_at.or(step.started_at);
        let last = steps.iter().filter_map(|step| end(step)).max();
        ended.sort_by_key(|step| (end(step), Reverse(self.above(step).count())));
        let (mut errors, mut of_tools) = (HashSet::new(), Vec::new());
        // Without steps of models the outermost steps hold the conversation, with the input or in the output alone.
        let has_models = steps.iter().any(|step| step.kind == StepKind::Model);
        let is_whole = |step: &&Step| !has_models && self.is_root(step) && !self.is_tool(step);
        let (mut items, mut answers): (Vec<Item>, Vec<Item>) = (Vec::new(), Vec::new());
        let mut own = Known::default();
        for step in steps.iter().copied().filter(is_whole) {
            let (agent, output) = (self.agent(step), model_output(step));
            let repeated: HashSet<String> = output.iter().map(Item::key).collect();
            own.start_history();
            let is_new = |it: &Item| !repeated.contains(&it.key()) && own.is_new(it.key());
            let input = read(step.get(INPUTS), "user").filter(is_new);
            items.extend(input.map(|item| item.of(agent.clone(), step.started_at)));
            own.start_history();
            let output = output.into_iter().filter(|item| own.is_new(item.key()));
            let ended_at = step.ended_at.or(last);
            answers.extend(output.map(|item| item.of(agent.clone(), ended_at)));
        }
        for step in ended {
            let (agent, is_tool) = (self.agent(step), self.is_tool(step));
            let is_same_tool = |above: &Step| self.is_tool(above) && above.name == step.name;
            if step.kind == StepKind::Model {
                let known = known.entry(agent.clone()).or_default();
                known.start_history();
                let input = read(step.get(INPUTS), "user").filter(|item| known.is_new(item.key()));
                items.extend(input.map(|item| item.of(agent.clone(), step.started_at)));
                let is_around = around.contains(step.id.as_str());
                for item in model_output(step) {
                    if !is_around || known.is_new(item.key()) {
                        known.add(item.key());
                        items.push(item.of(agent.clone(), end(step)));
                    }
                }
            } else if is_tool && !self.above(step).any(is_same_tool) {
                of_tools.push((items.len(), step));
                items.push(tool_result(step).of(agent.clone(), end(step)));
            }
            // Steps above repeat the error of the step that failed.
            let error = step.error("").filter(|_| !is_tool);
            let error = error.filter(|error| errors.insert(error.clone()));
            items.extend(error.map(|error| failure(&error).of(agent, end(step))));
        }
        items.append(&mut answers);
        let mut items = without_repeated(items, &of_tools);
        items.sort_by_key(|item| item.at);
        self.with_outermost(steps, items)
    }

    /// Adds the question and the answer of the outermost steps, unless a message contains them.
    fn with_outermost(&self, steps: &[&'a Step], items: Vec<Item>) -> Vec<Item> {
        let roots = steps.iter().filter(|step| self.is_root(step));
        let looks_within = roots.clone().count() <= MAX_ROOTS_WITHIN;
        let texts = items.iter().filter(|it| it.kind == ItemKind::Text);
        let texts = texts.filter(|it| it.role != THINKING);
        let mut known: HashSet<String> = texts.map(|item| core(&item.text)).collect();
        let mut new = |value, role: &'static str, at, looks_within| -> Vec<Item> {
            let texts = read(value, role).filter(|it| it.kind == ItemKind::Text && it.role == role);
            let new = texts.filter(|item| {
                let core = core(&item.text);
                let is_within = looks_within && known.iter().any(|text| text.contains(&core));
                !is_within && known.insert(core)
            });
            new.map(|item| Item { at, ..item }).collect()
        };
        let (mut questions, mut answers) = (Vec::new(), Vec::new());
        for root in roots.filter(|it| it.kind != StepKind::Model && it.kind != StepKind::Tool) {
            questions.extend(new(root.get(INPUTS), "user", root.started_at, looks_within));
            answers.extend(new(root.get(OUTPUTS), "assistant", root.ended_at, false));
        }
        [questions, items, answers].concat()
    }
}

fn read(value: Option<&Value>, role: &str) -> impl Iterator<Item = Item> {
    let items = value.map(|value| read_any(value, role));
    items.into_iter().flatten()
}

/// Returns the longest text of a text's JSON, otherwise the trimmed text, so that texts can be compared.
fn core(text: &str) -> String {
    fn longest(value: &Value) -> &str {
        let longest = match value {
            Value::String(text) => Some(text.trim()),
            Value::Array(items) => items.iter().map(longest).max_by_key(|text| text.len()),
            Value::Object(fields) => fields.values().map(longest).max_by_key(|text| text.len()),
            Value::Null | Value::Bool(_) | Value::Number(_) => None,
        };
        longest.unwrap_or_default()
    }
    match longest(&parsed(text).unwrap_or_default()) {
        "" => text.trim().to_owned(),
        longest => longest.to_owned(),
    }
}

fn model_output(step: &Step) -> Vec<Item> {
    let mut output: Vec<Item> = read(step.get(OUTPUTS), "assistant").collect();
    let is_thinking = |item: &Item| item.role == THINKING;
    // Some instrumentations write thinking only in the library's own form, or as a second text after the one of that form.
    if !output.iter().any(is_thinking) {
        let raw: Vec<Item> = read(step.get(RAW_OUTPUT), "assistant").collect();
        let said = raw.iter().find(|item| item.role == "assistant");
        let said = said.map(|item| format!("{}\n", item.text));
        let second = |item: &mut Item| {
            let thought = item.text.strip_prefix(said.as_deref()?)?.to_owned();
            item.text.truncate(item.text.len() - thought.len() - 1);
            Some(Item::text(THINKING, thought))
        };
        let second: Vec<Item> = output.iter_mut().filter_map(second).collect();
        let raw = raw.into_iter().filter(is_thinking);
        output.splice(0..0, raw.chain(second));
    }
    output
}

/// Returns the result of a tool's step without the wrappers of libraries.
fn tool_result(step: &Step) -> Item {
    let [input, output] = [INPUTS, OUTPUTS].map(|names| {
        let value = step.get(names);
        let json = value.and_then(Value::as_str).and_then(parsed);
        json.or(value.cloned()).unwrap_or_default()
    });
    // Decorators record positional and named arguments separately.
    let arguments = match input["args"].as_array() {
        Some(args) if args.is_empty() && input["kwargs"].is_object() => &input["kwargs"],
        Some(_) | None => only_value(&input),
    };
    let returned = only_value(&output);
    // The tools of LangChain return a message.
    let mut message = read_message(returned, "tool").into_iter().flatten();
    let result = message.find(|item| item.kind == ItemKind::Result);
    let result = result.unwrap_or_else(|| {
        // Text stays unchanged.
        let written = step.get(OUTPUTS).filter(|_| *returned == output);
        Item::text("", shown(written.unwrap_or(returned)))
    });
    let id = step.text(CALL_IDS).or(result.id);
    let note = step.text(NOTES).filter(|_| !step.failed);
    let note = note.map(|note| format!("status: {note}"));
    Item {
        kind: ItemKind::Result,
        id: Some(id.unwrap_or_else(|| step.id.clone())),
        name: step.name.clone(),
        arguments: Some(arguments.clone()),
        is_error: step.failed || result.is_error,
        text: result.text,
        unread: joined(note.into_iter().chain([result.unread])),
        ..Item::default()
    }
}

/// Removes the results of tools' steps that are also in messages. A step may have no call id.
fn without_repeated(mut items: Vec<Item>, of_tools: &[(usize, &Step)]) -> Vec<Item> {
    let mut known: HashMap<String, VecDeque<usize>> = HashMap::new();
    for (index, item) in items.iter().enumerate() {
        if of_tools.binary_search_by_key(&index, |it| it.0).is_err() {
            for key in call_keys(item).chain(result_keys(item, &item.id)) {
                known.entry(key).or_default().push_back(index);
            }
        }
    }
    let mut taken = HashSet::new();
    let mut take = |is_call: bool, key: &String| {
        let indices = known.get_mut(key)?;
        std::iter::from_fn(|| indices.pop_front()).find(|index| taken.insert((is_call, *index)))
    };
    let mut repeated = HashSet::new();
    for (index, step) in of_tools {
        let call = call_keys(&items[*index]).find_map(|key| take(true, &key));
        let id = items[call.unwrap_or(*index)].id.clone();
        let result = result_keys(&items[*index], &id).find_map(|key| take(false, &key));
        if let Some(result) = result {
            items[result].is_error |= items[*index].is_error;
            if items[result].unread.is_empty() {
                items[result].unread = std::mem::take(&mut items[*index].unread);
            }
            repeated.insert(*index);
        }
        let said = &mut items[result.unwrap_or(*index)].text;
        if let Some(error) = step.error(said) {
            let before = Some(said.clone()).filter(|said| !error.contains(said.trim()));
            *said = joined(before.into_iter().chain([error]));
        }
        items[*index].id = id;
    }
    // The messages of smolagents repeat results and errors without the ids of their calls.
    for index in 0..items.len() {
        if items[index].role != "tool-response" {
            continue;
        }
        let steps = of_tools.iter().rev().filter(|(step, _)| *step < index);
        let mut near = steps.take(MAX_STEPS_WITHIN).map(|(step, _)| *step);
        let said = |step: usize| Some(items[step].text.trim()).filter(|said| !said.is_empty());
        let is_within = |step: &usize| said(*step).is_some_and(|it| items[index].text.contains(it));
        if let Some(step) = near.find(is_within) {
            items[step].text = items[index].text.clone();
            repeated.insert(index);
        }
    }
    let items = items.into_iter().enumerate();
    let items = items.filter(|(index, _)| !repeated.contains(index));
    items.map(|(_, item)| item).collect()
}

/// Returns the keys of a call: its id, then its name and arguments.
fn call_keys(item: &Item) -> impl Iterator<Item = String> {
    let is_call = item.kind == ItemKind::Call || item.arguments.is_some();
    let keys = is_call.then(|| [item.call_key(), item.signature()]);
    keys.into_iter().flatten()
}

/// Returns the keys of a result: the id of its call, then its content.
fn result_keys(item: &Item, id: &Option<String>) -> impl Iterator<Item = String> {
    let id = id.as_ref().map(|id| format!("result {id}"));
    let content = Some(item.text.trim()).filter(|content| !content.is_empty());
    let content = content.map(|content| format!("content {content}"));
    let keys = (item.kind == ItemKind::Result).then_some([id, content]);
    keys.into_iter().flatten().flatten()
}
