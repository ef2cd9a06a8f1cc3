//! Messages in the shapes that OpenAI, Anthropic, OpenTelemetry, LangChain and Inspect write, as ours. A call of a tool stands
//! where its result does, with what was asked, as in sessions from a TARSy.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use super::{list, text};
use crate::score::session::Message;

/// What a message holds.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Piece {
    Text {
        role: String,
        text: String,
    },
    Call {
        id: Option<String>,
        name: Option<String>,
        arguments: Option<Value>,
    },
    Result {
        id: Option<String>,
        name: Option<String>,
        text: String,
        failed: bool,
    },
}

/// A piece, and what is known of it.
#[derive(Debug, Clone)]
pub(super) struct AttributedPiece {
    pub(super) piece: Piece,
    pub(super) agent: Option<String>,
    pub(super) at: Option<String>,
}

/// What is said of a value that is no message.
pub(super) const NO_MESSAGE: &str = "is no message; an object with a role and a content is expected, such as {\"role\": \"user\", \"content\": \"..\"}";

/// The pieces of one message, in their order; `None`: it is no message.
pub(super) fn pieces(message: &Value) -> Option<Vec<Piece>> {
    let (class, message) = opened(message);
    let mut pieces = Vec::new();
    let Some(role) = role(class, message) else {
        pieces.push(item(class?, message));
        return Some(pieces);
    };
    let mut text = String::new();
    let contents = ["content", "parts", "contents", "refusal"];
    let contents = contents
        .iter()
        .filter_map(|name| message.get(*name))
        .find(|content| !content.is_null());
    for part in contents.map(parts).unwrap_or_default() {
        let part = part.get("message_content").unwrap_or(&part);
        let kind = part["type"].as_str().unwrap_or("text");
        match kind {
            "tool_use" | "tool_call" | "function_call" => {
                flush(&mut pieces, &role, &mut text);
                pieces.push(call(part));
            }
            "tool_result" | "tool_call_response" => {
                flush(&mut pieces, &role, &mut text);
                pieces.push(result(part, None));
            }
            _ => push_line(&mut text, &text_of(part, kind)),
        }
    }
    if role == "tool" && pieces.is_empty() {
        pieces.push(result(message, Some(text)));
    } else {
        flush(&mut pieces, &role, &mut text);
    }
    let calls = [
        list(&message["tool_calls"]),
        list(&message["additional_kwargs"]["tool_calls"]),
        message
            .get("function_call")
            .filter(|call| call.is_object())
            .cloned()
            .into_iter()
            .collect(),
    ];
    // Frameworks record a call twice: as the provider wrote it, and in their own words.
    let mut known: HashSet<String> = pieces.iter().map(key).collect();
    for call in calls.iter().flatten().map(call) {
        if known.insert(key(&call)) {
            pieces.push(call);
        }
    }
    Some(pieces)
}

/// What makes a piece the same one when it is sent again.
pub(super) fn key(piece: &Piece) -> String {
    match piece {
        Piece::Text { role, text } => format!("{role}\n{}", text.trim()),
        Piece::Call { id: Some(id), .. } => format!("call {id}"),
        Piece::Result { id: Some(id), .. } => format!("result {id}"),
        call @ Piece::Call { .. } => format!("{call:?}"),
        result @ Piece::Result { .. } => format!("{result:?}"),
    }
}

/// A message out of what LangChain puts around it, with the name of its class or type.
fn opened(message: &Value) -> (Option<&str>, &Value) {
    if message["kwargs"].is_object() {
        let class = message["id"].as_array().and_then(|path| path.last());
        return (class.and_then(Value::as_str), &message["kwargs"]);
    }
    let class = message["type"].as_str();
    match &message["data"] {
        data @ Value::Object(_) => (class, data),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            (class, message)
        }
    }
}

fn role(class: Option<&str>, message: &Value) -> Option<String> {
    let own = text(message, &["role"]);
    let role = match own.as_deref().or(class)? {
        "human" | "HumanMessage" | "HumanMessageChunk" => "user",
        "ai" | "model" | "AIMessage" | "AIMessageChunk" => "assistant",
        "SystemMessage" => "system",
        "function" | "ToolMessage" | "FunctionMessage" => "tool",
        known @ ("user" | "assistant" | "system" | "tool" | "developer") => known,
        other if own.is_some() => other,
        _ => return None,
    };
    Some(role.to_owned())
}

/// An item of OpenAI's responses that is no message.
fn item(class: &str, item: &Value) -> Piece {
    match class {
        "function_call" | "custom_tool_call" => call(item),
        "function_call_output" | "custom_tool_call_output" => result(item, None),
        "reasoning" => Piece::Text {
            role: "assistant".to_owned(),
            text: shown(&item["summary"]),
        },
        other => Piece::Text {
            role: "assistant".to_owned(),
            text: format!("[{other}]"),
        },
    }
}

fn call(call: &Value) -> Piece {
    let call = call.get("tool_call").unwrap_or(call);
    let function = &call["function"];
    let arguments = [
        function.get("arguments"),
        call.get("arguments"),
        call.get("args"),
        call.get("input"),
    ];
    Piece::Call {
        id: text(call, &["call_id", "id", "tool_call_id"]),
        name: text(function, &["name"]).or_else(|| text(call, &["name", "function"])),
        arguments: arguments.into_iter().flatten().next().cloned(),
    }
}

/// The result of a call: a message's own text, or what stands in a part of it.
fn result(result: &Value, own: Option<String>) -> Piece {
    let given = ["content", "response", "result", "output"];
    let given = given.iter().find_map(|name| result.get(*name));
    let mut said = own.unwrap_or_else(|| given.map(shown).unwrap_or_default());
    let error = &result["error"];
    if !error.is_null() {
        push_line(&mut said, &shown(error.get("message").unwrap_or(error)));
    }
    Piece::Result {
        id: text(result, &["tool_call_id", "tool_use_id", "call_id", "id"]),
        name: text(result, &["name", "function"]),
        text: said,
        failed: !error.is_null() || result["is_error"] == true || result["status"] == "error",
    }
}

fn flush(pieces: &mut Vec<Piece>, role: &str, text: &mut String) {
    let text = std::mem::take(text);
    if !text.trim().is_empty() {
        pieces.push(Piece::Text {
            role: role.to_owned(),
            text,
        });
    }
}

/// A content as its parts: a text is one.
fn parts(content: &Value) -> Vec<Value> {
    match content {
        Value::Array(parts) => parts.clone(),
        other @ (Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Object(_)) => vec![other.clone()],
    }
}

/// What a part says; pictures and the like are named only.
fn text_of(part: &Value, kind: &str) -> String {
    let fields = ["text", "content", "thinking", "reasoning", "refusal"];
    let text = fields.iter().find_map(|name| part[*name].as_str());
    match (part.as_str().or(text), kind) {
        (Some(text), _) => text.to_owned(),
        (None, "text") => part.to_string(),
        (None, kind) => format!("[{kind}]"),
    }
}

/// A value as text: lists of parts are theirs, anything else is JSON.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(parts) if parts.iter().all(|part| part["type"].is_string()) => {
            let mut text = String::new();
            for part in parts {
                push_line(
                    &mut text,
                    &text_of(part, part["type"].as_str().unwrap_or_default()),
                );
            }
            text
        }
        other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            other.to_string()
        }
    }
}

fn push_line(text: &mut String, line: &str) {
    if !text.is_empty() && !line.is_empty() {
        text.push('\n');
    }
    text.push_str(line);
}

/// What was asked of a tool, and what it gave, perhaps an error; `None`: nothing that is recorded.
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
        Some((result, failed)) => {
            text.push_str(if failed { "Error:\n" } else { "Result:\n" });
            text.push_str(result);
        }
        None => text.push_str("No result is recorded."),
    }
    text
}

/// The messages of a conversation, and its conclusion: what the agent says last, unless it calls a tool.
pub(super) fn conversation(said: Vec<AttributedPiece>) -> (Vec<Message>, Option<String>) {
    let mut open: HashMap<String, usize> = HashMap::new();
    for AttributedPiece { piece, .. } in &said {
        if let Piece::Result { id: Some(id), .. } = piece {
            *open.entry(id.clone()).or_default() += 1;
        }
    }
    let mut calls = HashMap::new();
    let mut messages = Vec::new();
    for AttributedPiece { piece, agent, at } in said {
        let (role, content, tool_name) = match piece {
            Piece::Text { role, text } => (role, text, None),
            Piece::Call {
                id: Some(id),
                name,
                arguments,
            } if open.get(&id).is_some_and(|n| *n > 0) => {
                calls.insert(id, (name, arguments));
                continue;
            }
            Piece::Call {
                name, arguments, ..
            } => (
                "assistant".to_owned(),
                tool_text(arguments.as_ref(), None),
                name,
            ),
            Piece::Result {
                id,
                name,
                text,
                failed,
            } => {
                let asked = id.as_ref().and_then(|id| {
                    open.entry(id.clone()).and_modify(|left| *left -= 1);
                    calls.remove(id)
                });
                let (called, arguments) = asked.unwrap_or_default();
                let content = tool_text(arguments.as_ref(), Some((&text, failed)));
                ("tool".to_owned(), content, called.or(name))
            }
        };
        messages.push(Message {
            role,
            content,
            tool_name,
            agent,
            stage: None,
            at,
        });
    }
    let concludes = |message: &Message| message.role == "assistant" && message.tool_name.is_none();
    // A conclusion that stands alone is the whole conversation, and is judged as such.
    if messages.len() > 1 && messages.last().is_some_and(concludes) {
        let conclusion = messages.pop().map(|message| message.content);
        return (messages, conclusion);
    }
    (messages, None)
}

/// The names in a list of definitions of tools.
pub(super) fn tool_names(definitions: &Value) -> Vec<String> {
    let name = |definition: &Value| {
        let definition = definition.get("tool").unwrap_or(definition);
        let schema = definition["json_schema"].as_str();
        let schema: Value = schema
            .and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default();
        let places = [
            definition,
            &definition["function"],
            &schema,
            &schema["function"],
        ];
        let named = places.iter().find_map(|place| text(place, &["name"]));
        named.or_else(|| definition.as_str().map(str::to_owned))
    };
    once(list(definitions).iter().filter_map(name))
}

/// Each name once, in the order in which they first stand.
pub(super) fn once(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut known = HashSet::new();
    names.filter(|name| known.insert(name.clone())).collect()
}

/// A message of plain text.
pub(super) fn plain(role: &str, content: &Value) -> Value {
    json!({ "role": role, "content": content })
}
