//! Sessions as others record them, each format in our one form of a session. Pure: text in, sessions or faults out.
//!
//! A format says where messages, calls of tools and their results stand; `transcript` reads them, whoever wrote them. What
//! is wrong is named with its place, and then nothing of the file is given back.

mod inspect;
mod langsmith;
mod messages;
mod spans;
mod trace;
mod transcript;

use chrono::{DateTime, NaiveDateTime, Utc};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

pub(in crate::history) use self::transcript::tool_text;
use super::file::FileFault;
use super::input::{SessionFault, SessionInput};
use crate::wire::SessionFormat;

/// One JSON value of a file, with its place there.
pub(super) struct Document {
    pub(super) place: String,
    pub(super) value: Value,
}

/// A session with the place where it stands, or begins.
pub(super) type Placed = (String, SessionInput);

/// The format that a value's fields show; `None`: none that is known here.
pub(super) fn detect(value: &Value) -> Option<SessionFormat> {
    let has = |name: &str| value.get(name).is_some_and(|value| !value.is_null());
    if has("alert_data") && !has("messages") || has("conversation") {
        None
    } else if has("resourceSpans") || has("attributes") || has("context.span_id") {
        Some(SessionFormat::Spans)
    } else if has("run_type") || has("runs") {
        Some(SessionFormat::LangSmith)
    } else if has("eval") && has("plan") || has("samples") {
        Some(SessionFormat::Inspect)
    } else if has("messages") || has("input") || is_message(value) {
        Some(SessionFormat::Messages)
    } else if value["spans"].is_array() || value["data"].is_array() {
        Some(SessionFormat::Spans)
    } else {
        None
    }
}

/// Whether a value is a message by itself: a file of such is one conversation.
pub(super) fn is_message(value: &Value) -> bool {
    value["role"].is_string()
        && (value.get("content").is_some() || value.get("tool_calls").is_some())
}

/// Reads the documents of one file.
pub(super) fn read(
    format: SessionFormat,
    documents: &[Document],
) -> Result<Vec<Placed>, Vec<FileFault>> {
    match format {
        SessionFormat::Messages => each(documents, messages::read),
        SessionFormat::Inspect => each(documents, inspect::read),
        SessionFormat::Spans => trace::sessions(spans::steps(documents)?, format),
        SessionFormat::LangSmith => trace::sessions(langsmith::steps(documents)?, format),
    }
}

/// Reads documents that know nothing of each other.
fn each(
    documents: &[Document],
    read: impl Fn(&Value) -> Result<Vec<Placed>, Vec<SessionFault>>,
) -> Result<Vec<Placed>, Vec<FileFault>> {
    let (mut sessions, mut faults) = (Vec::new(), Vec::new());
    for Document { place, value } in documents {
        match read(value) {
            Ok(read) => sessions.extend(read.into_iter().map(|(within, session)| {
                let parts = [place.as_str(), &within];
                let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
                (parts.join(", "), session)
            })),
            Err(found) => faults.extend(found.into_iter().map(|fault| FileFault {
                place: place.clone(),
                fault,
            })),
        }
    }
    if faults.is_empty() {
        Ok(sessions)
    } else {
        Err(faults)
    }
}

/// Names a session by the id that its source gave it: a UUID is ours as it is, of another text ours is made, always the same.
/// Without an id `content` stands for it, so that the same file is the same session.
fn identify(
    session: &mut SessionInput,
    format: SessionFormat,
    id: Option<String>,
    content: &Value,
) {
    match id {
        Some(id) if id.len() == 36 && Uuid::try_parse(&id).is_ok() => {
            session.session_id = Uuid::try_parse(&id).ok();
        }
        Some(id) => {
            session.session_id = Some(derived_id(format.as_str(), &id));
            session.external_id = Some(id);
        }
        None => session.session_id = Some(derived_id(format.as_str(), &content.to_string())),
    }
}

/// Our id of a session that its source calls otherwise.
pub(super) fn derived_id(source: &str, external_id: &str) -> Uuid {
    let digest = Sha256::new()
        .chain_update(source)
        .chain_update([0])
        .chain_update(external_id)
        .finalize();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}

/// The first of these fields that holds a text or a number.
fn text(value: &Value, names: &[&str]) -> Option<String> {
    names.iter().find_map(|name| match value.get(*name)? {
        Value::String(text) => Some(text.trim().to_owned()).filter(|text| !text.is_empty()),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    })
}

/// A list's values; a text that holds a JSON list is that list.
fn list(value: &Value) -> Vec<Value> {
    match value {
        Value::Array(items) => items.clone(),
        Value::String(text) => match serde_json::from_str(text) {
            Ok(Value::Array(items)) => items,
            Ok(_) | Err(_) => Vec::new(),
        },
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => Vec::new(),
    }
}

/// A moment in any of the spellings of these formats: RFC 3339, the same without an offset (UTC), or a count since 1970 of
/// milliseconds, microseconds or nanoseconds, which its size shows.
fn moment(value: &Value) -> Option<DateTime<Utc>> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return None,
    };
    if let Ok(count) = text.parse::<i64>() {
        return match count {
            ..=99_999_999_999_999 => DateTime::from_timestamp_millis(count),
            100_000_000_000_000..=99_999_999_999_999_999 => DateTime::from_timestamp_micros(count),
            _ => Some(DateTime::from_timestamp_nanos(count)),
        };
    }
    let local = || NaiveDateTime::parse_from_str(&text.replace(' ', "T"), "%Y-%m-%dT%H:%M:%S%.f");
    let with_offset = DateTime::parse_from_rfc3339(&text).map(|at| at.to_utc());
    with_offset.or_else(|_| local().map(|at| at.and_utc())).ok()
}

fn fault(pointer: impl Into<String>, message: impl Into<String>) -> SessionFault {
    SessionFault {
        pointer: pointer.into(),
        message: message.into(),
    }
}

#[cfg(test)]
mod tests;
