//! Objects with one conversation each, and lists of messages: requests and answers of model APIs, conversations stored by agent frameworks,
//! lines of files for fine-tuning, samples of Inspect. Fields of Gavel's own form are read as well.

use serde_json::{Map, Value, json};

use super::calls::{error_text, tool_names};
use super::field::{first, grouped, is_one_of, moment, once, rfc3339, text};
use super::parts::{NO_MESSAGE, is_answers, located, read_any, read_list, read_message};
use super::shown::shown;
use super::transcript::{Item, begins_with};
use super::{Document, Found, all, failure, unknown_form};
use crate::history::ingest::input::{Faults, SessionInput, fault, unknown_key};
use crate::score::nearest;
use crate::wire::SessionStatus;

/// Fields of Gavel's own form that may be next to messages.
const OURS: &str = "alert_type agent author alert_data final_analysis tags started_at completed_at";
/// Fields of Gavel's own form that no other tool writes. In an object with one of them an unknown field is an error.
const OURS_ALONE: &str = "alert_type alert_data final_analysis external_id";
/// Other known fields of such an object.
const BESIDE: &str = "format status external_id session_id id thread_id chat_id error tools messages contents chat_history prompt \
    prompts input system instructions output choices candidates message response model temperature usage metadata";

/// Whether an object contains a conversation: messages, a question with its answer, or events with their authors.
pub(super) fn is_conversation(value: &Value) -> bool {
    let lists = "messages contents chat_history choices candidates /values/messages";
    let field = |name| first(value, name).or(value.get(name));
    let kind = value["object"].as_str().unwrap_or_default();
    match value.as_array() {
        Some(messages) => messages.first().is_some_and(is_message),
        None if kind.ends_with(".chunk") => false,
        None => {
            lists.split(' ').filter_map(field).any(Value::is_array)
                || first(value, "input").and(first(value, "output")).is_some()
                || kind == "response"
                || is_adk(value)
                || exchange(value).is_some()
        }
    }
}

/// Whether a value is a message. A file of messages is one conversation.
pub(super) fn is_message(value: &Value) -> bool {
    let names = "content contents tool_calls parts blocks items data kwargs";
    let has_content = names.split(' ').any(|name| value.get(name).is_some());
    let wraps_message = value["message"]["role"].is_string() && value["type"].is_null();
    let is_item = value["call_id"].is_string() && value["type"].is_string();
    (has_content || wraps_message || is_item)
        && read_message(value, "assistant").is_some()
        && !value["sessionId"].is_string()
        && !value["messages"].is_array()
}

/// Returns a request and its response as proxies log them.
fn exchange(value: &Value) -> Option<[&Value; 2]> {
    let sides = [&value["request"], &value["response"]];
    let is_side =
        |side: &&Value| !located(side).is_empty() || is_message(side.get(0).unwrap_or(side));
    sides.iter().all(is_side).then_some(sides)
}

fn is_adk(value: &Value) -> bool {
    text(value, "appName app_name").is_some() && value["events"].is_array()
}

/// Returns the conversations of a file with one message per entry: one for each id in the messages, or a single one.
pub(super) fn of_messages(messages: Vec<Document>) -> Vec<Document> {
    const IDS: &str = "session_id sessionId thread_id threadId conversation_id conversationId";
    let named = messages.into_iter().map(|it| (text(&it.value, IDS), it));
    let conversations = grouped(named).into_iter().map(|(id, messages)| {
        let first = messages.first().filter(|_| id.is_some());
        let place = first.map(|first| first.place.clone());
        let place = place.unwrap_or_default();
        let messages: Value = messages.into_iter().map(|message| message.value).collect();
        let value = match id {
            Some(id) => json!({ "session_id": id, "messages": messages }),
            None => messages,
        };
        Document { place, value }
    });
    conversations.collect()
}

pub(super) fn read(document: &Value) -> Result<Vec<Found>, Faults> {
    let items = items(document)?;
    let mut own = document.as_object().cloned().unwrap_or_default();
    let is_known = |name: &&String| is_one_of(name, OURS) || is_one_of(name, BESIDE);
    let unknown = own.keys().find(|name| !is_known(name));
    let is_ours = own.keys().any(|name| is_one_of(name, OURS_ALONE));
    if let Some(name) = unknown.filter(|_| is_ours) {
        let known = OURS.split(' ').chain(BESIDE.split(' '));
        return Err(fault("", unknown_key(name, known)));
    }
    own.retain(|name, _| is_one_of(name, OURS));
    for name in ["started_at", "completed_at"] {
        if let Some(time) = own.get_mut(name).filter(|time| time.is_number()) {
            *time = moment(time).map(rfc3339).into();
        }
    }
    let mut session = SessionInput::from_value(own.into())?;
    let mut agents = items.iter().filter_map(|item| item.agent.clone());
    session.agent = session.agent.or_else(|| agents.next());
    let output = document["output"].as_array().into_iter().flatten();
    let listed = output.filter(|item| item["type"] == "mcp_list_tools");
    let listed = listed.flat_map(|item| tool_names(&item["tools"]));
    session.tools = once(tool_names(&document["tools"]).into_iter().chain(listed));
    let status = Some(shown(&document["status"])).filter(|_| !document["status"].is_null());
    let status = status.map(|status| match status.to_lowercase().as_str() {
        // Statuses of OpenAI's responses.
        "queued" => "pending".to_owned(),
        "incomplete" | "error" | "failure" => "failed".to_owned(),
        status => status.to_owned(),
    });
    // Another tool's status may have another meaning.
    let is_known = |status: &String| is_ours || status.parse::<SessionStatus>().is_ok();
    session.status = status.filter(is_known);
    Ok(vec![Found {
        id: text(document, "external_id session_id id thread_id chat_id"),
        items,
        place: String::new(),
        session,
    }])
}

fn items(document: &Value) -> Result<Vec<Item>, Faults> {
    if let Some([request, response]) = exchange(document) {
        return Ok([items(request)?, items(response)?].concat());
    }
    let places = match document.is_array() {
        true => vec![("", "user", document)],
        false if is_message(document) => vec![("", "assistant", document)],
        false if is_adk(document) => vec![("/events", "assistant", &document["events"])],
        false => located(document),
    };
    let mut items: Vec<Item> = Vec::new();
    for (pointer, role, value) in places {
        let named = by_name(value).filter(|_| matches!(pointer, "" | "/chat_history"));
        let one = named.as_ref().unwrap_or(value);
        let values = match one.as_array() {
            Some(values) => values.as_slice(),
            None if one.is_string() && pointer == "/messages" => &[],
            None => std::slice::from_ref(one),
        };
        // The user's list must consist of messages; elsewhere plain text is accepted.
        let is_strict = value.is_array() && role == "user";
        let place = if is_strict { "assistant" } else { role };
        let is_text = |value: &Value| value.is_string() || value.is_array();
        let read = |value: &Value| match value.is_object() {
            true => {
                read_message(value, place).or_else(|| (!is_strict).then(|| read_any(value, role)))
            }
            false if is_text(value) && pointer != "/messages" => Some(read_any(value, role)),
            false => (!is_strict).then(Vec::new),
        };
        let read = read_list(values, is_answers(pointer), read);
        let read = read.map_err(|n| {
            let mut names = values[n].as_object().into_iter().flat_map(Map::keys);
            let near = names.find(|name| nearest(name, ["role"].into_iter()).is_some());
            let near = near.map(|name| format!("; did you mean role instead of {name}?"));
            let message = NO_MESSAGE.to_owned() + &near.unwrap_or_default();
            fault(format!("{pointer}/{n}"), message)
        })?;
        // An answer may repeat the question.
        let asked = items.iter().position(|item| item.role != "system");
        let mut starts = [0, asked.unwrap_or(items.len())].into_iter();
        let repeated = starts.find(|start| begins_with(&read, &items[*start..]));
        items.truncate(repeated.unwrap_or(items.len()));
        items.extend(read);
    }
    let error = first(document, "error").filter(|error| error.is_string() || error.is_object());
    items.extend(error.map(|error| failure(&error_text(error))));
    match items.iter().any(|item| item.role != "system") {
        true => Ok(items),
        false if located(document).is_empty() && document.get("messages").is_none() => {
            Err(fault("", unknown_form(document)))
        }
        false => {
            let message = "holds no message; a list of messages with role and content is expected";
            let pointer = document.get("messages").map_or("", |_| "/messages");
            Err(fault(pointer, message))
        }
    }
}

/// Returns a chat history of AutoGen 0.2 with the agents' roles. Its first message is the user's, with the role `assistant` and the user's
/// name, because it is recorded from the view of the agent that sent it.
fn by_name(history: &Value) -> Option<Value> {
    let user = history[0]["name"].as_str();
    let user = user.filter(|_| history[0]["role"] == "assistant")?;
    let mut named = history.clone();
    for message in named.as_array_mut().into_iter().flatten() {
        if message["name"].is_string() && message["role"] != "tool" {
            let is_user = message["name"] == user;
            message["role"] = if is_user { "user" } else { "assistant" }.into();
        }
    }
    Some(named)
}

/// Reads a log of Inspect in JSON: each sample of each epoch is a session. Skips the target and the scores, because they would bias the judge.
pub(super) fn read_inspect(log: &Value) -> Result<Vec<Found>, Faults> {
    let samples = log["samples"].as_array().into_iter().flatten();
    let read = samples.enumerate().map(|(n, sample)| {
        let conversation = json!({ "messages": sample["messages"], "error": sample["error"] });
        let items = items(&conversation).map_err(|mut faults| {
            for fault in &mut faults {
                fault.pointer.insert_str(0, &format!("/samples/{n}"));
            }
            faults
        });
        let (eval, items) = (&log["eval"], items?);
        let events = sample["events"].as_array().into_iter().flatten();
        let mut models = events.filter(|event| event["event"] == "model");
        let offered = models.find_map(|event| event.get("tools"));
        let within = || {
            let (run, id) = (text(eval, "eval_id run_id")?, text(sample, "id")?);
            let epoch = text(sample, "epoch").unwrap_or_default();
            Some(format!("{run}/{id}/{epoch}"))
        };
        let failed = (!sample["error"].is_null()).then(|| SessionStatus::Failed.to_string());
        Ok(Found {
            place: format!("sample {n}"),
            id: text(sample, "uuid").or_else(within),
            items,
            session: SessionInput {
                status: failed,
                started_at: moment(&sample["started_at"]).map(rfc3339),
                completed_at: moment(&sample["completed_at"]).map(rfc3339),
                alert_type: text(eval, "task"),
                agent: text(eval, "model"),
                tools: offered.map(tool_names).unwrap_or_default(),
                ..SessionInput::default()
            },
        })
    });
    match all(read)? {
        none if none.is_empty() => {
            let message = "holds no sample; write the log whole and as JSON: inspect log convert LOG --to json --output-dir DIR";
            Err(fault("/samples", message))
        }
        sessions => Ok(sessions),
    }
}
