//! One session as it is put: the body's type, and its checks.

use std::fmt;

use chrono::{DateTime, SubsecRound, Utc};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use uuid::Uuid;

use super::limits;
use crate::clock::read_time;
use crate::score::hint;
use crate::score::session::Message;
use crate::store::SessionRecord;
use crate::wire::{SessionStatus, words};

/// The body of `PUT /api/v1/sessions/{id}`, and one entry of a session file. Lists that are left out or null are empty.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionInput {
    /// The session's id: needed in a file; in a request it may be left out, else it is the path's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<Uuid>,
    /// What the session is called where it comes from; at most 255 characters. In a file it may stand in place of `session_id`, which
    /// is then made of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_id: Option<String>,
    /// Where the session stands: pending, in_progress, paused, canceling, cancelling, completed, failed, cancelled, timed_out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = SessionStatus, required = true)]
    pub status: Option<String>,
    /// What kind of alert it was; at most 255 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alert_type: Option<String>,
    /// The agent's name; at most 255 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Who started it; at most 255 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// The alert or the task: an object or a string. Left out: the first message of the role `user`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alert_data: Option<Value>,
    /// The investigation, oldest message first; at most 4 MiB of text. May be empty, but then it can't be scored.
    #[serde(default, deserialize_with = "null_is_default")]
    #[schema(value_type = Option<Vec<Message>>)]
    pub conversation: Vec<Message>,
    /// What the agent concluded; at most 1 MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub final_analysis: Option<String>,
    /// The tools that were at hand: at most 1,000 of at most 255 characters.
    #[serde(default, deserialize_with = "null_is_default")]
    #[schema(value_type = Option<Vec<String>>)]
    pub tools: Vec<String>,
    /// Labels: at most 100 of at most 64 characters.
    #[serde(default, deserialize_with = "null_is_default")]
    #[schema(value_type = Option<Vec<String>>)]
    pub tags: Vec<String>,
    /// When it began, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<DateTime<Utc>>)]
    pub started_at: Option<String>,
    /// When it ended, RFC 3339; not before it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<DateTime<Utc>>)]
    pub completed_at: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionFault {
    /// JSON pointer into the session; empty for the whole.
    pub pointer: String,
    /// What is wrong, and what is expected.
    pub message: String,
}

fn statuses() -> String {
    let names: Vec<&str> = SessionStatus::ALL.iter().map(|it| it.as_str()).collect();
    names.join(", ")
}

pub(super) fn unknown_status() -> String {
    format!("is not a status; known: {}", statuses())
}

impl fmt::Display for SessionFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.pointer.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "{}: {}", self.pointer, self.message)
        }
    }
}

/// A session that can't be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidSession {
    /// All faults, in the order of the fields; at least one, at most 20.
    pub faults: Vec<SessionFault>,
}

impl fmt::Display for InvalidSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.faults.iter().enumerate() {
            if index > 0 {
                f.write_str("; ")?;
            }
            fault.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for InvalidSession {}

impl SessionInput {
    /// Reads one session from JSON text. A wrong type, an unknown key (with "did you mean") and text that isn't JSON are
    /// told with their pointer; the rest is left to [`Self::into_record`].
    pub fn from_json(text: &str) -> Result<Self, InvalidSession> {
        // The derived reader would take an array for the fields in order.
        if !text.trim_start().starts_with('{') {
            let message = "is not JSON of a session; an object is expected";
            return Err(one_fault(String::new(), message.to_owned()));
        }
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let read: Self = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
            // A text that is cut off has no wrong keys.
            if let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(text) {
                return one_fault(
                    String::new(),
                    format!("is not JSON: {}", words::json_fault(&error.to_string())),
                );
            }
            one_fault(
                pointer(error.path()),
                shortened(&explain(&error.into_inner().to_string())),
            )
        })?;
        deserializer
            .end()
            .map_err(|error| one_fault(String::new(), format!("not one JSON object: {error}")))?;
        Ok(read)
    }

    /// Checks the session and makes it a record under `session_id`; `source` says where it came from (`api`, `file`, `demo`).
    ///
    /// Names are trimmed and a blank one is none; tags and tools are told once each. NUL characters become U+FFFD, since
    /// Postgres keeps none, and times are cut to microseconds, so that the same session is the same record.
    pub fn into_record(
        self,
        session_id: Uuid,
        source: &str,
    ) -> Result<SessionRecord, InvalidSession> {
        let mut faults = SessionFaults::default();
        if self.session_id.is_some_and(|own| own != session_id) {
            faults.add(
                "/session_id",
                format!("differs from the id {session_id} that it is put under"),
            );
        }
        let external_id = faults.name("/external_id", self.external_id);
        let status = faults.status(self.status.as_deref());
        let alert_type = faults.name("/alert_type", self.alert_type);
        let agent = faults.name("/agent", self.agent);
        let author = faults.name("/author", self.author);
        let asked = self
            .conversation
            .iter()
            .find(|message| message.role == "user" && !message.content.trim().is_empty());
        let task = asked.map(|message| Value::String(message.content.clone()));
        let alert_data = faults.alert(self.alert_data.or(task));
        let conversation = faults.conversation(self.conversation);
        let final_analysis = faults.analysis(self.final_analysis);
        let tools = faults.labels("/tools", self.tools, limits::TOOLS, limits::NAME);
        let tags = faults.labels("/tags", self.tags, limits::TAGS, limits::TAG);
        let started_at = faults.time("/started_at", self.started_at.as_deref());
        let completed_at = faults.time("/completed_at", self.completed_at.as_deref());
        if let (Some(started), Some(completed)) = (started_at, completed_at)
            && completed < started
        {
            faults.add("/completed_at", "is before started_at");
        }
        match (status, alert_data) {
            (Some(status), Some(alert_data)) if faults.0.is_empty() => Ok(SessionRecord {
                session_id,
                source: source.to_owned(),
                external_id,
                status,
                alert_type,
                agent,
                author,
                alert_data,
                conversation,
                final_analysis,
                tools,
                tags,
                started_at,
                completed_at,
            }),
            _ => Err(InvalidSession { faults: faults.0 }),
        }
    }
}

/// Collects faults while fields are brought into their stored form.
#[derive(Default)]
struct SessionFaults(Vec<SessionFault>);

impl SessionFaults {
    fn add(&mut self, pointer: impl Into<String>, message: impl Into<String>) {
        if self.0.len() < limits::FAULTS {
            self.0.push(SessionFault {
                pointer: pointer.into(),
                message: message.into(),
            });
        }
    }

    fn status(&mut self, status: Option<&str>) -> Option<SessionStatus> {
        match status.map(str::parse) {
            Some(Ok(status)) => return Some(status),
            Some(Err(_)) => self.add("/status", unknown_status()),
            None => self.add(
                "/status",
                format!("is missing; one of {} is expected", statuses()),
            ),
        }
        None
    }

    fn name(&mut self, pointer: &str, name: Option<String>) -> Option<String> {
        let name = storable(name?.trim());
        self.length(pointer, &name, limits::NAME);
        Some(name).filter(|name| !name.is_empty())
    }

    fn length(&mut self, pointer: &str, text: &str, most: usize) {
        let length = text.chars().count();
        if length > most {
            self.add(
                pointer,
                format!("has {length} characters; at most {most} are allowed"),
            );
        }
    }

    fn alert(&mut self, alert: Option<Value>) -> Option<Value> {
        const EXPECTED: &str = "an object or a string is expected";
        let problem = match alert {
            Some(alert @ (Value::Object(_) | Value::String(_))) => {
                // The session that holds the alert is the first level.
                if depth(&alert) < limits::DEPTH {
                    return Some(storable_json(alert));
                }
                format!(
                    "is nested too deep; at most {} levels of JSON are allowed",
                    limits::DEPTH
                )
            }
            None | Some(Value::Null) => {
                format!(
                    "is missing; {EXPECTED}, or a message of the role user, which stands for it"
                )
            }
            Some(Value::Bool(_)) => format!("is a boolean; {EXPECTED}"),
            Some(Value::Number(_)) => format!("is a number; {EXPECTED}"),
            Some(Value::Array(_)) => format!("is an array; {EXPECTED}"),
        };
        self.add("/alert_data", problem);
        None
    }

    fn conversation(&mut self, messages: Vec<Message>) -> Vec<Message> {
        let bytes: usize = messages.iter().map(|message| message.content.len()).sum();
        if bytes > limits::CONVERSATION_BYTES {
            self.add(
                "/conversation",
                format!(
                    "holds {bytes} bytes of text; at most {} (4 MiB) are allowed",
                    limits::CONVERSATION_BYTES
                ),
            );
        }
        if messages.len() > limits::MESSAGES {
            self.add(
                "/conversation",
                format!(
                    "holds {} messages; at most {} are allowed",
                    messages.len(),
                    limits::MESSAGES
                ),
            );
            return Vec::new();
        }
        messages
            .into_iter()
            .enumerate()
            .map(|(index, message)| self.message(&format!("/conversation/{index}"), message))
            .collect()
    }

    fn message(&mut self, pointer: &str, message: Message) -> Message {
        let role = storable(message.role.trim());
        let length = role.chars().count();
        if !(1..=limits::ROLE).contains(&length) {
            self.add(
                format!("{pointer}/role"),
                format!("has {length} characters; 1 to {} are allowed", limits::ROLE),
            );
        }
        let tool_name = self.name(&format!("{pointer}/tool_name"), message.tool_name);
        let agent = self.name(&format!("{pointer}/agent"), message.agent);
        let stage = self.name(&format!("{pointer}/stage"), message.stage);
        self.time(&format!("{pointer}/at"), message.at.as_deref());
        Message {
            role,
            content: storable(&message.content),
            tool_name,
            agent,
            stage,
            at: message.at,
        }
    }

    fn analysis(&mut self, analysis: Option<String>) -> Option<String> {
        let analysis = storable(&analysis?);
        if analysis.len() > limits::ANALYSIS_BYTES {
            self.add(
                "/final_analysis",
                format!(
                    "holds {} bytes; at most {} (1 MiB) are allowed",
                    analysis.len(),
                    limits::ANALYSIS_BYTES
                ),
            );
        }
        Some(analysis).filter(|text| !text.trim().is_empty())
    }

    fn labels(
        &mut self,
        pointer: &str,
        labels: Vec<String>,
        most: usize,
        longest: usize,
    ) -> Vec<String> {
        if labels.len() > most {
            self.add(
                pointer,
                format!("holds {} entries; at most {most} are allowed", labels.len()),
            );
            return Vec::new();
        }
        let mut kept: Vec<String> = Vec::with_capacity(labels.len());
        for (index, label) in labels.iter().enumerate() {
            let label = storable(label.trim());
            let pointer = format!("{pointer}/{index}");
            if label.is_empty() {
                self.add(pointer, "is blank; remove it");
                continue;
            }
            self.length(&pointer, &label, longest);
            if !kept.contains(&label) {
                kept.push(label);
            }
        }
        kept
    }

    fn time(&mut self, pointer: &str, time: Option<&str>) -> Option<DateTime<Utc>> {
        match read_time(time?) {
            Ok(time) => Some(time.trunc_subsecs(6)),
            Err(fault) => {
                self.add(pointer, fault);
                None
            }
        }
    }
}

fn null_is_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or(0),
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

/// The parser quotes what it met, which may be a whole conversation: its head names it, and its tail the place.
pub(crate) fn shortened(message: &str) -> String {
    const HALF: usize = 200;
    if message.len() <= 2 * HALF {
        return message.to_owned();
    }
    let head = message.floor_char_boundary(HALF);
    let tail = message.ceil_char_boundary(message.len() - HALF);
    let part = |range| message.get(range).unwrap_or_default();
    format!("{}…{}", part(0..head), part(tail..message.len()))
}

fn storable(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

fn storable_json(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(storable(&text)),
        Value::Array(items) => items.into_iter().map(storable_json).collect(),
        Value::Object(map) => Value::Object(
            map.into_iter()
                .map(|(key, value)| (storable(&key), storable_json(value)))
                .collect(),
        ),
        plain @ (Value::Null | Value::Bool(_) | Value::Number(_)) => plain,
    }
}

fn one_fault(pointer: String, message: String) -> InvalidSession {
    InvalidSession {
        faults: vec![SessionFault { pointer, message }],
    }
}

fn pointer(path: &serde_path_to_error::Path) -> String {
    use serde_path_to_error::Segment;
    path.iter()
        .filter_map(|segment| match segment {
            Segment::Seq { index } => Some(format!("/{index}")),
            Segment::Map { key } => Some(format!("/{}", key.replace('~', "~0").replace('/', "~1"))),
            Segment::Enum { variant } => Some(format!("/{variant}")),
            Segment::Unknown => None,
        })
        .collect()
}

/// Adds "did you mean" to the parser's words on an unknown key, which list the keys there are in backticks.
fn explain(message: &str) -> String {
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    match quoted.split_first() {
        Some((unknown, known)) if message.starts_with("unknown field") => {
            let hint = hint(unknown, known.iter().copied());
            format!("unknown key {unknown}; {hint}")
        }
        // The derived reader's words for an id.
        _ if message.starts_with("UUID parsing failed") => {
            "is no UUID, such as 0190d3e8-1c2b-7d4e-8f90-1a2b3c4d5e6f; a session's id of another form goes into external_id".to_owned()
        }
        _ => message.to_owned(),
    }
}

#[cfg(test)]
mod tests;
