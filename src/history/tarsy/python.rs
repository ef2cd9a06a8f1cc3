//! Older generation: `/api/v1/history`, times in microseconds, the conversation as seen by its model.
//!
//! An unfinished session has nulls, and every field may be missing.

use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::Value;
use uuid::Uuid;

use super::http::Http;
use super::{
    ListFilter, ListPage, Listed, PAGE_SIZE, Pagination, TarsyError, TarsySession, about, add_tool,
    as_text, available_tool, read, status_of,
};
use crate::history::ingest::SessionInput;
use crate::score::session::Message;

/// List that only this generation has.
pub(super) const PROBE: &str = "/api/v1/history/sessions?page=1&page_size=1";
/// Maximum nesting of stages.
const STAGES_DEEP: u32 = 8;

#[derive(Deserialize)]
struct List {
    sessions: Vec<Overview>,
    #[serde(default)]
    pagination: Pagination,
}

#[derive(Deserialize)]
struct Overview {
    session_id: String,
    #[serde(default)]
    status: Option<String>,
    #[serde(default)]
    started_at_us: Option<i64>,
    #[serde(default)]
    completed_at_us: Option<i64>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Detail {
    session_id: Option<String>,
    status: Option<String>,
    alert_type: Option<String>,
    agent_type: Option<String>,
    author: Option<String>,
    alert_data: Option<Value>,
    final_analysis: Option<String>,
    started_at_us: Option<i64>,
    completed_at_us: Option<i64>,
    stages: Option<Vec<Stage>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Stage {
    mcp_communications: Option<Vec<Communication>>,
    parallel_executions: Option<Vec<Stage>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Communication {
    details: Option<CommunicationDetails>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct CommunicationDetails {
    server_name: Option<String>,
    tool_name: Option<String>,
    available_tools: Option<Value>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct FinalAnalysis {
    session_id: Option<String>,
    status: Option<String>,
    final_analysis: Option<String>,
    llm_conversation: Option<Conversation>,
    chat_conversation: Option<Conversation>,
    alert_data: Option<Value>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Conversation {
    messages: Option<Vec<WireMessage>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireMessage {
    role: Option<String>,
    content: Value,
}

pub(super) fn list_path(window: &ListFilter, page: u32) -> String {
    // The end is inclusive and must be after the start, so one microsecond is added.
    let mut path = format!(
        "/api/v1/history/sessions?page={page}&page_size={PAGE_SIZE}&end_date_us={}",
        window.until.timestamp_micros()
    );
    if let Some(since) = window.since {
        path.push_str(&format!("&start_date_us={}", since.timestamp_micros()));
    }
    for status in &window.statuses {
        path.push_str(&format!("&status={status}"));
    }
    path
}

pub(super) fn list_page(text: &str) -> Result<ListPage, serde_json::Error> {
    let list: List = serde_json::from_str(text)?;
    let items = list.sessions.into_iter().map(|session| Listed {
        id: session.session_id,
        status: status_of(session.status.as_deref()),
        began_at: session.started_at_us.and_then(time),
        completed_at: session.completed_at_us.and_then(time),
        quality: None,
    });
    Ok(ListPage {
        items: items.collect(),
        total_pages: list.pagination.total_pages,
        total_items: list.pagination.total_items,
    })
}

pub(super) async fn session(http: &Http, id: Uuid) -> Result<TarsySession, TarsyError> {
    let detail = http.get(&format!("/api/v1/history/sessions/{id}")).await?;
    let analysis = http
        .get(&format!(
            "/api/v1/history/sessions/{id}/final-analysis?include_conversation=true&include_chat_conversation=true"
        ))
        .await?;
    let detail: Detail = read(&detail, "the details", id)?;
    let analysis: FinalAnalysis = read(&analysis, "the final analysis", id)?;
    about(id, detail.session_id.as_deref())?;
    about(id, analysis.session_id.as_deref())?;
    Ok(TarsySession {
        input: input(id, detail, analysis),
        quality: None,
    })
}

fn input(id: Uuid, detail: Detail, analysis: FinalAnalysis) -> SessionInput {
    let mut tools = Vec::new();
    collect_tools(&detail.stages.unwrap_or_default(), &mut tools, STAGES_DEEP);
    // The final analysis is requested last, so its status is newer.
    let status = analysis.status.or(detail.status);
    let ended = status_of(status.as_deref()).is_some_and(crate::wire::SessionStatus::is_terminal);
    let given = |alert: Option<Value>| alert.filter(|alert| !alert.is_null());
    let alert_data = given(analysis.alert_data).or(given(detail.alert_data));
    SessionInput {
        session_id: Some(id),
        external_id: None,
        status,
        alert_type: detail.alert_type,
        agent: detail.agent_type,
        author: detail.author,
        // An unfinished session may have no alert yet.
        alert_data: alert_data.or_else(|| (!ended).then(|| Value::Object(Default::default()))),
        conversation: [analysis.llm_conversation, analysis.chat_conversation]
            .into_iter()
            .flatten()
            .flat_map(|conversation| conversation.messages.unwrap_or_default())
            .map(message)
            .collect(),
        final_analysis: analysis.final_analysis.or(detail.final_analysis),
        tools,
        tags: Vec::new(),
        started_at: detail
            .started_at_us
            .and_then(time)
            .map(|at| at.to_rfc3339()),
        completed_at: detail
            .completed_at_us
            .and_then(time)
            .map(|at| at.to_rfc3339()),
    }
}

fn message(message: WireMessage) -> Message {
    Message {
        role: message
            .role
            .filter(|role| !role.trim().is_empty())
            .unwrap_or_else(|| "assistant".to_owned()),
        content: as_text(message.content),
        ..Message::default()
    }
}

/// Collects the tools named in stages: listed by servers or called.
fn collect_tools(stages: &[Stage], tools: &mut Vec<String>, deep: u32) {
    for stage in stages {
        for communication in stage.mcp_communications.iter().flatten() {
            let Some(details) = &communication.details else {
                continue;
            };
            let server = details.server_name.as_deref();
            add_tool(tools, server, details.tool_name.as_deref());
            match &details.available_tools {
                Some(Value::Object(servers)) => {
                    for (server, listed) in servers {
                        for tool in listed.as_array().into_iter().flatten() {
                            add_tool(tools, Some(server), available_tool(tool));
                        }
                    }
                }
                Some(Value::Array(listed)) => {
                    for tool in listed {
                        add_tool(tools, server, available_tool(tool));
                    }
                }
                Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) | None => {
                }
            }
        }
        if let (Some(inner), Some(deep)) = (&stage.parallel_executions, deep.checked_sub(1)) {
            collect_tools(inner, tools, deep);
        }
    }
}

fn time(us: i64) -> Option<DateTime<Utc>> {
    DateTime::from_timestamp_micros(us)
}

#[cfg(test)]
mod tests;
