//! The tests of retrievals and failed steps in traces.

use super::*;

/// Returns the text of the only tool step next to a model's answer.
fn step(attributes: Value, rest: Value) -> String {
    let llm = json!({"openinference.span.kind": "LLM", "llm.input_messages.0.message.role": "user", "llm.input_messages.0.message.content": "Full?",
        "llm.output_messages.0.message.role": "assistant", "llm.output_messages.0.message.content": "Yes."});
    let mut span = otlp(("b", "a"), "step", (2, 3), &attributes);
    span.as_object_mut()
        .unwrap()
        .extend(rest.as_object().unwrap().clone());
    let session = only(&resource(vec![otlp(("a", ""), "llm", (1, 4), &llm), span]));
    let mut texts = session.conversation.iter().filter(|it| it.role == "tool");
    texts.next().unwrap().content.clone()
}

#[test]
fn documents_of_retrievers_and_rerankers_are_results() {
    let documents = "[{\"document\":{\"content\":\"M1\",\"score\":\"0.5\"}},{\"document\":{\"content\":\"M2\"}}]";
    let of = |prefix: &str, kind: &str, query: &str| {
        step(
            json!({"openinference.span.kind": kind, (query): "disk", (format!("{prefix}.0.document.content")): "M1",
            (format!("{prefix}.0.document.score")): "0.5", (format!("{prefix}.1.document.content")): "M2"}),
            json!({}),
        )
    };
    let expected = format!("Arguments: disk\nResult:\n{documents}");
    assert_eq!(
        of("retrieval.documents", "RETRIEVER", "input.value"),
        expected
    );
    assert_eq!(
        of("reranker.output_documents", "RERANKER", "reranker.query"),
        expected
    );
    // Phoenix's data frames have lists of objects with dotted names; other exporters nest all attributes.
    let span = |id: &str, parent: Value, attributes: Value| {
        json!({"name": id, "context": {"trace_id": "t", "span_id": id}, "parent_id": parent,
            "start_time": "2026-01-01T00:00:00Z", "attributes": attributes})
    };
    let frame = json!({"openinference.span.kind": "RETRIEVER", "input.value": "disk",
        "retrieval.documents": [{"document.content": "M1", "document.score": "0.5"}, {"document.content": "M2"}]});
    let nested = json!({"openinference": {"span": {"kind": "RETRIEVER"}}, "input": {"value": "disk"},
        "retrieval": {"documents": [{"document": {"content": "M1", "score": "0.5"}}, {"document": {"content": "M2"}}]}});
    for attributes in [frame, nested] {
        let root = json!({"openinference.span.kind": "CHAIN", "input.value": "Full?", "output.value": "Yes."});
        let session = only(&json!([
            span("a", Value::Null, root),
            span("b", json!("a"), attributes)
        ]));
        assert_eq!(session.conversation[1].content, expected);
    }
}

#[test]
fn exceptions_and_types_of_errors_are_the_text_of_failed_steps() {
    let tool =
        || json!({"openinference.span.kind": "TOOL", "tool.name": "df", "input.value": "db1"});
    let exception = |message: &str| {
        json!([{"name": "exception", "attributes": [
        {"key": "exception.type", "value": {"stringValue": "OSError"}}, {"key": "exception.message", "value": {"stringValue": message}}]}])
    };
    let genai = json!({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "df", "gen_ai.tool.call.arguments": "db1", "error.type": "timeout"});
    for (attributes, rest, expected) in [
        (
            tool(),
            json!({"status": {"code": 2}, "events": exception("no space")}),
            "Error:\nOSError\nno space",
        ),
        (
            tool(),
            json!({"events": exception("no space")}),
            "Error:\nOSError\nno space",
        ),
        (
            tool(),
            json!({"status": {"code": 2, "message": "OSError: no space"}, "events": exception("no space")}),
            "Error:\nOSError: no space",
        ),
        (
            genai.clone(),
            json!({"status": {"code": 2}}),
            "Error:\ntimeout",
        ),
        (
            genai,
            json!({"status": {"code": 2, "message": "too slow"}}),
            "Error:\ntoo slow\ntimeout",
        ),
        (
            tool(),
            json!({"status": {"code": "STATUS_CODE_OK"}, "events": exception("no space")}),
            "Result:\n",
        ),
    ] {
        assert_eq!(
            step(attributes, rest.clone()),
            format!("Arguments: db1\n{expected}"),
            "{rest}"
        );
    }
}

#[test]
fn a_tool_run_with_python_arguments_is_the_call_of_its_message() {
    let run = |id: &str, kind: &str, second: u8, inputs: Value, outputs: Value| {
        json!({"id": id, "trace_id": "r0", "name": id, "run_type": kind,
        "parent_run_id": if id == "r0" { None } else { Some("r0") }, "start_time": format!("2026-01-01T00:00:0{second}"), "inputs": inputs, "outputs": outputs})
    };
    let call = json!({"role": "assistant", "tool_calls": [{"id": "c", "name": "df", "args": {"host": "db1", "all": true}}]});
    let session = only(&json!([
        run(
            "r0",
            "chain",
            0,
            json!({"question": "Full?"}),
            json!({"answer": "Yes."})
        ),
        run(
            "llm",
            "llm",
            1,
            json!({"messages": [{"role": "user", "content": "Full?"}]}),
            json!({"choices": [{"message": call}]})
        ),
        run(
            "df",
            "tool",
            2,
            json!({"input": "{'host': 'db1', 'all': True}"}),
            json!({"output": "97 %"})
        ),
    ]));
    let called = "Arguments: {\"host\":\"db1\",\"all\":true}\nResult:\n97 %";
    assert_eq!(lines(&session)[1..], [("tool", called, Some("df"), None)]);
}
