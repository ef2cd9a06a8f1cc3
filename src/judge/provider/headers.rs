//! How long a server asks to wait, and what it says of its limits, by its headers.

use std::time::Duration;

use chrono::{DateTime, NaiveDateTime, Utc};
use reqwest::header::HeaderMap;

use crate::judge::gate::{LimitReport, Span};

/// A server's clock or its arithmetic may be wrong; nothing is believed beyond this.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);

/// `retry-after-ms`, else `retry-after` in seconds or as an HTTP date.
pub(super) fn retry_after(headers: &HeaderMap, now: DateTime<Utc>) -> Option<Duration> {
    if let Some(millis) = text(headers, "retry-after-ms").and_then(number) {
        return seconds(millis / 1000.0);
    }
    let value = text(headers, "retry-after")?;
    if let Some(number) = number(value) {
        return seconds(number);
    }
    let wait = (http_date(value)? - now).to_std();
    Some(wait.unwrap_or(Duration::ZERO).min(LONGEST))
}

/// The longest of the resets of those limits that have nothing left; none where all have. `read` reads a reset's form.
pub(super) fn spent_limits(
    headers: &HeaderMap,
    names: &[(String, String)],
    read: impl Fn(&str) -> Option<Duration>,
) -> Option<Duration> {
    names
        .iter()
        .filter(|(remaining, _)| text(headers, remaining) == Some("0"))
        .filter_map(|(_, reset)| read(text(headers, reset)?))
        .max()
}

/// One limit by the names of its headers: the limit, what remains of it, its reset. `read` reads a reset's form. What makes no
/// sense (a negative count, a word) is as if it weren't there.
pub(super) fn limit(
    headers: &HeaderMap,
    names: [&str; 3],
    span: Span,
    read: impl Fn(&str) -> Option<Duration>,
) -> LimitReport {
    let [limit, remaining, reset] = names.map(|name| text(headers, name));
    let count = |text: &str| text.parse::<u64>().ok();
    LimitReport {
        limit: limit.and_then(count),
        remaining: remaining.and_then(count),
        resets_in: reset.and_then(read),
        span,
    }
}

/// At least a second: a quota that is said to be back at once would be asked for without a pause.
pub(super) fn at_least_a_second(wait: Duration) -> Duration {
    wait.max(Duration::from_secs(1))
}

/// A time of day and date by RFC 3339, as a wait from `now`.
pub(super) fn until(text: &str, now: DateTime<Utc>) -> Option<Duration> {
    let at = DateTime::parse_from_rfc3339(text).ok()?;
    let wait = (at.with_timezone(&Utc) - now).to_std();
    Some(wait.unwrap_or(Duration::ZERO).min(LONGEST))
}

/// The date of today's servers, and the two older forms that a reader of HTTP has to know.
fn http_date(text: &str) -> Option<DateTime<Utc>> {
    if let Ok(at) = DateTime::parse_from_rfc2822(text) {
        return Some(at.with_timezone(&Utc));
    }
    ["%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"]
        .into_iter()
        .find_map(|form| NaiveDateTime::parse_from_str(text, form).ok())
        .map(|at| at.and_utc())
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

fn number(text: &str) -> Option<f64> {
    text.parse::<f64>().ok().filter(|number| number.is_finite())
}

fn seconds(number: f64) -> Option<Duration> {
    let wait = Duration::try_from_secs_f64(number.max(0.0)).unwrap_or(LONGEST);
    Some(wait.min(LONGEST))
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
        total += number(amount)? * factor;
        rest = tail;
    }
    (!text.is_empty()).then(|| seconds(total)).flatten()
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

    fn now() -> DateTime<Utc> {
        "2026-11-06T08:49:30Z".parse().unwrap()
    }

    #[test]
    fn retry_after_is_read_in_each_of_its_forms() {
        type Case<'a> = (&'a [(&'static str, &'a str)], Option<u64>);
        let table: &[Case<'_>] = &[
            (&[], None),
            (&[("retry-after", "3")], Some(3_000)),
            (&[("retry-after", "0.5")], Some(500)),
            (&[("retry-after", "-4")], Some(0)),
            (&[("retry-after", "soon")], None),
            (&[("retry-after", "NaN")], None),
            (
                &[("retry-after", "Fri, 06 Nov 2026 08:49:37 GMT")],
                Some(7_000),
            ),
            (&[("retry-after", "Fri, 06 Nov 2020 08:49:37 GMT")], Some(0)),
            (
                &[("retry-after", "Friday, 06-Nov-26 08:49:37 GMT")],
                Some(7_000),
            ),
            (&[("retry-after", "Fri Nov  6 08:49:37 2026")], Some(7_000)),
            (
                &[("retry-after", "9"), ("retry-after-ms", "250")],
                Some(250),
            ),
            (&[("retry-after", "1e300")], Some(604_800_000)),
        ];
        for (pairs, millis) in table {
            let read = retry_after(&headers(pairs), now());
            assert_eq!(read, millis.map(Duration::from_millis), "{pairs:?}");
        }
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
