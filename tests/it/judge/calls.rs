//! Requests on the wire, and the handling of rejections and broken connections.

use std::time::Duration;

use gavel::judge::ErrorClass;
use gavel::judge::gate::HeldBack;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use wiremock::{MockServer, ResponseTemplate};

use super::stage::*;
use crate::support::no_listener;
use crate::support::wait::eventually;

#[tokio::test]
async fn call_sends_the_schema_key_and_cap() {
    let staging = Staging {
        entry: json!({ "headers": { "x-team": "sre", "x-unset": "" }, "extra_body": { "seed": 7 } }),
        ..Staging::default()
    };
    let stage = Stage::with(staging, vec![good()]).await;
    reply_of(stage.ask().await);
    let received = stage.server.received_requests().await.unwrap();
    assert_eq!(received[0].url.path(), "/v1/chat/completions");
    let header = |name: &str| received[0].headers[name].to_str().unwrap().to_owned();
    assert!(!received[0].headers.contains_key("x-unset"));
    assert_eq!(header("authorization"), format!("Bearer {KEY}"));
    assert_eq!(header("x-team"), "sre");
    let question = question("evidence");
    let expected = json!({
        "model": "gpt-4o-mini",
        "stream": false,
        "messages": [{ "role": "user", "content": question.prompt.to_string() }],
        "response_format": { "type": "json_schema", "json_schema": {
            "name": "score", "strict": true, "schema": question.schema.value(),
        }},
        "max_completion_tokens": 8192,
        "temperature": 0.0,
        "seed": 7,
    });
    assert_eq!(received[0].body_json::<Value>().unwrap(), expected);
}

#[tokio::test]
async fn schema_properties_are_sent_in_their_required_order() {
    let stage = Stage::new(vec![good()]).await;
    reply_of(stage.ask().await);
    let received = stage.server.received_requests().await.unwrap();
    let body = String::from_utf8(received[0].body.clone()).unwrap();
    assert!(body.find("\"why\":{").unwrap() < body.find("\"total\":{").unwrap());
}

#[tokio::test]
async fn key_header_and_prefix_are_configurable_and_none_sends_no_key() {
    let azure = json!({ "auth_header": "api-key", "auth_prefix": "", "path": "openai/v1/x" });
    let stage = Stage::with(
        Staging {
            entry: azure,
            ..Staging::default()
        },
        vec![good()],
    )
    .await;
    reply_of(stage.ask().await);
    let received = stage.server.received_requests().await.unwrap();
    assert_eq!(received[0].headers["api-key"], KEY);
    assert_eq!(received[0].url.path(), "/v1/openai/v1/x");

    let none = Staging {
        entry: json!({ "auth": "none" }),
        ..Staging::default()
    };
    let stage = Stage::with(none, vec![good()]).await;
    reply_of(stage.ask().await);
    let received = stage.server.received_requests().await.unwrap();
    assert!(!received[0].headers.contains_key("authorization"));
}

#[tokio::test]
async fn wrong_key_closes_the_lane_and_is_hidden_even_if_echoed() {
    let body = json!({ "error": { "message": format!("Incorrect API key\u{1b}[31m provided: {KEY}"), "code": "invalid_api_key" } });
    let stage = Stage::new(vec![fails(401, body)]).await;
    let (error, retries_spent, _) = error_of(stage.ask().await);
    assert_eq!(
        (error.class, error.status),
        (ErrorClass::Misconfigured, Some(401))
    );
    assert_eq!(retries_spent, 0);
    let closures = stage.gate.take_closures();
    assert_eq!(closures[0].why, HeldBack::Misconfigured);
    let everything = format!(
        "{error:?} {closures:?} {:?} {:?}",
        stage.calls(),
        stage.gate.snapshot()
    );
    assert!(everything.contains("[redacted]"));
    assert!(everything.contains("its key is refused: set THE_KEY"));
    assert!(!error.message.contains(char::is_control), "{error}");
    assert!(!everything.contains(KEY));
    assert_eq!(
        stage.gate.closed("test").unwrap().why,
        HeldBack::Misconfigured
    );
}

#[tokio::test]
async fn oversized_prompt_is_too_large_and_not_retried() {
    let body = json!({ "error": { "message": "maximum context length is 128000", "code": "context_length_exceeded" } });
    let stage = Stage::new(vec![fails(400, body)]).await;
    let (error, ..) = error_of(stage.ask().await);
    assert_eq!(error.class, ErrorClass::TooLarge);
    assert_eq!(stage.requests().await.len(), 1);
}

#[tokio::test]
async fn rejected_temperature_is_dropped_once_and_remembered() {
    let body = json!({ "error": {
        "message": "Unsupported value: 'temperature' does not support 0 with this model.",
        "param": "temperature", "code": "unsupported_value",
    }});
    let stage = Stage::new(vec![fails(400, body), good()]).await;
    let (_, retries_spent, _) = reply_of(stage.ask().await);
    assert_eq!(retries_spent, 0);
    let other = stage.judge.ask(&question("other"), context()).await;
    reply_of(other);
    let requests = stage.requests().await;
    let had: Vec<bool> = requests
        .iter()
        .map(|request| request.get("temperature").is_some())
        .collect();
    assert_eq!(had, [true, false, false]);
}

#[tokio::test]
async fn rejected_schema_falls_back_to_json_object_then_to_the_prompt() {
    let schema = json!({ "error": { "message": "response_format json_schema is not supported" } });
    let object = json!({ "error": { "message": "json_object is not supported", "param": "response_format" } });
    let stage = Stage::new(vec![fails(400, schema), fails(422, object), good()]).await;
    reply_of(stage.ask().await);
    let requests = stage.requests().await;
    assert_eq!(requests[0]["response_format"]["type"], "json_schema");
    assert_eq!(requests[1]["response_format"]["type"], "json_object");
    assert!(requests[2].get("response_format").is_none());
    let prompt = requests[2]["messages"][0]["content"].as_str().unwrap();
    assert!(prompt.contains("JSON schema") && prompt.contains("from 0 to 100"));
}

#[tokio::test]
async fn old_output_cap_is_renamed_and_repeated_rejection_ends() {
    let new = json!({ "error": { "message": "unknown field max_completion_tokens" } });
    let old = json!({ "error": { "message": "max_tokens must be smaller" } });
    let stage = Stage::new(vec![fails(400, new), fails(400, old)]).await;
    let (error, ..) = error_of(stage.ask().await);
    assert_eq!(error.class, ErrorClass::Rejected);
    assert!(
        error.message.contains("max_tokens must be smaller"),
        "{error}"
    );
    let requests = stage.requests().await;
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[1]["max_tokens"], 8192);
    assert!(requests[1].get("max_completion_tokens").is_none());
}

#[tokio::test]
async fn entry_that_requires_the_schema_makes_no_call_without_it() {
    let staging = Staging {
        entry: json!({ "structured": "json_schema" }),
        ..Staging::default()
    };
    let refused = json!({ "error": { "message": "no json_schema here" } });
    let stage = Stage::with(staging, vec![fails(400, refused)]).await;
    let (error, ..) = error_of(stage.ask().await);
    assert_eq!(error.class, ErrorClass::Rejected);
    assert_eq!(stage.requests().await.len(), 1);
}

#[tokio::test]
async fn redirect_is_rejected_and_not_followed() {
    let elsewhere = ResponseTemplate::new(307).insert_header("location", "/v1/elsewhere");
    let stage = Stage::new(vec![elsewhere]).await;
    let (error, ..) = error_of(stage.ask().await);
    assert_eq!(
        (error.class, error.status),
        (ErrorClass::Rejected, Some(307))
    );
    assert!(error.message.contains("redirect"), "{error}");
    assert_eq!(stage.server.received_requests().await.unwrap().len(), 1);
    assert_eq!(stage.gate.closed("test"), None);
}

#[tokio::test]
async fn call_of_an_abandoned_run_is_logged_at_an_unknown_cost() {
    let stage = Stage::new(vec![good().set_delay(Duration::from_secs(60))]).await;
    tokio::select! {
        _ = stage.ask() => panic!("the answer takes a minute"),
        () = eventually(Duration::from_secs(20), "the call is out", || async {
            (stage.requests().await.len() == 1).then_some(())
        }) => {}
    }
    let [call] = &stage.calls()[..] else {
        panic!("{:?}", stage.calls());
    };
    assert_eq!(call.error, Some(ErrorClass::Transient));
    assert_eq!(call.usage.cost_usd, None, "nobody knows what it cost");
}

#[tokio::test]
async fn judge_timeout_is_a_transient_failure() {
    let staging = Staging {
        entry: json!({ "timeout_s": "0.05" }),
        ..Staging::default()
    };
    let slow = good().set_delay(Duration::from_secs(30));
    let stage = Stage::with(staging, vec![slow]).await;
    let (error, retries_spent, usage) = error_of(stage.ask().await);
    assert_eq!(error.class, ErrorClass::Transient);
    assert!(error.message.contains("within 0.05 s"), "{error}");
    assert_eq!(retries_spent, 3);
    assert_eq!(usage.cost_usd, None, "nobody knows what it cost");
    assert!(
        stage
            .calls()
            .iter()
            .all(|call| call.usage.cost_usd.is_none())
    );
    assert_eq!(
        stage.gate.room("test").unwrap().cap,
        Some(1),
        "late every time, one by one"
    );
}

#[tokio::test]
async fn body_that_stops_halfway_is_a_transient_failure() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        for _ in 0..4 {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut request = [0; 4096];
            let _read = socket.read(&mut request).await.unwrap();
            let half = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 900\r\n\r\n{\"choices\": [";
            socket.write_all(half.as_bytes()).await.unwrap();
        }
    });
    let base_url = format!("http://{address}/v1");
    let stage = Stage::at(MockServer::start().await, &base_url, Staging::default());
    let (error, ..) = error_of(stage.ask().await);
    assert_eq!(
        (error.class, error.status),
        (ErrorClass::Transient, Some(200))
    );
    assert!(error.message.contains("broke off"), "{error}");
    server.await.unwrap();
}

#[tokio::test]
async fn unreachable_address_is_a_transient_failure() {
    let (_nobody, address) = no_listener();
    let base_url = format!("http://{address}/v1");
    let stage = Stage::at(MockServer::start().await, &base_url, Staging::default());
    let (error, ..) = error_of(stage.ask().await);
    assert_eq!((error.class, error.status), (ErrorClass::Transient, None));
}

#[tokio::test]
async fn invalid_completions_have_distinct_errors() {
    let page = ResponseTemplate::new(200).set_body_string("<html>Welcome to nginx</html>");
    let cut = ResponseTemplate::new(200).set_body_string("{\"choices\": [");
    let none = fails(200, json!({ "choices": [] }));
    let inside = fails(
        200,
        json!({ "error": { "message": "no key", "code": 401 } }),
    );
    let table = [
        (page, ErrorClass::Transient, "check base_url"),
        (cut, ErrorClass::Transient, "broke off"),
        (none, ErrorClass::Transient, "no choices"),
        (inside, ErrorClass::Misconfigured, "no key"),
    ];
    for (answer, class, words) in table {
        let stage = Stage::new(vec![answer]).await;
        let (error, ..) = error_of(stage.ask().await);
        assert_eq!(error.class, class);
        assert!(error.message.contains(words), "{error}");
    }
}

#[tokio::test]
async fn endless_body_is_not_read_to_its_end() {
    let huge = ResponseTemplate::new(200).set_body_bytes(vec![b' '; 5 * 1024 * 1024]);
    let stage = Stage::new(vec![huge]).await;
    let (error, ..) = error_of(stage.ask().await);
    assert_eq!(error.class, ErrorClass::Transient);
    assert!(error.message.contains("4 MiB"), "{error}");
}
