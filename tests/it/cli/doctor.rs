//! `gavel doctor`: errors with remedies, and one token from each judge.

use serde_json::{Value, json};
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::Sandbox;

pub(super) async fn judge(answer: ResponseTemplate) -> MockServer {
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

pub(super) fn asking(server: &MockServer) -> Sandbox {
    Sandbox::new()
        .with("OPENAI_API_KEY", "sk-hunter2")
        .with("OPENAI_BASE_URL", &format!("{}/v1", server.uri()))
}

#[test]
fn each_error_has_its_remedy() {
    let place = Sandbox::new();
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

#[test]
fn single_key_selects_its_judge_and_several_are_listed() {
    let key = || Sandbox::new().with("GOOGLE_API_KEY", "k");
    let any_model = key().with("SCORING_LLM_MODEL", "gemini-2.0-flash-exp");
    any_model
        .run(&["doctor", "--no-probe"])
        .ends(0)
        .prints("ok     judge google-default:gemini-2.0-flash-exp: is configured");
    any_model
        .with("ANTHROPIC_API_KEY", "k")
        .run(&["doctor", "--no-probe"])
        .ends(3)
        .prints("set OPENAI_API_KEY")
        .prints("DEFAULT_LLM_PROVIDER=anthropic-default or DEFAULT_LLM_PROVIDER=google-default");
    let of_nobody = key().with("SCORING_LLM_MODEL", "of-nobody");
    of_nobody
        .run(&["doctor", "--no-probe"])
        .ends(0)
        .prints("google-default:of-nobody: is configured (not called); its price is unknown");
    let priced = key().run(&["doctor", "--no-probe"]).ends(0);
    assert!(
        !priced.out.contains("its price is unknown"),
        "{}",
        priced.out
    );
}

#[test]
fn unreachable_service_is_an_error() {
    let run = Sandbox::new().run(&["doctor", "--server", "https://127.0.0.1:1"]);
    run.ends(3)
        .prints("FAULT  service")
        .prints("if it has no TLS, use http://127.0.0.1:1");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_configured_judge_is_called_for_one_token() {
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
async fn field_rejected_by_the_judge_is_omitted_without_an_error() {
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
async fn no_judge_is_called_without_probes() {
    let server = judge(answers()).await;
    let run = asking(&server).run(&["doctor", "--no-probe"]).ends(0);
    drop(run.prints("(not called)"));
    assert!(server.received_requests().await.unwrap().is_empty());
}

/// Per provider family: reply to a one-token probe, and errors for a wrong key and a wrong model.
fn families() -> [(&'static str, Value, ResponseTemplate, ResponseTemplate); 3] {
    let told = |status: u16, body: Value| ResponseTemplate::new(status).set_body_json(body);
    [
        (
            "openai",
            json!({
                "model": "m-1", "choices": [{ "message": { "content": "{" }, "finish_reason": "length" }],
            }),
            told(
                401,
                json!({ "error": { "message": "SERVER WORDS hunter2-key", "code": "invalid_api_key" } }),
            ),
            told(
                404,
                json!({ "error": { "message": "SERVER WORDS", "code": "model_not_found" } }),
            ),
        ),
        (
            "anthropic",
            json!({ "model": "m-1", "content": [{ "type": "text", "text": "{" }], "stop_reason": "max_tokens" }),
            told(
                401,
                json!({ "type": "error", "error": { "type": "authentication_error", "message": "SERVER WORDS hunter2-key" } }),
            ),
            told(
                404,
                json!({ "type": "error", "error": { "type": "not_found_error", "message": "SERVER WORDS" } }),
            ),
        ),
        (
            "gemini",
            json!({ "modelVersion": "m-1", "candidates": [{ "finishReason": "MAX_TOKENS" }] }),
            told(
                400,
                json!([{ "error": { "code": 400, "status": "INVALID_ARGUMENT", "message": "SERVER WORDS hunter2-key: API key not valid" } }]),
            ),
            told(
                404,
                json!({ "error": { "code": 404, "status": "NOT_FOUND", "message": "SERVER WORDS" } }),
            ),
        ),
    ]
}

fn place_of(family: &str, address: &str) -> Sandbox {
    let place = Sandbox::new();
    let file = place.path().join("llm_providers.yaml");
    let text =
        format!("j:\n  type: {family}\n  base_url: {address}\n  model: m-1\n  key: hunter2-key\n");
    std::fs::write(&file, text).unwrap();
    place
        .with("GAVEL_LLM_PROVIDERS", &file.display().to_string())
        .with("DEFAULT_LLM_PROVIDER", "j")
}

#[tokio::test(flavor = "multi_thread")]
async fn each_family_reports_the_cause_and_the_remedy() {
    for (family, fine, wrong_key, no_model) in families() {
        let table = [
            (
                wrong_key,
                "(misconfigured)",
                "Correct the judge's key, model or base_url",
            ),
            (
                no_model,
                "(misconfigured)",
                "Correct the judge's key, model or base_url",
            ),
            (
                ResponseTemplate::new(429).set_body_string("SERVER WORDS"),
                "(throttled)",
                "rate limit",
            ),
            (
                ResponseTemplate::new(402).set_body_string("SERVER WORDS"),
                "(exhausted)",
                "Top up",
            ),
            (
                ResponseTemplate::new(503).set_body_string("SERVER WORDS"),
                "(transient)",
                "reachable and healthy",
            ),
        ];
        for (answer, class, remedy) in table {
            let server = judge(answer).await;
            let run = place_of(family, &server.uri()).run(&["doctor"]).ends(3);
            let run = run
                .prints("FAULT  judge j")
                .prints("SERVER WORDS")
                .prints(class)
                .prints(remedy);
            assert!(
                !run.out.contains("hunter2") && !run.err.contains("hunter2"),
                "{family}"
            );
            assert!(!run.out.contains("retry the job"), "{family}: {}", run.out);
        }
        let (_nobody, address) = crate::support::no_listener();
        let run = place_of(family, &format!("http://{address}"))
            .run(&["doctor"])
            .ends(3);
        drop(
            run.prints("could not be reached")
                .prints("reachable and healthy"),
        );

        let server = judge(ResponseTemplate::new(200).set_body_json(&fine)).await;
        let run = place_of(family, &server.uri()).run(&["doctor"]).ends(0);
        let run = run.prints("ok     judge j").prints("m-1 answers");
        assert!(!run.out.contains("simulated"), "{family}");
        let text = fine.to_string().replace("m-1", "simulated-judge-v1");
        let simulated: Value = serde_json::from_str(&text).unwrap();
        let server = judge(ResponseTemplate::new(200).set_body_json(simulated)).await;
        let run = place_of(family, &server.uri()).run(&["doctor"]).ends(0);
        drop(run.prints("(simulated)"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reasoning_model_out_of_tokens_counts_as_reachable() {
    let told = json!({ "error": { "message":
        "Could not finish the message because max_tokens or model output limit was reached. Please try again with higher max_tokens.",
        "type": "invalid_request_error", "param": null, "code": null } });
    let server = judge(ResponseTemplate::new(400).set_body_json(told)).await;
    let run = place_of("openai", &server.uri()).run(&["doctor"]).ends(0);
    drop(run.prints("ok     judge j"));
    assert_eq!(server.received_requests().await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn unconfigured_fallback_is_an_error_with_its_remedy() {
    let server = judge(answers()).await;
    let place = place_of("openai", &server.uri());
    let file = place.path().join("llm_providers.yaml");
    let more = "  fallback: second:m-3\nsecond:\n  type: anthropic\n  base_url: http://127.0.0.1:9\n  model: m-2\n  models: [m-3]\n  hint: set SECOND_KEY\n";
    let text = std::fs::read_to_string(&file).unwrap() + more;
    std::fs::write(&file, text).unwrap();
    let run = place.run(&["doctor"]).ends(3);
    drop(
        run.prints("ok     judge j")
            .prints("FAULT  judge second:m-3")
            .prints("set SECOND_KEY"),
    );
}

#[test]
fn unusable_fallback_stops_the_start_and_names_the_line() {
    let place = place_of("openai", "http://127.0.0.1:9");
    let file = place.path().join("llm_providers.yaml");
    let text = std::fs::read_to_string(&file).unwrap() + "  fallback: nobody\n";
    std::fs::write(&file, text).unwrap();
    let run = place.run(&["up"]).ends(2);
    assert!(run.err.contains("llm_providers.yaml:6"), "{}", run.err);
    assert!(
        run.err.contains("j.fallback: unknown judge \"nobody\""),
        "{}",
        run.err
    );
}

#[test]
fn caps_are_shown_and_unenforceable_ones_stop_the_start() {
    let place = place_of("openai", "http://127.0.0.1:9");
    let file = place.path().join("llm_providers.yaml");
    let text = std::fs::read_to_string(&file).unwrap() + "  daily_cap_usd: 5\n";
    std::fs::write(&file, &text).unwrap();
    let run = place.run(&["up"]).ends(2);
    drop(
        run.says("llm_providers.yaml:6")
            .says("j.daily_cap_usd: can't be enforced: model \"m-1\" has no price"),
    );
    let price = "{ input_per_mtok: 0, output_per_mtok: 0, as_of: 2026-01-01, source: a test }";
    std::fs::write(&file, format!("{text}  prices:\n    m-1: {price}\n")).unwrap();
    let place = place.with("GAVEL_JUDGE_MONTHLY_CAP_USD", "70.5");
    let run = place.run(&["doctor", "--no-probe"]).ends(0);
    drop(run.prints("ok     caps: all judges: 70.5 USD a month, j: 5 USD a day"));
}

#[test]
fn cap_over_all_judges_needs_a_price_of_each() {
    let place = place_of("openai", "http://127.0.0.1:9").with("GAVEL_JUDGE_DAILY_CAP_USD", "1");
    let run = place.run(&["up"]).ends(2);
    drop(
        run.says("judge.daily_cap_usd: can't be enforced")
            .says("entry \"j\""),
    );
    let run = place.run(&["doctor", "--no-probe"]).ends(3);
    drop(run.prints("FAULT  caps: judge.daily_cap_usd"));
}

#[test]
fn invalid_or_future_price_date_stops_the_start() {
    let place = place_of("openai", "http://127.0.0.1:9");
    let file = place.path().join("llm_providers.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    for (day, fault) in [
        ("2026-13-01", "\"2026-13-01\" is not a date"),
        ("2999-01-01", "2999-01-01 is in the future"),
    ] {
        let price =
            format!("{{ input_per_mtok: 1, output_per_mtok: 2, as_of: {day}, source: a test }}");
        std::fs::write(&file, format!("{text}  prices:\n    m-1: {price}\n")).unwrap();
        let run = place.run(&["up"]).ends(2);
        drop(
            run.says("llm_providers.yaml:")
                .says(&format!("j.prices.m-1.as_of: {fault}")),
        );
        let run = place.run(&["doctor", "--no-probe"]).ends(3);
        drop(run.prints("FAULT  judges' file").prints(fault));
    }
}
