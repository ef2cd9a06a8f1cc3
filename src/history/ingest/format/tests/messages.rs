//! The tests of conversations of model APIs and frameworks.

use super::*;

#[test]
fn conversations_of_openai_and_anthropic_are_read() {
    let mut completion = openai_messages();
    let answer = completion.as_array_mut().unwrap().pop().unwrap();
    let shapes = [
        (
            "chat completions",
            json!({"model": "m", "messages": openai_messages(), "tools": openai_tools()}),
        ),
        (
            "a stored completion",
            json!({"id": "chatcmpl-1", "object": "chat.completion", "messages": completion,
                "tools": openai_tools(), "choices": [{"index": 0, "message": answer}]}),
        ),
        (
            "responses",
            json!({"id": "resp_1", "object": "response", "status": "completed", "instructions": "Be brief.",
            "input": "Weather in Paris?", "tools": [{"type": "function", "name": "get_weather"}],
            "output": [
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look it up.", "annotations": []}]},
                {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "get_weather", "arguments": "{\"location\":\"Paris\"}"},
                {"type": "function_call_output", "call_id": "call_1", "output": "rainy, 57°F"},
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Rain, 57°F."}]}
            ]}),
        ),
        (
            "anthropic",
            json!({"model": "m", "system": [{"type": "text", "text": "Be brief."}], "tools": [{"name": "get_weather", "input_schema": {}}],
            "messages": [
                {"role": "user", "content": "Weather in Paris?"},
                {"role": "assistant", "content": [{"type": "text", "text": "I look it up."},
                    {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"location": "Paris"}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1",
                    "content": [{"type": "text", "text": "rainy, 57°F"}]}]},
                {"role": "assistant", "content": [{"type": "text", "text": "Rain, 57°F."}]},
            ]}),
        ),
    ];
    for (what, file) in shapes {
        assert_weather(&only(&file), what);
        // The field `format` of a request's body works the same way.
        let mut body = file.clone();
        body["format"] = json!("messages");
        let put = parse_session(&body.to_string()).unwrap();
        assert_eq!(put.conversation, only(&file).conversation, "{what}");
        assert_eq!(put.session_id, None, "{what}");
    }
    // A list is one conversation, on one line or on many.
    let bare = only(&openai_messages());
    assert_eq!(bare.conversation.len(), 4);
    let each: Vec<String> = openai_messages()
        .as_array()
        .unwrap()
        .iter()
        .map(Value::to_string)
        .collect();
    let lines = parse_session_file("f.jsonl", each.join("\n").as_bytes(), None).unwrap();
    assert_eq!(lines, [bare]);
}

#[test]
fn reads_errors_parallel_calls_images_and_open_calls() {
    let call = |id: &str| json!({"id": id, "function": {"name": "ping", "arguments": {"to": id}}});
    let session = only(&json!({"messages": [
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:.."}}, {"type": "text", "text": "These."}]},
        {"role": "assistant", "content": null, "tool_calls": [call("a"), call("b"), call("c")]},
        {"role": "tool", "tool_call_id": "b", "content": "", "error": {"type": "timeout", "message": "too slow"}},
        {"role": "tool", "tool_call_id": "a", "name": "ping", "content": "pong"},
        {"role": "tool", "tool_call_id": "never asked", "name": "date", "content": "today"},
    ]}));
    assert_eq!(
        lines(&session),
        [
            (
                "user",
                "image_url: {\"type\":\"image_url\",\"image_url\":{\"url\":\"data:..\"}}\nThese.",
                None,
                None
            ),
            (
                "assistant",
                "Arguments: {\"to\":\"c\"}\nNo result is recorded.",
                Some("ping"),
                None
            ),
            (
                "tool",
                "Arguments: {\"to\":\"b\"}\nError:\ntoo slow",
                Some("ping"),
                None
            ),
            (
                "tool",
                "Arguments: {\"to\":\"a\"}\nResult:\npong",
                Some("ping"),
                None
            ),
            ("tool", "Result:\ntoday", Some("date"), None),
        ]
    );
    assert_eq!(session.final_analysis, None);
}

#[test]
fn text_id_is_stored_and_gives_a_stable_session_id() {
    let file = |id: Value| json!({"session_id": id, "messages": openai_messages()});
    let named = only(&file(json!("nightly/run 17")));
    assert_eq!(named.external_id.as_deref(), Some("nightly/run 17"));
    assert_eq!(
        named.session_id,
        only(&file(json!("nightly/run 17"))).session_id
    );
    assert_ne!(
        named.session_id,
        only(&file(json!("nightly/run 18"))).session_id
    );
    assert_eq!(only(&file(json!(17))).external_id.as_deref(), Some("17"));
    let ours = "0190d3e8-1c2b-7d4e-8f90-1a2b3c4d5e6f";
    let own = only(&file(json!(ours)));
    assert_eq!(own.session_id.unwrap().to_string(), ours);
    assert_eq!(own.external_id, None);
    // Without an id it is derived from the content.
    let nameless = only(&json!({"messages": openai_messages()}));
    assert_eq!(nameless.external_id, None);
    assert_eq!(
        nameless.session_id,
        only(&json!({"messages": openai_messages()})).session_id
    );
    // Gavel's own form also accepts an id of any text.
    let own =
        only(&json!({"external_id": "run 17", "status": "failed", "alert_data": "disk full"}));
    assert!(own.session_id.is_some() && own.session_id != named.session_id);
}

#[test]
fn own_fields_are_read_next_to_messages() {
    let session = only(&json!({
        "messages": openai_messages(), "status": "failed", "agent": "weather", "alert_data": {"ticket": 7}, "tags": ["nightly"],
        "final_analysis": "It rains.", "started_at": "2026-03-02T10:00:00Z", "temperature": 0.2,
    }));
    assert_eq!(
        (session.status.as_deref(), session.agent.as_deref()),
        (Some("failed"), Some("weather"))
    );
    assert_eq!(session.alert_data, Some(json!({"ticket": 7})));
    assert_eq!(session.final_analysis.as_deref(), Some("It rains."));
    assert_eq!(session.conversation.last().unwrap().content, "Rain, 57°F.");
}

#[test]
fn status_next_to_messages_is_gavels_openais_or_another_tools() {
    let with = |status: Value| json!({"messages": openai_messages(), "status": status});
    for (status, read) in [
        (json!("idle"), "completed"),
        (json!("success"), "completed"),
        (json!(7), "completed"),
        (json!("error"), "failed"),
        (json!("CANCELLED"), "cancelled"),
        (json!("timed_out"), "timed_out"),
        (json!("incomplete"), "failed"),
        (json!("queued"), "pending"),
        (Value::Null, "completed"),
    ] {
        assert_eq!(only(&with(status)).status.as_deref(), Some(read));
    }
    let mut own = with(json!("idle"));
    own["alert_type"] = "disk".into();
    let said = error(&own, None);
    assert!(
        said.contains("/status: is not a status; known: pending"),
        "{said}"
    );
}

#[test]
fn messages_of_gemini_cli_and_harmony_are_read() {
    let session = only(&json!({"sessionId": "s", "messages": [
        {"id": "1", "type": "user", "content": "Full?"},
        {"id": "2", "type": "gemini", "content": "I look.", "thoughts": [{"subject": "Check", "description": "First df."}],
            "toolCalls": [{"id": "c", "name": "shell", "args": {"command": "df"}, "result": "97 %", "status": "success"}]},
        {"id": "3", "type": "gemini", "content": "Yes."},
        {"id": "4", "type": "info", "content": "Saved."},
    ]}));
    let lines = lines(&session);
    assert_eq!(
        lines.iter().map(|line| line.0).collect::<Vec<_>>(),
        ["user", "thinking", "assistant", "tool", "system"]
    );
    assert_eq!(
        lines[1].1,
        "[{\"subject\":\"Check\",\"description\":\"First df.\"}]"
    );
    // A notice of the program may follow the conclusion.
    assert_eq!(session.final_analysis.as_deref(), Some("Yes."));
    let session = only(&json!({"messages": [
        {"role": "user", "content": "Full?"},
        {"role": "assistant", "channel": "analysis", "content": "Perhaps."},
        {"role": "assistant", "channel": "commentary", "recipient": "functions.df", "content": "{}"},
        {"role": "tool", "name": "functions.df", "recipient": "assistant", "channel": "commentary", "content": "97 %"},
        {"role": "assistant", "channel": "final", "content": "Yes."},
    ]}));
    assert_eq!(session.conversation[1].role, "thinking");
    assert_eq!(
        session.conversation[2].content,
        "Arguments: {}\nResult:\n97 %"
    );
    assert_eq!(session.final_analysis.as_deref(), Some("Yes."));
}

#[test]
fn messages_are_grouped_by_conversation_id() {
    let message = |id: &str, role: &str, content: &str| json!({"thread_id": id, "role": role, "content": content});
    let sessions = read(
        &json!([
            message("a", "user", "Full?"),
            message("b", "user", "Down?"),
            message("a", "assistant", "Yes."),
            message("b", "assistant", "No."),
        ]),
        None,
    );
    let read: Vec<_> = sessions
        .iter()
        .map(|it| {
            (
                it.external_id.as_deref(),
                it.conversation[0].content.as_str(),
                it.final_analysis.as_deref(),
            )
        })
        .collect();
    assert_eq!(
        read,
        [
            (Some("a"), "Full?", Some("Yes.")),
            (Some("b"), "Down?", Some("No."))
        ]
    );
}

#[test]
fn messages_listed_newest_first_are_read_in_the_order_of_time() {
    let said = |role: &str, content: &str, at: Value| json!({"role": role, "content": content, "created_at": at});
    let read = |times: [Value; 3]| {
        let [first, second, third] = times;
        let messages = json!([
            said("assistant", "97 %", first),
            said("assistant", "I look.", second),
            said("user", "Full?", third),
        ]);
        let one = only(&messages);
        let wrapped = only(&json!({ "messages": messages }));
        assert_eq!(one.conversation, wrapped.conversation);
        (one.conversation[0].content.clone(), one.final_analysis)
    };
    for descending in [
        [
            json!(1_767_225_603),
            json!(1_767_225_602),
            json!(1_767_225_601),
        ],
        ["03", "02", "01"].map(|second| json!(format!("2026-01-01T00:00:{second}Z"))),
        ["03.5", "03.2", "03.1"].map(|second| json!(format!("2026-01-01 00:00:{second}"))),
    ] {
        let expected = ("Full?".to_owned(), Some("97 %".to_owned()));
        assert_eq!(read(descending.clone()), expected, "{descending:?}");
    }
    // Not every message has its own time, or they don't descend.
    for other in [
        [json!(3), json!(3), json!(1)],
        [json!(3), json!(null), json!(1)],
        [json!(1), json!(2), json!(3)],
    ] {
        assert_eq!(read(other.clone()), ("97 %".to_owned(), None), "{other:?}");
    }
}

#[test]
fn further_answers_to_one_request_are_alternatives() {
    let call = json!([{"id": "c", "function": {"name": "df", "arguments": "{}"}}]);
    let answers = |first: &str, second: Value| json!([{"index": 0, "message": {"role": "assistant", "content": first}}, {"index": 1, "message": second}]);
    let ask = json!([{"role": "user", "content": "Full?"}]);
    let text = json!({"role": "assistant", "content": "No."});
    let genai = |said: &str| json!({"role": "assistant", "parts": [{"type": "text", "content": said}], "finish_reason": "stop"});
    let span = json!({"gen_ai.operation.name": "chat", "gen_ai.input.messages": ask.to_string(),
        "gen_ai.output.messages": json!([genai("Yes."), genai("No.")]).to_string()});
    let generation = |said: &str| json!({"text": said, "generation_info": {"finish_reason": "stop"}, "message": langchain("AIMessage", json!({"content": said}))});
    for (what, file, alternative) in [
        (
            "chat completions",
            json!({"messages": ask, "choices": answers("Yes.", text)}),
            "No.",
        ),
        (
            "a call that wasn't made",
            json!({"messages": ask, "choices": answers("Yes.", json!({"role": "assistant", "tool_calls": call}))}),
            "df: Arguments: {}\nNo result is recorded.",
        ),
        (
            "Gemini",
            json!({"contents": [{"parts": [{"text": "Full?"}]}], "candidates": [
                {"content": {"role": "model", "parts": [{"text": "Yes."}]}}, {"content": {"role": "model", "parts": [{"text": "No."}]}}]}),
            "No.",
        ),
        (
            "spans",
            resource(vec![otlp(("a", ""), "chat", (0, 1), &span)]),
            "No.",
        ),
        (
            "LangSmith",
            json!([{"id": "r", "run_type": "llm", "inputs": {"messages": [[langchain("HumanMessage", json!({"content": "Full?"}))]]},
                "outputs": {"generations": [[generation("Yes."), generation("No.")]]}}]),
            "No.",
        ),
    ] {
        let session = only(&file);
        let expected = [
            ("user", "Full?", None, None),
            ("alternative", alternative, None, None),
        ];
        assert_eq!(lines(&session), expected, "{what}");
        assert_eq!(session.final_analysis.as_deref(), Some("Yes."), "{what}");
    }
}
