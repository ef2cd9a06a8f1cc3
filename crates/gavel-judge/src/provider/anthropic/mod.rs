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
use super::headers::RateHeaders;
use super::shape::{Cap, Field, Rung, Shape};
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
    rate_headers: Some(RateHeaders {
        name: |what, part| format!("anthropic-ratelimit-{what}-{part}"),
        quantities: &["requests", "tokens", "input-tokens", "output-tokens"],
        span: Span::Minute,
    }),
    batches: Some(&batch::Batches),
};

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
    use crate::error::ErrorClass;
    use crate::provider::error_body::ErrorBody;

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
