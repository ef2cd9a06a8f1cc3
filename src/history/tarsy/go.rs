//! Newer generation: `/api/v1/sessions`, RFC 3339 times, the investigation as a timeline of events.
//!
//! Events become messages, ordered by stage, because their numbers restart with each agent. Each message names its agent and stage. Output
//! of the TARSy's judge is omitted, because it would bias Gavel's. Unknown kinds of events are stored with their names. Every field may be
//! missing, and so may the trace; then the tools are the called ones.

mod chain;

use chrono::{DateTime, SecondsFormat, Utc};
use serde::Deserialize;
use serde_json::Value;
use uuid::Uuid;

use self::chain::{Chain, is_repeated};
use super::http::Http;
use super::{
    ListFilter, ListPage, Listed, PAGE_SIZE, Pagination, TarsyError, TarsySession, about, add_tool,
    available_tool, read, status_of, tool_name,
};
use crate::history::ingest::{SessionInput, THINKING, tool_text};
use crate::score::session::Message;
use crate::wire::Quality;

/// List that only this generation has.
pub(super) const PROBE: &str = "/api/v1/sessions?page=1&page_size=1";
/// Maximum tool lists read per session, one per server.
const TOOL_LISTS: usize = 8;
/// Maximum nesting of agents.
const AGENTS_DEEP: u32 = 8;

#[derive(Deserialize)]
struct List {
    sessions: Vec<Overview>,
    #[serde(default)]
    pagination: Pagination,
}

#[derive(Deserialize)]
struct Overview {
    id: String,
    #[serde(default)]
    status: Option<String>,
    #[serde(default)]
    created_at: Option<String>,
    #[serde(default)]
    completed_at: Option<String>,
    #[serde(default)]
    quality_rating: Option<Value>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Detail {
    id: Option<String>,
    status: Option<String>,
    alert_data: Option<Value>,
    alert_type: Option<String>,
    chain_id: Option<String>,
    author: Option<String>,
    final_analysis: Option<String>,
    created_at: Option<String>,
    started_at: Option<String>,
    completed_at: Option<String>,
    stages: Option<Vec<Stage>>,
    quality_rating: Option<Value>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Stage {
    id: Option<String>,
    stage_name: Option<String>,
    stage_index: Option<i64>,
    stage_type: Option<String>,
    executions: Option<Vec<Execution>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Execution {
    execution_id: Option<String>,
    agent_name: Option<String>,
    sub_agents: Option<Vec<Execution>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Event {
    stage_id: Option<String>,
    execution_id: Option<String>,
    sequence_number: Option<i64>,
    event_type: Option<String>,
    content: Option<String>,
    metadata: Option<Value>,
    created_at: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Trace {
    stages: Option<Vec<TraceStage>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct TraceStage {
    executions: Option<Vec<TraceExecution>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct TraceExecution {
    mcp_interactions: Option<Vec<Interaction>>,
    sub_agents: Option<Vec<TraceExecution>>,
}

#[derive(Deserialize, Default, Clone)]
#[serde(default)]
struct Interaction {
    id: Option<String>,
    interaction_type: Option<String>,
    server_name: Option<String>,
    tool_name: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct InteractionDetail {
    server_name: Option<String>,
    available_tools: Option<Vec<Value>>,
}

pub(super) fn list_path(window: &ListFilter, page: u32) -> String {
    let time = |at: DateTime<Utc>| at.to_rfc3339_opts(SecondsFormat::Micros, true);
    let mut path = format!(
        "/api/v1/sessions?page={page}&page_size={PAGE_SIZE}&sort_by=created_at&sort_order=desc&end_date={}",
        time(window.until)
    );
    if let Some(since) = window.since {
        path.push_str(&format!("&start_date={}", time(since)));
    }
    if !window.statuses.is_empty() {
        let names: Vec<&str> = window.statuses.iter().map(|s| s.as_str()).collect();
        path.push_str(&format!("&status={}", names.join(",")));
    }
    path
}

pub(super) fn list_page(text: &str) -> Result<ListPage, serde_json::Error> {
    let list: List = serde_json::from_str(text)?;
    let items = list.sessions.into_iter().map(|session| Listed {
        id: session.id,
        status: status_of(session.status.as_deref()),
        began_at: session.created_at.as_deref().and_then(time),
        completed_at: session.completed_at.as_deref().and_then(time),
        quality: quality(session.quality_rating.as_ref()),
    });
    Ok(ListPage {
        items: items.collect(),
        total_pages: list.pagination.total_pages,
        total_items: list.pagination.total_items,
    })
}

pub(super) async fn session(http: &Http, id: Uuid) -> Result<TarsySession, TarsyError> {
    // The timeline is read last. If the session ends between the requests, the timeline is at least as complete as the details.
    let detail = http.get(&format!("/api/v1/sessions/{id}")).await?;
    let detail: Detail = read(&detail, "the details", id)?;
    about(id, detail.id.as_deref())?;
    let timeline = match http.get(&format!("/api/v1/sessions/{id}/timeline")).await {
        Ok(text) => text,
        Err(TarsyError::Missing(_)) => "[]".to_owned(),
        Err(error) => return Err(error),
    };
    let events: Option<Vec<Event>> = read(&timeline, "the timeline", id)?;
    let tools = tools(http, id).await?;
    Ok(TarsySession {
        quality: quality(detail.quality_rating.as_ref()),
        input: input(id, detail, events.unwrap_or_default(), tools),
    })
}

/// Returns a reviewer's rating of the session; `None` for an unknown value.
fn quality(word: Option<&Value>) -> Option<Quality> {
    word?.as_str()?.parse().ok()
}

/// Returns the tools in the trace: listed by servers or called.
async fn tools(http: &Http, id: Uuid) -> Result<Vec<String>, TarsyError> {
    let text = match http.get(&format!("/api/v1/sessions/{id}/trace")).await {
        Ok(text) => text,
        Err(TarsyError::Missing(_)) => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let trace: Trace = read(&text, "the trace", id)?;
    let mut interactions = Vec::new();
    for stage in trace.stages.unwrap_or_default() {
        collect(
            &stage.executions.unwrap_or_default(),
            &mut interactions,
            AGENTS_DEEP,
        );
    }
    let mut tools = Vec::new();
    let mut asked: Vec<Option<String>> = Vec::new();
    for interaction in &interactions {
        add_tool(
            &mut tools,
            interaction.server_name.as_deref(),
            interaction.tool_name.as_deref(),
        );
        let lists = interaction.interaction_type.as_deref() == Some("tool_list");
        if !lists || asked.len() >= TOOL_LISTS || asked.contains(&interaction.server_name) {
            continue;
        }
        let Some(interaction_id) = interaction.id.as_deref().filter(|id| is_plain(id)) else {
            continue;
        };
        asked.push(interaction.server_name.clone());
        let path = format!("/api/v1/sessions/{id}/trace/mcp/{interaction_id}");
        let listed = match http.get(&path).await {
            Ok(text) => read::<InteractionDetail>(&text, "a list of tools", id)?,
            Err(TarsyError::Missing(_)) => continue,
            Err(error) => return Err(error),
        };
        let server = listed
            .server_name
            .or_else(|| interaction.server_name.clone());
        for tool in listed.available_tools.iter().flatten() {
            add_tool(&mut tools, server.as_deref(), available_tool(tool));
        }
    }
    Ok(tools)
}

fn collect(executions: &[TraceExecution], into: &mut Vec<Interaction>, deep: u32) {
    for execution in executions {
        into.extend(execution.mcp_interactions.iter().flatten().cloned());
        if let (Some(inner), Some(deep)) = (&execution.sub_agents, deep.checked_sub(1)) {
            collect(inner, into, deep);
        }
    }
}

/// Returns whether an id needs no escaping in a path.
fn is_plain(id: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    (1..=128).contains(&id.len()) && id.chars().all(plain)
}

fn input(id: Uuid, detail: Detail, events: Vec<Event>, mut tools: Vec<String>) -> SessionInput {
    let chain = Chain::new(detail.stages.as_deref().unwrap_or_default());
    let events = chain.in_order(events);
    if tools.is_empty() {
        for call in events.iter().filter(|event| kind(event) == "llm_tool_call") {
            add_tool(
                &mut tools,
                field(call, "server_name"),
                field(call, "tool_name"),
            );
        }
    }
    let concluded = events
        .iter()
        .rev()
        .find(|event| kind(event) == "final_analysis" && chain.concludes(event));
    let final_analysis = detail
        .final_analysis
        .clone()
        .filter(|text| !text.trim().is_empty())
        .or_else(|| concluded.and_then(|event| event.content.clone()));
    let conversation = events
        .iter()
        .filter(|event| !is_repeated(event, &events))
        .filter_map(|event| chain.message(event, final_analysis.as_deref()))
        .collect();
    SessionInput {
        session_id: Some(id),
        external_id: None,
        agent: chain.first_agent.map(str::to_owned).or(detail.chain_id),
        status: detail.status,
        alert_type: detail.alert_type,
        author: detail.author,
        alert_data: detail.alert_data.map(alert),
        conversation,
        final_analysis,
        tools,
        tags: Vec::new(),
        started_at: detail.started_at.or(detail.created_at),
        completed_at: detail.completed_at,
    }
}

/// Parses a text that contains a JSON object.
fn alert(alert: Value) -> Value {
    let Value::String(text) = &alert else {
        return alert;
    };
    match serde_json::from_str(text) {
        Ok(object @ Value::Object(_)) => object,
        Ok(_) | Err(_) => alert,
    }
}

fn kind(event: &Event) -> &str {
    event.event_type.as_deref().unwrap_or_default()
}

fn field<'a>(event: &'a Event, name: &str) -> Option<&'a str> {
    event.metadata.as_ref()?.get(name)?.as_str()
}

/// Returns the message of an event, or `None` if it is empty or repeats the conclusion.
fn message(event: &Event, final_analysis: Option<&str>) -> Option<Message> {
    let content = event.content.as_deref().unwrap_or_default();
    let called = || {
        let name = |of| field(event, of).map(str::to_owned);
        tool_name(name("server_name"), name("tool_name"))
    };
    let (role, content, tool_name) = match kind(event) {
        "llm_tool_call" => ("tool", tool_call(event, content), called()),
        _ if content.trim().is_empty() => return None,
        "final_analysis" | "executive_summary"
            if final_analysis.is_some_and(|text| text.trim() == content.trim()) =>
        {
            return None;
        }
        "llm_thinking" => (THINKING, content.to_owned(), None),
        "llm_response" | "final_analysis" | "executive_summary" => {
            ("assistant", content.to_owned(), None)
        }
        "mcp_tool_summary" => (
            "tool",
            format!("Summary of the result:\n{content}"),
            called(),
        ),
        "user_question" => ("user", content.to_owned(), None),
        "" => ("assistant", content.to_owned(), None),
        other => (other, content.to_owned(), None),
    };
    Some(Message {
        role: role.chars().take(64).collect(),
        content,
        tool_name,
        at: event
            .created_at
            .clone()
            .filter(|at| DateTime::parse_from_rfc3339(at).is_ok()),
        ..Message::default()
    })
}

fn tool_call(event: &Event, content: &str) -> String {
    let metadata = event.metadata.as_ref();
    let failed = metadata.is_some_and(|metadata| metadata["is_error"] == true);
    let arguments = metadata.and_then(|metadata| metadata.get("arguments"));
    tool_text(arguments, Some((content, failed)))
}

fn time(text: &str) -> Option<DateTime<Utc>> {
    let at = DateTime::parse_from_rfc3339(text).ok()?;
    Some(at.with_timezone(&Utc))
}

#[cfg(test)]
mod tests;
