//! Parses the start and end of an import's window: a time, a date, or an age.

use chrono::{DateTime, NaiveDate, NaiveTime, TimeDelta, Utc};

pub const EXPECTED: &str =
    "a time (2026-01-31T12:00:00Z), a date (2026-01-31) or an age (12h, 30d, 8w) is expected";

/// Parses `2026-01-31T12:00:00Z`, `2026-01-31` (start of the day, UTC), or an age before `now` such as `30d`: hours,
/// days or weeks. Returns `None` for other texts.
pub fn moment(text: &str, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
    let text = text.trim();
    if let Ok(time) = DateTime::parse_from_rfc3339(text) {
        return Some(time.with_timezone(&Utc));
    }
    if let Ok(date) = text.parse::<NaiveDate>() {
        return Some(date.and_time(NaiveTime::MIN).and_utc());
    }
    let unit = text.chars().last()?;
    let number = text.strip_suffix(unit)?;
    if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: i64 = number.parse().ok()?;
    let age = match unit {
        'h' => TimeDelta::try_hours(number),
        'd' => TimeDelta::try_days(number),
        'w' => TimeDelta::try_weeks(number),
        _ => None,
    };
    now.checked_sub_signed(age?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_times_dates_and_ages() {
        let now = DateTime::from_timestamp(1_800_000_000, 0).unwrap();
        for (text, expected) in [
            ("2026-01-31T12:00:00Z", "2026-01-31T12:00:00+00:00"),
            ("2026-01-31T13:30:00+01:30", "2026-01-31T12:00:00+00:00"),
            (" 2026-01-31 ", "2026-01-31T00:00:00+00:00"),
            ("12h", "2027-01-14T20:00:00+00:00"),
            ("30d", "2026-12-16T08:00:00+00:00"),
            ("2w", "2027-01-01T08:00:00+00:00"),
        ] {
            let read = moment(text, now).map(|at| at.to_rfc3339());
            assert_eq!(read.as_deref(), Some(expected), "{text}");
        }
        for text in [
            "",
            "d",
            "-3d",
            "3",
            "3m",
            "1e3d",
            "yesterday",
            "2026-02-30",
            "99999999999999d",
            "3é",
        ] {
            assert_eq!(moment(text, now), None, "{text}");
        }
    }
}
