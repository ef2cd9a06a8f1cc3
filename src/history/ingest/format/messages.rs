//! One conversation as a list of messages: a request or a stored completion of OpenAI or Anthropic, a line of a file for
//! fine-tuning, or the list alone. Fields of our own form may stand beside the messages; others are skipped.

use serde_json::{Map, Value, json};

use super::transcript::{AttributedPiece, NO_MESSAGE, conversation, pieces, plain, tool_names};
use super::{Placed, fault, identify, text};
use crate::history::ingest::input::{InvalidSession, SessionFault, SessionInput, unknown_status};
use crate::wire::{SessionFormat, SessionStatus};

/// Fields of our own form that are taken as they are.
const OURS: [&str; 8] = [
    "alert_type",
    "agent",
    "author",
    "alert_data",
    "final_analysis",
    "tags",
    "started_at",
    "completed_at",
];

pub(super) fn read(document: &Value) -> Result<Vec<Placed>, Vec<SessionFault>> {
    let wrapped;
    let document = match document {
        list @ Value::Array(_) => {
            wrapped = json!({ "messages": list });
            &wrapped
        }
        other @ (Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Object(_)) => other,
    };
    let mut said = Vec::new();
    for (pointer, message) in messages(document)? {
        let Some(pieces) = pieces(&message) else {
            return Err(vec![fault(pointer, NO_MESSAGE)]);
        };
        said.extend(pieces.into_iter().map(|piece| AttributedPiece {
            piece,
            agent: None,
            at: None,
        }));
    }
    let own: Map<String, Value> = OURS
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), document.get(*name)?.clone())))
        .collect();
    let own = SessionInput::from_json(&Value::Object(own).to_string());
    let mut session = own.map_err(|InvalidSession { faults }| faults)?;
    let (messages, conclusion) = conversation(said);
    session.conversation = messages;
    session.final_analysis = match (session.final_analysis.take(), conclusion) {
        // What was said last stays a message beside a conclusion that was given.
        (Some(given), Some(last)) if given.trim() != last.trim() => {
            session.conversation.push(crate::score::session::Message {
                role: "assistant".to_owned(),
                content: last,
                ..Default::default()
            });
            Some(given)
        }
        (given, last) => given.or(last),
    };
    session.tools = tool_names(&document["tools"]);
    session.status = Some(status(&document["status"])?.as_str().to_owned());
    let id = text(document, &["external_id", "session_id", "id"]);
    identify(&mut session, SessionFormat::Messages, id, document);
    Ok(vec![(String::new(), session)])
}

/// Our own words and those of OpenAI's responses; none: it has ended.
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

/// The messages, each with its place.
fn messages(document: &Value) -> Result<Vec<(String, Value)>, Vec<SessionFault>> {
    let mut found = Vec::new();
    for name in ["system", "instructions"] {
        let said = document.get(name).filter(|said| !said.is_null());
        found.extend(said.map(|said| (format!("/{name}"), plain("system", said))));
    }
    let name = if document.get("messages").is_some() {
        "messages"
    } else {
        "input"
    };
    match &document[name] {
        Value::Array(messages) if !messages.is_empty() => {
            let placed = messages.iter().enumerate();
            found.extend(placed.map(|(n, message)| (format!("/{name}/{n}"), message.clone())));
        }
        asked @ Value::String(_) if name == "input" => {
            found.push(("/input".to_owned(), plain("user", asked)))
        }
        Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_) => {
            let message = "holds no message; a list of messages with role and content is expected";
            return Err(vec![fault("/messages", message)]);
        }
    }
    for (n, item) in document["output"]
        .as_array()
        .into_iter()
        .flatten()
        .enumerate()
    {
        found.push((format!("/output/{n}"), item.clone()));
    }
    let answer = document.pointer("/choices/0/message");
    found.extend(answer.map(|answer| ("/choices/0/message".to_owned(), answer.clone())));
    Ok(found)
}
