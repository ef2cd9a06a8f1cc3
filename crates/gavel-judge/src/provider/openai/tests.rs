//! Bodies of chat completions from servers, gateways and SDKs. No network.

use std::time::Duration;

use reqwest::header::HeaderMap;

use super::*;
use crate::error::ErrorClass;
use crate::gate::{LimitReport, RateReport};
use crate::provider::error_body::ErrorBody;
use crate::provider::reply::Unreadable;

fn read(body: &[u8]) -> Result<RawReply, Unreadable> {
    reply::read(body, FORMAT.read, FORMAT.no_reply)
}

fn read_value(completion: &Value) -> Result<RawReply, Unreadable> {
    read(completion.to_string().as_bytes())
}

fn completion(message: &Value, finish_reason: &Value) -> Value {
    json!({
        "id": "x", "object": "chat.completion", "model": "m",
        "choices": [{ "index": 0, "message": message, "finish_reason": finish_reason }],
        "usage": { "prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12 },
    })
}

fn says(message: &Value) -> RawReply {
    read_value(&completion(message, &json!("stop"))).unwrap()
}

#[test]
fn the_answer_is_read_in_each_form_that_servers_give_it() {
    let call = |arguments: Value| json!([{ "id": "c", "type": "function", "function": { "name": "score", "arguments": arguments } }]);
    let table = [
        (json!({ "content": "a" }), "a"),
        (
            json!({ "content": [{ "type": "text", "text": "a" }, { "type": "text", "text": "b" }] }),
            "ab",
        ),
        // Magistral.
        (
            json!({ "content": [{ "type": "thinking", "thinking": [{ "type": "text", "text": "t" }] }, { "type": "text", "text": "a" }] }),
            "a",
        ),
        (
            json!({ "content": [{ "type": "reasoning", "text": "t" }, { "type": "output_text", "text": "a" }] }),
            "a",
        ),
        (
            json!({ "content": [{ "type": "text", "text": { "value": "a" } }] }),
            "a",
        ),
        // Workers AI reads the JSON that it asked the model for.
        (json!({ "content": { "total": 7 } }), r#"{"total":7}"#),
        (
            json!({ "content": null, "tool_calls": call(json!("{\"total\": 7}")) }),
            r#"{"total": 7}"#,
        ),
        (
            json!({ "content": "", "tool_calls": call(json!({ "total": 7 })) }),
            r#"{"total":7}"#,
        ),
        (
            json!({ "function_call": { "name": "score", "arguments": "{\"total\": 7}" } }),
            r#"{"total": 7}"#,
        ),
        (
            json!({ "content": "a", "tool_calls": call(json!("{}")) }),
            "a",
        ),
        // The parsed content that OpenAI's SDK adds, and that gateways pass on alone.
        (
            json!({ "content": null, "tool_calls": [], "parsed": { "total": 7 } }),
            r#"{"total":7}"#,
        ),
        (json!({ "content": "a", "parsed": { "total": 7 } }), "a"),
        (json!({ "content": null, "tool_calls": [] }), ""),
        (
            json!({ "content": null, "tool_calls": [call(json!("{}"))[0], call(json!({"a": 1}))[0]] }),
            "{}\n{\"a\":1}",
        ),
    ];
    for (message, text) in table {
        let reply = says(&message);
        assert_eq!(
            (reply.text.as_str(), reply.text_in, reply.stop),
            (text, None, Stop::Complete),
            "{message}"
        );
    }
}

#[test]
fn text_of_a_completion_is_the_answer() {
    for (choice, text) in [
        (
            json!({ "text": "{\"total\": 7}", "index": 0 }),
            r#"{"total": 7}"#,
        ),
        (json!({ "text": "b", "message": { "content": "a" } }), "a"),
        (json!({ "text": "b", "message": { "content": null } }), ""),
        (json!({ "index": 0 }), ""),
    ] {
        let reply = read_value(&json!({ "choices": [choice] })).unwrap();
        assert_eq!(reply.text, text, "{choice}");
    }
}

#[test]
fn text_in_thinking_field_is_no_answer_but_named() {
    for (message, field) in [
        (
            json!({ "content": null, "reasoning_content": "{}" }),
            Some("reasoning_content"),
        ),
        (
            json!({ "content": " ", "reasoning": "{}" }),
            Some("reasoning"),
        ),
        (
            json!({ "reasoning_content": "{}", "reasoning": "{}" }),
            Some("reasoning_content"),
        ),
        (json!({ "content": "a", "reasoning_content": "{}" }), None),
        (json!({ "content": null, "reasoning_content": "" }), None),
        (
            json!({ "content": null, "tool_calls": [{ "function": { "name": "f" } }] }),
            Some("tool_calls"),
        ),
    ] {
        let reply = says(&message);
        assert_eq!(reply.text_in, field, "{message}");
        assert_eq!(
            reply.text.is_empty(),
            message["content"] != "a",
            "{message}"
        );
    }
}

#[test]
fn each_finish_reason_in_use_has_its_meaning() {
    let refused =
        |reason: &str| Stop::Refused(format!("its content filter cut the reply: {reason}"));
    let failed =
        |reason: &str| Stop::Failed(format!("gave up before its answer was whole ({reason:?})"));
    let other = |reason: &str| Stop::Other(reason.to_owned());
    let table = [
        (json!(null), Stop::Complete),
        (json!("stop"), Stop::Complete),
        (json!("STOP"), Stop::Complete),
        (json!("end_turn"), Stop::Complete),
        (json!("length"), Stop::Truncated),
        // Mistral, Z.AI, watsonx.
        (json!("model_length"), Stop::Truncated),
        (json!("model_context_window_exceeded"), Stop::Truncated),
        (json!("token_limit"), Stop::Truncated),
        // Azure; Z.AI; Gemini behind its compatible endpoint; Bedrock.
        (json!("content_filter"), refused("content_filter")),
        (json!("sensitive"), refused("sensitive")),
        (
            json!("content_filter: PROHIBITED_CONTENT"),
            refused("content_filter: PROHIBITED_CONTENT"),
        ),
        (json!("SAFETY"), refused("SAFETY")),
        (json!("IMAGE_SAFETY"), refused("IMAGE_SAFETY")),
        (
            json!("guardrail_intervened"),
            refused("guardrail_intervened"),
        ),
        // vLLM and SGLang; OpenRouter; DeepSeek; Z.AI.
        (json!("abort"), failed("abort")),
        (json!("error"), failed("error")),
        (
            json!("insufficient_system_resource"),
            failed("insufficient_system_resource"),
        ),
        (json!("network_error"), failed("network_error")),
        // Together; TGI; a model that calls.
        (json!("eos"), other("eos")),
        (json!("eos_token"), other("eos_token")),
        (json!("tool_calls"), Stop::Complete),
        (json!("function_call"), Stop::Complete),
        (json!({ "type": "length" }), other(r#"{"type":"length"}"#)),
    ];
    for (reason, stop) in table {
        let reply = read_value(&completion(&json!({ "content": "a" }), &reason)).unwrap();
        assert_eq!(reply.stop, stop, "{reason}");
    }
    for message in [
        json!({ "content": null, "refusal": "no" }),
        json!({ "content": [{ "type": "refusal", "refusal": "no" }] }),
    ] {
        assert_eq!(says(&message).stop, Stop::Refused("no".to_owned()));
    }
}

#[test]
fn reads_usage_in_all_spellings_or_none() {
    let table = [
        (
            json!({ "prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100 }),
            Some((1000, 0, 100)),
        ),
        (
            json!({ "prompt_tokens": 1000.0, "completion_tokens": 100.5, "total_tokens": 1100.5 }),
            Some((1000, 0, 101)),
        ),
        (
            json!({ "prompt_tokens": "1000", "completion_tokens": " 100 " }),
            Some((1000, 0, 100)),
        ),
        (
            json!({ "input_tokens": 1000, "output_tokens": 100 }),
            Some((1000, 0, 100)),
        ),
        (
            json!({ "prompt_tokens": 1000, "completion_tokens": null, "total_tokens": 1100 }),
            Some((1000, 0, 100)),
        ),
        // grok-4 and grok-3-mini: reasoning is only in the total.
        (
            json!({ "prompt_tokens": 10120, "completion_tokens": 1499, "total_tokens": 14428 }),
            Some((10120, 0, 4308)),
        ),
        (
            json!({ "prompt_tokens": 12, "completion_tokens": 1, "total_tokens": 399, "completion_tokens_details": { "reasoning_tokens": 386 } }),
            Some((12, 0, 387)),
        ),
        // A total that leaves something out is no reason to bill less.
        (
            json!({ "prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1000 }),
            Some((1000, 0, 100)),
        ),
        (
            json!({ "prompt_tokens": 1000, "completion_tokens": 100, "prompt_tokens_details": { "cached_tokens": 400 } }),
            Some((1000, 400, 100)),
        ),
        (
            json!({ "prompt_tokens": 1000, "completion_tokens": 100, "prompt_tokens_details": { "cached_tokens": null } }),
            Some((1000, 0, 100)),
        ),
        (
            json!({ "prompt_tokens": 1000, "completion_tokens": 100, "prompt_tokens_details": [] }),
            Some((1000, 0, 100)),
        ),
        (
            json!({ "prompt_tokens": 1000, "completion_tokens": 100, "prompt_cache_hit_tokens": 400 }),
            Some((1000, 400, 100)),
        ),
        (
            json!({ "prompt_tokens": null, "completion_tokens": null, "total_tokens": 0 }),
            None,
        ),
        (
            json!({ "prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0 }),
            None,
        ),
        (json!({ "prompt_tokens": 1000 }), None),
        (
            json!({ "prompt_tokens": -1, "completion_tokens": 100 }),
            None,
        ),
        (
            json!({ "prompt_tokens": "many", "completion_tokens": 100 }),
            None,
        ),
        (json!("1000"), None),
        (json!([1000, 100]), None),
        (json!(null), None),
        (json!({}), None),
    ];
    for (usage, expected) in table {
        let mut completion = completion(&json!({ "content": "a" }), &json!("stop"));
        completion["usage"] = usage.clone();
        let reply = read_value(&completion).unwrap();
        let read = reply
            .usage
            .map(|tokens| (tokens.input, tokens.cached, tokens.output));
        assert_eq!(read, expected, "{usage}");
        assert_eq!(reply.text, "a", "{usage}");
    }
    let mut elsewhere = completion(&json!({ "content": "a" }), &json!("stop"));
    let usage = elsewhere["usage"].take();
    elsewhere["choices"][0]["usage"] = usage;
    assert_eq!(
        read_value(&elsewhere)
            .unwrap()
            .usage
            .map(|tokens| tokens.input),
        Some(10)
    );
}

#[test]
fn unrequested_stream_is_one_reply() {
    let whole = completion(&json!({ "content": "{\"a\": 1}" }), &json!("stop"));
    let chunk = |delta: Value| json!({ "model": "m", "choices": [{ "index": 0, "delta": delta, "finish_reason": null }] });
    let chunks = [
        chunk(json!({ "role": "assistant", "content": "" })),
        chunk(json!({ "reasoning_content": "thoughts" })),
        chunk(json!({ "content": "{\"a\":" })),
        chunk(json!({ "content": " 1}" })),
        json!({ "model": "m", "choices": [{ "index": 0, "delta": {}, "finish_reason": "stop" }] }),
        json!({ "model": "m", "choices": [], "usage": { "prompt_tokens": 10, "completion_tokens": 2 } }),
    ];
    let lines = |end: &str| -> String {
        chunks
            .iter()
            .map(|chunk| format!("data: {chunk}{end}"))
            .collect()
    };
    let table = [
        format!("{whole}\n\ndata: [DONE]\n\n"),
        format!("{whole}data: [DONE]"),
        format!("{whole}\ndata: [DONE]"),
        format!("data: {whole}\n\ndata: [DONE]\n\n"),
        format!("{}data: [DONE]\n\n", lines("\n\n")),
        format!(
            ": OPENROUTER PROCESSING\n\n{}data: [DONE]\n\n",
            lines("\r\n\r\n")
        ),
        lines("\n"),
    ];
    for body in table {
        let reply = read(body.as_bytes()).unwrap();
        assert_eq!(reply.text, "{\"a\": 1}", "{body}");
        assert_eq!(
            (reply.stop, reply.model.as_str()),
            (Stop::Complete, "m"),
            "{body}"
        );
        let tokens = reply.usage.map(|tokens| (tokens.input, tokens.output));
        assert_eq!(tokens, Some((10, 2)), "{body}");
    }
    let broken: String = chunks[..3]
        .iter()
        .map(|chunk| format!("data: {chunk}\n\n"))
        .collect();
    assert_eq!(read(broken.as_bytes()), Err(broken_off()));
    let failed = "event: error\ndata: {\"error\": {\"message\": \"no\", \"code\": 502}}\n\n";
    assert!(matches!(
        read(failed.as_bytes()),
        Err(Unreadable::ErrorInside(_))
    ));
}

/// Written by LiteLLM (a completion, and a stream with `include_usage`) and by Mistral's SDK.
#[test]
fn bodies_that_real_tools_wrote_are_read() {
    let table: [(&[u8], _); 3] = [
        (include_bytes!("made/litellm-completion.json"), (10, 20)),
        (include_bytes!("made/litellm-stream.sse"), (10, 16)),
        (include_bytes!("made/magistral-completion.json"), (10, 20)),
    ];
    for (body, usage) in table {
        let reply = read(body).unwrap();
        assert_eq!(
            reply.text,
            r#"{"why": "The logs were read last.", "total": 61}"#
        );
        assert_eq!(
            (reply.stop, reply.text_in, reply.error),
            (Stop::Complete, None, None)
        );
        let tokens = reply.usage.map(|tokens| (tokens.input, tokens.output));
        assert_eq!(tokens, Some(usage));
    }
}

#[test]
fn empty_choices_are_transient_and_error_field_counts() {
    let empty = json!({ "object": "chat.completion", "choices": [], "usage": { "prompt_tokens": 10, "completion_tokens": 0 } });
    for (choices, error) in [
        (json!([]), json!(null)),
        (json!(null), json!("")),
        (json!({}), json!({})),
    ] {
        let mut completion = empty.clone();
        completion["choices"] = choices;
        completion["error"] = error;
        let reply = read_value(&completion).unwrap();
        assert_eq!(
            reply.stop,
            Stop::Failed(
                "answered with no choices; if it goes on, check base_url and type".to_owned()
            )
        );
        assert_eq!(reply.error, None, "blank");
        assert_eq!(reply.usage.map(|tokens| tokens.input), Some(10));
    }
    let error = json!({ "code": 502, "message": "upstream" });
    let inside = json!({ "error": error });
    for completion in [
        json!({ "error": error }),
        json!({ "choices": null, "error": error }),
    ] {
        let body = completion.clone();
        assert_eq!(read_value(&completion), Err(Unreadable::ErrorInside(body)));
    }
    let mut in_choice = completion(&json!({ "content": "half a" }), &json!("error"));
    in_choice["choices"][0]["error"] = error;
    let reply = read_value(&in_choice).unwrap();
    assert_eq!((reply.text.as_str(), reply.error), ("half a", Some(inside)));
}

#[test]
fn rejects_bodies_without_completion() {
    for body in ["{}", r#"{"object": "list", "data": []}"#] {
        let stop = read(body.as_bytes()).unwrap().stop;
        assert!(matches!(stop, Stop::Failed(_)), "{body}");
    }
    for body in ["7", "[]"] {
        assert!(
            matches!(
                read(body.as_bytes()),
                Err(Unreadable::Failed(ErrorClass::Transient, _))
            ),
            "{body}"
        );
    }
    for body in [
        r#"{"success":false,"errors":[{"code":10000,"message":"Authentication error"}],"result":null}"#,
        r#"{"Message":"no"}"#,
        "\"no\"",
        r#"[{"error":{"code":401}}]"#,
        r#"[{"detail":"no"}]"#,
    ] {
        let inside = serde_json::from_str(body).unwrap();
        assert_eq!(read(body.as_bytes()), Err(Unreadable::ErrorInside(inside)));
    }
    let message = "with no body";
    let failed = Unreadable::Failed(ErrorClass::Transient, message);
    assert_eq!(read(b" "), Err(failed));
    for body in ["", "<html></html>", "upstream timed out"] {
        assert!(
            matches!(
                read(body.as_bytes()),
                Err(Unreadable::Failed(ErrorClass::Transient, _))
            ),
            "{body}"
        );
    }
    assert_eq!(read(br#"{"choices": [{"mess"#), Err(broken_off()));
    let twice = r#"{"choices": [{"message": {"content": "a", "content": "b"}}]}"#;
    let failure = "with a duplicate field of different values";
    let ambiguous = Unreadable::Failed(ErrorClass::Unparsable, failure);
    assert_eq!(read(twice.as_bytes()), Err(ambiguous));
    assert_eq!(
        read(twice.replace("\"b\"", "\"a\"").as_bytes())
            .unwrap()
            .text,
        "a"
    );
    // A gateway in Python that writes half an emoji, and one that leaves raw newlines in.
    let odd = "{\"choices\": [{\"message\": {\"content\": \"a\\ud83d\nb\"}}]}";
    assert_eq!(read(odd.as_bytes()).unwrap().text, "a\u{fffd}\nb");
}

fn broken_off() -> Unreadable {
    Unreadable::Failed(
        ErrorClass::Transient,
        "and broke off its answer in the middle of the JSON",
    )
}

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    pairs
        .iter()
        .map(|(name, value)| {
            (
                reqwest::header::HeaderName::from_static(name),
                value.parse().unwrap(),
            )
        })
        .collect()
}

fn known_reset(headers: &HeaderMap) -> Option<Duration> {
    let now = "2026-11-06T08:49:30Z".parse().unwrap();
    FORMAT.wait(ErrorClass::Exhausted, headers, &ErrorBody::default(), now)
}

#[test]
fn only_resets_of_used_up_limits_count() {
    let limits = [
        ("x-ratelimit-remaining-requests", "5"),
        ("x-ratelimit-reset-requests", "12ms"),
        ("x-ratelimit-remaining-tokens", "0"),
        ("x-ratelimit-reset-tokens", "6m0s"),
    ];
    let reset = known_reset(&headers(&limits));
    assert_eq!(reset, Some(Duration::from_secs(360)));
    assert_eq!(known_reset(&headers(&limits[..2])), None);
}

#[test]
fn immediate_reset_still_waits_a_second() {
    let second = Some(Duration::from_secs(1));
    let zero = headers(&[("retry-after", "0")]);
    assert_eq!(known_reset(&zero), second);
    let millis = headers(&[
        ("x-ratelimit-remaining-requests", "0"),
        ("x-ratelimit-reset-requests", "12ms"),
    ]);
    assert_eq!(known_reset(&millis), second);
}

fn rates(headers: &HeaderMap) -> RateReport {
    let now = "2026-11-06T08:49:30Z".parse().unwrap();
    FORMAT.rate_headers.as_ref().unwrap().read(headers, now)
}

#[test]
fn reads_limits_and_skips_invalid_ones() {
    let read = rates(&headers(&[
        ("x-ratelimit-limit-requests", "60"),
        ("x-ratelimit-remaining-requests", "59"),
        ("x-ratelimit-reset-requests", "1s"),
        ("x-ratelimit-limit-tokens", "-5"),
        ("x-ratelimit-remaining-tokens", "plenty"),
        ("x-ratelimit-reset-tokens", "6m0s"),
    ]));
    let requests = LimitReport {
        limit: Some(60),
        remaining: Some(59),
        resets_in: Some(Duration::from_secs(1)),
        span: Span::Unsaid,
    };
    assert_eq!(read.requests, requests);
    let tokens = LimitReport {
        resets_in: Some(Duration::from_secs(360)),
        ..LimitReport::default()
    };
    assert_eq!(read.tokens, tokens);
    assert_eq!(rates(&HeaderMap::new()), RateReport::default());
}
