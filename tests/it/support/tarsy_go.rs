//! Fake TARSy of the newer generation.

use chrono::{DateTime, SecondsFormat};
use serde_json::{Value, json};

use super::tarsy::{ApiRequest, FakeSession, TarsyServer, page};

const ROOT: &str = "/api/v1/sessions";

pub(crate) async fn start(sessions: Vec<FakeSession>) -> TarsyServer {
    TarsyServer::start(answer, sessions).await
}

fn answer(sessions: &[FakeSession], asked: &ApiRequest) -> Option<Value> {
    let rest = asked.path.strip_prefix(ROOT)?;
    if rest.is_empty() {
        let end = |name| {
            let text = asked.param(name)?;
            Some(
                DateTime::parse_from_rfc3339(text)
                    .unwrap()
                    .timestamp_micros(),
            )
        };
        let (start, end) = (end("start_date"), end("end_date"));
        let fits = |kept: &FakeSession| {
            start.is_none_or(|start| kept.began_us >= start)
                && end.is_none_or(|end| kept.began_us < end)
        };
        return Some(page(sessions, asked, fits, overview));
    }
    let (id, part) = rest
        .strip_prefix('/')?
        .split_once('/')
        .unwrap_or((&rest[1..], ""));
    let kept = sessions.iter().find(|kept| kept.id == id)?;
    match part {
        "" => Some(detail(kept)),
        "timeline" => Some(timeline(kept)),
        "trace" => Some(json!({
            "stages": [{"stage_id": "s1", "executions": [{
                "execution_id": "e1", "agent_name": "KubernetesAgent", "llm_interactions": [],
                "mcp_interactions": [
                    {"id": "list-1", "interaction_type": "tool_list", "server_name": "kubernetes"},
                    {"id": "call-1", "interaction_type": "tool_call", "server_name": "kubernetes", "tool_name": "pods_log"},
                ],
            }]}],
            "session_interactions": [],
        })),
        "trace/mcp/list-1" => Some(json!({
            "id": "list-1", "interaction_type": "tool_list", "server_name": "kubernetes",
            "available_tools": [{"name": "pods_list"}, {"name": "pods_log"}],
        })),
        _ => None,
    }
}

fn time(us: i64) -> String {
    let at = DateTime::from_timestamp_micros(us).unwrap();
    at.to_rfc3339_opts(SecondsFormat::AutoSi, true)
}

fn overview(kept: &FakeSession) -> Value {
    json!({
        "id": kept.id, "alert_type": "PodCrashLooping", "chain_id": "kubernetes", "status": kept.status,
        "author": "alice", "created_at": time(kept.began_us), "started_at": time(kept.began_us),
        "completed_at": kept.completed_us.map(time), "duration_ms": 30_000, "latest_score": null,
        "quality_rating": kept.quality,
    })
}

fn detail(kept: &FakeSession) -> Value {
    let mut detail = overview(kept);
    detail["alert_data"] = json!(json!({"pod": kept.text}).to_string());
    detail["final_analysis"] = match kept.completed_us {
        Some(_) => json!(format!("{} ran out of memory.", kept.text)),
        None => Value::Null,
    };
    detail["runbook_url"] = json!("https://runbooks.example.com/pod");
    detail["stages"] = json!([{"id": "s1", "stage_name": "analysis", "executions": [
        {"execution_id": "e1", "agent_name": "KubernetesAgent", "status": kept.status}]}]);
    detail
}

fn timeline(kept: &FakeSession) -> Value {
    let mut events = vec![json!({
        "id": "t1", "sequence_number": 1, "event_type": "llm_thinking", "status": "completed",
        "content": format!("Where is {}?", kept.text), "metadata": {}, "created_at": time(kept.began_us),
    })];
    if kept.completed_us.is_some() {
        events.push(json!({
            "id": "t2", "sequence_number": 2, "event_type": "llm_tool_call", "status": "completed",
            "content": "OOMKilled", "created_at": time(kept.began_us + 1),
            "metadata": {"server_name": "kubernetes", "tool_name": "pods_log", "arguments": {"pod": "a"}, "is_error": false},
        }));
        events.push(json!({
            "id": "t3", "sequence_number": 3, "event_type": "final_analysis", "status": "completed",
            "content": format!("{} ran out of memory.", kept.text), "metadata": null,
        }));
    }
    json!(events)
}
