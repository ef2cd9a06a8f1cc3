//! Objects with one conversation each, and lists of messages: requests and answers of model APIs, stored conversations of agent
//! frameworks, lines of files for fine-tuning. Fields of Gavel's own form are read, too.

use serde_json::Value;

use super::calls::tool_names;
use super::field::{first, is_one_of, moment, once, rfc3339, text};
use super::parts::{NO_MESSAGE, located, read_any, read_message};
use super::transcript::{Entry, Item, conversation};
use super::{Placed, entry, fault, identify};
use crate::history::ingest::input::{InvalidSession, SessionFault, SessionInput, unknown_status};
use crate::score::session::Message;
use crate::wire::{SessionFormat, SessionStatus};

/// Fields of Gavel's own form that are read next to messages.
const OURS: &str = "alert_type agent author alert_data final_analysis tags started_at completed_at";

/// Whether an object holds a conversation: messages, a question with its answer, or events with their authors.
pub(super) fn is_conversation(value: &Value) -> bool {
    let lists = "messages contents chat_history choices candidates /values/messages";
    let mut lists = lists
        .split(' ')
        .filter_map(|list| first(value, list).or(value.get(list)));
    let is_chunk = value["object"]
        .as_str()
        .is_some_and(|object| object.ends_with(".chunk"));
    match value.as_array() {
        Some(messages) => messages.first().is_some_and(is_message),
        None if is_chunk => false,
        None => {
            lists.any(Value::is_array)
                || first(value, "input").and(first(value, "output")).is_some()
                || value["object"] == "response"
                || is_adk(value)
                || exchange(value).is_some()
        }
    }
}

/// Whether a value is a message by itself: a file of such is one conversation.
pub(super) fn is_message(value: &Value) -> bool {
    let names = "content contents tool_calls parts blocks items data kwargs";
    let has_content = names.split(' ').any(|name| value.get(name).is_some());
    let wraps_message = value["message"]["role"].is_string() && value["type"].is_null();
    let is_item = value["call_id"].is_string() && value["type"].is_string();
    (has_content || wraps_message || is_item)
        && read_message(value, "assistant").is_some()
        && !value["sessionId"].is_string()
}

/// Returns a request and its response, as proxies log them.
fn exchange(value: &Value) -> Option<[&Value; 2]> {
    let sides = [&value["request"], &value["response"]];
    let is_side = |side: &&Value| !located(side).is_empty() || side.is_object() && is_message(side);
    sides.iter().all(is_side).then_some(sides)
}

/// Whether a value is a session of Google's ADK.
fn is_adk(value: &Value) -> bool {
    text(value, "appName app_name").is_some() && value["events"].is_array()
}

pub(super) fn read(document: &Value) -> Result<Vec<Placed>, Vec<SessionFault>> {
    let entries = entries(document)?;
    let mut own = document.as_object().cloned().unwrap_or_default();
    own.retain(|name, _| is_one_of(name, OURS));
    for name in ["started_at", "completed_at"] {
        if let Some(time) = own.get_mut(name).filter(|time| time.is_number()) {
            *time = moment(time).map(rfc3339).into();
        }
    }
    let own = SessionInput::from_json(&Value::Object(own).to_string());
    let mut session = own.map_err(|InvalidSession { faults }| faults)?;
    let agent = entries.iter().find_map(|entry| entry.agent.clone());
    session.agent = session.agent.or(agent);
    let (messages, conclusion) = conversation(entries);
    session.conversation = messages;
    session.final_analysis = match (session.final_analysis.take(), conclusion) {
        // The agent's last text stays a message beside a conclusion that was given.
        (Some(given), Some(last)) if given.trim() != last.trim() => {
            session.conversation.push(Message {
                role: "assistant".to_owned(),
                content: last,
                ..Default::default()
            });
            Some(given)
        }
        (given, last) => given.or(last),
    };
    let output = document["output"].as_array().into_iter().flatten();
    let listed = output.filter(|item| item["type"] == "mcp_list_tools");
    let listed = listed.flat_map(|item| tool_names(&item["tools"]));
    session.tools = once(tool_names(&document["tools"]).into_iter().chain(listed));
    session.status = Some(status(&document["status"])?.as_str().to_owned());
    let id = text(document, "external_id session_id id thread_id chat_id");
    identify(&mut session, SessionFormat::Messages, id, document);
    Ok(vec![(String::new(), session)])
}

/// Our own statuses and those of OpenAI's responses; none: it has ended.
fn status(word: &Value) -> Result<SessionStatus, Vec<SessionFault>> {
    match word.as_str() {
        None if word.is_null() => Ok(SessionStatus::Completed),
        Some("queued") => Ok(SessionStatus::Pending),
        Some("incomplete") => Ok(SessionStatus::Failed),
        other => other
            .and_then(|word| word.parse().ok())
            .ok_or_else(|| vec![fault("/status".to_owned(), unknown_status())]),
    }
}

fn entries(document: &Value) -> Result<Vec<Entry>, Vec<SessionFault>> {
    if is_adk(document) {
        let events = document["events"].as_array().into_iter().flatten();
        return Ok(events.flat_map(adk_event).collect());
    }
    if let Some([request, response]) = exchange(document) {
        let mut both = entries(request)?;
        both.extend(entries(response)?);
        return Ok(both);
    }
    if is_message(document) {
        return Ok(read_message(document, "assistant").unwrap_or_default());
    }
    let places = match document {
        list @ Value::Array(_) => vec![("", "user", list)],
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            located(document)
        }
    };
    let mut entries = Vec::new();
    for (pointer, role, value) in places {
        let value = match pointer {
            "" | "/chat_history" if is_seen_by_user(value) => &by_name(value),
            _ => value,
        };
        match value {
            Value::Array(messages) => {
                for (n, message) in messages.iter().enumerate() {
                    let read = match message {
                        Value::String(_) | Value::Array(_) if pointer != "/messages" => {
                            unattributed(message, role)
                        }
                        Value::Object(_) if role != "user" => read_message(message, role)
                            .unwrap_or_else(|| unattributed(message, role)),
                        Value::Object(_)
                        | Value::Null
                        | Value::Bool(_)
                        | Value::Number(_)
                        | Value::String(_)
                        | Value::Array(_) => {
                            let fault = || vec![fault(format!("{pointer}/{n}"), NO_MESSAGE)];
                            read_message(message, "assistant").ok_or_else(fault)?
                        }
                    };
                    entries.extend(read);
                }
            }
            Value::Object(_) => {
                entries
                    .extend(read_message(value, role).unwrap_or_else(|| unattributed(value, role)));
            }
            Value::String(_) if pointer != "/messages" => entries.extend(unattributed(value, role)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    entries.extend(failure(&document["error"]));
    let is_said =
        |entry: &Entry| !matches!(&entry.item, Item::Text { role, .. } if role == "system");
    match entries.iter().any(is_said) {
        true => Ok(entries),
        false => {
            let message = "holds no message; a list of messages with role and content is expected";
            Err(vec![fault("/messages", message)])
        }
    }
}

fn unattributed(value: &Value, role: &str) -> Vec<Entry> {
    read_any(value, role).into_iter().map(entry).collect()
}

/// Whether a chat history is one of AutoGen 0.2: its first message is the user's, under the role `assistant` and the user's name.
fn is_seen_by_user(history: &Value) -> bool {
    history[0]["role"] == "assistant" && history[0]["name"].is_string()
}

/// Sets the roles in a chat history of AutoGen 0.2, which records named messages from the view of the agent that sent the first one.
fn by_name(history: &Value) -> Value {
    let mut history = history.clone();
    let user = history[0]["name"].clone();
    for message in history.as_array_mut().into_iter().flatten() {
        if message["name"].is_string() && message["role"] != "tool" {
            let role = if message["name"] == user {
                "user"
            } else {
                "assistant"
            };
            message["role"] = role.into();
        }
    }
    history
}

/// The error that ended a conversation.
pub(super) fn failure(error: &Value) -> Option<Entry> {
    let message = text(error, "message").or_else(|| error.as_str().map(str::to_owned));
    message.map(|message| {
        entry(Item::Text {
            role: "system".to_owned(),
            text: format!("Error: {message}"),
        })
    })
}

/// An event of Google's ADK: a content, or the error that took its place.
fn adk_event(event: &Value) -> Vec<Entry> {
    let agent = text(event, "author").filter(|author| author != "user");
    let role = if agent.is_some() { "assistant" } else { "user" };
    let mut items = read_any(&event["content"], role);
    let error = text(event, "errorMessage error_message errorCode error_code");
    items.extend(error.map(|error| Item::Text {
        role: role.to_owned(),
        text: format!("Error: {error}"),
    }));
    let at = moment(&event["timestamp"]).map(rfc3339);
    let entry = |item| Entry {
        item,
        agent: agent.clone(),
        at: at.clone(),
    };
    items.into_iter().map(entry).collect()
}
