use std::time::Duration;

use chrono::{DateTime, NaiveDateTime, Utc};
use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};

/// Maximum delay, because the server's clock or computation may be wrong.
const LONGEST_WAIT: Duration = Duration::from_secs(7 * 24 * 3600);

/// The second is used by Azure.
const IN_MILLISECONDS: [&str; 2] = ["retry-after-ms", "x-ms-retry-after-ms"];

/// Parses `retry-after-ms` or `x-ms-retry-after-ms`, otherwise `Retry-After` in seconds or as a date.
///
/// A date is relative to the response's `Date`, so that the clocks need not agree. Without that header it is relative to `now`. `None`
/// without a header, or for a date with neither.
pub fn retry_after(headers: &HeaderMap, now: Option<DateTime<Utc>>) -> Option<Duration> {
    let text = |name: &str| Some(headers.get(name)?.to_str().ok()?.trim());
    let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite());
    let millis = IN_MILLISECONDS.into_iter();
    if let Some(millis) = millis.filter_map(text).find_map(number) {
        return Some(seconds(millis / 1000.0));
    }
    let given = text(RETRY_AFTER.as_str())?;
    if let Some(number) = number(given) {
        return Some(seconds(number));
    }
    let from = text(DATE.as_str()).and_then(http_date).or(now)?;
    let wait = (http_date(given)? - from).to_std();
    Some(wait.unwrap_or(Duration::ZERO).min(LONGEST_WAIT))
}

/// Converts seconds to a delay between 0 and a week.
pub fn seconds(number: f64) -> Duration {
    let wait = Duration::try_from_secs_f64(number.max(0.0)).unwrap_or(LONGEST_WAIT);
    wait.min(LONGEST_WAIT)
}

/// Parses the three date formats of HTTP, including two obsolete ones.
fn http_date(text: &str) -> Option<DateTime<Utc>> {
    if let Ok(at) = DateTime::parse_from_rfc2822(text) {
        return Some(at.with_timezone(&Utc));
    }
    ["%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"]
        .into_iter()
        .find_map(|form| NaiveDateTime::parse_from_str(text, form).ok())
        .map(|at| at.and_utc())
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderName;

    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let header = |(name, value): &(&'static str, &str)| {
            (HeaderName::from_static(name), value.parse().unwrap())
        };
        pairs.iter().map(header).collect()
    }

    #[test]
    fn parses_all_forms() {
        type Case<'a> = (&'a [(&'static str, &'a str)], Option<u64>);
        let table: &[Case<'_>] = &[
            (&[], None),
            (&[("retry-after", "3")], Some(3_000)),
            (&[("retry-after", " 0 ")], Some(0)),
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
            (&[("x-ms-retry-after-ms", "1500")], Some(1_500)),
            (&[("retry-after", "1e300")], Some(604_800_000)),
        ];
        let now = "2026-11-06T08:49:30Z".parse().unwrap();
        for (pairs, millis) in table {
            let read = retry_after(&headers(pairs), Some(now));
            assert_eq!(read, millis.map(Duration::from_millis), "{pairs:?}");
        }
    }

    #[test]
    fn date_is_relative_to_date_header() {
        let until = ("retry-after", "Sun, 06 Nov 1994 08:49:57 GMT");
        let both = headers(&[until, ("date", "Sun, 06 Nov 1994 08:49:37 GMT")]);
        let now = "2026-11-06T08:49:30Z".parse().unwrap();
        assert_eq!(retry_after(&both, Some(now)), Some(Duration::from_secs(20)));
        assert_eq!(retry_after(&both, None), Some(Duration::from_secs(20)));
        assert_eq!(retry_after(&headers(&[until]), None), None);
    }
}
