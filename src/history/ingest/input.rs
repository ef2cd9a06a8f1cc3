//! One session as a client sends it: the body's type and its checks.

use chrono::{DateTime, SubsecRound, Utc};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_path_to_error::{Path, Segment};
use uuid::Uuid;

use crate::clock::read_time;
use crate::score::session::Message;
use crate::score::{JsonError, hint, parse_json};
use crate::store::SessionRecord;
use crate::wire::{SessionStatus, UnknownText, words};

const MAX_CONVERSATION_BYTES: usize = 4 * 1024 * 1024;
const MAX_MESSAGES: usize = 20_000;
const MAX_ANALYSIS_BYTES: usize = 1024 * 1024;
const MAX_ROLE: usize = 64;
/// Characters of an alert type, agent, author, tool, stage or external id.
const MAX_NAME: usize = 255;
/// Characters of a tag.
const MAX_TAG: usize = 64;
const MAX_TAGS: usize = 100;
const MAX_TOOLS: usize = 1_000;
/// Levels of JSON, with the session as the first.
const MAX_DEPTH: usize = 64;
/// Errors reported of one session or one file.
pub(super) const MAX_FAULTS: usize = 20;

/// The body of `PUT /api/v1/sessions/{id}`, and one entry of a session file. Missing lists and null are empty.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionInput {
    /// The session's id. Required in a file, unless there is an `external_id`. In a request it must be the id of the path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<Uuid>,
    /// Id in the source system; at most 255 characters. In a file it may replace `session_id`, which is derived from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_id: Option<String>,
    /// Status: pending, in_progress, paused, canceling, cancelling, completed, failed, cancelled, timed_out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = SessionStatus, required = true)]
    pub status: Option<String>,
    /// Kind of alert; at most 255 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alert_type: Option<String>,
    /// Name of the agent; at most 255 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// User who started the session; at most 255 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// The alert or the task: an object or a string. Default: the first message of the role `user`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alert_data: Option<Value>,
    /// The investigation, oldest message first; at most 4 MiB of text. An empty one can't be scored.
    #[serde(default, deserialize_with = "null_is_default")]
    #[schema(value_type = Option<Vec<Message>>)]
    pub conversation: Vec<Message>,
    /// Conclusion of the agent; at most 1 MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub final_analysis: Option<String>,
    /// Tools available to the agent: at most 1,000 of at most 255 characters.
    #[serde(default, deserialize_with = "null_is_default")]
    #[schema(value_type = Option<Vec<String>>)]
    pub tools: Vec<String>,
    /// Labels: at most 100 of at most 64 characters.
    #[serde(default, deserialize_with = "null_is_default")]
    #[schema(value_type = Option<Vec<String>>)]
    pub tags: Vec<String>,
    /// Start, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<DateTime<Utc>>)]
    pub started_at: Option<String>,
    /// End, RFC 3339; not before the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<DateTime<Utc>>)]
    pub completed_at: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", within(&within(place, pointer), message))]
pub struct SessionFault {
    /// File and place in it: `line 3` of JSONL, `item 2` of an array (from 0, as in a JSON pointer); empty for a file of one object.
    pub place: String,
    /// JSON pointer into the session; empty for the session itself.
    pub pointer: String,
    /// The error and the expected value.
    pub message: String,
}

pub(super) type Faults = Vec<SessionFault>;

pub(super) fn fault(pointer: impl Into<String>, message: impl Into<String>) -> Faults {
    vec![SessionFault {
        place: String::new(),
        pointer: pointer.into(),
        message: message.into(),
    }]
}

/// A session that can't be stored, or a file with such a session.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", listed(faults))]
pub struct InvalidSession {
    /// All errors in the order of the fields: 1 to 20.
    pub faults: Faults,
}

impl From<Faults> for InvalidSession {
    fn from(faults: Faults) -> Self {
        Self { faults }
    }
}

fn listed(faults: &[SessionFault]) -> String {
    let is_file = faults.iter().any(|fault| !fault.place.is_empty());
    let faults: Vec<String> = faults.iter().map(SessionFault::to_string).collect();
    faults.join(if is_file { "\n" } else { "; " })
}

/// Returns all values, or all errors.
pub(super) fn all<T>(
    results: impl IntoIterator<Item = Result<T, Faults>>,
) -> Result<Vec<T>, Faults> {
    let (values, faults): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
    let faults = faults.into_iter().filter_map(Result::err);
    let faults: Faults = faults.flatten().collect();
    match faults.is_empty() {
        true => values.into_iter().collect(),
        false => Err(faults),
    }
}

/// Puts a place before the places of errors.
pub(super) fn placed(place: &str, mut faults: Faults) -> Faults {
    for fault in &mut faults {
        fault.place = within(place, &fault.place);
    }
    faults
}

/// Returns a place within another one; each may be empty.
pub(super) fn within(outer: &str, inner: &str) -> String {
    let parts = [outer, inner].into_iter();
    let parts: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
    parts.join(": ")
}

/// Returns the error for an unknown key, with the nearest known one.
pub(super) fn unknown_key<'k>(key: &str, known: impl Iterator<Item = &'k str> + Clone) -> String {
    format!("unknown key {key}; {}", hint(key, known))
}

pub(super) fn read_json(text: &str) -> Result<Value, Faults> {
    parse_json(text.as_bytes()).map_err(|error| match error {
        JsonError::RepeatedField { pointer, name } => {
            let message = format!("has the field {name} twice in one object: keep one");
            fault(pointer, message)
        }
        JsonError::Syntax(error) => no_json(&error),
    })
}

pub(super) fn no_json(error: &serde_json::Error) -> Faults {
    let message = words::json_fault(&error.to_string());
    fault("", format!("is not JSON: {message}"))
}

impl SessionInput {
    /// Reads one session from JSON text. Reports invalid JSON, wrong types and unknown keys with their pointer; [`Self::into_record`]
    /// checks the rest.
    pub fn from_json(text: &str) -> Result<Self, InvalidSession> {
        Ok(Self::from_value(read_json(text)?)?)
    }

    pub(super) fn from_value(value: Value) -> Result<Self, Faults> {
        // The derived reader also accepts an array with the fields in order.
        if !value.is_object() {
            let message = "is not JSON of a session; an object is expected";
            return Err(fault("", message));
        }
        serde_path_to_error::deserialize(value).map_err(|error| {
            let message = explain(&error.inner().to_string());
            fault(pointer(error.path()), shortened(&message))
        })
    }

    /// Checks the session and converts it into a record under `session_id`; `source` is `api`, `file` or `demo`.
    ///
    /// Trims names and drops blank ones and repeated tags and tools. So that equal sessions are equal records, NUL becomes U+FFFD, because
    /// Postgres rejects it, and times are truncated to microseconds.
    pub fn into_record(
        self,
        session_id: Uuid,
        source: &str,
    ) -> Result<SessionRecord, InvalidSession> {
        let mut checks = Checks::default();
        if self.session_id.is_some_and(|own| own != session_id) {
            let message = format!("differs from the id {session_id} that it is put under");
            checks.fault("/session_id", message);
        }
        let mut asked = self.conversation.iter().filter(|it| it.role == "user");
        let task = asked.find(|message| !message.content.trim().is_empty());
        let task = task.map(|message| Value::from(message.content.as_str()));
        let record = SessionRecord {
            session_id,
            source: source.to_owned(),
            external_id: checks.name("/external_id", self.external_id),
            status: checks.status(self.status.as_deref()),
            alert_type: checks.name("/alert_type", self.alert_type),
            agent: checks.name("/agent", self.agent),
            author: checks.name("/author", self.author),
            alert_data: checks.alert(self.alert_data.or(task)),
            conversation: checks.conversation(self.conversation),
            final_analysis: checks.analysis(self.final_analysis),
            tools: checks.labels("/tools", &self.tools, MAX_TOOLS, MAX_NAME),
            tags: checks.labels("/tags", &self.tags, MAX_TAGS, MAX_TAG),
            started_at: checks.time("/started_at", self.started_at.as_deref()),
            completed_at: checks.time("/completed_at", self.completed_at.as_deref()),
        };
        let times = record.started_at.zip(record.completed_at);
        if times.is_some_and(|(started, completed)| completed < started) {
            checks.fault("/completed_at", "is before started_at");
        }
        match checks.faults.is_empty() {
            true => Ok(record),
            false => Err(checks.faults.into()),
        }
    }
}

/// Converts fields into their stored form and collects their errors.
#[derive(Default)]
struct Checks {
    faults: Vec<SessionFault>,
}

impl Checks {
    fn fault(&mut self, pointer: &str, message: impl Into<String>) {
        self.faults.extend(fault(pointer, message));
        self.faults.truncate(MAX_FAULTS);
    }

    /// Returns whether a count is within its limit.
    fn at_most(&mut self, pointer: &str, count: usize, most: usize, unit: &str) -> bool {
        if count > most {
            let message = format!("holds {count} {unit}; at most {most} are allowed");
            self.fault(pointer, message);
        }
        count <= most
    }

    fn status(&mut self, status: Option<&str>) -> SessionStatus {
        let given = status.unwrap_or_default();
        given.parse().unwrap_or_else(|UnknownText { known, .. }| {
            let problem = match given {
                "" => "is missing",
                _ => "is not a status",
            };
            self.fault("/status", format!("{problem}; known: {known}"));
            SessionStatus::Pending
        })
    }

    fn text(&mut self, pointer: &str, text: &str, most: usize) -> String {
        let text = storable(text.trim());
        self.at_most(pointer, text.chars().count(), most, "characters");
        text
    }

    fn name(&mut self, pointer: &str, name: Option<String>) -> Option<String> {
        let name = self.text(pointer, &name?, MAX_NAME);
        Some(name).filter(|name| !name.is_empty())
    }

    fn alert(&mut self, alert: Option<Value>) -> Value {
        const EXPECTED: &str = "an object or a string is expected";
        let problem = match alert.unwrap_or_default() {
            // The session that contains the alert is the first level.
            alert @ (Value::Object(_) | Value::String(_)) if depth(&alert) < MAX_DEPTH => {
                return with_texts(&alert, &storable);
            }
            Value::Object(_) | Value::String(_) => {
                format!("is nested too deep; at most {MAX_DEPTH} levels of JSON are allowed")
            }
            Value::Null => format!(
                "is missing; {EXPECTED}, or a message of the role user, which stands for it"
            ),
            Value::Bool(_) => format!("is a boolean; {EXPECTED}"),
            Value::Number(_) => format!("is a number; {EXPECTED}"),
            Value::Array(_) => format!("is an array; {EXPECTED}"),
        };
        self.fault("/alert_data", problem);
        Value::Null
    }

    fn conversation(&mut self, messages: Vec<Message>) -> Vec<Message> {
        const POINTER: &str = "/conversation";
        let bytes = messages.iter().map(|message| message.content.len()).sum();
        self.at_most(POINTER, bytes, MAX_CONVERSATION_BYTES, "bytes of text");
        if !self.at_most(POINTER, messages.len(), MAX_MESSAGES, "messages") {
            return Vec::new();
        }
        let messages = messages.into_iter().enumerate();
        let messages = messages.map(|(n, it)| self.message(&format!("{POINTER}/{n}"), it));
        messages.collect()
    }

    fn message(&mut self, pointer: &str, message: Message) -> Message {
        let place = format!("{pointer}/role");
        let role = self.text(&place, &message.role, MAX_ROLE);
        if role.is_empty() {
            self.fault(&place, "is blank; user or assistant is expected");
        }
        self.time(&format!("{pointer}/at"), message.at.as_deref());
        Message {
            role,
            content: storable(&message.content),
            tool_name: self.name(&format!("{pointer}/tool_name"), message.tool_name),
            agent: self.name(&format!("{pointer}/agent"), message.agent),
            stage: self.name(&format!("{pointer}/stage"), message.stage),
            at: message.at,
        }
    }

    fn analysis(&mut self, analysis: Option<String>) -> Option<String> {
        let text = storable(&analysis?);
        self.at_most("/final_analysis", text.len(), MAX_ANALYSIS_BYTES, "bytes");
        Some(text).filter(|text| !text.trim().is_empty())
    }

    fn labels(&mut self, pointer: &str, labels: &[String], most: usize, max: usize) -> Vec<String> {
        let mut kept: Vec<String> = Vec::new();
        if !self.at_most(pointer, labels.len(), most, "entries") {
            return kept;
        }
        for (index, label) in labels.iter().enumerate() {
            let pointer = format!("{pointer}/{index}");
            let label = self.text(&pointer, label, max);
            if label.is_empty() {
                self.fault(&pointer, "is blank; remove it");
            } else if !kept.contains(&label) {
                kept.push(label);
            }
        }
        kept
    }

    fn time(&mut self, pointer: &str, time: Option<&str>) -> Option<DateTime<Utc>> {
        let time = read_time(time?).map_err(|fault| self.fault(pointer, fault));
        time.ok().map(|time| time.trunc_subsecs(6))
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

/// Keeps start and end of a parser's message, which may quote a complete conversation between them.
pub(crate) fn shortened(message: &str) -> String {
    const HALF: usize = 200;
    if message.len() <= 2 * HALF {
        return message.to_owned();
    }
    let (head, _) = message.split_at(message.floor_char_boundary(HALF));
    let (_, tail) = message.split_at(message.ceil_char_boundary(message.len() - HALF));
    format!("{head}…{tail}")
}

fn storable(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// Returns a value with each key and text converted.
pub(super) fn with_texts(value: &Value, convert: &impl Fn(&str) -> String) -> Value {
    let within = |value| with_texts(value, convert);
    match value {
        Value::String(text) => convert(text).into(),
        Value::Array(items) => items.iter().map(within).collect(),
        Value::Object(map) => map.iter().map(|(k, v)| (convert(k), within(v))).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// Returns a path as a JSON pointer (RFC 6901).
pub(crate) fn pointer(path: &Path) -> String {
    let segment = |segment: &Segment| match segment {
        Segment::Seq { index } => format!("/{index}"),
        Segment::Map { key } => format!("/{}", key.replace('~', "~0").replace('/', "~1")),
        Segment::Enum { .. } | Segment::Unknown => String::new(),
    };
    path.iter().map(segment).collect()
}

/// Adds the remedy to the parser's message on an unknown key, which lists the known ones in backticks, and on an id.
fn explain(message: &str) -> String {
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    match quoted.split_first() {
        Some((unknown, known)) if message.starts_with("unknown field") => {
            // A session's messages may also be in the form of another tool.
            let messages = known.contains(&"conversation").then_some("messages");
            unknown_key(unknown, known.iter().copied().chain(messages))
        }
        _ if message.starts_with("UUID parsing failed") => {
            "is no UUID, such as 0190d3e8-1c2b-7d4e-8f90-1a2b3c4d5e6f; a session's id of another form goes into external_id".to_owned()
        }
        _ => message.to_owned(),
    }
}

#[cfg(test)]
mod tests;
