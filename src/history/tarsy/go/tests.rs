//! Answers as the newer generation gives them, and what becomes of them.

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
fn a_timeline_becomes_messages_in_the_order_of_its_numbers() {
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
            ("assistant", "Logs first.", None),
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
fn an_alert_that_is_no_object_stays_the_text_it_is() {
    for text in ["pod cart restarts", "[1, 2]", "\"quoted\"", "{broken"] {
        let session = mapped(json!({"alert_data": text}), json!([]), &[]);
        assert_eq!(session.alert_data, Some(json!(text)));
    }
}

#[test]
fn a_conclusion_that_only_the_timeline_has_is_taken_from_there_and_said_once() {
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
fn the_window_is_sent_in_rfc_3339_and_statuses_with_commas() {
    let at = |us| DateTime::from_timestamp_micros(us).unwrap();
    let window = Window {
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
fn only_an_id_that_is_one_part_of_a_path_is_asked_for() {
    assert!(is_plain("0190d3e8-1c2b_7"));
    for id in ["", "a/b", "..", "a?b", "%2e", &"a".repeat(129)] {
        assert!(!is_plain(id), "{id}");
    }
}
