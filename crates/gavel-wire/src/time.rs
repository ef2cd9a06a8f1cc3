//! Times in bodies, queries and flags.

use chrono::{DateTime, NaiveDate, NaiveTime, Utc};
use gavel_clock::read_time;
use serde::{Deserialize, Deserializer};

/// Parses a date as its midnight in UTC.
fn midnight(text: &str) -> Option<DateTime<Utc>> {
    let date = NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?;
    Some(date.and_time(NaiveTime::MIN).and_utc())
}

/// Reads a time or null, for optional fields.
pub(crate) fn or_null<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<DateTime<Utc>>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    let read = text.map(|text| read_time(&text)).transpose();
    read.map_err(serde::de::Error::custom)
}

/// Like [`or_null`], and reads a date as its midnight in UTC.
pub(crate) fn or_date<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<DateTime<Utc>>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    let read = text.map(|text| midnight(&text).map_or_else(|| read_time(&text), Ok));
    read.transpose().map_err(serde::de::Error::custom)
}

/// Parses a time, a date at midnight UTC, or an age.
#[cfg(feature = "clap")]
pub fn of_flag(text: &str) -> Result<DateTime<Utc>, String> {
    use chrono::TimeDelta;
    use gavel_clock::{Clock as _, SystemClock, is_taken};

    let text = text.trim();
    let age = || {
        let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
        let number = number.parse::<i64>().ok().filter(|number| *number >= 0)?;
        let age = match unit {
            "d" => TimeDelta::try_days(number),
            "h" => TimeDelta::try_hours(number),
            "m" => TimeDelta::try_minutes(number),
            _ => None,
        };
        SystemClock.now().checked_sub_signed(age?)
    };
    let time = DateTime::parse_from_rfc3339(text).ok();
    time.map(|time| time.to_utc())
        .or_else(|| midnight(text))
        .or_else(age)
        .filter(|time| is_taken(*time))
        .ok_or_else(|| {
            "give a time (2026-01-31T08:00:00Z), a date (2026-01-31) or an age (30d, 12h)"
                .to_owned()
        })
}

#[cfg(all(test, feature = "clap"))]
mod tests {
    use super::*;

    #[test]
    fn parses_times_dates_and_ages() {
        let at = |text: &str| of_flag(text).unwrap().to_rfc3339();
        assert_eq!(at("2026-01-31"), "2026-01-31T00:00:00+00:00");
        assert_eq!(at("2026-01-31T08:00:00+02:00"), "2026-01-31T06:00:00+00:00");
        assert!(of_flag("30d").unwrap() < of_flag("12h").unwrap());
        for bad in ["", "d", "-1d", "99999999999999999999d", "2026-13-01", "é"] {
            assert!(of_flag(bad).is_err(), "{bad}");
        }
    }
}
