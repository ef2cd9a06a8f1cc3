//! Tests of mapping responses of the older generation.

use serde_json::json;

use super::*;
use crate::wire::SessionStatus;

fn mapped(detail: Value, analysis: Value) -> SessionInput {
    input(
        Uuid::nil(),
        serde_json::from_value(detail).unwrap(),
        serde_json::from_value(analysis).unwrap(),
    )
}

#[test]
fn complete_session_can_be_stored() {
    let session = mapped(
        json!({
            "session_id": "x", "status": "completed", "alert_type": "PodCrashLooping", "agent_type": "KubernetesAgent",
            "author": "alice", "started_at_us": 1_767_225_600_000_001_i64, "completed_at_us": 1_767_225_660_000_000_i64,
            "alert_data": {"pod": "from the details"}, "something_new": [1, 2],
            "stages": [{
                "mcp_communications": [
                    {"details": {"server_name": "k8s", "communication_type": "tool_list", "available_tools":
                        {"k8s": [{"name": "pods_list"}, {"name": "pods_log"}], "loki": ["query"]}}},
                    {"details": {"server_name": "k8s", "tool_name": "pods_log", "available_tools": null}},
                    {"details": null},
                ],
                "parallel_executions": [{"mcp_communications": [
                    {"details": {"server_name": "prom", "tool_name": "range", "available_tools": [{"name": "instant"}]}}]}],
            }],
        }),
        json!({
            "status": "completed", "final_analysis": "Out of memory.", "alert_data": {"pod": "cart"},
            "llm_conversation": {"model_name": "m", "messages": [
                {"role": "system", "content": "You investigate."}, {"role": "user", "content": "Look."}]},
            "chat_conversation": {"messages": [{"role": "assistant", "content": {"text": "It was memory."}}]},
        }),
    );
    assert_eq!(session.alert_data, Some(json!({"pod": "cart"})));
    let said: Vec<(&str, &str)> = session
        .conversation
        .iter()
        .map(|m| (m.role.as_str(), m.content.as_str()))
        .collect();
    assert_eq!(
        said,
        [
            ("system", "You investigate."),
            ("user", "Look."),
            ("assistant", r#"{"text":"It was memory."}"#)
        ]
    );
    assert_eq!(
        session.tools,
        [
            "k8s.pods_list",
            "k8s.pods_log",
            "loki.query",
            "prom.range",
            "prom.instant"
        ]
    );
    let record = session.into_record(Uuid::nil(), "tarsy").unwrap();
    assert_eq!(record.agent.as_deref(), Some("KubernetesAgent"));
    assert_eq!(
        record.started_at.map(|at| at.timestamp_micros()),
        Some(1_767_225_600_000_001)
    );
    assert_eq!(record.final_analysis.as_deref(), Some("Out of memory."));
}

#[test]
fn unfinished_session_with_nulls_can_be_stored() {
    let session = mapped(
        json!({"status": "in_progress", "alert_type": null, "stages": null, "completed_at_us": null}),
        json!({"status": "in_progress", "final_analysis": null, "llm_conversation": null,
               "chat_conversation": null, "alert_data": null}),
    );
    let record = session.into_record(Uuid::nil(), "tarsy").unwrap();
    assert!(!record.status.is_terminal());
    assert!(record.conversation.is_empty() && record.final_analysis.is_none());
    // An ended session must have its alert.
    let ended = mapped(json!({"status": "completed"}), json!({}));
    let faults = ended.into_record(Uuid::nil(), "tarsy").unwrap_err();
    assert!(
        faults.to_string().contains("/alert_data: is missing"),
        "{faults}"
    );
}

#[test]
fn list_query_has_microseconds_and_separate_statuses() {
    let at = |us| DateTime::from_timestamp_micros(us).unwrap();
    let window = ListFilter {
        statuses: vec![SessionStatus::Completed, SessionStatus::TimedOut],
        since: Some(at(5)),
        until: at(9),
    };
    assert_eq!(
        list_path(&window, 3),
        "/api/v1/history/sessions?page=3&page_size=100&end_date_us=9&start_date_us=5&status=completed&status=timed_out"
    );
}

#[test]
fn page_omits_unknown_statuses_and_times() {
    let text = json!({"sessions": [
        {"session_id": "a", "status": "completed", "started_at_us": 7, "completed_at_us": 9},
        {"session_id": "b", "status": "dreaming", "started_at_us": null},
    ], "pagination": {"page": 1, "total_pages": 4, "total_items": 8}, "filters_applied": {}});
    let page = list_page(&text.to_string()).unwrap();
    assert_eq!((page.total_pages, page.total_items), (Some(4), Some(8)));
    assert_eq!(
        page.items[0].completed_at,
        DateTime::from_timestamp_micros(9)
    );
    assert_eq!((page.items[1].status, page.items[1].began_at), (None, None));
}
