//! The tests of retrievals and failed steps in traces.

use super::*;

#[test]
fn a_message_that_repeats_a_result_without_its_id_counts_once() {
    let llm = |said: &str, roles: &[(&str, &str)]| {
        let mut attributes = json!({"openinference.span.kind": "LLM", "llm.output_messages.0.message.role": "assistant",
            "llm.output_messages.0.message.content": said});
        for (n, (role, text)) in roles.iter().enumerate() {
            attributes[format!("llm.input_messages.{n}.message.role")] = json!(role);
            attributes[format!("llm.input_messages.{n}.message.content")] = json!(text);
        }
        attributes
    };
    let tool = |pod: &str, returned: &str| {
        json!({"openinference.span.kind": "TOOL", "tool.name": "status",
        "input.value": json!({"args": [], "kwargs": {"pod": pod}}).to_string(), "output.value": returned})
    };
    let asked = ("user", "Why?");
    let observed = "Observation:\ngone: no pod a\nTry again.";
    let spans = vec![
        otlp(("a", ""), "llm", (1, 2), &llm("I look.", &[asked])),
        otlp(("b", ""), "tool", (3, 4), &tool("a", "gone: no pod a")),
        otlp(("c", ""), "tool", (5, 6), &tool("b", "fine")),
        otlp(
            ("d", ""),
            "llm",
            (7, 8),
            &llm(
                "OOM.",
                &[
                    asked,
                    ("assistant", "I look."),
                    ("tool-response", observed),
                    ("tool-response", "Other."),
                ],
            ),
        ),
    ];
    let session = only(&resource(spans));
    let read: Vec<_> = lines(&session)
        .iter()
        .map(|line| (line.0, line.1))
        .collect();
    let first = format!("Arguments: {{\"pod\":\"a\"}}\nResult:\n{observed}");
    let expected = [
        ("user", "Why?"),
        ("assistant", "I look."),
        ("tool", first.as_str()),
        ("tool", "Arguments: {\"pod\":\"b\"}\nResult:\nfine"),
        ("tool-response", "Other."),
    ];
    assert_eq!(read, expected);
}

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
fn arguments_of_rerankers_and_embeddings_are_read_and_vectors_skipped() {
    let reranker = json!({"openinference.span.kind": "RERANKER", "input.value": "disk", "reranker.query": "disk", "reranker.top_k": 1,
        "reranker.model_name": "m", "reranker.input_documents.0.document.content": "M1", "reranker.output_documents.0.document.content": "M2"});
    let expected = "Arguments: {\"query\":\"disk\",\"top_k\":1,\"input_documents\":[{\"document\":{\"content\":\"M1\"}}]}\nResult:\n[{\"document\":{\"content\":\"M2\"}}]";
    let read = |attributes: Value| step(json!({}), json!({ "attributes": attributes }));
    assert_eq!(read(reranker), expected);
    let vectors = "[[0.1,0.2]]";
    let frame = json!([{"embedding.text": "M1", "embedding.vector": [0.1]}, {"embedding.text": "M2", "embedding.vector": [0.2]}]);
    for embedding in [
        json!({"embedding.embeddings": frame}),
        json!({"embedding.embeddings.0.embedding.text": "M1", "embedding.embeddings.0.embedding.vector": [0.1], "embedding.embeddings.1.embedding.text": "M2"}),
        json!({"input.value": "[\"M1\",\"M2\"]"}),
    ] {
        let mut attributes = json!({"openinference.span.kind": "EMBEDDING", "embedding.model_name": "m", "output.value": vectors});
        let fields = attributes.as_object_mut().unwrap();
        fields.extend(embedding.as_object().unwrap().clone());
        let expected = "Arguments: [\"M1\",\"M2\"]\nResult:\n";
        assert_eq!(read(attributes), expected);
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
fn the_error_of_a_failed_step_is_kept_next_to_another_result() {
    let call = json!({"role": "assistant", "parts": [{"type": "tool_call", "id": "c", "name": "df", "arguments": "db1"}]});
    let llm = |messages: Value, answer: &Value| json!({"gen_ai.operation.name": "chat", "gen_ai.input.messages": messages.to_string(), "gen_ai.output.messages": json!([answer]).to_string()});
    let user = json!({"role": "user", "parts": [{"type": "text", "content": "Full?"}]});
    let answer = json!({"role": "assistant", "parts": [{"type": "text", "content": "Yes."}]});
    for (returned, own, expected) in [
        ("I can't.", None, "I can't.\ntoo slow\ntimeout"),
        ("Failed: too slow.", None, "Failed: too slow.\ntimeout"),
        ("timeout: too slow", None, "timeout: too slow"),
        ("I can't.", Some("half"), "I can't.\ntoo slow\ntimeout"),
        ("", Some("half"), "half\ntoo slow\ntimeout"),
    ] {
        let result = json!({"role": "tool", "parts": [{"type": "tool_call_response", "id": "c", "response": returned}]});
        let mut tool = json!({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "df", "gen_ai.tool.call.id": "c",
            "gen_ai.tool.call.arguments": "db1", "error.type": "timeout"});
        if let Some(own) = own {
            tool["gen_ai.tool.call.result"] = own.into();
        }
        let mut tool = otlp(("b", "a"), "execute_tool df", (2, 3), &tool);
        tool["status"] = json!({"code": 2, "message": "too slow"});
        let history = match returned {
            "" => json!([user, call]),
            _ => json!([user, call, result]),
        };
        let session = only(&resource(vec![
            otlp(("a", ""), "chat", (1, 2), &llm(json!([user]), &call)),
            tool,
            otlp(("d", "a"), "chat", (3, 4), &llm(history, &answer)),
        ]));
        let expected = format!("Arguments: db1\nError:\n{expected}");
        let expected = ("tool", expected.as_str(), Some("df"), None);
        assert_eq!(lines(&session)[1..], [expected], "{returned}");
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
