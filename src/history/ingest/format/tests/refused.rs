//! The tests of wrong, odd and unknown shapes.

use super::*;

#[test]
fn a_wrong_shape_is_named_with_its_place_and_the_remedy() {
    use SessionFormat::{Inspect, LangSmith, Messages, Spans};
    let span = otlp(
        ("a", ""),
        "chat",
        (0, 1),
        &json!({"gen_ai.operation.name": "chat"}),
    );
    let mut traceless = span.clone();
    traceless.as_object_mut().unwrap().remove("traceId");
    for (file, format, said) in [
        (
            json!({"messages": []}),
            Some(Messages),
            "f.json: /messages: holds no message; a list",
        ),
        (
            json!({"messages": [{"role": "user", "content": "a"}, {"content": "b"}]}),
            None,
            "f.json: /messages/1: is no message; an object with a role",
        ),
        (
            json!([{"messages": [{"role": "user", "content": "a"}]}, {"messages": "x"}]),
            None,
            "f.json: item 1: /messages: holds no message",
        ),
        (
            json!({"messages": [{"role": "user", "content": "a"}], "tags": "x"}),
            None,
            "f.json: /tags: ",
        ),
        (
            json!({"messages": [{"role": "user", "content": "a"}], "alert_data": 7}),
            None,
            "f.json: /alert_data: is a number; an object or a string",
        ),
        (
            json!({"eval": {}, "plan": {}}),
            None,
            "f.json: /samples: holds no sample; write the log whole and as JSON: inspect log convert",
        ),
        (
            json!({"samples": [{"messages": []}]}),
            Some(Inspect),
            "f.json: /samples/0/messages: holds no message",
        ),
        (
            json!([{"id": "r"}]),
            Some(LangSmith),
            "f.json: item 0: record 0 is no step of the format langsmith; an object with its id and its trace or type",
        ),
        (
            resource(vec![traceless]),
            None,
            "f.json: record 0 is no step of the format spans",
        ),
        (
            resource(vec![span]),
            None,
            "trace 4bf92f3577b34da6a3ce929d0e0e4736 holds no message; record what models",
        ),
        (resource(vec![]), Some(Spans), "holds no session"),
    ] {
        let error = error(&file, format);
        assert!(error.contains(said), "{file}: {error}");
    }
    let unknown = parse_session(&json!({"format": "mesages"}).to_string()).unwrap_err();
    assert_eq!(unknown.faults[0].pointer, "/format");
    assert!(
        unknown.faults[0].message.contains(
            "messages, spans, langsmith, langfuse, braintrust, inspect, claude_code, codex"
        )
    );
}

#[test]
fn hostile_shapes_do_not_panic_or_loop() {
    let deep = "a.".repeat(100_000);
    let twins = json!([
        {"context": {"trace_id": "t", "span_id": "a"}, "parent_id": "b", "attributes": {"input.value": "x", (deep): 1}},
        {"context": {"trace_id": "t", "span_id": "b"}, "parent_id": "a", "attributes": {"llm.input_messages.18446744073709551615.message.role": "user"}},
    ]);
    assert!(error(&twins, None).contains("f.json: "));
    for format in SessionFormat::ALL {
        for file in [
            json!(1),
            json!("x"),
            json!(null),
            json!([[]]),
            json!({}),
            json!([null]),
            json!([{"a": [1, {"b": null}]}]),
        ] {
            assert!(
                parse_session_file("f", file.to_string().as_bytes(), Some(*format)).is_err(),
                "{format} {file}"
            );
        }
    }
}

#[test]
fn unknown_shape_is_rejected_with_the_known_formats() {
    for file in [
        json!({"task": "restart cart", "log": ["kubectl get pods"]}),
        json!({"conversation_id": "c-1", "turns": [{"speaker": "agent", "said": "done"}]}),
        json!({"session_id": "7", "trajectory": [{"thought": "t", "tool": "ls", "observation": "o"}]}),
        json!({"steps": [{"action": "search", "result": "found"}], "status": 3}),
        json!({"input": "Which host is full?"}),
        json!({"output": "db1"}),
        json!([{"speaker": "user", "utterance": "hello"}]),
        json!({"type": "message_start", "message": {"role": "assistant", "content": []}}),
        json!({"object": "chat.completion.chunk", "choices": null}),
        json!({"session_id": "s", "status": "ok", "type": "system", "subtype": "init"}),
    ] {
        let error = error(&file, None);
        let expected = "is in no known form; known are Gavel's own (status with alert_data or conversation) and the formats messages, spans,";
        assert!(error.contains(expected), "{file}: {error}");
    }
}

#[test]
fn part_of_unknown_type_is_shown_as_json() {
    let long = "A".repeat(4_000);
    let session = only(&json!({"messages": [
        {"role": "user", "content": [{"type": "hologram", "beams": 3}, {"type": "image", "source": {"type": "base64", "data": long}}]},
        {"role": "assistant", "content": [{"type": "oracle_hint", "hint": {"odds": 0.5}}, {"type": "step-start"}, {"weird": true}]},
        {"type": "compaction", "summary_of": ["m1", "m2"]},
    ]}));
    assert_eq!(
        lines(&session),
        [
            (
                "user",
                "hologram: {\"type\":\"hologram\",\"beams\":3}\nimage: {\"type\":\"image\",\"source\":{\"type\":\"base64\",\"data\":\"(base64, 4000 characters, left out)\"}}",
                None,
                None
            ),
            (
                "unknown",
                "oracle_hint: {\"type\":\"oracle_hint\",\"hint\":{\"odds\":0.5}}\n{\"weird\":true}",
                None,
                None
            ),
            (
                "system",
                "compaction: {\"type\":\"compaction\",\"summary_of\":[\"m1\",\"m2\"]}",
                None,
                None
            ),
        ]
    );
    assert_eq!(session.final_analysis, None);
}

#[test]
fn unknown_fields_of_a_message_are_shown_except_metadata() {
    let session = only(&json!({"messages": [
        {"role": "user", "content": "Full?", "mood": "calm", "created": 7, "model_name": "m", "from_history": false},
        {"role": "assistant", "tool_plan": "I look.", "tool_calls": [{"id": "c1", "function": {"name": "ls", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "97 %", "artifact": {"rows": 2}},
        {"role": "assistant", "content": "Yes.", "annotations": [{"url": "u"}], "stop_reason": "end", "usage": {"output": 1}},
    ]}));
    assert_eq!(
        lines(&session),
        [
            ("user", "Full?", None, None),
            ("unknown", "mood: \"calm\"", None, None),
            ("unknown", "tool_plan: \"I look.\"", None, None),
            (
                "tool",
                "Arguments: {}\nResult:\n97 %\nOther fields:\nartifact: {\"rows\":2}",
                Some("ls"),
                None
            ),
            ("unknown", "annotations: [{\"url\":\"u\"}]", None, None),
        ]
    );
    assert_eq!(session.final_analysis.as_deref(), Some("Yes."));
}

#[test]
fn role_of_a_message_with_parts_is_read_or_required() {
    let with = |message: Value| json!({"messages": [{"role": "user", "parts": [{"text": "Full?"}]}, message]});
    let text = json!([{"type": "text", "text": "Yes."}]);
    for role in ["info", "author"] {
        let session = only(&with(
            json!({role: {"role": "assistant", "id": "m2"}, "parts": text}),
        ));
        assert_eq!(lines(&session), [("user", "Full?", None, None)]);
        assert_eq!(session.final_analysis.as_deref(), Some("Yes."));
    }
    let said = error(&with(json!({"speaker": "bot", "parts": text})), None);
    assert!(said.contains("/messages/1: is no message"), "{said}");
    // OpenCode writes a call and its result into one part.
    let call =
        |state: Value| json!({"type": "tool", "callID": "c", "tool": "bash", "state": state});
    let session = only(&with(json!({"info": {"role": "assistant"}, "parts": [
        {"id": "p1", "type": "step-start"},
        call(json!({"status": "completed", "input": {"command": "df"}, "output": "97 %"})),
        call(json!({"status": "error", "input": {"command": "du"}, "error": "denied"})),
        {"type": "text", "text": "Yes."}]})));
    let results = [
        "Arguments: {\"command\":\"df\"}\nResult:\n97 %",
        "Arguments: {\"command\":\"du\"}\nError:\ndenied",
    ];
    assert_eq!(
        lines(&session)[1..],
        results.map(|result| ("tool", result, Some("bash"), None))
    );
    assert_eq!(session.final_analysis.as_deref(), Some("Yes."));
}

#[test]
fn objects_with_messages_are_conversations_and_no_messages_or_spans() {
    let run = json!({"content": "Yes.", "content_type": "str", "status": "COMPLETED", "messages": state()});
    assert_state(&only(&run), "beside a content");
    let call = json!({"id": "c", "trace_id": "t", "op_name": "op", "attributes": {"weave": {}}, "inputs": {"messages": state()}, "output": "Yes."});
    let said = error(&call, None);
    assert!(said.contains("is in no known form"), "{said}");
    let said = error(
        &json!([{"working_dir": "/x"}, state()[0], state()[3]]),
        None,
    );
    assert!(said.contains("item 0: is in no known form"), "{said}");
}

#[test]
fn reads_or_rejects_odd_messages() {
    let ask = json!({"role": "user", "content": "Go."});
    let then = |messages: Vec<Value>| {
        let messages: Vec<Value> = std::iter::once(ask.clone()).chain(messages).collect();
        only(&json!({ "messages": messages }))
    };
    for (what, message, expected) in [
        (
            "words in another field",
            json!({"role": "ASSISTANT", "body": "M1"}),
            ("assistant", "M1"),
        ),
        (
            "several other fields",
            json!({"role": "assistant", "a": "M1", "b": 2}),
            ("unknown", "a: \"M1\"\nb: 2"),
        ),
        (
            "more beside a text",
            json!({"role": "assistant", "content": {"text": "M1", "extra": 2}}),
            ("assistant", "M1"),
        ),
        (
            "thinking of a gateway",
            json!({"role": "assistant", "reasoning_details": [{"type": "reasoning.text", "text": "M1"}]}),
            ("thinking", "M1"),
        ),
        (
            "thinking in the text",
            json!({"role": "assistant", "content": "<think>M1</think>"}),
            ("thinking", "M1"),
        ),
    ] {
        let session = then(vec![message, ask.clone()]);
        assert_eq!(
            lines(&session)[1],
            (expected.0, expected.1, None, None),
            "{what}"
        );
    }
    // A result may precede its call, and name the tool of one of two calls with the same id.
    let call = |name: &str, to: u8| json!({"id": "c", "function": {"name": name, "arguments": {"to": to}}});
    let result = |name: &str, said: Value| json!({"role": "tool", "tool_call_id": "c", "name": name, "content": said});
    let early = then(vec![
        result("g", json!("one")),
        json!({"role": "assistant", "tool_calls": [call("g", 1)]}),
    ]);
    assert_eq!(lines(&early)[1].1, "Arguments: {\"to\":1}\nResult:\none");
    let twice = then(vec![
        json!({"role": "assistant", "tool_calls": [call("g", 1), call("h", 2)]}),
        result("h", json!("two")),
        result("g", json!([1, null])),
    ]);
    assert_eq!(lines(&twice)[1].1, "Arguments: {\"to\":2}\nResult:\ntwo");
    assert_eq!(
        lines(&twice)[2].1,
        "Arguments: {\"to\":1}\nResult:\n[1,null]"
    );
    for flag in [json!(null), json!(false), json!("false"), json!(0)] {
        let content = json!([{"type": "tool_result", "tool_use_id": "t", "content": "fine", "is_error": flag}]);
        let session = then(vec![json!({"role": "user", "content": content})]);
        assert_eq!(lines(&session)[1].1, "Result:\nfine");
    }
    let nobody = json!({"messages": [{"user": "U1", "text": "Why?"}], "alert_data": "x"});
    assert!(error(&nobody, None).contains("/messages/0: is no message"));
    let repeated = parse_session_file(
        "f",
        br#"{"messages":[{"role":"user","content":"a","content":"b"}]}"#,
        None,
    );
    let repeated = repeated.unwrap_err().to_string();
    assert!(
        repeated.contains("/messages/0/content: has the field content twice"),
        "{repeated}"
    );
}

#[test]
fn unknown_field_is_an_error_only_in_own_form() {
    let messages =
        json!([{"role": "user", "content": "Full?"}, {"role": "assistant", "content": "Yes."}]);
    for (field, hint) in [
        ("mesages", "unknown key mesages; did you mean messages?"),
        ("metdata", "unknown key metdata; did you mean metadata?"),
        (
            "final_anlysis",
            "unknown key final_anlysis; did you mean final_analysis?",
        ),
        ("zzz", "unknown key zzz; known: alert_type, agent,"),
    ] {
        let own = json!({"messages": messages, "alert_data": "x", (field): 1});
        let said = error(&own, None);
        assert!(said.contains(hint), "{said}");
        // The envelope of another tool.
        assert_eq!(
            only(&json!({"messages": messages, (field): 1}))
                .conversation
                .len(),
            1
        );
    }
}

#[test]
fn a_request_next_to_its_response_under_other_names_is_refused_with_both() {
    let asked = json!({"messages": [{"role": "user", "content": "Full?"}]});
    let answered = json!({"choices": [{"message": {"role": "assistant", "content": "Yes."}}]});
    let message = error(
        &json!({"request_body": asked, "response_body": answered}),
        None,
    );
    assert!(
        message.contains(
            "/request_body and /response_body hold messages: name them request and response"
        ),
        "{message}"
    );
    let session = only(&json!({"request": asked, "response": answered}));
    assert_eq!(session.final_analysis.as_deref(), Some("Yes."));
}
