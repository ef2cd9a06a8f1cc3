//! The tests of reading others' sessions: each format in the shapes that its documentation shows.

use serde_json::{Value, json};

use super::super::{InvalidSession, SessionInput, parse_session, parse_session_file};
use crate::wire::SessionFormat;

mod traces;
mod transcripts;
mod unknown;

/// Role, content, tool and agent of a message.
type Line<'a> = (&'a str, &'a str, Option<&'a str>, Option<&'a str>);

fn read(file: &Value, format: Option<SessionFormat>) -> Vec<SessionInput> {
    parse_session_file("f.json", file.to_string().as_bytes(), format)
        .unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the only session of a file with a detectable format.
fn only(file: &Value) -> SessionInput {
    let mut sessions = read(file, None);
    assert_eq!(sessions.len(), 1);
    sessions.remove(0)
}

fn lines(session: &SessionInput) -> Vec<Line<'_>> {
    let messages = session.conversation.iter();
    messages
        .map(|m| {
            let (tool, agent) = (m.tool_name.as_deref(), m.agent.as_deref());
            (m.role.as_str(), m.content.as_str(), tool, agent)
        })
        .collect()
}

fn error(file: &Value, format: Option<SessionFormat>) -> String {
    parse_session_file("f.json", file.to_string().as_bytes(), format)
        .unwrap_err()
        .to_string()
}

const WEATHER: &str = "Arguments: {\"location\":\"Paris\"}\nResult:\nrainy, 57°F";

/// The same conversation in every shape of messages.
fn assert_weather(session: &SessionInput, what: &str) {
    assert_eq!(
        lines(session),
        [
            ("system", "Be brief.", None, None),
            ("user", "Weather in Paris?", None, None),
            ("assistant", "I look it up.", None, None),
            ("tool", WEATHER, Some("get_weather"), None),
        ],
        "{what}"
    );
    assert_eq!(
        session.final_analysis.as_deref(),
        Some("Rain, 57°F."),
        "{what}"
    );
    assert_eq!(session.status.as_deref(), Some("completed"), "{what}");
    assert_eq!(session.tools, ["get_weather"], "{what}");
    // What the judge is shown in place of an alert.
    let id = session.session_id.unwrap();
    let record = session.clone().into_record(id, "file").unwrap();
    assert_eq!(record.alert_data, json!("Weather in Paris?"), "{what}");
}

fn openai_messages() -> Value {
    json!([
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Weather in Paris?"}]},
        {"role": "assistant", "content": "I look it up.", "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": "{\"location\":\"Paris\"}"}}]},
        {"role": "tool", "tool_call_id": "call_1", "content": "rainy, 57°F"},
        {"role": "assistant", "content": "Rain, 57°F.", "refusal": null},
    ])
}

fn openai_tools() -> Value {
    json!([{"type": "function", "function": {"name": "get_weather", "parameters": {}}}])
}

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

/// A span as OTLP writes it.
fn otlp(span: (&str, &str), name: &str, seconds: (u64, u64), attributes: &Value) -> Value {
    let typed = |value: &Value| json!({"stringValue": value.as_str().unwrap()});
    let pairs = attributes.as_object().unwrap().iter();
    let nanos = |s: u64| (1_767_225_600_000_000_000 + s * 1_000_000_000).to_string();
    json!({
        "traceId": "4bf92f3577b34da6a3ce929d0e0e4736", "spanId": span.0, "parentSpanId": span.1, "name": name, "kind": 3,
        "startTimeUnixNano": nanos(seconds.0), "endTimeUnixNano": nanos(seconds.1), "status": {},
        "attributes": pairs.map(|(key, value)| json!({"key": key, "value": typed(value)})).collect::<Vec<_>>(),
    })
}

fn resource(spans: Vec<Value>) -> Value {
    json!({"resourceSpans": [{"resource": {"attributes": []}, "scopeSpans": [{"scope": {"name": "x"}, "spans": spans}]}]})
}

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

/// A message as LangChain writes its objects.
fn langchain(class: &str, kwargs: Value) -> Value {
    json!({"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", class], "kwargs": kwargs})
}

#[test]
fn runs_of_langsmith_are_read_flat_and_nested() {
    let run = |id: &str, parent: Option<&str>, kind: &str, second: u64| {
        json!({"id": id, "trace_id": "r0", "parent_run_id": parent, "name": if kind == "tool" { "get_weather" } else { "weather" }, "run_type": kind,
            "start_time": format!("2026-01-01T00:00:0{second}.123456"), "end_time": format!("2026-01-01T00:00:0{}", second + 1),
            "status": "success", "error": null, "inputs": {}, "outputs": {}, "feedback_stats": {"correctness": {"avg": 1.0}}})
    };
    let (system, user) = (
        langchain("SystemMessage", json!({"content": "Be brief."})),
        langchain("HumanMessage", json!({"content": "Weather in Paris?"})),
    );
    let call = langchain(
        "AIMessage",
        json!({"content": "I look it up.", "tool_calls": [{"name": "get_weather", "args": {"location": "Paris"}, "id": "call_1"}],
        "additional_kwargs": {"tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": "{}"}}]}}),
    );
    let result = langchain(
        "ToolMessage",
        json!({"content": "rainy, 57°F", "tool_call_id": "call_1", "name": "get_weather"}),
    );
    let mut root = run("r0", None, "chain", 0);
    root["extra"] = json!({"metadata": {"thread_id": "thread-4"}});
    let mut first = run("r1", Some("r0"), "llm", 1);
    first["extra"] = json!({"invocation_params": {"tools": openai_tools()}});
    first["inputs"] = json!({"messages": [[system, user]]});
    first["outputs"] = json!({"generations": [[{"text": "I look it up.", "message": call}]]});
    let mut tool = run("r2", Some("r0"), "tool", 3);
    tool["inputs"] = json!({"input": "{\"location\":\"Paris\"}"});
    tool["outputs"] = json!({"output": result});
    let mut second = run("r3", Some("r0"), "llm", 5);
    second["inputs"] = json!({"messages": [[system, user, call, result]]});
    second["outputs"] =
        json!({"choices": [{"message": {"role": "assistant", "content": "Rain, 57°F."}}]});
    let flat = json!([second, root, tool, first]);
    for (file, what) in [
        (flat.clone(), "flat"),
        (json!({"runs": flat}), "an answer of the API"),
    ] {
        let session = only(&file);
        assert_weather(&session, what);
        assert_eq!(session.external_id.as_deref(), Some("thread-4"));
        assert_eq!(
            session.started_at.as_deref(),
            Some("2026-01-01T00:00:00.123456Z")
        );
    }
    let mut nested = root;
    nested["child_runs"] = json!([first, tool, second]);
    for run in nested["child_runs"].as_array_mut().unwrap() {
        run.as_object_mut()
            .unwrap()
            .retain(|key, _| !matches!(key.as_str(), "trace_id" | "parent_run_id"));
    }
    assert_weather(&only(&nested), "nested");
    nested["status"] = json!("error");
    assert_eq!(only(&nested).status.as_deref(), Some("failed"));
    let said = read(&nested, None)
        .iter()
        .any(|session| format!("{session:?}").contains("correctness"));
    assert!(!said, "what others think of it would sway the judge");
}

#[test]
fn trace_without_messages_has_input_and_output_of_its_root() {
    let session = only(&json!([
        {"id": "r0", "run_type": "chain", "name": "assistant", "inputs": {"question": "Why?"}, "outputs": {"answer": "So."}},
        {"id": "r1", "trace_id": "r0", "parent_run_id": "r0", "run_type": "prompt", "name": "p", "inputs": {}, "outputs": {}},
    ]));
    assert_eq!(lines(&session), [("user", "Why?", None, None)]);
    assert_eq!(session.final_analysis.as_deref(), Some("So."));
    assert_eq!(session.agent.as_deref(), Some("assistant"));
}

#[test]
fn each_sample_of_an_inspect_log_is_a_session() {
    let mut messages = openai_messages();
    messages[2]["tool_calls"] = json!([{"id": "call_1", "function": "get_weather", "arguments": {"location": "Paris"}, "type": "function"}]);
    messages[3]["function"] = json!("get_weather");
    let sample = |id: Value, epoch: u64| {
        json!({"id": id, "epoch": epoch, "input": "Weather in Paris?", "target": "SECRET TARGET", "messages": messages,
            "events": [{"event": "model", "tools": [{"name": "get_weather"}]}], "output": {"completion": "Rain, 57°F."},
            "scores": {"includes": {"value": "C", "explanation": "SECRET SCORE"}}, "started_at": "2026-01-01T00:00:00+00:00"})
    };
    let log = json!({"version": 2, "status": "success", "eval": {"run_id": "R1", "task": "weather", "model": "openai/gpt-4o"}, "plan": {},
        "samples": [sample(json!(1), 1), sample(json!("b"), 2)]});
    let sessions = read(&log, None);
    let ids: Vec<_> = sessions
        .iter()
        .map(|s| s.external_id.as_deref().unwrap())
        .collect();
    assert_eq!(ids, ["R1/1/1", "R1/b/2"]);
    for session in &sessions {
        assert_weather(session, "inspect");
        assert_eq!(
            (session.alert_type.as_deref(), session.agent.as_deref()),
            (Some("weather"), Some("openai/gpt-4o"))
        );
        assert!(!format!("{session:?}").contains("SECRET"));
    }
    let mut put = log;
    put["format"] = json!("inspect");
    let InvalidSession { faults } = parse_session(&put.to_string()).unwrap_err();
    assert!(faults[0].message.contains("holds 2 sessions"), "{faults:?}");
}

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

/// A conversation with a call, as the state of an agent or its outermost step has it.
fn state() -> Value {
    json!([
        {"role": "user", "content": "Full?"},
        {"role": "assistant", "content": "I look.", "tool_calls": [{"id": "c1", "function": {"name": "ls", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "97 %"},
        {"role": "assistant", "content": "Yes."},
    ])
}

fn assert_state(session: &SessionInput, what: &str) {
    assert_eq!(
        lines(session),
        [
            ("user", "Full?", None, None),
            ("assistant", "I look.", None, None),
            ("tool", "Arguments: {}\nResult:\n97 %", Some("ls"), None),
        ],
        "{what}"
    );
    assert_eq!(session.final_analysis.as_deref(), Some("Yes."), "{what}");
}

#[test]
fn outermost_step_holds_the_conversation_if_no_model_step_does() {
    let root = |input: Value, output: Value| json!({"id": "r", "trace_id": "r", "run_type": "chain", "start_time": "2026-01-01T00:00:00Z", "inputs": input, "outputs": output});
    let after = json!(state().as_array().unwrap()[1..]);
    for (what, run) in [
        (
            "state",
            root(
                json!({"messages": [state()[0]]}),
                json!({"messages": state()}),
            ),
        ),
        (
            "pair",
            root(
                json!({"messages": [["user", "Full?"]]}),
                json!({"messages": state()}),
            ),
        ),
        (
            "answer",
            root(json!({"question": "Full?"}), json!({"messages": after})),
        ),
        (
            "braintrust",
            json!({"id": "r", "span_id": "r", "root_span_id": "r", "span_attributes": {"type": "task"},
                "input": [state()[0]], "output": after}),
        ),
        (
            "input and output",
            json!({"id": "t", "input": {"messages": [state()[0]]}, "output": {"messages": state()}}),
        ),
    ] {
        assert_state(&only(&run), what);
    }
    let rules = [json!({"role": "system", "content": "Be brief."})];
    let listed = |messages: &[Value]| json!({"messages": ([&rules, messages].concat())});
    let (asked, said) = (
        listed(&[state()[0].clone()]),
        listed(state().as_array().unwrap()),
    );
    let session = only(&json!({"id": "t", "input": asked, "output": said}));
    assert_eq!(session.conversation.len(), 4);
    // The step of a tool repeats the message with its result.
    let tool = json!({"id": "t", "trace_id": "r", "parent_run_id": "r", "run_type": "tool", "name": "ls",
        "start_time": "2026-01-01T00:00:01Z", "inputs": {}, "outputs": {"output": "97 %"}});
    let mut run = root(
        json!({"messages": [state()[0]]}),
        json!({"messages": state()}),
    );
    assert_state(&only(&json!([run.clone(), tool])), "with a tool");
    // Each run of a thread repeats the thread, or holds its own turn alone.
    let mut thread = |id: &str, input: &str, output: Value| {
        run["id"] = id.into();
        run["trace_id"] = id.into();
        run["extra"] = json!({"metadata": {"thread_id": "t-1"}});
        run["inputs"] = json!({"messages": [{"role": "user", "content": input}]});
        run["outputs"] = json!({"messages": output});
        run.clone()
    };
    let mut whole = state().as_array().unwrap().clone();
    whole.extend([
        json!({"role": "user", "content": "Go on."}),
        json!({"role": "assistant", "content": "Done."}),
    ]);
    let runs = [
        thread("r1", "Full?", state()),
        thread("r2", "Go on.", whole.into()),
    ];
    let session = only(&json!(runs));
    assert_eq!(session.conversation.len(), 5);
    assert_eq!(session.final_analysis.as_deref(), Some("Done."));
    let say = |text: &str| json!([{"role": "assistant", "content": text}]);
    let runs = [
        thread("r1", "Go on.", say("First.")),
        thread("r2", "Go on.", say("Second.")),
    ];
    let session = only(&json!(runs));
    let asked = session
        .conversation
        .iter()
        .filter(|it| it.content == "Go on.");
    assert_eq!(asked.count(), 2);
}

#[test]
fn steps_without_an_end_time_stand_at_their_start() {
    let step = |id: &str, parent: Value, kind: &str, second: u8, input: Value, output: Value| {
        json!({"id": id, "traceId": "t", "parentObservationId": parent, "type": kind, "name": "ls",
            "startTime": format!("2026-01-01T00:00:0{second}Z"), "input": input, "output": output})
    };
    for seconds in [[0, 0, 0, 0], [0, 1, 2, 3]] {
        let [root, first, tool, last] = seconds;
        let session = only(&json!([
            step(
                "a",
                Value::Null,
                "AGENT",
                root,
                json!("Full?"),
                json!("Yes.")
            ),
            step(
                "b",
                json!("a"),
                "GENERATION",
                first,
                json!([state()[0]]),
                state()[1].clone()
            ),
            step("c", json!("a"), "TOOL", tool, json!({}), json!("97 %")),
            step(
                "d",
                json!("a"),
                "GENERATION",
                last,
                json!([state()[0], state()[1], state()[2]]),
                state()[3].clone()
            ),
        ]));
        assert_state(&session, &format!("{seconds:?}"));
    }
}

#[test]
fn states_of_one_conversation_are_one_session() {
    let until = |n: usize| json!({"messages": state().as_array().unwrap()[..n]});
    let states = json!([until(1), until(2), until(3), until(4)]);
    assert_state(&only(&states), "each repeats the one before it");
    let mut other = states;
    other[1]["messages"][0]["content"] = "Slow?".into();
    assert_eq!(read(&other, None).len(), 4);
}

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
fn a_tools_object_stays_an_object() {
    let run = |id: &str, kind: &str, second: u8, inputs: Value, outputs: Value| {
        json!({"id": id, "trace_id": "r0", "parent_run_id": if id == "r0" { None } else { Some("r0") }, "name": id, "run_type": kind,
            "start_time": format!("2026-01-01T00:00:0{second}"), "inputs": inputs, "outputs": outputs})
    };
    let session = only(&json!([
        run(
            "r0",
            "chain",
            0,
            json!({"question": "Approved?"}),
            json!({"answer": "No."})
        ),
        run(
            "r1",
            "tool",
            1,
            json!({"order": 4711}),
            json!({"approved": false})
        ),
        run(
            "r2",
            "tool",
            2,
            json!({"order": 4711}),
            json!({"error": "permission denied"})
        ),
        run(
            "r3",
            "tool",
            3,
            json!({"input": "text"}),
            json!({"output": {"state": "open"}})
        ),
    ]));
    let read: Vec<&str> = session
        .conversation
        .iter()
        .map(|it| it.content.as_str())
        .collect();
    assert_eq!(
        read,
        [
            "Approved?",
            "Arguments: {\"order\":4711}\nResult:\n{\"approved\":false}",
            "Arguments: {\"order\":4711}\nResult:\n{\"error\":\"permission denied\"}",
            "Arguments: text\nResult:\n{\"state\":\"open\"}",
        ]
    );
    assert_eq!(session.final_analysis.as_deref(), Some("No."));
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
fn a_question_that_only_the_outermost_step_holds_is_added() {
    let trace = |question: &str| {
        only(&json!([
            {"id": "r0", "run_type": "chain", "name": "rag", "inputs": {"question": question}, "outputs": {"answer": "97 %"}},
            {"id": "r1", "trace_id": "r0", "parent_run_id": "r0", "run_type": "llm", "name": "m",
                "inputs": {"messages": [{"role": "user", "content": "Context: df. Which host is full?"}]},
                "outputs": {"choices": [{"message": {"role": "assistant", "content": "97 %"}}]}},
        ]))
    };
    assert_eq!(trace("Which host is full?").conversation.len(), 1);
    let added = trace("How full is db1?");
    assert_eq!(lines(&added)[0], ("user", "How full is db1?", None, None));
    assert_eq!(added.final_analysis.as_deref(), Some("97 %"));
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
