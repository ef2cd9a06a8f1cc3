//! Chat completions: OpenAI and every compatible server (Azure, vLLM, Ollama, llama.cpp, LiteLLM).
//!
//! The address is used as given; nothing is assumed of a server beyond the wire format, and unknown fields are ignored.

mod batch;
mod reply;
mod request;

use super::family::Family;
use super::format::WireFormat;
use super::headers::RateHeaders;
use super::shape::{Cap, Field, Rung, Shape};
use crate::gate::Span;

pub(super) static FORMAT: WireFormat = WireFormat {
    family: Family {
        name: "openai",
        path: "/chat/completions",
        auth_header: "Authorization",
        auth_prefix: "Bearer ",
        headers: &[],
        ladder: &[Rung::JsonSchema, Rung::JsonObject, Rung::Prompt],
        cap: Cap::MaxCompletionTokens,
    },
    body: request::body,
    read: reply::read,
    names,
    rate_headers: Some(RateHeaders {
        name: |what, part| format!("x-ratelimit-{part}-{what}"),
        quantities: &["requests", "tokens"],
        // The names don't say of what span: minutes for most servers and models, days for some.
        span: Span::Unsaid,
    }),
    batches: Some(&batch::Batches),
};

fn names(field: Field, _sent: Shape) -> &'static [&'static str] {
    match field {
        Field::Temperature => &["temperature"],
        Field::MaxCompletionTokens => &["max_completion_tokens"],
        Field::MaxTokens => &["max_tokens"],
        // The last ones: servers that compile the schema find fault with it in words of their own.
        Field::Format => &[
            "response_format",
            "json_schema",
            "json_object",
            "response_json_schema",
            "response_schema",
            "responseSchema",
            "schema",
            "grammar",
            "structured output",
            "structured outputs",
        ],
        Field::Seed => &["seed"],
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use reqwest::header::HeaderMap;

    use super::*;
    use crate::error::ErrorClass;
    use crate::gate::{LimitReport, RateReport};
    use crate::provider::error_body::ErrorBody;

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
    fn a_reset_counts_only_for_the_limit_that_has_nothing_left() {
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
    fn a_reset_that_is_said_to_be_now_is_still_a_pause() {
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
    fn limits_are_read_and_what_makes_no_sense_is_left_out() {
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
}
