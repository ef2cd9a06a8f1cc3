//! Spans in JSON: OTLP (`resourceSpans`), or one object a span as exporters of OpenTelemetry, Phoenix and MLflow write them. Their
//! attributes are read by the conventions of OpenInference, of OpenTelemetry for GenAI, of OpenLLMetry and of tracing services.

use serde_json::{Map, Value, json};

use super::calls::tool_names;
use super::field::{first, list, moment, text};
use super::parts::read_any;
use super::shown::shown;
use super::step::{Step, StepKind, step_kind, tool_step};
use super::transcript::{Item, THINKING};
use super::{Document, fault};
use crate::history::ingest::file::FileFault;

/// Names in a dotted key.
const MAX_KEY_NAMES: usize = 16;
/// Lists of spans in answers of APIs.
const LISTS: &str = "/spans /data/spans /data";
/// Attributes with the input and the output of a step of any kind.
const INPUTS: &str =
    "/input/value /traceloop/entity/input /langfuse/observation/input /mlflow/spanInputs";
const OUTPUTS: &str =
    "/output/value /traceloop/entity/output /langfuse/observation/output /mlflow/spanOutputs";
const KINDS: &str = "/openinference/span/kind /gen_ai/operation/name /traceloop/span/kind /langfuse/observation/type /mlflow/spanType /ai/operationId";
const TOOL_NAMES: &str = "/gen_ai/tool/name /tool/name /ai/toolCall/name /traceloop/entity/name";
const TOOL_IDS: &str = "/gen_ai/tool/call/id /tool_call/id /tool/id /ai/toolCall/id";
const INPUT_MESSAGES: &str =
    "/llm/input_messages /gen_ai/input/messages /gen_ai/prompt /ai/prompt/messages";
const OUTPUT_MESSAGES: &str = "/llm/output_messages /gen_ai/output/messages /gen_ai/completion";

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
    match faults.is_empty() {
        true => Ok(steps),
        false => Err(faults),
    }
}

/// Whether a value is a span, a list of spans, or what OTLP wraps around them.
pub(super) fn is_trace(value: &Value) -> bool {
    let is_span = |span: &Value| {
        let ids = "spanId span_id traceId trace_id /context/span_id /context/trace_id";
        first(span, ids).is_some() && !span["attributes"].is_null()
            || span.get("context.span_id").is_some()
    };
    let listed = first(value, "/spans/0 /data/0 /data/spans/0");
    first(value, "resourceSpans resource_spans").is_some()
        || is_span(value)
        || listed.is_some_and(is_span)
}

fn spans(document: &Value) -> Vec<&Value> {
    let listed = |value, names| {
        first(value, names)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
    };
    if first(document, "resourceSpans resource_spans").is_some() {
        let scopes = listed(document, "resourceSpans resource_spans");
        let scopes = scopes.flat_map(|resource| listed(resource, "scopeSpans scope_spans"));
        return scopes.flat_map(|scope| listed(scope, "spans")).collect();
    }
    match first(document, LISTS).and_then(Value::as_array) {
        Some(spans) => spans.iter().collect(),
        None => vec![document],
    }
}

fn step(span: &Value) -> Result<Step, (&'static str, &'static str)> {
    let attributes = attributes(&span["attributes"]);
    let word = |names| {
        let word = first(&attributes, names).map(shown);
        word.filter(|word| !word.trim().is_empty())
    };
    let trace = text(span, "traceId trace_id /context/trace_id").ok_or((
        "/traceId",
        "is missing; a span of OTLP, OpenTelemetry or Phoenix in JSON is expected",
    ))?;
    let failed = text(span, "/status/code /status/status_code status_code");
    let failed =
        failed.is_some_and(|code| matches!(code.as_str(), "ERROR" | "STATUS_CODE_ERROR" | "2"));
    let tools = first(
        &attributes,
        "/llm/tools /gen_ai/tool/definitions /ai/prompt/tools",
    );
    let mut step = Step {
        id: text(span, "spanId span_id id /context/span_id").unwrap_or_default(),
        parent: text(span, "parentSpanId parent_span_id parent_id"),
        trace,
        conversation: word("/session/id /gen_ai/conversation/id"),
        name: word(TOOL_NAMES).or_else(|| text(span, "name")),
        agent: word("/gen_ai/agent/name /agent/name"),
        author: word("/user/id /enduser/id"),
        started_at: first(span, "startTimeUnixNano start_time_unix_nano start_time")
            .and_then(moment),
        ended_at: first(span, "endTimeUnixNano end_time_unix_nano end_time").and_then(moment),
        failed,
        error: text(span, "/status/message /status/description").filter(|_| failed),
        input: input_messages(&attributes),
        output: output_messages(&attributes),
        tools: tools.map(tool_names).unwrap_or_default(),
        ..Step::default()
    };
    let is_silent = step.input.is_empty() && step.output.is_empty();
    let kind = word(KINDS).or_else(|| text(span, "span_kind"));
    step.kind = match kind {
        Some(kind) => step_kind(kind.trim_matches('"')),
        None if is_silent => StepKind::Other,
        None => StepKind::Model,
    };
    let (input, output) = (first(&attributes, INPUTS), first(&attributes, OUTPUTS));
    let answer = || {
        output
            .map(|said| read_any(said, "assistant"))
            .unwrap_or_default()
    };
    match step.kind {
        StepKind::Tool => {
            let arguments = first(&attributes, "/gen_ai/tool/call/arguments /ai/toolCall/args");
            let result = first(&attributes, "/gen_ai/tool/call/result /ai/toolCall/result");
            step.call_id = text(&attributes, TOOL_IDS);
            step.tool = Some(tool_step(&step, arguments.or(input), result.or(output)));
        }
        StepKind::Model if is_silent => {
            step.input = input
                .map(|input| read_any(input, "user"))
                .unwrap_or_default();
            step.output = answer();
        }
        StepKind::Model => {
            // Some instrumentations write thinking only there.
            let is_thinking =
                |item: &Item| matches!(item, Item::Text { role, .. } if role == THINKING);
            if !step.output.iter().any(is_thinking) {
                step.output
                    .splice(0..0, answer().into_iter().filter(is_thinking));
            }
        }
        StepKind::Agent | StepKind::Work | StepKind::Other => {
            step.question = input.cloned();
            step.answer = output.cloned();
        }
    }
    Ok(step)
}

/// Returns a list of messages. An attribute is text, so that the parts of a content may be JSON in it.
fn messages(attributes: &Value, names: &str, role: &str) -> Vec<Item> {
    let mut messages = first(attributes, names).map(list).unwrap_or_default();
    for content in messages
        .iter_mut()
        .filter_map(|message| message.get_mut("content"))
    {
        let parts = Value::from(list(content));
        if parts.get(0).is_some_and(|part| part["type"].is_string()) {
            *content = parts;
        }
    }
    messages
        .iter()
        .flat_map(|message| read_any(message, role))
        .collect()
}

/// Returns the input of a model: its instructions, then its messages.
fn input_messages(attributes: &Value) -> Vec<Item> {
    let instructions = first(attributes, "/gen_ai/system_instructions").map(list);
    let instructions = json!({ "role": "system", "content": instructions });
    let mut input = read_any(&instructions, "system");
    input.extend(messages(attributes, INPUT_MESSAGES, "user"));
    input
}

fn output_messages(attributes: &Value) -> Vec<Item> {
    let mut output = messages(attributes, OUTPUT_MESSAGES, "assistant");
    let message = json!({
        "role": "assistant",
        "content": first(attributes, "/ai/response/text"),
        "tool_calls": first(attributes, "/ai/response/toolCalls"),
    });
    output.extend(read_any(&message, "assistant"));
    output
}

/// The attributes of a span as a tree; OTLP lists them as keys with typed values.
fn attributes(attributes: &Value) -> Value {
    match attributes {
        Value::Array(pairs) => {
            let pair =
                |pair: &Value| Some((pair["key"].as_str()?.to_owned(), untyped(&pair["value"])));
            unfolded(&Value::Object(pairs.iter().filter_map(pair).collect()))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            unfolded(attributes)
        }
    }
}

/// A value of OTLP as plain JSON.
fn untyped(value: &Value) -> Value {
    let mut typed = value.as_object().into_iter().flatten();
    let Some((kind, value)) = typed.find(|(_, value)| !value.is_null()) else {
        return Value::Null;
    };
    match kind.as_str() {
        "arrayValue" | "array_value" => value["values"]
            .as_array()
            .into_iter()
            .flatten()
            .map(untyped)
            .collect(),
        "kvlistValue" | "kvlist_value" => {
            let pairs = value["values"].as_array().into_iter().flatten();
            let pair =
                |pair: &Value| Some((pair["key"].as_str()?.to_owned(), untyped(&pair["value"])));
            Value::Object(pairs.filter_map(pair).collect())
        }
        "intValue" | "int_value" => match value.as_str().map(str::parse::<i64>) {
            Some(Ok(number)) => number.into(),
            Some(Err(_)) | None => value.clone(),
        },
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
        for name in key.splitn(MAX_KEY_NAMES, '.') {
            if !place.is_object() {
                *place = Value::Object(Map::new());
            }
            place = &mut place[name];
        }
        *place = match value.as_array() {
            Some(items) if items.iter().all(is_folded) => items.iter().map(unfolded).collect(),
            None if is_folded(value) => unfolded(value),
            Some(_) | None => value.clone(),
        };
    }
    listed(tree)
}

/// Whether a value within attributes has dotted keys, as in Phoenix's data frames. Arguments of tools are left unchanged.
fn is_folded(value: &Value) -> bool {
    let prefixes = ["message.", "message_content.", "tool_call.", "tool."];
    let is_folded = |name: &String| prefixes.iter().any(|prefix| name.starts_with(prefix));
    value
        .as_object()
        .is_some_and(|fields| !fields.is_empty() && fields.keys().all(is_folded))
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
