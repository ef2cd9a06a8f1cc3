//! How long a server asks to wait: `retry-after`, or the reset of a limit that has nothing left; and its limits.

use std::time::Duration;

use chrono::{DateTime, Utc};
use reqwest::header::HeaderMap;

use crate::judge::error::ErrorClass;
use crate::judge::gate::{LimitReport, RateReport, Span};
use crate::judge::provider::headers::{
    at_least_a_second, duration, limit, retry_after, spent_limits,
};

/// How long a refusal of `class` asks to wait; for a quota, when it comes back.
pub(super) fn wait(class: ErrorClass, headers: &HeaderMap, now: DateTime<Utc>) -> Option<Duration> {
    let asked = retry_after(headers, now);
    if class != ErrorClass::Exhausted {
        return asked;
    }
    let names = ["requests", "tokens"].map(|limit| {
        (
            format!("x-ratelimit-remaining-{limit}"),
            format!("x-ratelimit-reset-{limit}"),
        )
    });
    asked
        .or_else(|| spent_limits(headers, &names, duration))
        .map(at_least_a_second)
}

/// The limits. The names don't say of what span: minutes for most servers and models, days for some.
pub(super) fn rates(headers: &HeaderMap) -> RateReport {
    let of = |what: &str| {
        let names =
            ["limit", "remaining", "reset"].map(|part| format!("x-ratelimit-{part}-{what}"));
        limit(
            headers,
            names.each_ref().map(String::as_str),
            Span::Unsaid,
            duration,
        )
    };
    RateReport {
        requests: of("requests"),
        tokens: of("tokens"),
        input_tokens: LimitReport::default(),
        output_tokens: LimitReport::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        wait(ErrorClass::Exhausted, headers, now)
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
