//! Tests of mapping responses of the newer generation.

use serde_json::json;

use super::*;
use crate::wire::SessionStatus;

fn mapped(detail: Value, events: Value, tools: &[&str]) -> SessionInput {
    input(
        Uuid::nil(),
        serde_json::from_value(detail).unwrap(),
        serde_json::from_value(events).unwrap(),
        tools.iter().map(|tool| (*tool).to_owned()).collect(),
    )
}

fn call(sequence: i64, metadata: Value, content: &str) -> Value {
    json!({"sequence_number": sequence, "event_type": "llm_tool_call", "metadata": metadata, "content": content})
}

#[test]
fn timeline_becomes_ordered_messages() {
    let session = mapped(
        json!({
            "id": "x", "status": "timed_out", "alert_data": "{\"pod\": \"cart\"}", "chain_id": "k8s-chain",
            "final_analysis": "Out of memory.", "created_at": "2026-01-01T00:00:00.5Z", "started_at": null,
            "completed_at": "2026-01-01T00:01:00Z", "brand_new": {},
            "stages": [{"executions": null}, {"executions": [{"agent_name": "KubernetesAgent"}]}],
        }),
        json!([
            {"sequence_number": 9, "event_type": "final_analysis", "content": "Out of memory.\n"},
            {"sequence_number": 1, "event_type": "user_question", "content": "Why?", "created_at": "2026-01-01T00:00:01Z"},
            {"sequence_number": 2, "event_type": "llm_thinking", "content": "Logs first.", "created_at": "soon"},
            call(3, json!({"server_name": "k8s", "tool_name": "logs", "arguments": {"pod": "cart"}, "is_error": false}), "OOMKilled"),
            call(4, json!({"server_name": "k8s", "tool_name": "k8s.events", "arguments": "{}", "is_error": true}), ""),
            {"sequence_number": 5, "event_type": "mcp_tool_summary", "content": "killed", "metadata": {"server_name": "k8s", "tool_name": "logs"}},
            {"sequence_number": 6, "event_type": "sub_agent_dream", "content": "new kind"},
            {"sequence_number": 7, "event_type": "error", "content": "timeout"},
            {"sequence_number": 8, "event_type": "llm_response", "content": ""},
            {"sequence_number": 10, "event_type": "executive_summary", "content": "In short: memory."},
        ]),
        &[],
    );
    let said: Vec<(&str, &str, Option<&str>)> = session
        .conversation
        .iter()
        .map(|m| (m.role.as_str(), m.content.as_str(), m.tool_name.as_deref()))
        .collect();
    assert_eq!(
        said,
        [
            ("user", "Why?", None),
            ("thinking", "Logs first.", None),
            (
                "tool",
                "Arguments: {\"pod\":\"cart\"}\nResult:\nOOMKilled",
                Some("k8s.logs")
            ),
            ("tool", "Arguments: {}\nError:\n", Some("k8s.events")),
            ("tool", "Summary of the result:\nkilled", Some("k8s.logs")),
            ("sub_agent_dream", "new kind", None),
            ("error", "timeout", None),
            ("assistant", "In short: memory.", None),
        ]
    );
    assert_eq!(session.alert_data, Some(json!({"pod": "cart"})));
    assert_eq!(session.tools, ["k8s.logs", "k8s.events"]);
    assert_eq!(session.agent.as_deref(), Some("KubernetesAgent"));
    let record = session.into_record(Uuid::nil(), "tarsy").unwrap();
    assert_eq!(
        record.conversation[0].at.as_deref(),
        Some("2026-01-01T00:00:01Z")
    );
    assert_eq!(record.conversation[1].at, None);
    assert!(record.started_at.is_some(), "created_at stands in for it");
}

#[test]
fn alert_that_is_not_an_object_stays_text() {
    for text in ["pod cart restarts", "[1, 2]", "\"quoted\"", "{broken"] {
        let session = mapped(json!({"alert_data": text}), json!([]), &[]);
        assert_eq!(session.alert_data, Some(json!(text)));
    }
}

#[test]
fn conclusion_from_timeline_is_not_repeated() {
    let session = mapped(
        json!({"status": "completed", "alert_data": "a", "final_analysis": null, "chain_id": "chain"}),
        json!([{"sequence_number": 1, "event_type": "final_analysis", "content": "Memory."}]),
        &["k8s.logs"],
    );
    assert_eq!(session.final_analysis.as_deref(), Some("Memory."));
    assert!(session.conversation.is_empty());
    assert_eq!(
        (session.tools.len(), session.agent.as_deref()),
        (1, Some("chain"))
    );
}

#[test]
fn list_query_has_rfc_3339_times_and_joined_statuses() {
    let at = |us| DateTime::from_timestamp_micros(us).unwrap();
    let window = ListFilter {
        statuses: vec![SessionStatus::Completed, SessionStatus::Failed],
        since: Some(at(0)),
        until: at(1),
    };
    assert_eq!(
        list_path(&window, 1),
        "/api/v1/sessions?page=1&page_size=100&sort_by=created_at&sort_order=desc&end_date=1970-01-01T00:00:00.000001Z\
         &start_date=1970-01-01T00:00:00.000000Z&status=completed,failed"
    );
}

#[test]
fn requests_only_ids_that_are_path_segments() {
    assert!(is_plain("0190d3e8-1c2b_7"));
    for id in ["", "a/b", "..", "a?b", "%2e", &"a".repeat(129)] {
        assert!(!is_plain(id), "{id}");
    }
}

/// Returns two stages with separate numbering, one with two agents, a summary, a chat, and the TARSy's judge.
fn several_stages() -> (Value, Value) {
    let stage = |index: i64, name: &str, of: &str, agents: Value| json!({"id": format!("s{index}"), "stage_index": index, "stage_name": name, "stage_type": of, "executions": agents});
    let detail = json!({
        "status": "completed", "alert_data": "a", "final_analysis": null,
        "stages": [
            stage(1, "investigation", "investigation", json!([{"execution_id": "e1", "agent_name": "DataCollector"}])),
            stage(2, "validation", "investigation", json!([
                {"execution_id": "e2", "agent_name": "ConfigValidator"},
                {"execution_id": "e3", "agent_name": "Orchestrator", "sub_agents": [{"execution_id": "e4", "agent_name": "LogAnalyzer"}]},
            ])),
            stage(3, "Executive Summary", "exec_summary", json!([{"execution_id": "e5", "agent_name": "ExecSummaryAgent"}])),
            stage(4, "Chat", "chat", json!([{"execution_id": "e6", "agent_name": "ChatAgent"}])),
            stage(5, "Scoring", "scoring", json!([{"execution_id": "e7", "agent_name": "ScoringAgent"}])),
        ],
    });
    let event = |at: u32, stage: &str, execution: &str, number: i64, of: &str, content: &str| {
        json!({"stage_id": stage, "execution_id": execution, "sequence_number": number, "event_type": of, "content": content,
               "created_at": format!("2026-01-01T00:00:{at:02}Z")})
    };
    // In the order of the numbers, as a TARSy sends them.
    let events = json!([
        event(1, "s1", "e1", 1, "llm_response", "Looking at pods."),
        event(11, "s2", "e2", 1, "llm_response", "Checking limits."),
        event(12, "s2", "e3", 1, "llm_response", "Asking for logs."),
        event(13, "s2", "e4", 1, "final_analysis", "The log says OOM."),
        event(21, "s3", "e5", 1, "final_analysis", "Memory, in short."),
        event(41, "s5", "e7", 1, "final_analysis", "{\"total_score\": 12}"),
        event(2, "s1", "e1", 2, "final_analysis", "pod-1 was killed."),
        event(14, "s2", "e2", 2, "llm_response", "The limit is too low."),
        event(15, "s2", "e2", 3, "final_analysis", "The limit is too low."),
        event(32, "s4", "e6", 2, "final_analysis", "Yes, 512Mi."),
        {"sequence_number": 9, "event_type": "executive_summary", "content": "Memory.", "created_at": "2026-01-01T00:00:22Z"},
        event(31, "s4", "e6", 12, "user_question", "Is it the limit?"),
    ]);
    (detail, events)
}

#[test]
fn stages_are_ordered_and_messages_name_agents() {
    let (detail, events) = several_stages();
    let session = mapped(detail, events, &[]);
    let said: Vec<(&str, Option<&str>, Option<&str>)> = session
        .conversation
        .iter()
        .map(|m| (m.content.as_str(), m.agent.as_deref(), m.stage.as_deref()))
        .collect();
    assert_eq!(
        said,
        [
            (
                "Looking at pods.",
                Some("DataCollector"),
                Some("investigation")
            ),
            (
                "pod-1 was killed.",
                Some("DataCollector"),
                Some("investigation")
            ),
            (
                "Checking limits.",
                Some("ConfigValidator"),
                Some("validation")
            ),
            ("Asking for logs.", Some("Orchestrator"), Some("validation")),
            ("The log says OOM.", Some("LogAnalyzer"), Some("validation")),
            (
                "Memory, in short.",
                Some("ExecSummaryAgent"),
                Some("Executive Summary")
            ),
            ("Memory.", None, None),
            ("Is it the limit?", Some("ChatAgent"), Some("Chat")),
            ("Yes, 512Mi.", Some("ChatAgent"), Some("Chat")),
        ]
    );
    assert_eq!(session.agent.as_deref(), Some("DataCollector"));
}

#[test]
fn conclusion_ignores_chat_summary_and_judge() {
    let (mut detail, events) = several_stages();
    let session = mapped(detail.clone(), events.clone(), &[]);
    assert_eq!(
        session.final_analysis.as_deref(),
        Some("The limit is too low.")
    );
    detail["final_analysis"] = json!("Raise the limit.");
    let session = mapped(detail, events, &[]);
    assert_eq!(session.final_analysis.as_deref(), Some("Raise the limit."));
}
