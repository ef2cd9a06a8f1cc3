//! Bodies as servers send them, and what they mean.
use serde_json::json;

use super::*;
use crate::entries::Providers;
use crate::provider::openai;

fn sent() -> Shape {
    let entry = json!({"j": {
        "type": "openai", "base_url": "http://h/v1", "model": "m", "auth": "none", "extra_body": {"seed": 7},
    }});
    let providers = Providers::from_value(&entry, &|_| Err(String::new())).unwrap();
    Shape::start(providers.spec("j").unwrap().entry())
}

fn of(status: u16, body: &str) -> Classified {
    classify(&openai::FORMAT, status, &Said::read(body), sent())
}

#[test]
fn each_status_has_its_class() {
    let table: &[(&[u16], ErrorClass)] = &[
        (
            &[408, 409, 425, 500, 502, 503, 504, 520, 522, 529, 530],
            ErrorClass::Transient,
        ),
        (&[429], ErrorClass::Throttled),
        (&[402], ErrorClass::Exhausted),
        (&[401, 403, 404], ErrorClass::Misconfigured),
        (&[413], ErrorClass::TooLarge),
        (
            &[301, 302, 307, 400, 405, 418, 422, 451, 501, 505],
            ErrorClass::Rejected,
        ),
    ];
    for (statuses, class) in table {
        for status in *statuses {
            assert_eq!(of(*status, "{}"), Classified::Class(*class), "{status}");
        }
    }
}

#[test]
fn a_429_that_waiting_wont_help_is_exhausted() {
    for body in [
        r#"{"error": {"message": "You exceeded your current quota", "type": "insufficient_quota", "code": "insufficient_quota"}}"#,
        r#"{"error": {"message": "Rate limit reached on requests per day (RPD): Limit 200", "code": "rate_limit_exceeded"}}"#,
        r#"{"error": {"message": "Budget has been exceeded!", "type": "budget_exceeded", "code": "400"}}"#,
    ] {
        assert_eq!(
            of(429, body),
            Classified::Class(ErrorClass::Exhausted),
            "{body}"
        );
    }
    let minute = r#"{"error": {"message": "Rate limit reached on tokens per min (TPM)", "code": "rate_limit_exceeded"}}"#;
    assert_eq!(of(429, minute), Classified::Class(ErrorClass::Throttled));
}

#[test]
fn a_bad_request_that_names_one_of_our_fields_is_a_capability() {
    let table = [
        (
            r#"{"error": {"message": "Unsupported value: 'temperature' does not support 0", "param": "temperature", "code": "unsupported_value"}}"#,
            Field::Temperature,
        ),
        (
            r#"{"error": {"message": "Invalid schema for response_format 'x'", "param": "response_format.json_schema"}}"#,
            Field::Format,
        ),
        (
            r#"{"message": "json_schema is not supported by this model"}"#,
            Field::Format,
        ),
        (
            r#"{"detail": [{"loc": ["body", "max_completion_tokens"], "msg": "max_completion_tokens: extra fields not permitted", "input": "SECRET PROMPT"}]}"#,
            Field::MaxCompletionTokens,
        ),
        (r#"{"error": "unknown field seed"}"#, Field::Seed),
        (
            r#"[{"error": {"message": "temperature is fixed", "status": "INVALID_ARGUMENT"}}]"#,
            Field::Temperature,
        ),
    ];
    for (body, field) in table {
        assert_eq!(of(400, body), Classified::Capability(field), "{body}");
        assert_eq!(of(422, body), Classified::Capability(field), "{body}");
    }
}

#[test]
fn fields_that_we_didnt_send_or_that_are_part_of_a_word_are_no_capability() {
    for body in [
        r#"{"error": {"message": "bad temperature", "param": "messages"}}"#,
        r#"{"error": {"message": "max_tokens is wrong"}}"#,
        r#"{"error": {"message": "temperatures and seeds are odd"}}"#,
        "no",
    ] {
        assert_eq!(
            of(400, body),
            Classified::Class(ErrorClass::Rejected),
            "{body}"
        );
    }
}

#[test]
fn an_output_cap_that_is_too_high_is_not_renamed() {
    for param in ["max_tokens", "max_completion_tokens"] {
        let body = format!(
            r#"{{"error": {{"message": "max_tokens is too large: 32768. This model supports at most 16384 completion tokens", "param": "{param}"}}}}"#
        );
        assert_eq!(
            of(400, &body),
            Classified::Class(ErrorClass::Rejected),
            "{param}"
        );
    }
}

#[test]
fn a_prompt_that_doesnt_fit_is_too_large_whatever_else_is_named() {
    for body in [
        r#"{"error": {"message": "This model's maximum context length is 128000 tokens", "code": "context_length_exceeded", "param": "messages"}}"#,
        r#"{"object": "error", "message": "'max_completion_tokens' is too large: this model's maximum context length is 4096 tokens"}"#,
        r#"{"error": {"code": 400, "message": "the request exceeds the available context size", "type": "exceed_context_size_error"}}"#,
    ] {
        assert_eq!(
            of(400, body),
            Classified::Class(ErrorClass::TooLarge),
            "{body}"
        );
    }
}

#[test]
fn a_filters_400_is_a_refusal_and_a_models_400_a_misconfiguration() {
    let filter =
        r#"{"error": {"message": "filtered", "code": "content_filter", "param": "prompt"}}"#;
    assert_eq!(of(400, filter), Classified::Class(ErrorClass::Refused));
    for model in [
        r#"{"error": {"message": "no such model", "code": "model_not_found"}}"#,
        r#"{"error": {"message": "/chat/completions: Invalid model name passed in model=gpt-x. Call `/v1/models` to view available models for your key.", "type": "None", "param": "None", "code": "400"}}"#,
        r#"{"error": {"message": "No connected db.", "type": "no_db_connection", "param": null, "code": "400"}}"#,
    ] {
        assert_eq!(
            of(400, model),
            Classified::Class(ErrorClass::Misconfigured),
            "{model}"
        );
    }
}

#[test]
fn an_error_inside_a_200_counts_as_the_status_that_it_names() {
    let upstream = r#"{"error": {"message": "upstream", "code": 502}}"#;
    assert_eq!(of(200, upstream), Classified::Class(ErrorClass::Transient));
    let nameless = r#"{"error": {"message": "upstream"}}"#;
    assert_eq!(of(200, nameless), Classified::Class(ErrorClass::Rejected));
}

#[test]
fn the_servers_words_come_without_markup_and_without_the_echoed_input() {
    let page = Said::read("<html><h1>502 Bad Gateway</h1><hr>nginx</html>");
    assert_eq!(page.words(), "502 Bad Gateway nginx");
    let echo = Said::read(r#"{"detail": [{"msg": "too short", "input": "SECRET PROMPT"}]}"#);
    assert_eq!(echo.words(), "too short");
    assert_eq!(Said::read("").words(), "no reason given");
    let code = Said::read(r#"{"error": {"code": "overloaded"}}"#);
    assert_eq!(code.words(), "overloaded");
}

#[test]
fn a_cap_that_was_spent_before_the_first_word_is_a_truncation_and_no_field_is_dropped() {
    let body = r#"{"error": {"message": "Could not finish the message because max_tokens or model output limit was reached. Please try again with higher max_tokens.", "param": null}}"#;
    assert_eq!(of(400, body), Classified::Class(ErrorClass::Truncated));
}
