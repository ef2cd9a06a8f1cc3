//! The tests of calls with their results, and of thinking.

use super::*;

#[test]
fn parts_with_a_call_id_each_are_results() {
    let call = |id: &str| json!({"id": id, "function": {"name": "ls", "arguments": {"id": id}}});
    let session = only(&json!([
        {"role": "user", "content": "Full?"},
        {"role": "assistant", "tool_calls": [call("a"), call("b")]},
        {"role": "tool", "tool_call_id": "a", "content": [
            {"tool_call_id": "a", "content": "one"}, {"tool_call_id": "b", "content": "two"}]},
    ]));
    let results = [
        "Arguments: {\"id\":\"a\"}\nResult:\none",
        "Arguments: {\"id\":\"b\"}\nResult:\ntwo",
    ];
    assert_eq!(
        lines(&session)[1..],
        results.map(|result| ("tool", result, Some("ls"), None))
    );
}

#[test]
fn results_belong_to_calls_by_id_else_by_order_and_name() {
    let call = |id: Value, name: &str, to: u8| json!({"id": id, "function": {"name": name, "arguments": {"to": to}}});
    let result = |id: Value, name: Option<&str>, said: &str| json!({"role": "tool", "tool_call_id": id, "name": name, "content": said});
    let (empty, none) = (json!(""), Value::Null);
    for (what, calls, results, expected) in [
        (
            "equal ids, in order",
            [call(json!("x"), "ping", 1), call(json!("x"), "ping", 2)],
            [
                result(json!("x"), None, "one"),
                result(json!("x"), None, "two"),
            ],
            ["{\"to\":1}\nResult:\none", "{\"to\":2}\nResult:\ntwo"],
        ),
        (
            "no ids, in order",
            [
                call(empty.clone(), "ping", 1),
                call(none.clone(), "ping", 2),
            ],
            [
                result(empty.clone(), None, "one"),
                result(none.clone(), Some("ping"), "two"),
            ],
            ["{\"to\":1}\nResult:\none", "{\"to\":2}\nResult:\ntwo"],
        ),
        (
            "no ids, by name",
            [call(none.clone(), "ping", 1), call(none.clone(), "dig", 2)],
            [
                result(none.clone(), Some("dig"), "two"),
                result(none.clone(), Some("ping"), "one"),
            ],
            ["{\"to\":2}\nResult:\ntwo", "{\"to\":1}\nResult:\none"],
        ),
        (
            "ids of two kinds",
            [
                call(json!("fc_1"), "ping", 1),
                call(json!("fc_2"), "ping", 2),
            ],
            [
                result(json!("call_1"), None, "one"),
                result(json!("call_2"), None, "two"),
            ],
            ["{\"to\":1}\nResult:\none", "{\"to\":2}\nResult:\ntwo"],
        ),
    ] {
        let mut messages = vec![
            json!({"role": "user", "content": "Go."}),
            json!({"role": "assistant", "tool_calls": calls}),
        ];
        messages.extend(results);
        let session = only(&json!({ "messages": messages }));
        let read: Vec<String> = session
            .conversation
            .iter()
            .skip(1)
            .map(|it| it.content.replace("Arguments: ", ""))
            .collect();
        assert_eq!(read, expected, "{what}");
    }
}

#[test]
fn thinking_is_marked_and_not_the_conclusion() {
    let said = |content: Value| {
        only(
            &json!({"messages": [{"role": "user", "content": "Full?"}, {"role": "assistant", "content": content}]}),
        )
    };
    let thought = json!({"type": "thinking", "thinking": "Say it is fine.", "signature": "s"});
    let text = json!({"type": "text", "text": "The disk is full."});
    for content in [json!([thought, text]), json!([text, thought])] {
        let session = said(content);
        assert_eq!(
            lines(&session)[1],
            ("thinking", "Say it is fine.", None, None)
        );
        assert_eq!(session.final_analysis.as_deref(), Some("The disk is full."));
    }
    assert_eq!(said(json!([thought])).final_analysis, None);
    let deepseek = only(&json!({"messages": [{"role": "user", "content": "Full?"},
        {"role": "assistant", "reasoning_content": "Look.", "content": "Yes."}]}));
    assert_eq!(lines(&deepseek)[1], ("thinking", "Look.", None, None));
    assert_eq!(deepseek.final_analysis.as_deref(), Some("Yes."));
}

#[test]
fn results_that_look_like_parts_stay_unchanged() {
    for result in [
        json!([{"kind": "Pod", "name": "api-1", "status": "CrashLoopBackOff"}]),
        json!([{"id": 7, "type": "job", "status": "failed"}]),
        json!([{"text": "disk full", "severity": "high"}]),
        json!({"type": "critical", "value": 97}),
        json!([]),
        json!({}),
        json!(false),
        json!(0),
    ] {
        let session = only(&json!({"messages": [
            {"role": "user", "content": "Go."},
            {"role": "assistant", "content": [{"type": "tool-call", "toolCallId": "c", "toolName": "f", "input": {}}]},
            {"role": "tool", "content": [{"type": "tool-result", "toolCallId": "c", "toolName": "f", "output": {"type": "json", "value": result}}]},
        ]}));
        let expected = format!("Arguments: {{}}\nResult:\n{result}");
        assert_eq!(
            lines(&session)[1],
            ("tool", expected.as_str(), Some("f"), None)
        );
    }
}

#[test]
fn one_id_in_each_turn_belongs_to_the_latest_call() {
    let call = |name: &str| json!({"role": "assistant", "tool_calls": [{"id": "call_0", "function": {"name": name, "arguments": {}}}]});
    let session = only(&json!({"messages": [
        {"role": "user", "content": "Go."}, call("f"), {"role": "user", "content": "Go on."}, call("g"),
        {"role": "tool", "tool_call_id": "call_0", "content": "of g"},
    ]}));
    let read: Vec<_> = lines(&session)
        .iter()
        .map(|line| (line.1.to_owned(), line.2.map(str::to_owned)))
        .collect();
    assert_eq!(
        read[1],
        (
            "Arguments: {}\nNo result is recorded.".to_owned(),
            Some("f".to_owned())
        )
    );
    assert_eq!(
        read[3],
        (
            "Arguments: {}\nResult:\nof g".to_owned(),
            Some("g".to_owned())
        )
    );
    // A call without a name is no conclusion.
    let nameless = only(
        &json!({"messages": [{"role": "user", "content": "Go."}, {"role": "assistant", "tool_calls": [{"id": "c", "function": {"arguments": {}}}]}]}),
    );
    assert_eq!(nameless.final_analysis, None);
}

#[test]
fn calls_next_to_their_results_in_one_message_repeat_earlier_ones() {
    let call = json!({"id": "c", "name": "f", "arguments": "{}"});
    let messages = json!([
        {"source": "user", "type": "TextMessage", "content": "Full?"},
        {"source": "a", "type": "ToolCallRequestEvent", "content": [call]},
        {"source": "a", "type": "ToolCallExecutionEvent", "content": [{"content": "yes", "name": "f", "call_id": "c", "is_error": false}]},
        {"source": "a", "type": "ToolCallSummaryMessage", "content": "It is.", "tool_calls": [call],
            "results": [{"content": "yes", "name": "f", "call_id": "c", "is_error": false}]},
    ]);
    let repeated = "tool_calls: [{\"id\":\"c\",\"name\":\"f\",\"arguments\":\"{}\"}]\n\
        results: [{\"content\":\"yes\",\"name\":\"f\",\"call_id\":\"c\",\"is_error\":false}]";
    let expected = [
        ("tool", "Arguments: {}\nResult:\nyes"),
        ("unknown", repeated),
    ];
    assert_read("summary", messages, &expected, Some("It is."));
}

#[test]
fn types_with_a_dot_are_read_as_with_an_underscore() {
    let messages = json!([
        {"type": "message.input", "role": "user", "content": "Full?"},
        {"type": "function.call", "tool_call_id": "c", "name": "f", "arguments": "{}"},
        {"type": "function.result", "tool_call_id": "c", "result": "yes"},
        {"type": "message.output", "role": "assistant", "content": "It is."},
    ]);
    let expected = [("tool", "Arguments: {}\nResult:\nyes")];
    assert_read("mistral", messages, &expected, Some("It is."));
}
