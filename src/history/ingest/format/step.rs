//! Steps of traces: what every tracing service and convention records.

use std::collections::HashSet;

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::field::is_one_of;
use super::parts::{TEXTS, read_message};
use super::shown::shown;
use super::transcript::{Call, CallResult, Item};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum StepKind {
    /// A call of a model.
    Model,
    Tool,
    Agent,
    /// Work of another kind, which counts as a tool's unless steps are within it.
    Work,
    /// A step of the framework.
    #[default]
    Other,
}

/// Returns the kind of a step by the word that a service or a convention has for it.
pub(super) fn step_kind(word: &str) -> StepKind {
    match word.to_ascii_lowercase().as_str() {
        "chat_model"
        | "llm"
        | "chat"
        | "generation"
        | "generate_content"
        | "text_completion"
        | "ai.generatetext.dogenerate"
        | "ai.streamtext.dostream" => StepKind::Model,
        "tool" | "execute_tool" | "retriever" | "ai.toolcall" => StepKind::Tool,
        "agent" | "invoke_agent" | "create_agent" => StepKind::Agent,
        "span" | "event" | "function" | "guardrail" | "reranker" => StepKind::Work,
        _ => StepKind::Other,
    }
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
    /// Id of a tool's call, where the step has it.
    pub(super) call_id: Option<String>,
    /// A tool's call and its result.
    pub(super) tool: Option<(Call, CallResult)>,
    /// Names of the available tools.
    pub(super) tools: Vec<String>,
    /// Input and output of a step that is no model call, which models may not repeat.
    pub(super) question: Option<Value>,
    pub(super) answer: Option<Value>,
}

/// Makes tool steps of work without steps within it: some agents record their tools as plain spans.
pub(super) fn count_leaves_as_tools(steps: &mut [Step]) {
    let parents: HashSet<String> = steps
        .iter()
        .filter_map(|step| step.parent.clone())
        .collect();
    for step in steps.iter_mut().filter(|step| step.kind == StepKind::Work) {
        let is_leaf = step.parent.is_some() && !parents.contains(&step.id);
        if is_leaf && (step.question.is_some() || step.answer.is_some()) {
            step.tool = Some(tool_step(
                step,
                step.question.as_ref(),
                step.answer.as_ref(),
            ));
        }
    }
}

/// Returns the call and the result of a tool's step, however a library wraps its arguments and its output.
pub(super) fn tool_step(
    step: &Step,
    input: Option<&Value>,
    output: Option<&Value>,
) -> (Call, CallResult) {
    let read = |value: Option<&Value>| {
        let value = value.cloned().unwrap_or_default();
        let json = value
            .as_str()
            .and_then(|text| serde_json::from_str(text).ok());
        json.unwrap_or(value)
    };
    let (input, read_output) = (read(input), read(output));
    // Decorators record positional arguments apart.
    let arguments = match input["args"].as_array() {
        Some(args) if args.is_empty() && input["kwargs"].is_object() => &input["kwargs"],
        Some(_) | None => lone(&input),
    };
    let returned = lone(&read_output);
    // The tools of LangChain return a message.
    let entries = read_message(returned, "tool").unwrap_or_default();
    let mut results = entries.into_iter().filter_map(|entry| match entry.item {
        Item::Result(result) => Some(result),
        Item::Text { .. } | Item::Call(_) => None,
    });
    let message = results.next().unwrap_or_else(|| CallResult {
        // Text stays as it was written.
        content: match output {
            Some(output) if *returned == read_output => shown(output),
            Some(_) | None => shown(returned),
        },
        ..CallResult::default()
    });
    let call = Call {
        id: step
            .call_id
            .clone()
            .or(message.id)
            .or_else(|| Some(step.id.clone())),
        name: step.name.clone(),
        arguments: (!arguments.is_null()).then(|| arguments.clone()),
    };
    let content = match &step.error {
        Some(error) if message.content.is_empty() => error.clone(),
        Some(_) | None => message.content,
    };
    let result = CallResult {
        id: call.id.clone(),
        name: step.name.clone(),
        is_error: step.failed || message.is_error,
        content,
        origin: None,
    };
    (call, result)
}

/// Returns the only field's value if its name is one of [`TEXTS`], otherwise the value itself.
fn lone(value: &Value) -> &Value {
    let mut fields = value.as_object().into_iter().flatten();
    match (fields.next(), fields.next()) {
        (Some((name, only)), None) if is_one_of(name, TEXTS) => only,
        _ => value,
    }
}
