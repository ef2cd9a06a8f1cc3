//! Addresses of calls, and marks of simulated replies. No network.

use std::sync::Arc;

use gavel_clock::SystemClock;
use serde_json::{Value, json};

use super::*;
use crate::entries::Providers;
use crate::provider::ProviderMaker;

fn endpoint(family: &str, base_url: &str, model: &str) -> Endpoint {
    let entry = json!({ "j": {
        "type": family, "base_url": base_url, "model": "m", "models": ["*"], "auth": "none",
    }});
    let providers = Providers::from_value(&entry, &|_| Err(String::new())).unwrap();
    let spec = providers.spec(&format!("j:{model}")).unwrap();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    ProviderMaker::default().make(&spec, &clock)
}

#[test]
fn each_family_has_its_path_and_a_models_name_stays_one_part_of_it() {
    let table = [
        (
            "openai",
            "https://h/v1/",
            "m",
            "https://h/v1/chat/completions",
        ),
        ("anthropic", "https://h", "m", "https://h/v1/messages"),
        (
            "gemini",
            "https://h/",
            "gemini-2.5-flash",
            "https://h/v1beta/models/gemini-2.5-flash:generateContent",
        ),
        (
            "gemini",
            "https://h",
            "../a?key=b#c",
            "https://h/v1beta/models/..%2Fa%3Fkey%3Db%23c:generateContent",
        ),
    ];
    for (family, base_url, model, expected) in table {
        assert_eq!(endpoint(family, base_url, model).address(), expected);
    }
}

#[test]
fn model_defaults_to_the_request_and_marks_simulation() {
    let endpoint = endpoint("openai", "https://h/v1", "m");
    for (model, mark, expected) in [
        (json!(null), json!(null), ("m", false)),
        (json!(""), json!("yes"), ("m", false)),
        (json!("n"), json!(true), ("n", true)),
        (json!("simulated-x"), json!(null), ("simulated-x", true)),
    ] {
        let body: Value = json!({
            "choices": [{ "message": { "content": "{}" } }], "model": model, "simulated": mark,
        });
        let reply = endpoint.reply(Exchange {
            status: 200,
            headers: HeaderMap::new(),
            body: body.to_string().into_bytes(),
        });
        let reply = reply.unwrap();
        assert_eq!((reply.model.as_str(), reply.simulated), expected);
    }
}
