//! Delays and rate limits in the headers of servers, and durations in text.

use std::time::Duration;

use chrono::{DateTime, Utc};
use reqwest::header::HeaderMap;

use crate::gate::{LimitReport, RateReport, Span};
use gavel_outbound::seconds;

pub(super) struct RateHeaders {
    /// Returns the header of a quantity's `limit`, `remaining` or `reset`.
    pub(super) name: fn(&str, &str) -> String,
    /// Requests, tokens, and tokens of prompts and of answers if these have separate limits.
    pub(super) quantities: &'static [&'static str],
    pub(super) span: Span,
}

impl RateHeaders {
    /// Reads the limits; skips invalid values such as a negative count.
    pub(super) fn read(&self, headers: &HeaderMap, now: DateTime<Utc>) -> RateReport {
        let limit = |at: usize| {
            let what = self.quantities.get(at);
            let header = |part| text(headers, &(self.name)(what?, part));
            let count = |part| header(part).and_then(|text| text.parse().ok());
            LimitReport {
                limit: count("limit"),
                remaining: count("remaining"),
                resets_in: header("reset").and_then(|text| reset(text, now)),
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
}

/// Returns the time until the reset of an unnamed limit.
pub(super) fn unnamed_reset(headers: &HeaderMap, now: DateTime<Utc>) -> Option<Duration> {
    let mut names = ["ratelimit-reset", "x-ratelimit-reset"].into_iter();
    names.find_map(|name| reset(text(headers, name)?, now))
}

/// Returns the time from `now` to a reset: a duration (`6m0s`), seconds, or a time in RFC 3339 or in seconds or milliseconds since 1970.
fn reset(text: &str, now: DateTime<Utc>) -> Option<Duration> {
    /// Larger numbers are times: this is 2001 in seconds.
    const EPOCH: f64 = 1e9;
    if let Some(wait) = duration(text) {
        return Some(wait);
    }
    let at = match text.parse::<f64>() {
        Ok(number) if number < EPOCH => return Some(seconds(number)),
        Ok(number) if number < EPOCH * 1000.0 => number * 1000.0,
        Ok(number) => number,
        Err(_) => DateTime::parse_from_rfc3339(text).ok()?.timestamp_millis() as f64,
    };
    Some(seconds((at - now.timestamp_millis() as f64) / 1000.0))
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

/// Returns the duration at the start of a text: `12ms`, `6m0s`, `1h2m3.5s`, `41 seconds`, `02:10:30`.
pub(super) fn duration(text: &str) -> Option<Duration> {
    let (mut total, mut rest) = (None, text);
    while let Some((part, behind)) = leading_part(rest) {
        (total, rest) = (Some(total.unwrap_or(0.0) + part), behind);
    }
    total.or_else(|| clock(text)).map(seconds)
}

/// Returns a number with its unit, in seconds, and the rest of the text.
fn leading_part(text: &str) -> Option<(f64, &str)> {
    let text = text.trim_start_matches([' ', ',']);
    let (amount, after) = text.split_at(text.find(|c: char| !c.is_ascii_digit() && c != '.')?);
    let after = after.trim_start();
    let end = after.find(|c: char| !c.is_ascii_alphabetic());
    let (unit, rest) = after.split_at(end.unwrap_or(after.len()));
    let factor = match unit {
        "ms" | "millisecond" | "milliseconds" => 0.001,
        "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
        "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
        "h" | "hr" | "hrs" | "hour" | "hours" => 3600.0,
        "d" | "day" | "days" => 86_400.0,
        _ => return None,
    };
    Some((amount.parse::<f64>().ok()? * factor, rest))
}

/// Returns hours, minutes and seconds (`02:10:30`) in seconds.
fn clock(text: &str) -> Option<f64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != ':');
    let (time, _) = text.split_at(end.unwrap_or(text.len()));
    let parts: Result<Vec<f64>, _> = time.split(':').map(str::parse).collect();
    let [hours, minutes, sec] = parts.ok()?.try_into().ok()?;
    Some((hours * 60.0 + minutes) * 60.0 + sec)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> DateTime<Utc> {
        "2026-11-06T08:49:30Z".parse().unwrap()
    }

    #[test]
    fn a_reset_is_read_as_a_duration_as_seconds_or_as_a_point_in_time() {
        let table = [
            ("2026-11-06T08:49:47Z", Some(17_000)),
            ("2026-11-06T09:49:31.5+01:00", Some(1_500)),
            ("2020-01-01T00:00:00Z", Some(0)),
            ("2999-01-01T00:00:00Z", Some(604_800_000)),
            ("17s", Some(17_000)),
            ("41", Some(41_000)),
            ("0.5", Some(500)),
            ("1793954987", Some(17_000)),
            ("1793954987500", Some(17_500)),
            ("1700000000", Some(0)),
            ("soon", None),
        ];
        for (text, millis) in table {
            assert_eq!(
                reset(text, now()),
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
            ("41 seconds", Some(41_000)),
            ("1 hour, 30 minutes", Some(5_400_000)),
            ("02:10:30", Some(7_830_000)),
            ("1:2", None),
        ];
        for (text, millis) in table {
            assert_eq!(duration(text), millis.map(Duration::from_millis), "{text}");
        }
    }
}
