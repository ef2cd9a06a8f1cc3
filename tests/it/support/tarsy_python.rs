//! Fake TARSy of the older generation.

use serde_json::{Value, json};

use super::tarsy::{ApiRequest, FakeSession, TarsyServer, page};

const ROOT: &str = "/api/v1/history/sessions";

pub(crate) async fn start(sessions: Vec<FakeSession>) -> TarsyServer {
    TarsyServer::start(answer, sessions).await
}

fn answer(sessions: &[FakeSession], asked: &ApiRequest) -> Option<Value> {
    let rest = asked.path.strip_prefix(ROOT)?;
    if rest.is_empty() {
        let end = |name| asked.param(name).map(|us| us.parse::<i64>().unwrap());
        let (start, end) = (end("start_date_us"), end("end_date_us"));
        let fits = |kept: &FakeSession| {
            start.is_none_or(|start| kept.began_us >= start)
                && end.is_none_or(|end| kept.began_us <= end)
        };
        return Some(page(sessions, asked, fits, overview));
    }
    let id = rest.strip_prefix('/')?;
    let find = |id: &str| sessions.iter().find(|kept| kept.id == id);
    if let Some(id) = id.strip_suffix("/final-analysis") {
        assert_eq!(asked.param("include_conversation"), Some("true"));
        return find(id).map(final_analysis);
    }
    find(id).map(detail)
}

fn overview(kept: &FakeSession) -> Value {
    json!({
        "session_id": kept.id, "alert_type": "PodCrashLooping", "agent_type": "KubernetesAgent",
        "status": kept.status, "author": "alice", "started_at_us": kept.began_us,
        "completed_at_us": kept.completed_us, "chain_id": "kubernetes", "llm_interaction_count": 2,
        "mcp_selection": null, "duration_ms": 30_000,
    })
}

fn detail(kept: &FakeSession) -> Value {
    let mut detail = overview(kept);
    detail["runbook_url"] = Value::Null;
    detail["alert_data"] = json!({"pod": kept.text});
    detail["final_analysis"] = conclusion(kept);
    detail["stages"] = json!([{
        "execution_id": "e1", "stage_name": "analysis", "status": kept.status,
        "llm_interactions": [],
        "mcp_communications": [
            {"type": "mcp", "details": {"server_name": "kubernetes", "communication_type": "tool_list",
                "available_tools": {"kubernetes": [{"name": "pods_list"}, {"name": "pods_log"}]}}},
            {"type": "mcp", "details": {"server_name": "kubernetes", "tool_name": "pods_log",
                "communication_type": "tool_call", "available_tools": {}}},
        ],
        "parallel_executions": null,
    }]);
    detail
}

fn conclusion(kept: &FakeSession) -> Value {
    match kept.completed_us {
        Some(_) => json!(format!("{} ran out of memory.", kept.text)),
        None => Value::Null,
    }
}

fn final_analysis(kept: &FakeSession) -> Value {
    let conversation = kept.completed_us.map(|at| {
        json!({
            "model_name": "model-1", "provider": "google", "timestamp_us": at, "total_tokens": 300,
            "messages": [
                {"role": "system", "content": "You investigate alerts."},
                {"role": "user", "content": format!("Look at {}.", kept.text)},
                {"role": "assistant", "content": "It was killed for memory."},
            ],
        })
    });
    json!({
        "final_analysis": conclusion(kept), "final_analysis_summary": null, "session_id": kept.id,
        "status": kept.status, "llm_conversation": conversation, "chat_conversation": null,
        "alert_data": {"pod": kept.text},
    })
}
