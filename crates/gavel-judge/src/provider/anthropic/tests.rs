//! Messages and headers as the server sends them. No network.

use reqwest::header::HeaderName;

use super::*;
use crate::error::ErrorClass;
use crate::provider::call::Stop;
use crate::provider::error_body::ErrorBody;
use crate::provider::reply::Unreadable;

fn read(body: &[u8]) -> Result<RawReply, Unreadable> {
    reply::read(body, FORMAT.read, FORMAT.no_reply)
}

fn read_value(message: &Value) -> Result<RawReply, Unreadable> {
    read(message.to_string().as_bytes())
}

#[test]
fn reads_only_the_answer() {
    let thinking = json!({ "type": "thinking", "thinking": "{\"total\": 1}", "signature": "x" });
    let hidden = json!({ "type": "redacted_thinking", "data": "x" });
    let said = |text: &str| json!({ "type": "text", "text": text });
    let called = json!({ "type": "tool_use", "id": "t", "name": "score", "input": { "why": "w", "total": 7 } });
    let table = [
        (json!([said("a"), said("b")]), "ab"),
        (json!([thinking, hidden, said("a")]), "a"),
        (json!([said("I call."), called]), r#"{"why":"w","total":7}"#),
        (json!([{ "type": "novel", "text": "x" }]), ""),
        (json!([]), ""),
    ];
    for (content, text) in table {
        let reply = read_value(&json!({ "content": content })).unwrap();
        assert_eq!(reply.text, text);
        assert_eq!((reply.model.as_str(), reply.usage), ("", None));
    }
}

#[test]
fn each_stop_reason_has_its_meaning_and_unknown_ones_are_named() {
    let table = [
        ("end_turn", Stop::Complete),
        ("tool_use", Stop::Complete),
        ("max_tokens", Stop::Truncated),
        ("model_context_window_exceeded", Stop::Truncated),
        ("refusal", Stop::Refused("cyber: no".to_owned())),
        ("pause_turn", Stop::Other("pause_turn".to_owned())),
    ];
    for (reason, expected) in table {
        let message = json!({
            "content": [], "stop_reason": reason,
            "stop_details": { "category": "cyber", "explanation": "no" },
        });
        assert_eq!(read_value(&message).unwrap().stop, expected, "{reason}");
    }
    assert_eq!(
        read_value(&json!({ "content": [] })).unwrap().stop,
        Stop::Complete
    );
    assert_eq!(explanation(Some(&json!("no"))), "no");
    assert_eq!(explanation(None), "it gave no reason");
}

#[test]
fn cached_tokens_are_part_of_the_input() {
    let usage = json!({ "content": [], "usage": {
        "input_tokens": 500, "cache_creation_input_tokens": 100,
        "cache_read_input_tokens": 400, "output_tokens": 100,
    }});
    let expected = Tokens {
        input: 1000,
        cached: 400,
        cache_written: 100,
        output: 100,
    };
    assert_eq!(read_value(&usage).unwrap().usage, Some(expected));
}

#[test]
fn rejects_bodies_without_message() {
    let error = json!({ "type": "error", "error": { "type": "api_error" } });
    assert!(matches!(
        read_value(&error),
        Err(Unreadable::ErrorInside(_))
    ));
    assert!(matches!(
        read_value(&json!({})),
        Err(Unreadable::Failed(ErrorClass::Transient, _))
    ));
    assert!(matches!(
        read_value(&json!(7)),
        Err(Unreadable::Failed(ErrorClass::Transient, _))
    ));
}

fn waits(pairs: &[(&'static str, &str)]) -> Option<u64> {
    let headers = pairs
        .iter()
        .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()))
        .collect();
    let now = "2026-11-06T08:49:30Z".parse().unwrap();
    FORMAT
        .wait(ErrorClass::Throttled, &headers, &ErrorBody::default(), now)
        .map(|wait| wait.as_secs())
}

#[test]
fn waits_for_longest_reset_unless_retry_after_is_sent() {
    let limits = [
        ("anthropic-ratelimit-requests-remaining", "0"),
        ("anthropic-ratelimit-requests-reset", "2026-11-06T08:49:35Z"),
        ("anthropic-ratelimit-input-tokens-remaining", "0"),
        (
            "anthropic-ratelimit-input-tokens-reset",
            "2026-11-06T08:49:47Z",
        ),
        ("anthropic-ratelimit-output-tokens-remaining", "900"),
        (
            "anthropic-ratelimit-output-tokens-reset",
            "2026-11-06T09:49:47Z",
        ),
    ];
    assert_eq!(waits(&limits), Some(17));
    assert_eq!(waits(&limits[..2]), Some(5));
    assert_eq!(waits(&limits[4..]), None);
    let asked: Vec<_> = limits.into_iter().chain([("retry-after", "3")]).collect();
    assert_eq!(waits(&asked), Some(3));
    assert_eq!(waits(&[("retry-after", "0")]), Some(1));
}

#[test]
fn limits_are_per_minute_and_per_kind_of_token() {
    let headers = [
        ("anthropic-ratelimit-requests-limit", "50"),
        ("anthropic-ratelimit-requests-remaining", "0"),
        ("anthropic-ratelimit-requests-reset", "2026-11-06T08:49:35Z"),
        ("anthropic-ratelimit-output-tokens-limit", "8000"),
    ]
    .into_iter()
    .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()))
    .collect();
    let limits = FORMAT.rate_headers.as_ref().unwrap();
    let read = limits.read(&headers, "2026-11-06T08:49:30Z".parse().unwrap());
    assert_eq!(read.requests.per_minute(), Some(50));
    let reset = read.requests.nothing_left_for();
    assert_eq!(reset, Some(std::time::Duration::from_secs(5)));
    assert_eq!(read.output_tokens.per_minute(), Some(8000));
    assert_eq!(read.input_tokens.per_minute(), None);
}
