use std::time::Duration;

use gavel_clock::{Clock as _, SystemClock};
use serde_json::json;

use super::*;
use crate::provider::call::Tokens;
use crate::{Limits, ModelFamily};

fn no_file(_: &str) -> Result<String, String> {
    Err("no such file".to_owned())
}

fn read(value: Value) -> Result<Providers, FileError> {
    Providers::from_value(&value, &no_file)
}

fn entry_with(more: Value) -> Value {
    let mut entry =
        json!({ "type": "openai", "base_url": "https://h/v1", "model": "m", "key": "sk-secret" });
    if let (Some(entry), Value::Object(more)) = (entry.as_object_mut(), more) {
        entry.extend(more);
    }
    json!({ "j": entry })
}

fn error_of(more: Value) -> (String, String) {
    let error = read(entry_with(more)).unwrap_err();
    (error.path, error.message)
}

const SHIPPED: &str = include_str!("../../../../config/llm_providers.yaml");

/// Returns the shipped file with the variables in `set`.
fn shipped(set: &[(&str, &str)]) -> Providers {
    let mut value: Value = serde_saphyr::from_str(SHIPPED).unwrap();
    substitute(&mut value, set);
    read(value).unwrap()
}

fn substitute(value: &mut Value, set: &[(&str, &str)]) {
    match value {
        Value::String(text) => {
            if let Some(inner) = text
                .strip_prefix("${")
                .and_then(|text| text.strip_suffix('}'))
            {
                let (name, default) = inner.split_once(":-").unwrap();
                let found = set.iter().find(|(known, _)| *known == name);
                *text = found.map_or(default, |(_, value)| value).to_owned();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| substitute(item, set)),
        Value::Object(map) => map.values_mut().for_each(|item| substitute(item, set)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[test]
fn shipped_file_needs_a_key_except_for_the_simulator() {
    let providers = shipped(&[]);
    let names = providers.names();
    for name in [
        "anthropic-default",
        "anthropic-default:claude-opus-4-6",
        "google-default:gemini-2.5-pro",
        "openai-default:gpt-4o",
    ] {
        assert!(names.iter().any(|one| one == name), "{name}: {names:?}");
    }
    for (entry, remedy) in [
        ("openai-default", "set OPENAI_API_KEY"),
        ("anthropic-default", "set ANTHROPIC_API_KEY"),
        ("google-default:gemini-2.5-pro", "set GOOGLE_API_KEY"),
        ("simulated", "set GAVEL_SIMULATED_URL"),
    ] {
        let missing = providers.check(entry).unwrap_err().to_string();
        assert!(missing.contains(remedy), "{missing}");
    }
    let providers = shipped(&[("GAVEL_SIMULATED_URL", "http://127.0.0.1:8099/v1")]);
    let simulated = providers.spec("simulated").unwrap();
    assert!(simulated.simulated());
    assert_eq!(simulated.max_concurrency(), None);
    assert_eq!(simulated.entry().base_url, "http://127.0.0.1:8099/v1");
    let other = providers.spec("simulated:whatever:7b").unwrap();
    assert_eq!(
        (other.model(), other.name()),
        ("whatever:7b", "simulated:whatever:7b")
    );
}

#[test]
fn shipped_file_accepts_a_key_or_custom_address() {
    let keyed = shipped(&[("OPENAI_API_KEY", "sk-1"), ("OPENAI_MODEL", "gpt-5")]);
    let spec = keyed.spec("openai-default").unwrap();
    assert_eq!(spec.model(), "gpt-5");
    assert_eq!(spec.entry().base_url, "https://api.openai.com/v1");
    assert_eq!(spec.max_concurrency(), Some(64));
    assert!(keyed.check("openai-default:gpt-4o-mini").is_ok());

    let own = shipped(&[("OPENAI_BASE_URL", "http://gpu:8000/v1/")]);
    let spec = own.spec("openai-default").unwrap();
    assert_eq!(spec.entry().base_url, "http://gpu:8000/v1");
    assert!(spec.entry().key.is_none());
}

#[test]
fn accepts_numbers_and_booleans_as_text() {
    let providers = read(entry_with(json!({
        "max_concurrency": "7", "context_window": "4096", "max_output_tokens": "512",
        "temperature": "0.5", "timeout_s": "2.5", "simulated": "true",
    })))
    .unwrap();
    let spec = providers.spec("j").unwrap();
    assert_eq!(spec.max_concurrency(), Some(7));
    let limits = Limits {
        context_window: 4096,
        max_output_tokens: 512,
        family: ModelFamily::Other,
    };
    assert_eq!(spec.limits(), limits);
    assert_eq!(spec.entry().temperature, Some(0.5));
    assert_eq!(spec.timeout("session"), Duration::from_millis(2_500));
    assert!(spec.simulated());
    assert_eq!(providers.concurrency()["j"], 7);
}

#[test]
fn trims_models_and_addresses() {
    let providers = read(entry_with(json!({
        "model": " gpt-4o\n", "models": ["o3 ", " "], "custom_base_url": "\thttps://gateway/v1 ",
    })))
    .unwrap();
    assert_eq!(providers.names(), ["j", "j:o3"]);
    let spec = providers.spec("j").unwrap();
    assert_eq!(spec.model(), "gpt-4o");
    assert_eq!(spec.entry().base_url, "https://gateway/v1");
    assert_eq!(providers.spec("j: o3 ").unwrap().model(), "o3");
    assert_eq!(providers.named(" o3 ", "j"), "j:o3");
}

#[test]
fn missing_keys_have_documented_defaults() {
    let spec = read(entry_with(json!({}))).unwrap().spec("j").unwrap();
    let limits = Limits {
        context_window: 128_000,
        max_output_tokens: 8192,
        family: ModelFamily::Other,
    };
    assert_eq!(spec.limits(), limits);
    assert_eq!(spec.max_concurrency(), Some(64));
    assert_eq!(spec.timeout("session"), Duration::from_secs(180));
    assert_eq!(spec.timeout("query"), Duration::from_secs(30));
    assert_eq!(spec.entry().temperature, Some(0.0));
    assert_eq!(spec.entry().path, "/chat/completions");
    assert_eq!(spec.entry().auth_header, "Authorization");
    assert_eq!(spec.entry().auth_prefix, "Bearer ");
    let none = read(entry_with(
        json!({ "temperature": "none", "auth_prefix": "" }),
    ))
    .unwrap();
    let none = none.spec("j").unwrap();
    assert_eq!(none.entry().temperature, None);
    assert_eq!(none.entry().auth_prefix, "");
}

#[test]
fn path_and_key_header_depend_on_the_type() {
    let table = [
        ("openai", "/chat/completions", "Authorization", "Bearer "),
        ("anthropic", "/v1/messages", "x-api-key", ""),
        (
            "gemini",
            "/v1beta/models/{model}:generateContent",
            "x-goog-api-key",
            "",
        ),
    ];
    for (family, path, header, prefix) in table {
        let spec = read(entry_with(json!({ "type": family }))).unwrap();
        let spec = spec.spec("j").unwrap();
        let entry = spec.entry();
        let read = (&*entry.path, &*entry.auth_header, &*entry.auth_prefix);
        assert_eq!(read, (path, header, prefix));
    }
}

#[test]
fn shipped_models_have_prices() {
    let variables = SHIPPED.split("${").filter_map(|rest| rest.split_once(":-"));
    let keys = variables.filter(|(name, _)| name.ends_with("_API_KEY"));
    let mut set: Vec<(&str, &str)> = keys.map(|(name, _)| (name, "sk-0")).collect();
    set.push(("GAVEL_SIMULATED_URL", "http://127.0.0.1:8099/v1"));
    let providers = shipped(&set);
    for name in providers.names() {
        let spec = providers.spec(&name).unwrap();
        let price = price_of(&spec.entry().prices, spec.model());
        assert_eq!(price.is_some(), !spec.simulated(), "{name}");
    }
}

#[test]
fn batch_price_applies_only_to_base_url() {
    let keys = [
        ("OPENAI_API_KEY", "sk-0"),
        ("ANTHROPIC_API_KEY", "sk-1"),
        ("GAVEL_SIMULATED_URL", "http://127.0.0.1:8099/v1"),
    ];
    let factor = |providers: &Providers, name: &str| {
        let spec = providers.spec(name).unwrap();
        spec.entry().batch_price_factor
    };
    let keyed = shipped(&keys);
    assert_eq!(factor(&keyed, "openai-default"), Some(0.5));
    assert_eq!(
        factor(&keyed, "anthropic-default:claude-haiku-4-5"),
        Some(0.5)
    );
    assert_eq!(factor(&keyed, "simulated"), None);
    let own = shipped(&[("OPENAI_BASE_URL", "http://gpu:8000/v1")]);
    assert_eq!(factor(&own, "openai-default"), None);
}

#[test]
fn batch_price_factor_is_validated() {
    let table = [
        (
            json!({ "batch_price_factor": 0 }),
            "j.batch_price_factor",
            "above 0 and at most 1",
        ),
        (
            json!({ "batch_price_factor": "1.5" }),
            "j.batch_price_factor",
            "above 0 and at most 1",
        ),
        (
            json!({ "type": "gemini", "batch_price_factor": 0.5 }),
            "j.batch_price_factor",
            "no batch endpoint",
        ),
    ];
    for (more, path, message) in table {
        let (at, said) = error_of(more);
        assert_eq!(at, path);
        assert!(said.contains(message), "{said}");
    }
}

#[test]
fn errors_name_the_path() {
    let table = [
        (json!({ "modle": "x" }), "j.modle", "did you mean model?"),
        (json!({ "zzzzzzzz": "x" }), "j.zzzzzzzz", "known: type"),
        (
            json!({ "type": "claude" }),
            "j.type",
            "known: openai, anthropic, gemini",
        ),
        (
            json!({ "type": "" }),
            "j.type",
            "is missing; known: openai, anthropic, gemini",
        ),
        (
            json!({ "type": "anthropic", "structured": "json_object" }),
            "j.structured",
            "known: auto, json_schema, tool",
        ),
        (
            json!({ "type": "gemini", "structured": "tool" }),
            "j.structured",
            "known: auto, json_schema, json_object",
        ),
        (json!({ "auth": "basic" }), "j.auth", "known: bearer, none"),
        (
            json!({ "structured": "xml" }),
            "j.structured",
            "known: auto",
        ),
        (json!({ "base_url": "h/v1" }), "j.base_url", "http://"),
        (
            json!({ "base_url": "https://u:p@h/v1" }),
            "j.base_url",
            "password",
        ),
        (
            json!({ "custom_base_url": "ftp://h" }),
            "j.custom_base_url",
            "http://",
        ),
        (json!({ "model": "" }), "j.model", "missing or empty"),
        (json!({ "models": "a" }), "j.models", "expected a sequence"),
        (json!({ "temperature": "hot" }), "j.temperature", "number"),
        (json!({ "temperature": 3 }), "j.temperature", "0-2"),
        (json!({ "timeout_s": 0 }), "j.timeout_s", "more than 0"),
        (
            json!({ "max_concurrency": -1 }),
            "j.max_concurrency",
            "integer",
        ),
        (
            json!({ "context_window": 0 }),
            "j.context_window",
            "at least 1",
        ),
        (
            json!({ "simulated": "maybe" }),
            "j.simulated",
            "true or false",
        ),
        (
            json!({ "headers": { "a b": "c" } }),
            "j.headers.a b",
            "header's name",
        ),
        (json!({ "headers": [] }), "j.headers", "expected a map"),
        (
            json!({ "auth_header": "a:b" }),
            "j.auth_header",
            "header's name",
        ),
        (json!({ "extra_body": [] }), "j.extra_body", "map"),
        (json!({ "prices": [] }), "j.prices", "expected a map"),
        (
            json!({ "prices": { "m": { "input_per_mtok": 1, "output_per_mtok": 2 } } }),
            "j.prices.m.as_of",
            "missing",
        ),
        (
            json!({ "prices": { "m": { "input_per_mtok": "x" } } }),
            "j.prices.m.input_per_mtok",
            "number",
        ),
    ];
    for (more, path, words) in table {
        let (at, message) = error_of(more.clone());
        assert_eq!(at, path, "{more}");
        assert!(message.contains(words), "{more}: {message}");
    }
    for name in ["", "a:b", "a b"] {
        let mut value = entry_with(json!({}));
        let entry = value["j"].take();
        let error = read(json!({ name: entry })).unwrap_err();
        assert!(error.message.contains("name"), "{error}");
    }
    assert!(read(json!([])).unwrap_err().message.contains("map"));
}

#[test]
fn reads_key_from_file_and_hides_it() {
    let value = entry_with(json!({ "key": "", "key_file": "/run/secrets/key" }));
    let key_file = |path: &str| {
        assert_eq!(path, "/run/secrets/key");
        Ok("sk-from-file\n".to_owned())
    };
    let providers = Providers::from_value(&value, &key_file).unwrap();
    let spec = providers.spec("j").unwrap();
    assert!(!format!("{providers:?} {spec:?}").contains("sk-from-file"));
    assert_eq!(
        spec.entry().redact("bad key sk-from-file!".to_owned()),
        "bad key [redacted]!"
    );
    let error = Providers::from_value(&value, &no_file).unwrap_err();
    assert_eq!(error.path, "j.key_file");
    assert!(error.message.contains("no such file"));

    let (path, message) = error_of(json!({ "key": "sk-one\nsk-two" }));
    assert_eq!(path, "j.key");
    assert!(!message.contains("sk-"), "{message}");
}

#[test]
fn redacts_secrets_in_headers() {
    let value = entry_with(json!({ "headers": { "x-api-key": "hunter22", "x-flag": "1" } }));
    let spec = read(value).unwrap().spec("j").unwrap();
    assert_eq!(
        spec.entry().redact("1 sk-secret, hunter22".to_owned()),
        "1 [redacted], [redacted]"
    );
}

#[test]
fn unknown_judge_lists_known_ones() {
    let providers = read(entry_with(json!({ "models": ["m", "n:8b"] }))).unwrap();
    assert_eq!(providers.names(), ["j", "j:n:8b"]);
    assert_eq!(providers.spec("j:n:8b").unwrap().model(), "n:8b");
    assert_eq!(providers.spec("j:m").unwrap().model(), "m");
    let spec = providers.spec("j:o").unwrap();
    assert_eq!((spec.model(), spec.cost_usd(1, 1)), ("o", None));
    assert!(spec.misses_price() && providers.spec("j:m").unwrap().misses_price());
    for name in ["k", "k:m", ""] {
        let error = providers.check(name).unwrap_err();
        assert!(error.to_string().contains("known: j, j:n:8b"), "{error}");
    }
    // Under a cap only models with a price are accepted.
    let capped = providers.under(Cap::new(1.0, 0.0));
    let error = capped.check("j:o").unwrap_err().to_string();
    assert!(error.contains("list it under models"), "{error}");
    assert_eq!(capped.check("j:n:8b"), Ok(()));
}

#[test]
fn missing_key_lists_judges_with_one() {
    let providers = shipped(&[("GOOGLE_API_KEY", "k")]);
    let error = providers.check("openai-default").unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("; or set DEFAULT_LLM_PROVIDER=google-default, which can be called"),
        "{error}"
    );
    assert!(!error.of_a_request().contains("DEFAULT_LLM_PROVIDER"));
    let error = providers.check("openai").unwrap_err().to_string();
    assert!(error.contains("did you mean openai-default?"), "{error}");
    assert_eq!(providers.real(), ["google-default"]);
}

#[test]
fn model_belongs_to_default_judge_unless_listed_elsewhere() {
    let providers = shipped(&[("GOOGLE_API_KEY", "k"), ("OPENAI_API_KEY", "k")]);
    for (name, default, judge) in [
        ("openai-default", "google-default", "openai-default"),
        (
            "anthropic-default:x",
            "google-default",
            "anthropic-default:x",
        ),
        ("gpt-4o", "google-default", "openai-default:gpt-4o"),
        ("gpt-4o", "simulated", "simulated:gpt-4o"),
        (
            "gemini-9",
            "google-default:gemini-2.5-pro",
            "google-default:gemini-9",
        ),
        // The only entry that lists it has no key.
        (
            "claude-opus-4-6",
            "google-default",
            "google-default:claude-opus-4-6",
        ),
    ] {
        assert_eq!(providers.named(name, default), judge, "{name}");
    }
}

#[test]
fn entry_without_key_needs_auth_none() {
    let keyless = |more| {
        let mut value = entry_with(more);
        value["j"]["key"] = json!("");
        read(value).unwrap().check("j")
    };
    let error = keyless(json!({})).unwrap_err().to_string();
    assert!(error.contains("auth: none"), "{error}");
    let hinted = keyless(json!({ "hint": "set J_KEY" })).unwrap_err();
    assert!(hinted.to_string().ends_with("set J_KEY"));
    assert_eq!(keyless(json!({ "auth": "none" })), Ok(()));
    assert_eq!(keyless(json!({ "custom_base_url": "http://h" })), Ok(()));
}

fn priced(model: &str, prices: Value, tokens: Tokens) -> Option<f64> {
    let entry = entry_with(json!({ "prices": prices }));
    let spec = read(entry).unwrap().spec("j").unwrap();
    price_of(&spec.entry().prices, model).map(|price| price.cost(tokens))
}

fn priced_as_of(day: &str) -> Value {
    json!({ "prices": { "m": { "input_per_mtok": 1, "output_per_mtok": 2, "as_of": day, "source": "s" } } })
}

#[test]
fn rejects_price_with_a_future_date() {
    for (day, words) in [
        ("2026-13-01", "\"2026-13-01\" is not a date"),
        ("spring", "such as 2026-01-31"),
        ("2026-01-31T00:00:00Z", "not a date"),
    ] {
        let (at, message) = error_of(priced_as_of(day));
        assert_eq!(at, "j.prices.m.as_of");
        assert!(message.contains(words), "{day}: {message}");
    }
    let now = chrono::DateTime::parse_from_rfc3339("2026-03-02T10:00:00Z").unwrap();
    for (day, has_come) in [
        ("2025-12-31", true),
        ("2026-03-02", true),
        // It is already the third in the easternmost time zone.
        ("2026-03-03", true),
        ("2026-03-04", false),
        ("2099-01-01", false),
    ] {
        let found = read(entry_with(priced_as_of(day))).unwrap();
        let found = found.check_dates(now.to_utc());
        assert_eq!(found.is_ok(), has_come, "{day}");
        if let Err(fault) = found {
            assert_eq!(fault.path, "j.prices.m.as_of");
            assert!(fault.message.contains("is in the future"), "{fault}");
        }
    }
    assert_eq!(shipped(&[]).check_dates(SystemClock.now()), Ok(()));
}

const CALL: Tokens = Tokens {
    input: 1_000_000,
    cached: 400_000,
    cache_written: 0,
    output: 100_000,
};

#[test]
fn prices_cached_tokens_and_dated_snapshots() {
    let cost = |model: &str| {
        let prices = json!({
            "gpt-4o": { "input_per_mtok": "2.5", "cached_input_per_mtok": 1.25, "output_per_mtok": 10, "as_of": "2026-01-01", "source": "s" },
            "m": { "input_per_mtok": 1, "output_per_mtok": 2, "as_of": "2026-01-01", "source": "s" },
        });
        priced(model, prices, CALL)
    };
    assert_eq!(cost("gpt-4o"), Some(1.5 + 0.5 + 1.0));
    assert_eq!(cost("gpt-4o-2024-08-06"), cost("gpt-4o"));
    assert_eq!(cost("m"), Some(1.2));
    assert_eq!(cost("gpt-4o-mini"), None);
    assert_eq!(cost("simulated-judge-v1"), None);
}

#[test]
fn limits_per_minute_must_be_positive() {
    let limits = |more| read(entry_with(more)).unwrap().paces()["j"];
    assert_eq!(limits(json!({})), PaceLimits::default());
    let both = json!({ "requests_per_minute": "60", "tokens_per_minute": 90_000 });
    let expected = PaceLimits {
        requests_per_minute: Some(60),
        tokens_per_minute: Some(90_000),
    };
    assert_eq!(limits(both), expected);
    for key in ["requests_per_minute", "tokens_per_minute"] {
        for (value, words) in [(json!(0), "at least 1"), (json!("many"), "integer")] {
            let (path, message) = error_of(json!({ key: value }));
            assert_eq!(path, format!("j.{key}"));
            assert!(message.contains(words), "{message}");
        }
    }
}

#[test]
fn cache_writes_default_to_input_price() {
    let wrote = Tokens {
        cache_written: 200_000,
        ..CALL
    };
    let price = |more: Value| {
        let mut price = json!({ "input_per_mtok": 4, "cached_input_per_mtok": 0.5, "output_per_mtok": 10, "as_of": "2026-01-01", "source": "s" });
        price
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        priced("m", json!({ "m": price }), wrote)
    };
    let own = price(json!({ "cache_write_input_per_mtok": 5 }));
    assert_eq!(own, Some(0.4 * 4.0 + 0.4 * 0.5 + 0.2 * 5.0 + 1.0));
    assert_eq!(price(json!({})), Some(0.6 * 4.0 + 0.4 * 0.5 + 1.0));
    // Clamped, so that no tokens are billed again.
    let odd = Tokens {
        input: 10,
        cached: 10,
        cache_written: 10,
        output: 0,
    };
    let prices = json!({ "m": { "input_per_mtok": 1_000_000, "output_per_mtok": 1, "as_of": "2026-01-01", "source": "s" } });
    assert_eq!(priced("m", prices, odd), Some(10.0));
}

#[test]
fn long_prompt_rates_apply_to_all_tokens() {
    let cost = |input: i64| {
        let tokens = Tokens {
            input,
            cached: 0,
            cache_written: 0,
            output: 1_000_000,
        };
        let prices = json!({ "m": {
            "input_per_mtok": 1, "output_per_mtok": 10, "as_of": "2026-01-01", "source": "s",
            "long_prompt": { "above_input_tokens": 200_000, "input_per_mtok": 2, "output_per_mtok": 15 },
        }});
        priced("m", prices, tokens)
    };
    assert_eq!(cost(200_000), Some(0.2 + 10.0));
    assert_eq!(cost(400_000), Some(0.8 + 15.0));
    let without = json!({ "m": {
        "input_per_mtok": 1, "output_per_mtok": 10, "as_of": "2026-01-01", "source": "s",
        "long_prompt": { "input_per_mtok": 2, "output_per_mtok": 15 },
    }});
    let (path, message) = error_of(json!({ "prices": without }));
    assert_eq!(path, "j.prices.m.long_prompt.above_input_tokens");
    assert!(message.contains("missing"), "{message}");
}

fn pair(a: Value, b: Value) -> Result<Providers, FileError> {
    let mut value = json!({});
    for (name, fallback) in [("a", a), ("b", b)] {
        value[name] = entry_with(fallback)["j"].take();
    }
    read(value)
}

#[test]
fn fallback_must_be_another_known_judge() {
    let providers = pair(
        json!({ "fallback": "b:n", "models": ["m", "o"] }),
        json!({ "models": ["n"] }),
    )
    .unwrap();
    let of = |name: &str| providers.fallback(name);
    assert_eq!(of("a").as_deref(), Some("b:n"));
    assert_eq!(of("a:o").as_deref(), Some("b:n"), "all models of the entry");
    assert_eq!((of("b"), of("b:n"), of("nobody")), (None, None, None));
    let other_model = pair(
        json!({ "fallback": "a:o", "models": ["o"] }),
        json!({ "fallback": "" }),
    )
    .unwrap();
    assert_eq!(other_model.fallback("a").as_deref(), Some("a:o"));
    assert_eq!(other_model.fallback("a:o"), None, "it would be itself");
}

#[test]
fn rejects_unusable_fallback() {
    let table = [
        (json!("c"), json!({}), "known: a, b"),
        (json!("c:n"), json!({}), "unknown judge \"c:n\""),
        (json!("a"), json!({}), "the judge itself"),
        (json!("a:m"), json!({}), "the judge itself"),
        (json!("b"), json!({ "fallback": "a" }), "cycle"),
        (json!("b"), json!({ "simulated": true }), "simulated"),
    ];
    for (fallback, b, words) in table {
        let error = pair(json!({ "fallback": fallback }), b).unwrap_err();
        assert_eq!(error.path, "a.fallback", "{fallback}");
        assert!(error.message.contains(words), "{fallback}: {error}");
    }
    let both = pair(
        json!({ "fallback": "b", "simulated": true }),
        json!({ "simulated": true }),
    );
    assert!(both.is_ok(), "a simulated judge may have a simulated one");
}
