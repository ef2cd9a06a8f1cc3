//! Anthropic messages.
//!
//! Nothing is assumed of a server beyond the wire format, and unknown fields are ignored. It never requests a prompt
//! cache, because only the framework, about 3,000 tokens, is the same for every session: Opus and Haiku cache no prefix
//! under 4,096 tokens, and with Sonnet the gain is under a tenth of the cost of an average session. A cache that is
//! requested by `extra_body: {cache_control: ..}` is counted and priced.

mod batch;
mod reply;
mod request;
mod schema;

use super::family::Family;
use super::format::WireFormat;
use super::headers::{RateHeaders, until};
use super::said::{Said, Signal};
use super::shape::{Cap, Field, Rung, Shape};
use crate::error::ErrorClass;
use crate::gate::Span;

pub(super) static FORMAT: WireFormat = WireFormat {
    family: Family {
        name: "anthropic",
        path: "/v1/messages",
        auth_header: "x-api-key",
        auth_prefix: "",
        headers: &[("anthropic-version", "2023-06-01")],
        ladder: &[Rung::JsonSchema, Rung::Tool, Rung::Prompt],
        cap: Cap::MaxTokens,
    },
    body: request::body,
    read: reply::read,
    names,
    statuses: &[
        ("invalid_request_error", 400),
        ("authentication_error", 401),
        ("billing_error", 402),
        ("permission_error", 403),
        ("not_found_error", 404),
        ("request_too_large", 413),
        ("rate_limit_error", 429),
        ("api_error", 500),
        ("timeout_error", 504),
        ("overloaded_error", 529),
    ],
    used_up,
    bad_requests: &[
        (
            Signal {
                codes: &["request_too_large"],
                words: &[
                    "prompt is too long",
                    "exceed context limit",
                    "context window",
                    "context length",
                ],
            },
            ErrorClass::TooLarge,
        ),
        (
            Signal::words(&["content filtering policy"]),
            ErrorClass::Refused,
        ),
        (USED_UP, ErrorClass::Exhausted),
    ],
    rate_headers: Some(RateHeaders {
        name: |what, part| format!("anthropic-ratelimit-{what}-{part}"),
        quantities: &["requests", "tokens", "input-tokens", "output-tokens"],
        span: Span::Minute,
        reset: until,
        resets: &[ErrorClass::Throttled, ErrorClass::Exhausted],
    }),
    batches: Some(&batch::Batches),
};

const USED_UP: Signal = Signal {
    codes: &["billing_error"],
    words: &[
        "credit balance",
        "spend limit",
        "spending limit",
        "usage limits",
        "per day",
    ],
};

fn used_up(said: &Said) -> bool {
    USED_UP.is_in(said)
}

fn names(field: Field, sent: Shape) -> &'static [&'static str] {
    match field {
        Field::Temperature => &["temperature"],
        Field::MaxTokens => &["max_tokens"],
        Field::Format => match sent.rung {
            Rung::JsonSchema => &["output_config", "output_format", "json_schema", "schema"],
            Rung::Tool => &["tool_choice", "tools", "tool", "input_schema"],
            Rung::JsonObject | Rung::Prompt => &[],
        },
        Field::MaxCompletionTokens | Field::Seed => &[],
    }
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderName;

    use super::*;
    use crate::provider::refusal::{Classified, classify};
    use crate::provider::shape::Sent;

    fn of(status: u16, kind: &str, message: &str, rung: Rung) -> Classified {
        let body = serde_json::json!({
            "type": "error", "error": { "type": kind, "message": message }, "request_id": "req_1",
        });
        let sent = Shape {
            rung,
            cap: Cap::MaxTokens,
            temperature: Sent::Yes,
            seed: Sent::No,
        };
        let said = Said::read(&body.to_string());
        classify(&FORMAT, status, &said, sent)
    }

    #[test]
    fn each_type_in_a_200_counts_as_its_status() {
        let table = [
            ("authentication_error", ErrorClass::Misconfigured),
            ("billing_error", ErrorClass::Exhausted),
            ("request_too_large", ErrorClass::TooLarge),
            ("rate_limit_error", ErrorClass::Throttled),
            ("overloaded_error", ErrorClass::Transient),
            ("novel_error", ErrorClass::Rejected),
        ];
        for (kind, class) in table {
            let verdict = of(200, kind, "no", Rung::JsonSchema);
            assert_eq!(verdict, Classified::Class(class), "{kind}");
        }
    }

    #[test]
    fn a_bad_request_is_told_apart_by_its_words() {
        use Classified::{Capability, Class};
        let table = [
            (
                "prompt is too long: 208310 tokens > 200000 maximum",
                Class(ErrorClass::TooLarge),
            ),
            (
                "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
                Class(ErrorClass::TooLarge),
            ),
            (
                "Your credit balance is too low to access the Anthropic API.",
                Class(ErrorClass::Exhausted),
            ),
            (
                "You have reached your specified API usage limits. You will regain access on 2026-12-01.",
                Class(ErrorClass::Exhausted),
            ),
            (
                "Output blocked by content filtering policy",
                Class(ErrorClass::Refused),
            ),
            (
                "`temperature` is deprecated for this model.",
                Capability(Field::Temperature),
            ),
            (
                "output_config.format: Extra inputs are not permitted",
                Capability(Field::Format),
            ),
            (
                "max_tokens: 64000 > 8192, which is the maximum allowed number of output tokens",
                Capability(Field::MaxTokens),
            ),
            (
                "tool_choice: not what was sent",
                Class(ErrorClass::Rejected),
            ),
            (
                "messages: roles must alternate",
                Class(ErrorClass::Rejected),
            ),
        ];
        for (message, verdict) in table {
            let read = of(400, "invalid_request_error", message, Rung::JsonSchema);
            assert_eq!(read, verdict, "{message}");
        }
        let forced = "Thinking may not be enabled when tool_choice forces tool use.";
        let read = of(400, "invalid_request_error", forced, Rung::Tool);
        assert_eq!(read, Capability(Field::Format));
    }

    fn waits(pairs: &[(&'static str, &str)]) -> Option<u64> {
        let headers = pairs
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()))
            .collect();
        let now = "2026-11-06T08:49:30Z".parse().unwrap();
        FORMAT
            .wait(ErrorClass::Throttled, &headers, &Said::default(), now)
            .map(|wait| wait.as_secs())
    }

    #[test]
    fn the_longest_reset_of_a_spent_limit_counts_unless_a_wait_is_asked_for() {
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
    fn limits_are_per_minute_and_tokens_are_told_apart() {
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
}
