//! `gavel doctor`: each fault with its remedy, and one token from each judge.

use serde_json::{Value, json};
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::Place;

async fn judge(answer: ResponseTemplate) -> MockServer {
    let server = MockServer::start().await;
    Mock::given(any()).respond_with(answer).mount(&server).await;
    server
}

fn answers() -> ResponseTemplate {
    ResponseTemplate::new(200).set_body_json(json!({
        "model": "gpt-4o-mini-2024-07-18",
        "choices": [{ "message": { "content": "{" }, "finish_reason": "length" }],
        "usage": { "prompt_tokens": 12, "completion_tokens": 1 },
    }))
}

fn asking(server: &MockServer) -> Place {
    Place::new()
        .with("OPENAI_API_KEY", "sk-hunter2")
        .with("OPENAI_BASE_URL", &format!("{}/v1", server.uri()))
}

#[test]
fn each_fault_has_its_remedy() {
    let place = Place::new();
    let run = place.run(&["doctor"]).ends(3);
    let run = run
        .prints("ok     criteria file")
        .prints("ok     data folder")
        .prints("FAULT  judge openai-default")
        .prints("OPENAI_API_KEY");
    drop(run);
    assert!(
        !place.path().join("gavel-data").exists(),
        "doctor only looks"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn each_configured_judge_is_asked_for_one_token() {
    let server = judge(answers()).await;
    let run = asking(&server).run(&["doctor", "--json"]).ends(0);
    assert!(!run.out.contains("hunter2") && !run.err.contains("hunter2"));
    let checks = run.json();
    let checks = checks["items"].as_array().unwrap();
    assert!(
        checks.iter().all(|check| check["ok"] == true),
        "{checks:#?}"
    );
    let of_judge = checks
        .iter()
        .find(|check| check["check"] == "judge openai-default")
        .unwrap();
    let detail = of_judge["detail"].as_str().unwrap();
    assert!(detail.contains("gpt-4o-mini-2024-07-18"), "{detail}");
    let asked = server.received_requests().await.unwrap();
    assert_eq!(asked.len(), 1);
    let body: Value = asked[0].body_json().unwrap();
    assert_eq!(body["max_completion_tokens"], 1, "{body:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_judge_that_refuses_the_key_is_a_fault_with_its_remedy() {
    let refusal = json!({ "error": { "message": "Incorrect API key provided", "type": "invalid_request_error" } });
    let server = judge(ResponseTemplate::new(401).set_body_json(refusal)).await;
    let run = asking(&server).run(&["doctor"]).ends(3);
    let run = run
        .prints("FAULT  judge openai-default")
        .prints("Incorrect API key provided")
        .prints("misconfigured")
        .prints("llm_providers.yaml");
    assert!(!run.out.contains("hunter2") && !run.out.contains("retry the job"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_field_that_the_judge_refuses_is_left_out_and_no_fault() {
    let server = MockServer::start().await;
    Mock::given(any())
        .respond_with(|request: &wiremock::Request| {
            let body: Value = request.body_json().unwrap();
            if body.get("max_completion_tokens").is_some() {
                return ResponseTemplate::new(400).set_body_json(json!({ "error": {
                    "message": "Unsupported parameter: 'max_completion_tokens'", "code": "unsupported_parameter",
                    "param": "max_completion_tokens",
                }}));
            }
            answers()
        })
        .mount(&server)
        .await;
    let run = asking(&server).run(&["doctor"]).ends(0);
    drop(run.prints("ok     judge openai-default"));
    assert_eq!(server.received_requests().await.unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_probes_no_judge_is_called() {
    let server = judge(answers()).await;
    let run = asking(&server).run(&["doctor", "--no-probe"]).ends(0);
    drop(run.prints("(not called)"));
    assert!(server.received_requests().await.unwrap().is_empty());
}
