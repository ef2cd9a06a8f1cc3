//! Runs of LangSmith, as its API and its exports write them: a run an object, perhaps with its children inside. Feedback is left
//! out: it would sway the judge.

use serde_json::{Map, Value, json};

use super::trace::{Step, Work};
use super::transcript::{Piece, plain, shown, tool_names};
use super::{Document, fault, moment, text};
use crate::history::ingest::file::FileFault;

pub(super) fn steps(documents: &[Document]) -> Result<Vec<Step>, Vec<FileFault>> {
    let mut walk = Walk::default();
    for Document { place, value } in documents {
        match value["runs"].as_array() {
            Some(runs) => runs.iter().for_each(|run| walk.add(run, None, place)),
            None => walk.add(value, None, place),
        }
    }
    if walk.faults.is_empty() {
        Ok(walk.steps)
    } else {
        Err(walk.faults)
    }
}

#[derive(Default)]
struct Walk {
    steps: Vec<Step>,
    faults: Vec<FileFault>,
}

impl Walk {
    /// A run and those inside it; `above` is the trace and the run that hold it.
    fn add(&mut self, run: &Value, above: Option<(&str, &str)>, place: &str) {
        let (Some(id), Some(kind)) = (text(run, &["id", "run_id"]), text(run, &["run_type"]))
        else {
            self.faults.push(FileFault {
                place: place.to_owned(),
                fault: fault(
                    "",
                    "is no run; an object with id, run_type, inputs and outputs is expected",
                ),
            });
            return;
        };
        let metadata = &run["extra"]["metadata"];
        let trace = above
            .map(|(trace, _)| trace.to_owned())
            .or_else(|| text(run, &["trace_id"]))
            .unwrap_or_else(|| id.clone());
        let mut step = Step {
            place: place.to_owned(),
            parent: text(run, &["parent_run_id"]).or_else(|| above.map(|(_, run)| run.to_owned())),
            name: text(run, &["name"]),
            began: moment(&run["start_time"]),
            ended: moment(&run["end_time"]),
            failed: run["error"].is_string() || run["status"] == "error",
            tools: tool_names(&run["extra"]["invocation_params"]["tools"]),
            trace: trace.clone(),
            conversation: text(metadata, &["session_id", "thread_id", "conversation_id"]),
            id: id.clone(),
            ..Step::default()
        };
        let (inputs, outputs) = (&run["inputs"], &run["outputs"]);
        match kind.as_str() {
            "llm" | "chat_model" => {
                step.work = Work::Model;
                step.given = given(inputs);
                step.gave = gave(outputs);
            }
            "tool" | "retriever" => {
                step.work = Work::Tool;
                step.tool = Some(tool(&step, inputs, outputs, &run["error"]));
            }
            _ => {
                let said = |value: &Value| Some(lone(value)).filter(|said| !is_empty(said));
                (step.asked, step.answered) = (said(inputs), said(outputs));
            }
        }
        self.steps.push(step);
        for child in run["child_runs"].as_array().into_iter().flatten() {
            self.add(child, Some((&trace, &id)), place);
        }
    }
}

/// The messages that a model was given: a list, a list of lists, or prompts of text.
fn given(inputs: &Value) -> Vec<Value> {
    if let Some(messages) = inputs["messages"].as_array() {
        return flat(messages);
    }
    let prompts = inputs["prompts"].as_array().into_iter().flatten();
    let prompts: Vec<Value> = prompts.map(|prompt| plain("user", prompt)).collect();
    match inputs["input"]
        .as_str()
        .or_else(|| inputs["prompt"].as_str())
    {
        Some(asked) if prompts.is_empty() => vec![plain("user", &json!(asked))],
        Some(_) | None => prompts,
    }
}

/// The messages that a model gave: LangChain's generations, OpenAI's choices, or a message alone.
fn gave(outputs: &Value) -> Vec<Value> {
    if let Some(generations) = outputs["generations"].as_array() {
        let said = |generation: Value| match generation.get("message") {
            Some(message) => message.clone(),
            None => plain("assistant", &generation["text"]),
        };
        return flat(generations).into_iter().map(said).collect();
    }
    let choice = outputs.pointer("/choices/0/message");
    let alone = outputs.get("role").map(|_| outputs);
    let one = choice.or_else(|| outputs.get("message")).or(alone);
    match (outputs["messages"].as_array(), one, outputs.get("output")) {
        (Some(messages), _, _) => flat(messages),
        (None, Some(message), _) => vec![message.clone()],
        (None, None, Some(message)) if message.is_object() => vec![message.clone()],
        (None, None, Some(said)) => vec![plain("assistant", said)],
        (None, None, None) => Vec::new(),
    }
}

fn flat(items: &[Value]) -> Vec<Value> {
    let inner = |item: &Value| match item.as_array() {
        Some(items) => items.clone(),
        None => vec![item.clone()],
    };
    items.iter().flat_map(inner).collect()
}

fn tool(step: &Step, inputs: &Value, outputs: &Value, error: &Value) -> (Piece, Piece) {
    // What LangChain's tools give is a message with the id of the call.
    let given = lone(outputs);
    let message = given.get("kwargs").unwrap_or(&given);
    let id = text(message, &["tool_call_id"]).or_else(|| Some(step.id.clone()));
    let said = match error.as_str() {
        Some(error) => error.to_owned(),
        None => shown(message.get("content").unwrap_or(message)),
    };
    let call = Piece::Call {
        id: id.clone(),
        name: step.name.clone(),
        arguments: Some(lone(inputs)),
    };
    let result = Piece::Result {
        id,
        name: step.name.clone(),
        text: said,
        failed: step.failed,
    };
    (call, result)
}

fn is_empty(value: &Value) -> bool {
    value.is_null() || value.as_object().is_some_and(Map::is_empty)
}

/// What stands alone in a field `input`, `output` or the like; else the whole.
fn lone(value: &Value) -> Value {
    let mut fields = value.as_object().into_iter().flatten();
    match (fields.next(), fields.next()) {
        (Some((_, only)), None) => only.clone(),
        _ => value.clone(),
    }
}
