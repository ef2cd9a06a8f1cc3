//! Converts spans in JSON into records of steps. Reads OTLP (`resourceSpans`) and single spans as exporters of OpenTelemetry, Phoenix and
//! MLflow write them, with the attributes of OpenInference, OpenTelemetry for GenAI, OpenLLMetry and tracing services.

use serde_json::{Map, Value, json};

use super::field::{fields_except, first, list};

const MAX_KEY_NAMES: usize = 16;
const INPUT_MESSAGES: &str =
    "/llm/input_messages /gen_ai/input/messages /gen_ai/prompt /ai/prompt/messages";
const OUTPUT_MESSAGES: &str = "/llm/output_messages /gen_ai/output/messages /gen_ai/completion";

/// Whether a value is a span, a list of spans, or their OTLP wrapper.
pub(super) fn is_trace(value: &Value) -> bool {
    let is_span = |span: &Value| {
        let ids = "spanId span_id traceId trace_id /context/span_id /context/trace_id";
        // Spans have no input and output of their own.
        let has_others = first(span, "inputs input outputs output").is_some();
        let has_attributes = !span["attributes"].is_null() && !has_others;
        first(span, ids).is_some() && has_attributes || span.get("context.span_id").is_some()
    };
    let listed = first(value, "/spans/0 /data/0 /data/spans/0");
    first(value, "resourceSpans resource_spans").is_some()
        || is_span(value)
        || listed.is_some_and(is_span)
}

/// Returns the records of a document. The attributes of a span become a tree, its messages `inputs` and `outputs`.
pub(super) fn records(document: &Value) -> Vec<Value> {
    if !is_trace(document) {
        return vec![document.clone()];
    }
    let listed = |value: &Value, names| first(value, names).map(list).unwrap_or_default();
    if let Some(resources) = first(document, "resourceSpans resource_spans") {
        let scopes = list(resources).into_iter();
        let scopes = scopes.flat_map(|resource| listed(&resource, "scopeSpans scope_spans"));
        let spans = scopes.flat_map(|scope| listed(&scope, "spans"));
        return spans.map(|span| record(&span)).collect();
    }
    match listed(document, "/spans /data/spans /data") {
        spans if spans.is_empty() => vec![record(document)],
        spans => spans.iter().map(record).collect(),
    }
}

fn record(span: &Value) -> Value {
    let mut record = unfolded(span);
    let tree = |attributes: &Value| match attributes.as_array() {
        Some(pairs) => unfolded(&fields(pairs)),
        None => unfolded(attributes),
    };
    let attributes = tree(&record["attributes"]);
    let events = record["events"].as_array().into_iter().flatten();
    let exceptions =
        events.filter_map(|event| tree(&event["attributes"]).get("exception").cloned());
    record["exceptions"] = exceptions.collect();
    let given = messages(&attributes, INPUT_MESSAGES);
    let mut returned = messages(&attributes, OUTPUT_MESSAGES);
    let text = first(&attributes, "/ai/response/text");
    let calls = first(&attributes, "/ai/response/toolCalls");
    if text.or(calls).is_some() {
        returned.push(json!({ "role": "assistant", "content": text, "tool_calls": calls }));
    }
    let instructions = first(&attributes, "/gen_ai/system_instructions").map(list);
    let instructions = json!({ "role": "system", "content": instructions });
    // Rerankers and embeddings have their arguments in several attributes.
    let mut arguments = fields_except(&attributes["reranker"], "output_documents model_name");
    let texts = attributes["embedding"]["embeddings"].as_array();
    let texts = texts
        .into_iter()
        .flatten()
        .map(|it| &it["embedding"]["text"]);
    let texts: Vec<&Value> = texts.filter(|text| text.is_string()).collect();
    if !texts.is_empty() {
        arguments.insert("input".to_owned(), json!(texts));
    }
    // Without messages the record keeps no such fields, because their meaning in other tools is unknown.
    record["inputs"] = match given.is_empty() && returned.is_empty() {
        true => arguments.into(),
        false => json!({ "system": instructions, "messages": given }),
    };
    record["outputs"] = returned.into();
    record["attributes"] = attributes;
    record
}

/// Returns a list of messages. Attributes are text, so the parts of a content may be JSON in a text.
fn messages(attributes: &Value, names: &str) -> Vec<Value> {
    let mut messages = first(attributes, names).map(list).unwrap_or_default();
    for content in messages.iter_mut().filter_map(|it| it.get_mut("content")) {
        let parts = list(content);
        if parts.first().is_some_and(|part| part["type"].is_string()) {
            *content = parts.into();
        }
    }
    messages
}

/// Returns the keys with typed values of OTLP as an object.
fn fields(pairs: &[Value]) -> Value {
    let pair = |pair: &Value| Some((pair["key"].as_str()?.to_owned(), untyped(&pair["value"])));
    Value::Object(pairs.iter().filter_map(pair).collect())
}

fn untyped(value: &Value) -> Value {
    let mut typed = value.as_object().into_iter().flatten();
    let typed = typed.find(|(_, value)| !value.is_null());
    let (kind, value) = typed.map_or(("", &Value::Null), |(kind, value)| (kind.as_str(), value));
    let values = value["values"].as_array();
    let values = values.map(Vec::as_slice).unwrap_or_default();
    let integer = || value.as_str()?.parse::<i64>().ok();
    match kind {
        "arrayValue" | "array_value" => values.iter().map(untyped).collect(),
        "kvlistValue" | "kvlist_value" => fields(values),
        "intValue" | "int_value" => integer().map_or_else(|| value.clone(), Value::from),
        _ => value.clone(),
    }
}

/// Returns an object with its dotted keys as a tree: `a.0.b` is the field `b` of the first entry of the list `a`.
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

/// Whether a value within attributes has dotted keys, as in Phoenix's data frames. Arguments of tools stay unchanged.
fn is_folded(value: &Value) -> bool {
    let prefixes = "message. message_content. tool_call. tool. document. embedding.".split(' ');
    let is_folded = |name: &String| prefixes.clone().any(|prefix| name.starts_with(prefix));
    let fields = value.as_object().filter(|fields| !fields.is_empty());
    fields.is_some_and(|fields| fields.keys().all(is_folded))
}

/// Converts objects with numbers as keys into lists in the order of the numbers.
fn listed(value: Value) -> Value {
    let Value::Object(fields) = value else {
        return value;
    };
    let fields = fields.into_iter().map(|(key, value)| (key, listed(value)));
    let fields: Map<String, Value> = fields.collect();
    let number = |(key, value): (&String, &Value)| Some((key.parse::<u64>().ok()?, value.clone()));
    match fields.iter().map(number).collect::<Option<Vec<_>>>() {
        Some(mut items) if !items.is_empty() => {
            items.sort_by_key(|(n, _)| *n);
            items.into_iter().map(|(_, item)| item).collect()
        }
        Some(_) | None => Value::Object(fields),
    }
}
