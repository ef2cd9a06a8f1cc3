//! Session files of coding agents, a record a line: Claude Code and Codex.

use std::collections::HashSet;

use serde_json::Value;

use super::field::{is_one_of, moment, rfc3339, text};
use super::parts::read_message;
use super::shown::shown;
use super::transcript::{Entry, Item, conversation};
use super::{Document, Placed, entry, fault, identify};
use crate::history::ingest::file::FileFault;
use crate::history::ingest::input::SessionInput;
use crate::wire::{SessionFormat, SessionStatus};

/// Types of records about the program, and of records that repeat others.
const BOOKKEEPING: &str = "queue-operation file-history-snapshot summary progress last-prompt custom-title ai-title agent-name \
    permission-mode mode pr-link turn_context token_count task_started task_complete turn_started turn_complete user_message \
    agent_message agent_reasoning agent_reasoning_raw_content agent_reasoning_section_break thread_settings_applied world_state \
    token_usage_record item_started item_updated item_completed";

/// Types of records of Codex.
const CODEX: &str =
    "session_meta response_item event_msg turn_context compacted world_state token_usage_record";

/// Returns the format of a record of such a file.
pub(super) fn format_of(record: &Value) -> Option<SessionFormat> {
    let kind = record["type"].as_str()?;
    let is_entry = record["message"].is_object() || record.get("parentUuid").is_some();
    if record["sessionId"].is_string() && (is_entry || is_one_of(kind, BOOKKEEPING)) {
        Some(SessionFormat::ClaudeCode)
    } else if record["payload"].is_object() && is_one_of(kind, CODEX) {
        Some(SessionFormat::Codex)
    } else {
        None
    }
}

/// Reads the records of one file: a session of Codex, or each `sessionId` of Claude Code.
pub(super) fn read(
    format: SessionFormat,
    documents: &[Document],
) -> Result<Vec<Placed>, Vec<FileFault>> {
    let mut logs: Vec<Log> = Vec::new();
    for document in documents {
        let record = &document.value;
        if format_of(record) != Some(format) && !record["type"].is_string() {
            return Err(vec![FileFault {
                place: document.place.clone(),
                fault: fault(
                    "/type",
                    format!("is missing; a record of {format} is expected"),
                ),
            }]);
        }
        let id = text(record, "sessionId");
        let at = logs.iter().position(|log| log.id == id || id.is_none());
        let log = match at.and_then(|at| logs.get_mut(at)) {
            Some(log) => log,
            None => {
                logs.push(Log::new(id, &document.place));
                let last = logs.len() - 1;
                &mut logs[last]
            }
        };
        log.add(record);
    }
    let sessions = logs.into_iter().filter(|log| !log.entries.is_empty());
    Ok(sessions.map(|log| log.session(format)).collect())
}

struct Log {
    id: Option<String>,
    place: String,
    records: HashSet<String>,
    entries: Vec<Entry>,
    times: Vec<chrono::DateTime<chrono::Utc>>,
    agent: Option<String>,
    /// The user's question, where the log separates it from instructions that the program sends in the user's name.
    question: Option<Value>,
}

impl Log {
    fn new(id: Option<String>, place: &str) -> Self {
        Self {
            id,
            place: place.to_owned(),
            records: HashSet::new(),
            entries: Vec::new(),
            times: Vec::new(),
            agent: None,
            question: None,
        }
    }

    fn add(&mut self, record: &Value) {
        // A resumed session repeats its records.
        if text(record, "uuid").is_some_and(|id| !self.records.insert(id)) {
            return;
        }
        self.times.extend(moment(&record["timestamp"]));
        let at = moment(&record["timestamp"]).map(rfc3339);
        let payload = &record["payload"];
        if record["type"] == "session_meta" {
            self.id = text(payload, "id");
            self.agent = text(payload, "originator");
            let instructions = [&payload["base_instructions"], &payload["instructions"]];
            let instructions = instructions
                .iter()
                .find_map(|it| it["text"].as_str().or(it.as_str()));
            self.entries
                .extend(instructions.map(|text| system(text.to_owned())));
            return;
        }
        let body = if payload.is_object() { payload } else { record };
        if self.question.is_none() && record["type"] == "event_msg" {
            let item = Some(&payload["item"]).filter(|item| item["type"] == "UserMessage");
            let message = Some(&payload["message"]).filter(|_| payload["type"] == "user_message");
            let said = item.map(|item| &item["content"]).or(message).map(shown);
            self.question = said.filter(|said| !said.is_empty()).map(Value::from);
        }
        let kinds = [&record["type"], &body["type"]].map(|kind| kind.as_str().unwrap_or_default());
        let read = match record["type"].as_str() {
            _ if kinds.iter().any(|kind| is_one_of(kind, BOOKKEEPING)) => return,
            Some("response_item") => read_message(payload, "assistant"),
            Some("user" | "assistant") => read_message(&record["message"], "assistant"),
            Some("system") => text(record, "content").map(|text| vec![system(text)]),
            _ => None,
        };
        let kept = || {
            vec![system(format!(
                "{}: {body}",
                if kinds[1].is_empty() {
                    kinds[0]
                } else {
                    kinds[1]
                }
            ))]
        };
        let side = record["isSidechain"] == true;
        let agent = side.then(|| text(record, "agentId").unwrap_or_else(|| "subagent".to_owned()));
        for mut entry in read.unwrap_or_else(kept) {
            if let Item::Text { role, .. } = &mut entry.item
                && record["isMeta"] == true
            {
                "system".clone_into(role);
            }
            entry.at = at.clone();
            entry.agent = agent.clone();
            self.entries.push(entry);
        }
    }

    fn session(self, format: SessionFormat) -> Placed {
        let (conversation, final_analysis) = conversation(self.entries);
        let mut session = SessionInput {
            status: Some(SessionStatus::Completed.as_str().to_owned()),
            agent: self.agent.or_else(|| Some(format.to_string())),
            started_at: self.times.iter().min().copied().map(rfc3339),
            completed_at: self.times.iter().max().copied().map(rfc3339),
            alert_data: self.question,
            conversation,
            final_analysis,
            ..SessionInput::default()
        };
        let content = serde_json::json!(session.conversation);
        identify(&mut session, format, self.id, &content);
        (self.place, session)
    }
}

fn system(text: String) -> Entry {
    entry(Item::Text {
        role: "system".to_owned(),
        text,
    })
}
