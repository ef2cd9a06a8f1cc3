//! How long a server asks to wait: `retry-after`, or the reset of a limit that has nothing left; and its limits.

use std::time::Duration;

use chrono::{DateTime, Utc};
use reqwest::header::HeaderMap;

use crate::judge::error::ErrorClass;
use crate::judge::gate::{RateReport, Span};
use crate::judge::provider::headers::{at_least_a_second, limit, retry_after, spent_limits, until};

/// How long a refusal of `class` asks to wait.
pub(super) fn wait(class: ErrorClass, headers: &HeaderMap, now: DateTime<Utc>) -> Option<Duration> {
    let asked = retry_after(headers, now);
    match class {
        ErrorClass::Throttled | ErrorClass::Exhausted => {
            asked.or_else(|| reset(headers, now)).map(at_least_a_second)
        }
        ErrorClass::Transient
        | ErrorClass::Misconfigured
        | ErrorClass::Capability
        | ErrorClass::TooLarge
        | ErrorClass::Truncated
        | ErrorClass::Refused
        | ErrorClass::Rejected
        | ErrorClass::Unparsable => asked,
    }
}

fn reset(headers: &HeaderMap, now: DateTime<Utc>) -> Option<Duration> {
    let names = ["requests", "tokens", "input-tokens", "output-tokens"].map(|limit| {
        (
            format!("anthropic-ratelimit-{limit}-remaining"),
            format!("anthropic-ratelimit-{limit}-reset"),
        )
    });
    spent_limits(headers, &names, |reset| until(reset, now))
}

/// The limits, which the family documents as limits per minute.
pub(super) fn rates(headers: &HeaderMap, now: DateTime<Utc>) -> RateReport {
    let of = |what: &str| {
        let names = ["limit", "remaining", "reset"]
            .map(|part| format!("anthropic-ratelimit-{what}-{part}"));
        let names = names.each_ref().map(String::as_str);
        limit(headers, names, Span::Minute, |reset| until(reset, now))
    };
    RateReport {
        requests: of("requests"),
        tokens: of("tokens"),
        input_tokens: of("input-tokens"),
        output_tokens: of("output-tokens"),
    }
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderName;

    use super::*;

    fn waits(pairs: &[(&'static str, &str)]) -> Option<u64> {
        let headers = pairs
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()))
            .collect();
        let now = "2026-11-06T08:49:30Z".parse().unwrap();
        wait(ErrorClass::Throttled, &headers, now).map(|wait| wait.as_secs())
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
        let read = rates(&headers, "2026-11-06T08:49:30Z".parse().unwrap());
        assert_eq!(read.requests.per_minute(), Some(50));
        let reset = read.requests.nothing_left_for();
        assert_eq!(reset, Some(Duration::from_secs(5)));
        assert_eq!(read.output_tokens.per_minute(), Some(8000));
        assert_eq!(read.input_tokens.per_minute(), None);
    }
}
