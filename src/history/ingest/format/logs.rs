//! Session files of coding agents with one record per line: Claude Code and Codex.

use std::collections::HashSet;

use serde_json::Value;

use super::field::{first, grouped, is_one_of, moment, rfc3339, text};
use super::parts::read_message;
use super::shown::shown;
use super::transcript::{Item, ItemKind};
use super::{Document, Found, failure};
use crate::history::ingest::input::{Faults, SessionInput, fault, placed};
use crate::wire::SessionFormat;

/// Types of records about the program, and of records that repeat other records.
const BOOKKEEPING: &str = "queue-operation file-history-snapshot summary progress last-prompt custom-title ai-title agent-name \
    permission-mode mode pr-link turn_context token_count task_started task_complete turn_started turn_complete user_message \
    agent_message agent_reasoning agent_reasoning_raw_content agent_reasoning_section_break thread_settings_applied world_state \
    token_usage_record item_started item_updated item_completed";

const CODEX: &str =
    "session_meta response_item event_msg turn_context compacted world_state token_usage_record";

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

/// Reads the records of one file: one session of Codex, or a session for each `sessionId` of Claude Code.
pub(super) fn read(format: SessionFormat, documents: Vec<Document>) -> Result<Vec<Found>, Faults> {
    let (mut id, mut named) = (None, Vec::new());
    for Document { place, value } in documents {
        if !value["type"].is_string() {
            let message = format!("is missing; a record of {format} is expected");
            return Err(placed(&place, fault("/type", message)));
        }
        // Some records have no id.
        id = text(&value, "sessionId").or(id);
        named.push((id.clone(), (place, value)));
    }
    let logs = grouped(named).into_iter();
    let sessions = logs.map(|(id, records)| session(format, id, records));
    Ok(sessions.filter(|it| !it.items.is_empty()).collect())
}

fn session(format: SessionFormat, id: Option<String>, records: Vec<(String, Value)>) -> Found {
    let (mut items, mut times, mut known) = (Vec::new(), Vec::new(), HashSet::new());
    let (mut meta, mut question) = (&Value::Null, None);
    for (_, record) in &records {
        // A resumed session repeats its records.
        if text(record, "uuid").is_some_and(|id| !known.insert(id)) {
            continue;
        }
        times.extend(moment(&record["timestamp"]));
        if record["type"] == "session_meta" {
            meta = &record["payload"];
            let instructions = "/base_instructions/text /base_instructions /instructions";
            items.extend(text(meta, instructions).map(|text| Item::text("system", text)));
            continue;
        }
        question = question.or_else(|| question_of(record));
        items.extend(record_items(record));
    }
    let place = records.first().map(|(place, _)| place.clone());
    Found {
        place: place.unwrap_or_default(),
        id: text(meta, "id").or(id),
        items,
        session: SessionInput {
            started_at: times.iter().min().copied().map(rfc3339),
            completed_at: times.iter().max().copied().map(rfc3339),
            agent: text(meta, "originator").or_else(|| Some(format.to_string())),
            alert_data: question.map(Value::from),
            ..SessionInput::default()
        },
    }
}

/// Returns the user's question if the record separates it from the instructions that the program sends as the user.
fn question_of(record: &Value) -> Option<String> {
    let payload = &record["payload"];
    let question = match payload["type"].as_str() {
        _ if payload["item"]["type"] == "UserMessage" => shown(&payload["item"]["content"]),
        Some("user_message") => shown(&payload["message"]),
        _ => String::new(),
    };
    Some(question).filter(|question| !question.is_empty())
}

fn record_items(record: &Value) -> Vec<Item> {
    let body = first(record, "payload").unwrap_or(record);
    let kinds = [&record["type"], &body["type"]].map(|kind| kind.as_str().unwrap_or_default());
    if kinds.iter().any(|kind| is_one_of(kind, BOOKKEEPING)) {
        return Vec::new();
    }
    let read = match kinds[0] {
        "response_item" => read_message(body, "assistant"),
        "user" | "assistant" => read_message(&record["message"], "assistant"),
        "system" => text(record, "content").map(|text| vec![Item::text("system", text)]),
        _ => None,
    };
    let kind = text(body, "type").unwrap_or_else(|| kinds[0].to_owned());
    let mut items = read.unwrap_or_else(|| vec![Item::text("system", format!("{kind}: {body}"))]);
    let side = record["isSidechain"] == true;
    // Written by the program in the name of the agent, if a request of the model failed.
    let is_error =
        record["isApiErrorMessage"] == true || record["message"]["model"] == "<synthetic>";
    for item in &mut items {
        if item.kind == ItemKind::Text && is_error {
            *item = failure(&item.text);
        } else if item.kind == ItemKind::Text && record["isMeta"] == true {
            "system".clone_into(&mut item.role);
        }
        item.at = moment(&record["timestamp"]);
        let agent = || text(record, "agentId").unwrap_or_else(|| "subagent".to_owned());
        item.agent = side.then(agent);
    }
    items
}
