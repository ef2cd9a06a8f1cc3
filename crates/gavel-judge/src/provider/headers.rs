//! How long a server asks to wait, and what it says of its limits, by its headers.

use std::time::Duration;

use chrono::{DateTime, Utc};
use reqwest::header::HeaderMap;

use crate::error::ErrorClass;
use crate::gate::{LimitReport, RateReport, Span};
use gavel_outbound::LONGEST_WAIT;

/// How long the server asks to wait.
pub(super) fn retry_after(headers: &HeaderMap, now: DateTime<Utc>) -> Option<Duration> {
    gavel_outbound::retry_after(headers, Some(now))
}

/// The headers by which a kind of provider tells its limits.
pub(super) struct RateHeaders {
    /// The header of a quantity's `limit`, `remaining` or `reset`.
    pub(super) name: fn(&str, &str) -> String,
    /// Requests, tokens, and tokens of prompts and of answers where these have limits of their own.
    pub(super) quantities: &'static [&'static str],
    pub(super) span: Span,
    /// Reads a reset's form.
    pub(super) reset: fn(&str, DateTime<Utc>) -> Option<Duration>,
    /// The classes of refusal that last until the reset of what is spent.
    pub(super) resets: &'static [ErrorClass],
}

impl RateHeaders {
    /// The limits. What makes no sense (a negative count, a word) is as if it weren't there.
    pub(super) fn read(&self, headers: &HeaderMap, now: DateTime<Utc>) -> RateReport {
        let limit = |at: usize| {
            let Some(what) = self.quantities.get(at) else {
                return LimitReport::default();
            };
            let said = |part| text(headers, &(self.name)(what, part));
            let count = |part| said(part).and_then(|text| text.parse().ok());
            LimitReport {
                limit: count("limit"),
                remaining: count("remaining"),
                resets_in: said("reset").and_then(|text| (self.reset)(text, now)),
                span: self.span,
            }
        };
        RateReport {
            requests: limit(0),
            tokens: limit(1),
            input_tokens: limit(2),
            output_tokens: limit(3),
        }
    }

    /// How long to wait: what was asked for, else the longest reset of those limits that have nothing left. At least a second:
    /// a quota that is said to be back at once would be asked for without a pause.
    pub(super) fn wait(
        &self,
        asked: Option<Duration>,
        headers: &HeaderMap,
        now: DateTime<Utc>,
    ) -> Option<Duration> {
        let spent = || {
            let limits = self.read(headers, now);
            let spent = limits.all().into_iter();
            let spent = spent.filter(|limit| limit.remaining == Some(0));
            spent.filter_map(|limit| limit.resets_in).max()
        };
        let wait = asked.or_else(spent);
        wait.map(|wait| wait.max(Duration::from_secs(1)))
    }
}

/// A time of day and date by RFC 3339, as a wait from `now`.
pub(super) fn until(text: &str, now: DateTime<Utc>) -> Option<Duration> {
    let at = DateTime::parse_from_rfc3339(text).ok()?;
    let wait = (at.with_timezone(&Utc) - now).to_std();
    Some(wait.unwrap_or(Duration::ZERO).min(LONGEST_WAIT))
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

/// "12ms", "6m0s", "1h2m3.5s".
pub(super) fn duration(text: &str) -> Option<Duration> {
    let mut total = 0.0;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (amount, tail) = rest.split_at(digits);
        let unit = tail
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit);
        let factor = match unit {
            "ms" => 0.001,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            "d" => 86_400.0,
            _ => return None,
        };
        total += amount.parse::<f64>().ok()? * factor;
        rest = tail;
    }
    let total = Duration::try_from_secs_f64(total).unwrap_or(LONGEST_WAIT);
    (!text.is_empty()).then_some(total.min(LONGEST_WAIT))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> DateTime<Utc> {
        "2026-11-06T08:49:30Z".parse().unwrap()
    }

    #[test]
    fn a_point_in_time_is_a_wait_and_one_that_has_passed_is_none() {
        let table = [
            ("2026-11-06T08:49:47Z", Some(17_000)),
            ("2026-11-06T09:49:31.5+01:00", Some(1_500)),
            ("2020-01-01T00:00:00Z", Some(0)),
            ("2999-01-01T00:00:00Z", Some(604_800_000)),
            ("17s", None),
        ];
        for (text, millis) in table {
            assert_eq!(
                until(text, now()),
                millis.map(Duration::from_millis),
                "{text}"
            );
        }
    }

    #[test]
    fn durations_are_read_with_their_units() {
        let table = [
            ("12ms", Some(12)),
            ("6m0s", Some(360_000)),
            ("1h2m3.5s", Some(3_723_500)),
            ("1d", Some(86_400_000)),
            ("", None),
            ("7", None),
            ("3 weeks", None),
        ];
        for (text, millis) in table {
            assert_eq!(duration(text), millis.map(Duration::from_millis), "{text}");
        }
    }
}
