//! The tests of fields, parts, items and events that no reader knows: they are kept and are never the conclusion, or are refused.

use super::super::field::METADATA;
use super::*;

#[test]
fn parts_without_content_and_empty_thinking_are_skipped() {
    let messages = json!([
        {"role": "user", "content": [{"text": "Full?"}, {"cachePoint": {"type": "default"}}]},
        {"role": "assistant", "content": "I look.", "thinking_blocks": []},
        {"role": "user", "content": "And?"},
        {"role": "assistant", "content": [{"text": "Yes."}, {"geo": {"x": 1}}]},
    ]);
    let session = only(&json!({ "messages": messages }));
    assert_eq!(lines(&session)[0].1, "Full?");
    let expected = [
        ("assistant", "I look."),
        ("user", "And?"),
        ("unknown", "geo: {\"x\":1}"),
    ];
    assert_read("metadata", messages, &expected, Some("Yes."));
}

#[test]
fn unknown_fields_are_kept_next_to_their_part() {
    let user = json!({"role": "user", "content": "Full?"});
    let says = |part: Value| json!([user, {"role": "assistant", "content": [part, {"type": "text", "text": "Yes."}]}]);
    for (what, part, kept) in [
        (
            "Anthropic",
            json!({"type": "text", "text": "So:", "citations": [{"cited_text": "df"}]}),
            "citations: [{\"cited_text\":\"df\"}]",
        ),
        (
            "Gemini",
            json!({"text": "So:", "aside": "M1"}),
            "aside: \"M1\"",
        ),
        (
            "Bedrock",
            json!({"citationsContent": {"content": [{"text": "So:"}], "citations": [{"title": "M1"}]}}),
            "citations: [{\"title\":\"M1\"}]",
        ),
        (
            "names with words of metadata",
            json!({"type": "text", "text": "So:", "host_name": "db1", "customer_id": 7, "looked_at": "df", "id": "p1"}),
            "host_name: \"db1\"\ncustomer_id: 7\nlooked_at: \"df\"",
        ),
        (
            "a second text",
            json!({"type": "text", "text": "So:", "content": "M1"}),
            "content: \"M1\"",
        ),
    ] {
        assert_read(what, says(part), &[("unknown", kept)], Some("So:\nYes."));
    }
    for part in [
        json!({"type": "text", "text": "So:", "cache_control": {"type": "ephemeral"}, "index": 1, "thoughtSignature": "x"}),
        json!({"type": "text", "text": "So:", "citations": null, "annotations": [], "more": {"a": [null]}, "content": "So:"}),
    ] {
        assert_read("metadata", says(part), &[], Some("So:\nYes."));
    }
}

#[test]
fn unknown_fields_are_kept_next_to_their_call_or_result() {
    let user = json!({"role": "user", "content": "Full?"});
    let openai = json!([user,
        {"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": {"name": "df", "arguments": "{}", "strict_mode": 1}, "why": "M1"}]},
        {"role": "tool", "tool_call_id": "c", "content": "97 %", "stderr": "M2"}]);
    let anthropic = json!([user,
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "df", "input": {}, "strict_mode": 1, "why": "M1"}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "97 %", "stderr": "M2"}]}]);
    let genai = json!([user,
        {"role": "assistant", "parts": [{"type": "tool_call", "id": "c", "name": "df", "arguments": {}, "strict_mode": 1, "why": "M1"}]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c", "response": "97 %", "stderr": "M2"}]}]);
    let gemini = json!([user,
        {"role": "model", "parts": [{"functionCall": {"name": "df", "args": {}, "strict_mode": 1, "why": "M1"}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "df", "response": "97 %", "stderr": "M2"}}]}]);
    let vercel = json!([user, {"role": "assistant", "parts": [{"type": "tool-df", "toolCallId": "c", "state": "output-available", "input": {},
        "output": "97 %", "strict_mode": 1, "why": "M1", "stderr": "M2"}]}]);
    for messages in [openai, anthropic, genai, gemini, vercel] {
        let session = only(&json!({ "messages": messages }));
        let (_, read, tool, _) = lines(&session)[1];
        assert!(
            read.starts_with("Arguments: {}\nResult:\n97 %\nOther fields:\n"),
            "{messages}: {read}"
        );
        for kept in ["why: \"M1\"", "stderr: \"M2\"", "strict_mode: 1"] {
            assert!(read.contains(kept), "{messages}: {read}");
        }
        assert_eq!(tool, Some("df"));
    }
    let denied = json!([user, {"role": "assistant", "parts": [{"type": "tool-rm", "toolCallId": "c", "state": "output-denied", "input": {},
        "approval": {"id": "a", "approved": false, "reason": "M1"}}]}]);
    let expected = "Arguments: {}\nError:\n\nOther fields:\napproval: {\"id\":\"a\",\"approved\":false,\"reason\":\"M1\"}";
    assert_read("denied", denied, &[("tool", expected)], None);
}

#[test]
fn fields_of_a_call_without_arguments_are_not_its_arguments() {
    let user = json!({"role": "user", "content": "Full?"});
    let says = |part: Value| json!([user, {"role": "assistant", "content": [part]}]);
    for call in [
        json!({"functionCall": {"name": "df"}, "why": "M1"}),
        json!({"type": "tool_use", "id": "c", "name": "df", "why": "M1"}),
        json!({"toolUse": {"toolUseId": "c", "name": "df", "why": "M1"}}),
        json!({"block_type": "tool_call", "tool_call_id": "c", "tool_name": "df", "why": "M1"}),
        json!({"type": "tool-df", "toolCallId": "c", "state": "input-streaming", "why": "M1"}),
    ] {
        let expected = "No result is recorded.\nOther fields:\nwhy: \"M1\"";
        assert_read("no arguments", says(call), &[("assistant", expected)], None);
    }
}

#[test]
fn errors_of_programs_are_neither_unknown_nor_the_conclusion() {
    let event = |author: &str, content: Value| json!({"invocationId": "i", "author": author, "content": content});
    let said = |role: &str, text: &str| json!({"role": role, "parts": [{"text": text}]});
    let failed = json!({"invocationId": "i", "author": "amy", "content": null, "errorCode": "c1", "errorMessage": "Late."});
    let adk = only(&json!({"appName": "a", "id": "s", "events": [
        event("user", said("user", "Full?")), event("amy", said("model", "Yes.")), failed]}));
    let record = |kind: &str, text: &str, more: Value| {
        let mut record = json!({"type": kind, "sessionId": "s", "parentUuid": null, "message": {"role": kind, "content": text}});
        record["message"]["model"] = more["model"].clone();
        record["isApiErrorMessage"] = more["isApiErrorMessage"].clone();
        record
    };
    let claude = |more: Value| {
        only(&json!([
            record("user", "Full?", json!({})),
            record("assistant", "Yes.", json!({"model": "m"})),
            record("assistant", "c1\nLate.", more)
        ]))
    };
    let sessions = [
        adk,
        claude(json!({"model": "m", "isApiErrorMessage": true})),
        claude(json!({"model": "<synthetic>"})),
    ];
    for session in sessions {
        let expected = ("system", "Error: c1\nLate.", None, None);
        assert_eq!(lines(&session)[1..], [expected]);
        assert_eq!(session.final_analysis.as_deref(), Some("Yes."));
    }
}

#[test]
fn answers_of_gemini_are_messages() {
    let asked = json!([{"role": "user", "parts": [{"text": "Full?"}]}]);
    let answer = |reason: &str| {
        json!({"content": {"role": "model", "parts": [{"text": "So.", "thought": true}, {"functionCall": {"name": "df"}},
            {"executableCode": {"language": "PYTHON", "code": "f()"}}, {"codeExecutionResult": {"outcome": "OUTCOME_UNSPECIFIED", "output": "M1"}},
            {"text": "Yes."}, {"hyperPart": {"z": "M2"}}]}, (reason): "STOP", "index": 0, "groundingMetadata": {"q": "M3"}})
    };
    let other = |reason: &str| json!({"content": {"role": "model", "parts": [{"text": "No."}]}, (reason): "STOP", "index": 1});
    let blocked = json!({"finishReason": "SAFETY", "safetyRatings": [{"category": "M4"}]});
    let empty = json!({"content": {"role": "model"}, "finishReason": "MAX_TOKENS"});
    let answers = |reason: &str| json!([answer(reason), other(reason), blocked, empty]);
    let response = |reason: &str| json!({"candidates": answers(reason), "usageMetadata": {"n": 1}, "modelVersion": "g"});
    let said = json!({"contents": asked});
    let llm = |input: &Value, output: Value| json!({"openinference.span.kind": "LLM", "input.value": input.to_string(), "output.value": output.to_string()});
    let span = |attributes: &Value| resource(vec![otlp(("a", ""), "llm", (1, 4), attributes)]);
    for file in [
        json!({"request": said, "response": response("finishReason")}),
        json!({"request": said, "response": response("finish_reason")}),
        json!({"request": said, "response": answers("finishReason")}),
        json!({"contents": asked, "response": response("finishReason")}),
        json!({"contents": asked, "candidates": answers("finishReason")}),
        json!({"input": asked, "output": response("finishReason")}),
        span(&llm(&said, response("finishReason"))),
    ] {
        let session = only(&file);
        let read: Vec<_> = lines(&session).iter().map(|it| (it.0, it.1)).collect();
        let expected = [
            ("user", "Full?"),
            ("thinking", "So."),
            ("assistant", "No result is recorded."),
            (
                "tool",
                "Arguments: {\"language\":\"PYTHON\",\"code\":\"f()\"}\nError:\nM1",
            ),
            ("unknown", "hyper_part: {\"z\":\"M2\"}"),
            ("unknown", "groundingMetadata: {\"q\":\"M3\"}"),
            ("alternative", "No."),
            ("alternative", "safetyRatings: [{\"category\":\"M4\"}]"),
        ];
        assert_eq!(read, expected, "{file}");
        assert_eq!(session.final_analysis.as_deref(), Some("Yes."), "{file}");
    }
}

#[test]
fn an_answer_next_to_its_history_is_no_answer_of_gemini() {
    let history =
        json!([{"role": "user", "content": "Full?"}, {"role": "assistant", "content": "Yes."}]);
    let output = json!({"chat_history": history, "finish_reason": "COMPLETE"});
    let session = only(&json!({"input": "Full?", "output": output}));
    assert_eq!(lines(&session), [("user", "Full?", None, None)]);
    assert_eq!(session.final_analysis.as_deref(), Some("Yes."));
}

#[test]
fn misspelt_fields_of_parts_are_kept() {
    let session = only(&json!({"messages": [
        {"role": "user", "content": [{"type": "text", "txt": "Full?"}]},
        {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "df", "argumets": "M1"}}, {"id": "d", "functon": {"name": "du"}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "contents": "97 %"}]},
        {"role": "assistant", "content": [{"typ": "text", "text": "So:"}, {"type": "text", "txt": "Yes."}]},
    ]}));
    assert_eq!(
        lines(&session),
        [
            (
                "user",
                "text: {\"type\":\"text\",\"txt\":\"Full?\"}",
                None,
                None
            ),
            (
                "assistant",
                "No result is recorded.\nOther fields:\nfuncton: {\"name\":\"du\"}",
                None,
                None
            ),
            (
                "tool",
                "Result:\n97 %\nOther fields:\nargumets: \"M1\"",
                Some("df"),
                None
            ),
            (
                "unknown",
                "typ: \"text\"\ntext: {\"type\":\"text\",\"txt\":\"Yes.\"}",
                None,
                None
            ),
        ]
    );
    assert_eq!(session.final_analysis.as_deref(), Some("So:"));
}

#[test]
fn unknown_events_and_items_are_neither_texts_nor_calls_of_the_agent() {
    let said = |source: &str, text: &str| json!({"type": "TextMessage", "source": source, "content": text});
    let then = |event: Value| json!([said("user", "Full?"), said("amy", "Yes."), event]);
    for (event, expected, conclusion) in [
        (
            json!({"type": "WeirdEvent", "source": "amy", "gist": "M1"}),
            (
                "system",
                "weird_event: {\"type\":\"WeirdEvent\",\"gist\":\"M1\"}",
            ),
            Some("Yes."),
        ),
        (
            json!({"type": "MemoryQueryEvent", "source": "amy", "content": [{"content": "M1", "mime_type": "text/plain"}]}),
            (
                "system",
                "memory_query_event: {\"type\":\"MemoryQueryEvent\",\"content\":[{\"content\":\"M1\",\"mime_type\":\"text/plain\"}]}",
            ),
            Some("Yes."),
        ),
        (
            json!({"type": "CodeExecutionEvent", "source": "amy", "result": {"exit_code": 1, "output": "M1"}}),
            ("tool", "Error:\n{\"exit_code\":1,\"output\":\"M1\"}"),
            None,
        ),
    ] {
        let answer = ("assistant", "Yes.");
        let expected: Vec<_> = conclusion
            .is_none()
            .then_some(answer)
            .into_iter()
            .chain([expected])
            .collect();
        assert_read("AutoGen", then(event), &expected, conclusion);
    }
    let response = |item: Value| {
        only(
            &json!({"input": "Full?", "output": [item, {"type": "message", "role": "assistant", "content": "Yes."}],
        "error": {"code": "c1", "message": "Late."}}),
        )
    };
    let session = response(json!({"type": "quantum_call", "payload": "M1"}));
    assert_eq!(
        lines(&session)[1..],
        [
            (
                "system",
                "quantum_call: {\"type\":\"quantum_call\",\"payload\":\"M1\"}",
                None,
                None
            ),
            ("system", "Error: Late.\ncode: \"c1\"", None, None),
        ]
    );
    // An error may follow the conclusion.
    assert_eq!(session.final_analysis.as_deref(), Some("Yes."));
    let called = response(json!({"type": "quantum_call", "call_id": "c", "payload": "M1"}));
    assert_eq!(
        lines(&called)[1],
        (
            "assistant",
            "Arguments: M1\nNo result is recorded.",
            Some("quantum"),
            None
        )
    );
}

#[test]
fn a_file_of_no_known_form_names_the_field_with_messages() {
    let messages =
        json!([{"role": "user", "content": "Full?"}, {"role": "assistant", "content": "Yes."}]);
    for (file, remedy) in [
        (
            json!({"external_id": "x", "mesages": messages}),
            "; /mesages holds messages: name it messages",
        ),
        (
            json!({"session_id": "x", "turns": messages}),
            "; /turns holds messages: name it messages",
        ),
        (
            json!({"ok": true, "data": {"thread": {"messages": messages}}}),
            "; /data/thread holds a session: write it alone into a file",
        ),
        (
            json!({"external_id": "x", "alert_data": "y", "mesages": messages}),
            "/mesages: unknown key mesages; did you mean messages?",
        ),
        (
            json!({"messages": [messages[0], {"rol": "assistant", "content": "Yes."}]}),
            "; did you mean role instead of rol?",
        ),
        (
            json!([{"source": "agent", "action": "finish"}, messages[0], messages[1]]),
            "item 0: is in no known form; known are",
        ),
        (
            json!({"external_id": "x", "alert_data": "y", "zzz": 1}),
            "final_analysis, tools, tags, started_at, completed_at, messages",
        ),
    ] {
        let said = error(&file, None);
        assert!(said.contains(remedy), "{said}");
    }
}

#[test]
fn nul_within_json_is_replaced() {
    let session = only(
        &json!({"messages": [{"role": "user", "content": "a"}, {"role": "tool", "content": {"t": "x\u{0}y"}}]}),
    );
    assert_eq!(lines(&session)[1].1, "Result:\n{\"t\":\"x\u{fffd}y\"}");
}

#[test]
fn docs_list_the_metadata_that_is_skipped() {
    let docs = include_str!("../../../../../docs/sessions.md");
    for name in METADATA.split(' ') {
        assert!(docs.contains(&format!("`{name}`")), "{name}");
    }
}
