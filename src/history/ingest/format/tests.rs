//! The tests of reading others' sessions: each format in the shapes that its documentation shows.

use serde_json::{Value, json};

use super::super::{InvalidSession, SessionInput, parse_session, parse_session_file};
use crate::wire::SessionFormat;

mod messages;
mod refused;
mod results;
mod runs;
mod spans;
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

/// A message as LangChain writes its objects.
fn langchain(class: &str, kwargs: Value) -> Value {
    json!({"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", class], "kwargs": kwargs})
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

/// Asserts the roles and texts of the messages after the question, and the conclusion.
fn assert_read(what: &str, messages: Value, expected: &[(&str, &str)], conclusion: Option<&str>) {
    let session = only(&json!({ "messages": messages }));
    let read: Vec<_> = lines(&session)[1..]
        .iter()
        .map(|line| (line.0, line.1))
        .collect();
    assert_eq!(read, expected, "{what}");
    assert_eq!(session.final_analysis.as_deref(), conclusion, "{what}");
}
