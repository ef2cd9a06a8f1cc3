//! Responses of generateContent. No network.

use super::*;
use crate::error::ErrorClass;
use crate::provider::reply::Unreadable;

fn read(body: &[u8]) -> Result<RawReply, Unreadable> {
    reply::read(body, FORMAT.read, FORMAT.no_reply)
}

fn read_value(generated: &Value) -> Result<RawReply, Unreadable> {
    read(generated.to_string().as_bytes())
}

#[test]
fn texts_are_joined_and_thoughts_are_no_part_of_the_reply() {
    let parts = json!([
        { "text": "{\"total\": 1}", "thought": true },
        { "text": "a", "thoughtSignature": "x" },
        { "functionCall": { "name": "f" } },
        { "text": "b", "thought": false },
    ]);
    let generated = json!({ "candidates": [{ "content": { "parts": parts, "role": "model" } }] });
    assert_eq!(read_value(&generated).unwrap().text, "ab");
    let spent = json!({ "candidates": [{ "finishReason": "MAX_TOKENS" }] });
    let reply = read_value(&spent).unwrap();
    assert_eq!((reply.text.as_str(), reply.stop), ("", Stop::Truncated));
}

#[test]
fn each_stop_reason_has_its_meaning_and_unknown_ones_are_named() {
    let of = |reason: &str| {
        let candidate = json!({ "finishReason": reason, "finishMessage": "words" });
        read_value(&json!({ "candidates": [candidate] }))
            .unwrap()
            .stop
    };
    assert_eq!(of("STOP"), Stop::Complete);
    assert_eq!(of("MAX_TOKENS"), Stop::Truncated);
    for filter in [
        "SAFETY",
        "RECITATION",
        "PROHIBITED_CONTENT",
        "BLOCKLIST",
        "SPII",
    ] {
        let words = format!("its filter cut the reply: {filter}: words");
        assert_eq!(of(filter), Stop::Refused(words));
    }
    assert_eq!(of("OTHER"), Stop::Other("OTHER".to_owned()));
    assert_eq!(
        read_value(&json!({ "candidates": [{}] })).unwrap().stop,
        Stop::Complete
    );
}

#[test]
fn blocked_prompt_is_a_refusal_but_empty_body_is_not() {
    let blocked = json!({ "promptFeedback": { "blockReason": "SAFETY" } });
    let words = "its filter blocked the prompt: SAFETY".to_owned();
    assert_eq!(read_value(&blocked).unwrap().stop, Stop::Refused(words));
    assert!(matches!(
        read_value(&json!({})),
        Err(Unreadable::Failed(ErrorClass::Transient, _))
    ));
    let inside = json!([{ "error": { "code": 503, "status": "UNAVAILABLE" } }]);
    assert!(matches!(
        read_value(&inside),
        Err(Unreadable::ErrorInside(_))
    ));
}

#[test]
fn thoughts_are_output_and_cached_tokens_are_part_of_the_prompts() {
    let generated = json!({ "candidates": [{}], "modelVersion": "simulated-x", "usageMetadata": {
        "promptTokenCount": 1000, "cachedContentTokenCount": 400,
        "candidatesTokenCount": 60, "thoughtsTokenCount": 40, "totalTokenCount": 1100,
    }});
    let reply = read_value(&generated).unwrap();
    let expected = Tokens {
        input: 1000,
        cached: 400,
        cache_written: 0,
        output: 100,
    };
    assert_eq!(reply.usage, Some(expected));
    assert_eq!(reply.model, "simulated-x");
}

#[test]
fn a_stream_of_one_event_is_the_reply_and_one_of_several_is_none() {
    let event = r#"data: {"candidates": [{"content": {"parts": [{"text": "{}"}]}}]}"#;
    assert_eq!(read(event.as_bytes()).unwrap().text, "{}");
    let several = read(format!("{event}\n\n{event}").as_bytes());
    assert_eq!(
        several,
        Err(Unreadable::Failed(
            ErrorClass::Transient,
            "with a stream of events in place of one reply"
        ))
    );
}

#[test]
fn invalid_count_makes_usage_unknown_and_missing_one_is_0() {
    let used = |usage: Value| {
        read_value(&json!({ "candidates": [{}], "usageMetadata": usage }))
            .unwrap()
            .usage
            .map(|usage| usage.output)
    };
    let absent = json!({ "promptTokenCount": 10, "thoughtsTokenCount": null });
    assert_eq!(used(absent), Some(0));
    for name in [
        "candidatesTokenCount",
        "thoughtsTokenCount",
        "cachedContentTokenCount",
    ] {
        for unreadable in [json!("many"), json!(-1), json!({ "n": 1 })] {
            let mut usage = json!({ "promptTokenCount": 10 });
            usage[name] = unreadable;
            assert_eq!(used(usage), None, "{name}");
        }
    }
}
