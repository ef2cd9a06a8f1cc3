//! Tests of the checks of a session.
use serde_json::json;

use super::*;
use crate::wire::SessionStatus;

fn body() -> Value {
    json!({
        "status": "completed",
        "alert_type": "PodCrashLooping",
        "alert_data": { "severity": "critical" },
        "conversation": [
            { "role": "user", "content": "Look." },
            { "role": "tool", "content": "NAME", "tool_name": "kubectl.get", "at": "2026-03-02T10:00:00+01:00" },
        ],
        "final_analysis": "It is so.",
        "tools": ["kubectl.get", "kubectl.get", " kubectl.logs "],
        "tags": ["prod"],
        "started_at": "2026-03-02T09:00:00.123456789Z",
        "completed_at": "2026-03-02T09:10:00Z",
    })
}

fn with(change: impl FnOnce(&mut Value)) -> Value {
    let mut value = body();
    change(&mut value);
    value
}

fn id() -> Uuid {
    Uuid::from_u128(7)
}

fn record(value: &Value) -> Result<SessionRecord, InvalidSession> {
    SessionInput::from_json(&value.to_string())?.into_record(id(), "api")
}

#[test]
fn a_body_becomes_a_record() {
    let record = record(&body()).unwrap();
    assert_eq!(record.session_id, id());
    assert_eq!(
        (record.source.as_str(), record.status),
        ("api", SessionStatus::Completed)
    );
    assert_eq!(record.tools, ["kubectl.get", "kubectl.logs"]);
    assert_eq!(
        record.conversation[1].at.as_deref(),
        Some("2026-03-02T10:00:00+01:00")
    );
    // Both databases keep microseconds.
    assert_eq!(
        record.started_at.unwrap().to_rfc3339(),
        "2026-03-02T09:00:00.123456+00:00"
    );
}

#[test]
fn first_user_message_replaces_a_missing_alert() {
    let record = record(&with(|b| b["alert_data"] = json!(null))).unwrap();
    assert_eq!(record.alert_data, json!("Look."));
}

#[test]
fn optional_fields_may_be_null() {
    let least = record(&json!({ "status": "failed", "alert_data": "disk full" })).unwrap();
    let nulls = record(&json!({
        "status": "failed", "alert_data": "disk full", "session_id": null, "alert_type": null, "agent": " ", "author": null,
        "conversation": null, "final_analysis": "", "tools": null, "tags": null, "started_at": null, "completed_at": null,
    }))
    .unwrap();
    assert_eq!(least, nulls);
    assert!(least.conversation.is_empty() && least.agent.is_none());
}

#[test]
fn nul_characters_are_replaced_since_postgres_keeps_none() {
    let record = record(&with(|b| {
        b["conversation"][0]["content"] = json!("a\0b");
        b["alert_data"] = json!({ "k\0": ["\0"] });
        b["final_analysis"] = json!("\0");
    }))
    .unwrap();
    assert_eq!(record.conversation[0].content, "a\u{fffd}b");
    assert_eq!(record.alert_data, json!({ "k\u{fffd}": ["\u{fffd}"] }));
    assert_eq!(record.final_analysis.as_deref(), Some("\u{fffd}"));
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table, one line a fault")]
fn error_has_pointer_and_expected_value() {
    let mut deep = json!("x");
    for _ in 0..64 {
        deep = json!({ "a": deep });
    }
    let long = |n: usize| "x".repeat(n);
    let cases: Vec<(Value, &str, &str)> = vec![
        (
            with(|b| b["session_id"] = json!(Uuid::from_u128(8))),
            "/session_id",
            "differs from the id",
        ),
        (
            with(|b| b["session_id"] = json!("7")),
            "/session_id",
            "UUID",
        ),
        (
            with(|b| b["status"] = json!("done")),
            "/status",
            "known: pending, in_progress",
        ),
        (with(|b| b["status"] = json!(null)), "/status", "is missing"),
        (
            with(|b| b["status"] = json!(1)),
            "/status",
            "expected a string",
        ),
        (
            with(|b| b["agent"] = json!(long(256))),
            "/agent",
            "256 characters; at most 255",
        ),
        (
            with(|b| {
                b["alert_data"] = json!(null);
                b["conversation"] = json!([]);
            }),
            "/alert_data",
            "is missing; an object or a string is expected, or a message of the role user",
        ),
        (
            with(|b| b["alert_data"] = json!([1])),
            "/alert_data",
            "is an array",
        ),
        (
            with(|b| b["alert_data"] = deep),
            "/alert_data",
            "at most 64 levels",
        ),
        (
            with(|b| b["conversation"] = json!("hi")),
            "/conversation",
            "expected a sequence",
        ),
        (
            with(|b| b["conversation"][1]["role"] = json!("")),
            "/conversation/1/role",
            "is blank",
        ),
        (
            with(|b| b["conversation"][1]["role"] = json!(long(65))),
            "/conversation/1/role",
            "65 characters",
        ),
        (
            with(|b| b["conversation"][1] = json!({ "role": "user" })),
            "/conversation/1",
            "missing field `content`",
        ),
        (
            with(|b| b["conversation"][1]["content"] = json!([])),
            "/conversation/1/content",
            "expected a string",
        ),
        (
            with(|b| b["conversation"][1]["tool_name"] = json!(long(256))),
            "/conversation/1/tool_name",
            "at most 255",
        ),
        (
            with(|b| b["conversation"][1]["at"] = json!("yesterday")),
            "/conversation/1/at",
            "RFC 3339",
        ),
        (
            with(|b| b["conversation"][0]["content"] = json!(long(4 * 1024 * 1024 + 1))),
            "/conversation",
            "4194309 bytes of text; at most 4194304",
        ),
        (
            with(|b| {
                b["conversation"] = json!(vec![json!({ "role": "u", "content": "" }); 20_001])
            }),
            "/conversation",
            "at most 20000",
        ),
        (
            with(|b| b["final_analysis"] = json!(long(1024 * 1024 + 1))),
            "/final_analysis",
            "1048577 bytes; at most 1048576",
        ),
        (
            with(|b| b["tools"] = json!(vec!["x"; 1_001])),
            "/tools",
            "1001 entries; at most 1000",
        ),
        (
            with(|b| b["tools"] = json!(["a", long(256)])),
            "/tools/1",
            "at most 255",
        ),
        (
            with(|b| b["tags"] = json!(vec!["x"; 101])),
            "/tags",
            "at most 100",
        ),
        (
            with(|b| b["tags"] = json!([long(65)])),
            "/tags/0",
            "65 characters; at most 64",
        ),
        (
            with(|b| b["tags"] = json!(["a", " "])),
            "/tags/1",
            "is blank",
        ),
        (
            with(|b| b["started_at"] = json!("2026-03-02")),
            "/started_at",
            "RFC 3339",
        ),
        (
            with(|b| b["completed_at"] = json!("2026-03-02T08:59:59Z")),
            "/completed_at",
            "before started_at",
        ),
    ];
    for (value, pointer, message) in cases {
        let faults = record(&value).unwrap_err().faults;
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert_eq!(faults[0].pointer, pointer, "{faults:?}");
        assert!(
            faults[0].message.contains(message),
            "{faults:?} lacks {message:?}"
        );
    }
}

#[test]
fn an_unknown_key_is_named_with_the_nearest_known_one() {
    for (value, message) in [
        (
            with(|b| b["alertdata"] = json!(1)),
            "unknown key alertdata; did you mean alert_data?",
        ),
        (
            with(|b| b["conversation"][0]["contents"] = json!(1)),
            "unknown key contents; did you mean content?",
        ),
        (
            with(|b| b["qqq"] = json!(1)),
            "unknown key qqq; known: session_id, external_id, status",
        ),
    ] {
        let error = record(&value).unwrap_err();
        assert!(error.to_string().contains(message), "{error}");
    }
}

#[test]
fn reports_all_errors_up_to_twenty() {
    let two = record(&with(|b| {
        b["status"] = json!("x");
        b["started_at"] = json!("x");
    }))
    .unwrap_err();
    let pointers: Vec<&str> = two.faults.iter().map(|f| f.pointer.as_str()).collect();
    assert_eq!(pointers, ["/status", "/started_at"]);
    let many = record(&with(|b| b["tags"] = json!(vec![""; 100]))).unwrap_err();
    assert_eq!(many.faults.len(), 20);
}

#[test]
fn rejects_text_that_is_not_one_json_object() {
    for (text, message) in [
        ("", "is not JSON: EOF"),
        ("{", "EOF"),
        ("[]", "an object is expected"),
        ("{} {}", "trailing characters"),
    ] {
        let error = SessionInput::from_json(text).unwrap_err();
        assert!(error.to_string().contains(message), "{text}: {error}");
    }
    let bomb = format!(
        "{{\"alert_data\":{}{}}}",
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    assert!(
        SessionInput::from_json(&bomb)
            .unwrap_err()
            .to_string()
            .contains("recursion limit")
    );
}

#[test]
fn a_written_session_reads_back() {
    let input = SessionInput::from_json(&body().to_string()).unwrap();
    let text = serde_json::to_string(&input).unwrap();
    assert_eq!(SessionInput::from_json(&text).unwrap(), input);
}

#[test]
fn error_quotes_at_most_400_bytes_of_the_session() {
    let long = "é".repeat(100_000);
    let wrong = with(|body| body["conversation"] = json!(long));
    let unknown = with(|body| body[long.as_str()] = json!(1));
    for value in [wrong, unknown] {
        let faults = record(&value).unwrap_err().faults;
        assert_eq!(faults.len(), 1);
        assert!(faults[0].message.len() < 450, "{}", faults[0].message.len());
    }
}
