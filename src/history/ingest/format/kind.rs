//! Kinds of JSON objects in transcripts, by their types and roles.

use serde_json::Value;

use super::field::{first, is_blank, is_one_of, text};

pub(super) const CALL_IDS: &str = "tool_call_id toolCallId tool_use_id toolUseId call_id callId callID /additional_kwargs/tool_call_id";

/// Fields that may be next to the text of a part without a type.
const EXTRAS: &str =
    "text thought thoughtSignature thought_signature annotations citations cache_control";
const TEXTS: &str = "text input_text output_text summary_text user_prompt system_prompt refusal";
const THOUGHTS: &str = "thinking redacted_thinking reasoning reasoning_text thought text_reasoning reasoning_content thought_event think";
const CALLS: &str = "tool_use dynamic_tool executable_code tool_invocation";
const RESULTS: &str = "tool_result tool_call_result tool_call_response tool_return tool_error tool_response function_response \
    function_result code_execution_result retry_prompt";

/// Kind of a part of a message or of an item next to messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Thinking,
    Call,
    Result,
    Unknown,
}

impl Kind {
    /// Returns the kind of a part of type `name`. `*_call` and `*_use` are calls; `*_output` and `*_result` with a call's id are results.
    pub(super) fn of(name: &str, part: &Value) -> Self {
        let ends = |endings: &str| endings.split(' ').any(|ending| name.ends_with(ending));
        let refers = first(part, CALL_IDS).is_some();
        let has_state = refers && name.starts_with("tool") && part.get("state").is_some();
        match name {
            _ if is_one_of(name, TEXTS) => Self::Text,
            _ if is_one_of(name, THOUGHTS) => Self::Thinking,
            _ if is_one_of(name, CALLS) => Self::Call,
            _ if is_one_of(name, RESULTS) || ends("_call_output") => Self::Result,
            _ if refers && ends("_result _output _return") => Self::Result,
            _ if ends("_call _tool_use") || has_state => Self::Call,
            _ => Self::Unknown,
        }
    }
}

/// Returns the type of a part in snake case. Without a type field it follows from the other fields, such as the only field with an object.
pub(super) fn type_of(part: &Value) -> Option<String> {
    let is_extra = |name: &String, value: &Value| is_one_of(name, EXTRAS) || is_blank(value);
    named_type(part).or_else(|| match part.as_object()? {
        fields if part["name"].is_string() && fields.contains_key("arguments") => {
            Some("tool_call".to_owned())
        }
        _ if first(part, CALL_IDS).is_some() => Some("tool_result".to_owned()),
        fields if part["text"].is_string() => {
            let is_text = fields.iter().all(|(name, value)| is_extra(name, value));
            is_text.then(|| "text".to_owned())
        }
        _ => wrapped(part).map(|(name, _)| snake(name)),
    })
}

/// Returns the type named by a part, in snake case.
pub(super) fn named_type(part: &Value) -> Option<String> {
    let mut names = "type block_type part_kind content_type kind".split(' ');
    names.find_map(|name| part[name].as_str()).map(snake)
}

/// Returns the object that a part contains under the name of its type or of a call, otherwise the part.
pub(super) fn inner<'a>(part: &'a Value, name: &str) -> &'a Value {
    let called = first(part, "tool_call toolInvocation custom").filter(|it| it.is_object());
    let wrapped = || wrapped(part).filter(|(field, _)| snake(field) == name);
    called.or_else(|| Some(wrapped()?.1)).unwrap_or(part)
}

fn wrapped(part: &Value) -> Option<(&str, &Value)> {
    let fields = part.as_object()?.iter();
    let mut fields = fields.filter(|(name, value)| *name != "thoughtSignature" && !is_blank(value));
    match (fields.next(), fields.next()) {
        (Some((name, inner)), None) if inner.is_object() => Some((name, inner)),
        _ => None,
    }
}

/// Returns a name in snake case.
pub(super) fn snake(name: &str) -> String {
    let mut snake = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() && !snake.is_empty() && !snake.ends_with('_') {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    snake.replace('-', "_")
}

/// Returns a message without the wrappers of frameworks, with the class that LangChain names next to it.
pub(super) fn unwrapped(value: &Value) -> (Option<&str>, &Value) {
    let object = |name: &str| value.get(name).filter(|inner| inner.is_object());
    let class = value["type"].as_str();
    if let Some(kwargs) = object("kwargs") {
        let path = value["id"].as_array();
        return (path.and_then(|path| path.last()?.as_str()), kwargs);
    }
    match (object("data"), object("message")) {
        (Some(data), _) if class.is_some() => (class, data),
        (_, Some(message)) if value.get("content").is_none() => unwrapped(message),
        _ => (class, value),
    }
}

/// Returns the speaker of a message of AutoGen or an event of Google's ADK; these have no role.
pub(super) fn speaker(message: &Value) -> Option<String> {
    let is_event = first(message, "invocationId invocation_id").is_some();
    let author = || text(message, "author").filter(|_| is_event);
    let speaker = text(message, "source").or_else(author);
    speaker.filter(|_| message["role"].is_null())
}

/// Returns the role of a message; `None` if the value is no message.
pub(super) fn role(class: Option<&str>, message: &Value) -> Option<String> {
    let own = text(message, "role /info/role /author/role").map(|role| role.to_lowercase());
    // In Pydantic AI the kind is `request` or `response`.
    let kind = message["kind"].as_str();
    let kind = kind.filter(|_| message["parts"].is_array());
    let speaker = speaker(message).map(|speaker| match speaker.as_str() {
        "user" => "user",
        _ => "assistant",
    });
    let role = match own.as_deref().or(kind).or(speaker).or(class)? {
        "human" | "HumanMessage" | "HumanMessageChunk" | "request" => "user",
        "ai" | "bot" | "model" | "gemini" | "AIMessage" | "AIMessageChunk" | "response" => {
            "assistant"
        }
        "SystemMessage" => "system",
        "function" | "ToolMessage" | "FunctionMessage" => "tool",
        other if own.is_some() || is_one_of(other, "user assistant system tool developer") => other,
        _ => return None,
    };
    Some(role.to_owned())
}

/// Returns role and text of a message that is a list of both, which LangChain accepts.
pub(super) fn pair(value: &Value) -> Option<(String, &str)> {
    let [class, said] = value.as_array()?.as_slice() else {
        return None;
    };
    Some((role(class.as_str(), &Value::Null)?, said.as_str()?))
}

/// Whether a value is a message, or an item of a known type.
pub(super) fn is_message(value: &Value) -> bool {
    let (class, message) = unwrapped(value);
    let known = type_of(message).map(|name| Kind::of(&name, message));
    role(class, message).is_some() || known.is_some_and(|kind| kind != Kind::Unknown)
}
