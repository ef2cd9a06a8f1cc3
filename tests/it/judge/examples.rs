//! Examples in config/llm_providers.yaml: each is parsed as if uncommented, and called.

use std::sync::Arc;

use gavel::config::{LLM_PROVIDERS, yaml};
use gavel::judge::gate::{Gate, GateOptions};
use gavel::judge::{CallLog, Judges, Providers};
use serde_json::{Value, json};
use wiremock::ResponseTemplate;

use super::stage::*;

const SECRET: &str = "example-key-1";

/// Shipped entries, and the same with all examples uncommented; variables without a default get this key.
fn files() -> (Value, Value) {
    let (entries, examples) = LLM_PROVIDERS.split_once("# Examples: ").unwrap();
    let examples = examples.split_once('\n').unwrap().1;
    let uncommented: Vec<&str> = examples
        .lines()
        .map(|line| {
            line.strip_prefix("# ")
                .unwrap_or(line.trim_start_matches('#'))
        })
        .collect();
    let text = format!("{entries}\n{}\n", uncommented.join("\n"));
    let names = [
        "AZURE_OPENAI_API_KEY",
        "LITELLM_API_KEY",
        "ANTHROPIC_API_KEY",
        "OPENAI_API_KEY",
    ];
    let env = |name: &str| names.contains(&name).then(|| SECRET.to_owned());
    let read = |text: &str| yaml::resolve("llm_providers.yaml", text, &env).unwrap();
    (read(entries), read(&text))
}

fn anthropic() -> ResponseTemplate {
    ResponseTemplate::new(200).set_body_json(json!({
        "model": "claude-sonnet-4-6", "stop_reason": "end_turn",
        "content": [{ "type": "text", "text": "{\"why\": \"because\", \"total\": 61}" }],
        "usage": { "input_tokens": 1000, "output_tokens": 100 },
    }))
}

#[tokio::test]
async fn each_example_is_parsed_and_called_at_its_address() {
    let bearer = format!("Bearer {SECRET}");
    let table = [
        ("azure", "/openai/v1/chat/completions", "api-key", SECRET),
        (
            "azure-by-deployment",
            "/openai/deployments/YOUR-DEPLOYMENT/chat/completions?api-version=2024-10-21",
            "api-key",
            SECRET,
        ),
        ("vllm", "/v1/chat/completions", "", ""),
        ("ollama", "/v1/chat/completions", "", ""),
        ("llama-cpp", "/v1/chat/completions", "", ""),
        ("litellm", "/v1/chat/completions", "authorization", &bearer),
        (
            "litellm:any/model",
            "/v1/chat/completions",
            "authorization",
            &bearer,
        ),
        (
            "claude-with-a-second-judge",
            "/v1/messages",
            "x-api-key",
            SECRET,
        ),
    ];
    let (shipped, file) = files();
    let examples = file
        .as_object()
        .unwrap()
        .keys()
        .filter(|name| shipped.get(name.as_str()).is_none());
    for name in examples {
        assert!(
            table.iter().any(|(known, ..)| known == name),
            "{name} is tested"
        );
    }
    for (name, path, header, value) in table {
        let answer = if path == "/v1/messages" {
            anthropic()
        } else {
            good()
        };
        let server = serving(vec![answer]).await;
        let mut file = file.clone();
        let entry = &mut file[name.split(':').next().unwrap()];
        let address = entry["base_url"].as_str().unwrap();
        let (_, behind) = address.split_once("://").unwrap();
        let behind = behind.find('/').map_or("", |at| &behind[at..]);
        entry["base_url"] = json!(format!("{}{behind}", server.uri()));
        let providers = Providers::from_value(&file, &|_| Err("none".to_owned())).unwrap();
        let memory = Arc::new(Memory::default());
        let judges = Judges::new(
            &providers,
            Arc::new(Gate::new(GateOptions::default())),
            memory as Arc<dyn CallLog>,
        );
        let judge = judges.get(name).unwrap();
        let (reply, ..) = reply_of(judge.ask(&question("evidence"), context()).await);
        assert_eq!(reply.value["total"], 61, "{name}");
        let received = &server.received_requests().await.unwrap()[0];
        let query = received
            .url
            .query()
            .map_or_else(String::new, |query| format!("?{query}"));
        let asked = format!("{}{query}", received.url.path());
        assert_eq!(asked, path, "{name}");
        if header.is_empty() {
            assert!(!received.headers.contains_key("authorization"), "{name}");
        } else {
            assert_eq!(received.headers[header], value, "{name}");
        }
    }
}
