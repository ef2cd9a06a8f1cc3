//! Spans in JSON: OTLP (`resourceSpans`), or one object a span as exporters of OpenTelemetry and Phoenix write them. What they say
//! is read by the conventions of OpenInference, of OpenTelemetry for GenAI, and of OpenLLMetry.

use serde_json::{Map, Value};

use super::trace::{Step, Work};
use super::transcript::{Piece, plain, shown, tool_names};
use super::{Document, fault, list, moment, text};
use crate::history::ingest::file::FileFault;

/// How many names a dotted key may hold.
const DEEP: usize = 16;

pub(super) fn steps(documents: &[Document]) -> Result<Vec<Step>, Vec<FileFault>> {
    let (mut steps, mut faults) = (Vec::new(), Vec::new());
    for Document { place, value } in documents {
        for (n, span) in spans(value).into_iter().enumerate() {
            match step(&unfolded(span)) {
                Ok(step) => steps.push(Step {
                    place: place.clone(),
                    ..step
                }),
                Err((pointer, message)) => faults.push(FileFault {
                    place: place.clone(),
                    fault: fault(pointer, format!("span {n}: {message}")),
                }),
            }
        }
    }
    if faults.is_empty() {
        Ok(steps)
    } else {
        Err(faults)
    }
}

fn spans(document: &Value) -> Vec<&Value> {
    if let Some(resources) = document["resourceSpans"].as_array() {
        let scopes = resources
            .iter()
            .filter_map(|resource| resource["scopeSpans"].as_array());
        let spans = scopes
            .flatten()
            .filter_map(|scope| scope["spans"].as_array());
        return spans.flatten().collect();
    }
    let listed = ["spans", "data"]
        .iter()
        .find_map(|name| document[*name].as_array());
    match listed {
        Some(spans) => spans.iter().collect(),
        None => vec![document],
    }
}

fn step(span: &Value) -> Result<Step, (&'static str, &'static str)> {
    let attributes = Attributes(attributes(&span["attributes"]));
    let word = |paths: &[&str]| attributes.word(paths);
    let id = |names: &[&str]| text(span, names).or_else(|| text(&span["context"], names));
    let trace = id(&["traceId", "trace_id"]).ok_or((
        "/traceId",
        "is missing; a span of OTLP, OpenTelemetry or Phoenix in JSON is expected",
    ))?;
    let time = |names: [&str; 2]| names.iter().find_map(|name| moment(&span[*name]));
    let tools = attributes.said(&["/llm/tools", "/gen_ai/tool/definitions"]);
    let mut step = Step {
        id: id(&["spanId", "span_id", "id"]).unwrap_or_default(),
        parent: id(&["parentSpanId", "parent_span_id", "parent_id"]),
        trace,
        conversation: word(&["/session/id", "/gen_ai/conversation/id"]),
        name: word(&["/gen_ai/tool/name", "/tool/name"]).or_else(|| text(span, &["name"])),
        agent: word(&["/gen_ai/agent/name", "/agent/name"]),
        author: word(&["/user/id", "/enduser/id"]),
        began: time(["startTimeUnixNano", "start_time"]),
        ended: time(["endTimeUnixNano", "end_time"]),
        failed: has_failed(span),
        given: attributes.given(),
        gave: attributes.messages(&[
            "/llm/output_messages",
            "/gen_ai/output/messages",
            "/gen_ai/completion",
        ]),
        tools: tools.map(tool_names).unwrap_or_default(),
        asked: attributes.said(&["/input/value"]).cloned(),
        answered: attributes.said(&["/output/value"]).cloned(),
        ..Step::default()
    };
    let kind = word(&[
        "/openinference/span/kind",
        "/gen_ai/operation/name",
        "/traceloop/span/kind",
    ])
    .or_else(|| text(span, &["span_kind"]));
    step.work = match kind.as_deref().map(str::to_ascii_lowercase).as_deref() {
        Some("llm" | "chat" | "generate_content" | "text_completion") => Work::Model,
        Some("tool" | "execute_tool" | "retriever") => Work::Tool,
        Some("agent" | "invoke_agent" | "create_agent") => Work::Agent,
        Some(_) => Work::Other,
        None if step.given.is_empty() && step.gave.is_empty() => Work::Other,
        None => Work::Model,
    };
    step.tool = (step.work == Work::Tool).then(|| attributes.tool(&step));
    Ok(step)
}

fn has_failed(span: &Value) -> bool {
    let status = text(&span["status"], &["code", "status_code"]);
    let status = status.or_else(|| text(span, &["status_code"]));
    status.is_some_and(|status| matches!(status.as_str(), "ERROR" | "STATUS_CODE_ERROR" | "2"))
}

/// What a span says of itself, as a tree.
struct Attributes(Value);

impl Attributes {
    /// The first of these that is there.
    fn said(&self, paths: &[&str]) -> Option<&Value> {
        let mut found = paths.iter().filter_map(|path| self.0.pointer(path));
        found.find(|value| !value.is_null())
    }

    fn word(&self, paths: &[&str]) -> Option<String> {
        let word = self.said(paths).map(shown);
        word.filter(|word| !word.trim().is_empty())
    }

    /// A list of messages; those of OpenInference each stand in a field `message`.
    fn messages(&self, paths: &[&str]) -> Vec<Value> {
        let messages = self.said(paths).map(list).unwrap_or_default();
        let own = |message: Value| message.get("message").cloned().unwrap_or(message);
        messages.into_iter().map(own).collect()
    }

    /// What a model was given: its instructions, then its messages.
    fn given(&self) -> Vec<Value> {
        let instructions = self.said(&["/gen_ai/system_instructions"]).map(list);
        let instructions = instructions.filter(|parts| !parts.is_empty());
        let instructions = instructions.map(|parts| plain("system", &Value::Array(parts)));
        let messages = self.messages(&[
            "/llm/input_messages",
            "/gen_ai/input/messages",
            "/gen_ai/prompt",
        ]);
        instructions.into_iter().chain(messages).collect()
    }

    /// A tool's call and its result. Without the id of the call they have that of the span.
    fn tool(&self, step: &Step) -> (Piece, Piece) {
        let id = self.word(&["/gen_ai/tool/call/id", "/tool_call/id", "/tool/id"]);
        let id = id.or_else(|| Some(step.id.clone()));
        let arguments = self.said(&["/gen_ai/tool/call/arguments", "/input/value"]);
        let result = self.said(&["/gen_ai/tool/call/result", "/output/value"]);
        let call = Piece::Call {
            id: id.clone(),
            name: step.name.clone(),
            arguments: arguments.cloned(),
        };
        let result = Piece::Result {
            id,
            name: step.name.clone(),
            text: result.map(shown).unwrap_or_default(),
            failed: step.failed,
        };
        (call, result)
    }
}

/// The attributes of a span as a tree; OTLP lists them as keys with typed values.
fn attributes(attributes: &Value) -> Value {
    match attributes {
        Value::Array(pairs) => {
            let pair =
                |pair: &Value| Some((pair["key"].as_str()?.to_owned(), untyped(&pair["value"])));
            unfolded(&Value::Object(pairs.iter().filter_map(pair).collect()))
        }
        other @ (Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Object(_)) => unfolded(other),
    }
}

/// A value of OTLP as plain JSON.
fn untyped(value: &Value) -> Value {
    let Some((kind, value)) = value.as_object().and_then(|typed| typed.iter().next()) else {
        return Value::Null;
    };
    match kind.as_str() {
        "arrayValue" => value["values"]
            .as_array()
            .into_iter()
            .flatten()
            .map(untyped)
            .collect(),
        "kvlistValue" => {
            let pairs = value["values"].as_array().into_iter().flatten();
            let pair =
                |pair: &Value| Some((pair["key"].as_str()?.to_owned(), untyped(&pair["value"])));
            Value::Object(pairs.filter_map(pair).collect())
        }
        _ => value.clone(),
    }
}

/// An object with its dotted keys as a tree: `a.0.b` is the field `b` of the first of the list `a`.
fn unfolded(value: &Value) -> Value {
    let Some(fields) = value.as_object() else {
        return value.clone();
    };
    let mut tree = Value::Object(Map::new());
    for (key, value) in fields {
        let mut place = &mut tree;
        for name in key.splitn(DEEP, '.') {
            if !place.is_object() {
                *place = Value::Object(Map::new());
            }
            place = &mut place[name];
        }
        *place = value.clone();
    }
    listed(tree)
}

/// Objects whose fields are all numbers as lists in the order of these.
fn listed(value: Value) -> Value {
    let Value::Object(fields) = value else {
        return value;
    };
    let numbered: Option<Vec<(u64, Value)>> = fields
        .iter()
        .map(|(key, value)| Some((key.parse().ok()?, value.clone())))
        .collect();
    match numbered.filter(|numbered| !numbered.is_empty()) {
        Some(mut numbered) => {
            numbered.sort_by_key(|(n, _)| *n);
            numbered
                .into_iter()
                .map(|(_, value)| listed(value))
                .collect()
        }
        None => Value::Object(
            fields
                .into_iter()
                .map(|(key, value)| (key, listed(value)))
                .collect(),
        ),
    }
}
