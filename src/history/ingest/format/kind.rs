//! Kinds of JSON objects in transcripts, by their types and roles.

use serde_json::Value;

use super::field::{fields_except, first, is_blank, is_metadata, is_one_of, snake, text};

pub(super) const CALL_IDS: &str =
    "tool_call_id toolCallId tool_use_id toolUseId call_id callId callID";
/// Objects in a message or a part whose fields count as its own.
pub(super) const WRAPPERS: &str = "function tool_call tool_invocation custom message_content state info additional_kwargs \
    provider_specific_fields extras audio";

const TEXTS: &str =
    "text input_text output_text summary_text user_prompt system_prompt refusal citations_content";
const THOUGHTS: &str = "thinking redacted_thinking reasoning reasoning_text thought text_reasoning reasoning_content thought_event think";
const CALLS: &str = "tool_call tool_use dynamic_tool executable_code tool_invocation web_search_call file_search_call code_interpreter_call \
    image_generation_call code_generation_event";
/// Fields that only a call has.
const CALL_FIELDS: &str = "name function tool_name toolName arguments args input";
const RESULTS: &str = "tool_result tool_call_result tool_call_response tool_return tool_error tool_response function_response \
    function_result code_execution_result code_execution_event retry_prompt";

/// Fields of an answer of Gemini without content.
const BLOCKED: &str =
    "finishReason finish_reason finishMessage finish_message safetyRatings safety_ratings index";

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
    /// Returns the kind of a part of type `name`. `*_call` and `*_tool_use` with a call's id, name or arguments are calls; `*_output` and
    /// `*_result` with a call's id are results.
    pub(super) fn of(name: &str, part: &Value) -> Self {
        let ends = |endings: &str| endings.split(' ').any(|ending| name.ends_with(ending));
        let refers = first(part, CALL_IDS).is_some();
        let has_state = refers && name.starts_with("tool") && first(part, "state status").is_some();
        match name {
            _ if is_one_of(name, TEXTS) => Self::Text,
            _ if is_one_of(name, THOUGHTS) => Self::Thinking,
            _ if is_one_of(name, CALLS) => Self::Call,
            _ if is_one_of(name, RESULTS) || ends("_call_output") => Self::Result,
            _ if refers && ends("_result _output _return") => Self::Result,
            _ if has_state => Self::Call,
            _ if ends("_call _tool_use") && (refers || first(part, CALL_FIELDS).is_some()) => {
                Self::Call
            }
            _ => Self::Unknown,
        }
    }
}

/// Returns the type of a part in snake case. Without a type field it follows from the other fields, such as the only field with an object.
pub(super) fn type_of(part: &Value) -> Option<String> {
    named_type(part).or_else(|| match part.as_object()? {
        fields if part["name"].is_string() && fields.contains_key("arguments") => {
            Some("tool_call".to_owned())
        }
        _ if first(part, CALL_IDS).is_some() => Some("tool_result".to_owned()),
        _ if part["text"].is_string() => Some("text".to_owned()),
        fields => {
            let is_tools = |(name, value): &(&String, &Value)| {
                let kind = Kind::of(&snake(name), value);
                value.is_object() && matches!(kind, Kind::Call | Kind::Result)
            };
            let of_tools = fields.iter().find(is_tools).map(|(name, _)| name.as_str());
            of_tools.or_else(|| Some(wrapped(part)?.0)).map(snake)
        }
    })
}

/// Returns the kind of a part by its type, which may follow from its fields.
pub(super) fn kind_of(part: &Value) -> Kind {
    type_of(part).map_or(Kind::Unknown, |name| Kind::of(&name, part))
}

/// Returns the type named by a part, in snake case.
pub(super) fn named_type(part: &Value) -> Option<String> {
    let mut names = "type block_type part_kind content_type kind".split(' ');
    let name = names.find_map(|name| part[name].as_str())?;
    // Mistral writes `function.call`.
    Some(snake(name).replace('.', "_"))
}

/// Returns the only field of a part if it is an object, without metadata.
pub(super) fn wrapped(part: &Value) -> Option<(&str, &Value)> {
    let fields = part.as_object()?.iter();
    let mut fields = fields.filter(|(name, value)| !is_blank(value) && !is_metadata(name));
    match (fields.next(), fields.next()) {
        (Some((name, inner)), None) if inner.is_object() => Some((name, inner)),
        _ => None,
    }
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

/// Whether a record of AutoGen, whose other types are events, is a message, or contains calls or their results.
fn speaks(class: &str, message: &Value) -> bool {
    let is_of_tools = |part| matches!(kind_of(part), Kind::Call | Kind::Result);
    let parts = message["content"].as_array();
    class.contains("Message") || parts.is_some_and(|parts| parts.iter().all(is_of_tools))
}

/// Whether a value is an answer of Gemini, whose content is a message. A blocked one has only its reason.
fn is_candidate(value: &Value) -> bool {
    let content = &value["content"];
    let is_blocked = || fields_except(value, BLOCKED).is_empty();
    content["parts"].is_array()
        || content["role"] == "model"
        || first(value, "finishReason finish_reason").is_some() && is_blocked()
}

/// Returns the role of a message; `None` if the value is no message.
pub(super) fn role(class: Option<&str>, message: &Value) -> Option<String> {
    let own = text(message, "role /info/role /author/role").map(|role| role.to_lowercase());
    // In Pydantic AI the kind is `request` or `response`.
    let kind = message["kind"].as_str();
    let kind = kind.filter(|_| message["parts"].is_array());
    let speaker = speaker(message).filter(|_| class.is_none_or(|class| speaks(class, message)));
    let speaker = speaker.map(|it| if it == "user" { "user" } else { "assistant" });
    let answer = is_candidate(message).then_some("assistant");
    let role = match own.as_deref().or(kind).or(speaker).or(class).or(answer)? {
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
    let [class, said] = <&[Value; 2]>::try_from(value.as_array()?.as_slice()).ok()?;
    Some((role(class.as_str(), &Value::Null)?, said.as_str()?))
}

/// Whether a value is a message, or an item of a known type.
pub(super) fn is_message(value: &Value) -> bool {
    let (class, message) = unwrapped(value);
    let known = named_type(message).map(|name| Kind::of(&name, message));
    role(class, message).is_some() || known.is_some_and(|kind| kind != Kind::Unknown)
}
