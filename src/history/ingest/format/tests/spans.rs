//! The tests of spans of OpenTelemetry and OpenInference.

use super::*;

/// The messages of GenAI's conventions, before and after the call of the tool.
fn genai() -> (Value, Value, Value, Value) {
    let ask = json!({"role": "user", "parts": [{"type": "text", "content": "Weather in Paris?"}]});
    let call = json!({"role": "assistant", "parts": [{"type": "text", "content": "I look it up."},
        {"type": "tool_call", "id": "call_1", "name": "get_weather", "arguments": {"location": "Paris"}}], "finish_reason": "tool_call"});
    let result = json!({"role": "tool", "parts": [{"type": "tool_call_response", "id": " call_1", "response": "rainy, 57°F"}]});
    let answer = json!({"role": "assistant", "parts": [{"type": "text", "content": "Rain, 57°F."}], "finish_reason": "stop"});
    (ask, call, result, answer)
}

#[test]
fn message_repeated_by_genai_spans_appears_once() {
    let (ask, call, result, answer) = genai();
    let chat = |given: Value, gave: Value| {
        json!({
            "gen_ai.operation.name": "chat", "gen_ai.conversation.id": "conv-9",
            "gen_ai.system_instructions": "[{\"type\":\"text\",\"content\":\"Be brief.\"}]",
            "gen_ai.tool.definitions": openai_tools().to_string(),
            "gen_ai.input.messages": given.to_string(), "gen_ai.output.messages": json!([gave]).to_string(),
        })
    };
    let spans = |text: bool| {
        let tool = json!({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "get_weather", "gen_ai.tool.call.id": if text { "" } else { "call_1" },
            "gen_ai.tool.call.arguments": "{\"location\":\"Paris\"}", "gen_ai.tool.call.result": "rainy, 57°F"});
        vec![
            otlp(
                ("c2", "a1"),
                "chat",
                (6, 8),
                &chat(json!([ask, call, result]), answer.clone()),
            ),
            otlp(("t1", "a1"), "execute_tool get_weather", (4, 5), &tool),
            otlp(
                ("c1", "a1"),
                "chat",
                (1, 3),
                &chat(json!([ask]), call.clone()),
            ),
            otlp(
                ("a1", ""),
                "invoke_agent weather",
                (0, 9),
                &json!({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "weather"}),
            ),
        ]
    };
    for text in [true, false] {
        let session = only(&resource(spans(text)));
        assert_weather(&session, "genai");
        assert_eq!(session.external_id.as_deref(), Some("conv-9"));
        assert_eq!(session.agent.as_deref(), Some("weather"));
        assert_eq!(session.started_at.as_deref(), Some("2026-01-01T00:00:00Z"));
        assert_eq!(
            session.completed_at.as_deref(),
            Some("2026-01-01T00:00:09Z")
        );
    }
}

#[test]
fn spans_of_openinference_are_read_as_otlp_and_as_phoenix_writes_them() {
    let first = json!({
        "openinference.span.kind": "LLM", "llm.tools.0.tool.json_schema": "{\"type\":\"function\",\"function\":{\"name\":\"get_weather\"}}",
        "llm.input_messages.0.message.role": "system", "llm.input_messages.0.message.content": "Be brief.",
        "llm.input_messages.1.message.role": "user", "llm.input_messages.1.message.contents.0.message_content.type": "text",
        "llm.input_messages.1.message.contents.0.message_content.text": "Weather in Paris?",
        "llm.output_messages.0.message.role": "assistant", "llm.output_messages.0.message.content": "I look it up.",
        "llm.output_messages.0.message.tool_calls.0.tool_call.id": "call_1",
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "get_weather",
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": "{\"location\":\"Paris\"}",
    });
    let mut second = first.clone();
    for (key, value) in first.as_object().unwrap() {
        if let Some(rest) = key.strip_prefix("llm.output_messages.0") {
            second[format!("llm.input_messages.2{rest}")] = value.clone();
            second.as_object_mut().unwrap().remove(key);
        }
    }
    second["llm.input_messages.3.message.role"] = json!("tool");
    second["llm.input_messages.3.message.content"] = json!("rainy, 57°F");
    second["llm.input_messages.3.message.tool_call_id"] = json!("call_1");
    second["llm.output_messages.0.message.role"] = json!("assistant");
    second["llm.output_messages.0.message.content"] = json!("Rain, 57°F.");
    let tool = json!({"openinference.span.kind": "TOOL", "tool.name": "get_weather",
        "input.value": "{\"location\":\"Paris\"}", "output.value": "rainy, 57°F"});
    let session = only(&resource(vec![
        otlp(("c1", ""), "ChatCompletion", (1, 3), &first),
        otlp(("t1", ""), "get_weather", (4, 5), &tool),
        otlp(("c2", ""), "ChatCompletion", (6, 8), &second),
    ]));
    assert_weather(&session, "openinference, OTLP");
    assert_eq!(
        session.external_id.as_deref(),
        Some("4bf92f3577b34da6a3ce929d0e0e4736")
    );

    let phoenix = |id: &str, kind: &str, at: u64, attributes: &Value| {
        json!({"name": id, "span_kind": kind, "parent_id": null, "context": {"trace_id": "t", "span_id": id},
            "start_time": format!("2026-01-01T00:00:0{at}.5+00:00"), "end_time": format!("2026-01-01T00:00:0{}Z", at + 1),
            "status_code": "OK", "attributes": attributes})
    };
    let file = json!([
        phoenix("c1", "LLM", 1, &first),
        phoenix("t1", "TOOL", 4, &tool),
        phoenix("c2", "LLM", 6, &second),
    ]);
    assert_weather(&only(&file), "openinference, Phoenix");
}

#[test]
fn names_several_agents_and_sorts_tool_steps_by_time() {
    let say = |text: &str| {
        json!([{"role": "assistant", "parts": [{"type": "text", "content": text}]}]).to_string()
    };
    let agent =
        |name: &str| json!({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": name});
    let chat = |asked: &[&str], said: &str| {
        let asked = asked
            .iter()
            .map(|text| json!({"role": "user", "parts": [{"type": "text", "content": text}]}));
        json!({"gen_ai.operation.name": "chat", "gen_ai.output.messages": say(said),
            "gen_ai.input.messages": Value::from(asked.collect::<Vec<_>>()).to_string()})
    };
    let tool = json!({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "logs", "gen_ai.tool.call.result": "OOMKilled"});
    let session = only(&resource(vec![
        otlp(("a", ""), "", (0, 20), &agent("lead")),
        otlp(("b", "a"), "", (2, 9), &agent("reader")),
        otlp(
            ("c1", "a"),
            "",
            (1, 2),
            &chat(&["again", "again"], "Ask the reader."),
        ),
        otlp(("t1", "b"), "", (3, 4), &tool),
        otlp(("c2", "b"), "", (5, 6), &chat(&["again"], "It was killed.")),
        otlp(
            ("c3", "a"),
            "",
            (10, 11),
            &chat(&["again", "again", "Done?"], "Out of memory."),
        ),
    ]));
    assert_eq!(
        lines(&session),
        [
            ("user", "again", None, Some("lead")),
            ("user", "again", None, Some("lead")),
            ("assistant", "Ask the reader.", None, Some("lead")),
            ("tool", "Result:\nOOMKilled", Some("logs"), Some("reader")),
            ("user", "again", None, Some("reader")),
            ("assistant", "It was killed.", None, Some("reader")),
            ("user", "Done?", None, Some("lead")),
        ]
    );
    assert_eq!(session.final_analysis.as_deref(), Some("Out of memory."));
    assert_eq!(
        (session.agent.as_deref(), session.tools),
        (Some("lead"), vec!["logs".to_owned()])
    );
}

#[test]
fn a_model_call_that_two_libraries_record_counts_once() {
    let messages = |index: u8, role: &str, said: &str| {
        let side = if role == "user" { "input" } else { "output" };
        json!({(format!("llm.{side}_messages.{index}.message.role")): role, (format!("llm.{side}_messages.{index}.message.content")): said})
    };
    let mut call = messages(0, "user", "Full?");
    call.as_object_mut().unwrap().extend(
        messages(0, "assistant", "Yes.")
            .as_object()
            .unwrap()
            .clone(),
    );
    call["openinference.span.kind"] = json!("LLM");
    let tool = json!({"openinference.span.kind": "TOOL", "tool.name": "df", "input.value": "{\"host\": 1}", "output.value": "97 %"});
    let session = only(&resource(vec![
        otlp(("a", ""), "ChatOpenAI", (1, 9), &call),
        otlp(("b", "a"), "ChatCompletion", (2, 8), &call),
        otlp(("t", ""), "df", (3, 5), &tool),
        otlp(("u", "t"), "df", (4, 5), &tool),
    ]));
    assert_eq!(
        lines(&session),
        [
            ("user", "Full?", None, None),
            (
                "tool",
                "Arguments: {\"host\":1}\nResult:\n97 %",
                Some("df"),
                None
            ),
        ]
    );
    assert_eq!(session.final_analysis.as_deref(), Some("Yes."));
}

#[test]
fn a_plain_span_without_steps_within_it_counts_as_a_tool() {
    let observation = |id: &str, parent: Option<&str>, kind: &str, input: Value, output: Value| {
        json!({"id": id, "traceId": "t", "parentObservationId": parent, "type": kind, "name": id, "startTime": "2026-01-01T00:00:00Z",
            "input": input, "output": output})
    };
    let session = only(&json!({"data": [
        observation("agent", None, "AGENT", json!("Down?"), json!("Yes.")),
        observation("step", Some("agent"), "SPAN", json!("inner"), json!("inner")),
        observation("get_pods", Some("step"), "SPAN", json!({"args": [], "kwargs": {"ns": "a"}}), json!("CrashLoop")),
        observation("rail", Some("step"), "CHAIN", json!("x"), json!("y")),
    ]}));
    assert_eq!(
        lines(&session),
        [
            ("user", "Down?", None, None),
            (
                "tool",
                "Arguments: {\"ns\":\"a\"}\nResult:\nCrashLoop",
                Some("get_pods"),
                None
            ),
        ]
    );
    assert_eq!(session.final_analysis.as_deref(), Some("Yes."));
}
