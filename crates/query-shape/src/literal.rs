//! Normalized literals: `1h`, `60m` and `3600s` are equal. Expressions aren't evaluated.

use std::fmt;

use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta};

const SECOND: i128 = 1_000_000_000;

/// Maximum digits that expanding an exponent may add. Larger numbers keep the exponent.
const LONGEST_EXPANSION: i64 = 40;

/// Literal value, comparable with `==`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Literal {
    /// Value of a string, with escapes resolved.
    Text(String),
    /// Number as plain decimal digits (`1.50`, `15e-1` and `+1.5` are `1.5`), or in source form if it doesn't parse.
    Number(String),
    /// Boolean.
    Bool(bool),
    /// Null.
    Null,
    /// Duration in nanoseconds.
    Duration(i128),
    /// Time in UTC: `2024-03-08T00:00:00Z`, with a fraction of 3, 6 or 9 digits.
    Instant(String),
    /// Anything else in source form (a GUID, a date in an unknown format).
    Other(String),
}

impl Literal {
    /// Parses a decimal or hexadecimal number.
    pub fn number(text: &str) -> Self {
        let bare = text.trim();
        Self::Number(
            hexadecimal(bare)
                .or_else(|| decimal(bare))
                .unwrap_or_else(|| bare.to_owned()),
        )
    }

    /// Parses a duration: a number with a unit (`1.5h`, `30 minutes`) or a clock (`1.02:03:04.5`, `00:10`). `None` otherwise.
    pub fn duration(text: &str) -> Option<Self> {
        let text = text.trim();
        clock(text).or_else(|| with_unit(text)).map(Self::Duration)
    }

    /// Parses a date or time: ISO 8601 with `T` or a space, optional parts from the minute on, any offset; or month/day/year.
    pub fn instant(text: &str) -> Option<Self> {
        moment(text.trim()).map(|at| Self::Instant(at.format("%Y-%m-%dT%H:%M:%S%.fZ").to_string()))
    }
}

/// Formats a literal for details: text in double quotes, a duration in seconds.
impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => write!(f, "{text:?}"),
            Self::Number(text) | Self::Instant(text) | Self::Other(text) => f.write_str(text),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Null => f.write_str("null"),
            Self::Duration(nanos) => {
                let sign = if *nanos < 0 { "-" } else { "" };
                let nanos = nanos.unsigned_abs();
                let (whole, part) = (nanos / SECOND.unsigned_abs(), nanos % SECOND.unsigned_abs());
                if part == 0 {
                    return write!(f, "{sign}{whole}s");
                }
                let digits = format!("{part:09}");
                write!(f, "{sign}{whole}.{}s", digits.trim_end_matches('0'))
            }
        }
    }
}

fn hexadecimal(text: &str) -> Option<String> {
    let digits = text
        .strip_prefix("0x")
        .or_else(|| text.strip_prefix("0X"))?;
    u128::from_str_radix(digits, 16)
        .ok()
        .map(|value| value.to_string())
}

/// Normalizes a decimal number: no `+`, exponent or redundant zeros. Exact for any length.
fn decimal(text: &str) -> Option<String> {
    let (negative, rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (mantissa, exponent) = match rest.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
        None => (rest, 0),
    };
    let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{part}");
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let point = i64::try_from(whole.len()).ok()?.saturating_add(exponent);
    let sign = if negative { "-" } else { "" };
    let zeros = digits.len() - digits.trim_start_matches('0').len();
    let digits = digits.trim_matches('0');
    if digits.is_empty() {
        return Some("0".to_owned());
    }
    let point = point.saturating_sub(i64::try_from(zeros).ok()?);
    let length = i64::try_from(digits.len()).ok()?;
    if point.saturating_sub(length) > LONGEST_EXPANSION || point < -LONGEST_EXPANSION {
        return Some(format!("{sign}0.{digits}e{point}"));
    }
    Some(if point <= 0 {
        format!(
            "{sign}0.{}{digits}",
            "0".repeat(usize::try_from(-point).ok()?)
        )
    } else if point >= length {
        format!(
            "{sign}{digits}{}",
            "0".repeat(usize::try_from(point - length).ok()?)
        )
    } else {
        let (whole, part) = digits.split_at(usize::try_from(point).ok()?);
        format!("{sign}{whole}.{part}")
    })
}

/// `number` (decimal digits with a fraction) times `unit` nanoseconds.
fn times(number: &str, unit: i128) -> Option<i128> {
    let (negative, number) = match number.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, number),
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && part.is_empty() {
        return None;
    }
    let digits = |text: &str| match text {
        "" => Some(0),
        text if text.bytes().all(|byte| byte.is_ascii_digit()) => text.parse::<i128>().ok(),
        _ => None,
    };
    let part = part.get(..part.len().min(18))?;
    let scale = 10_i128.pow(u32::try_from(part.len()).ok()?);
    let nanos = digits(whole)?
        .checked_mul(unit)?
        .checked_add(digits(part)?.checked_mul(unit)? / scale)?;
    if negative {
        nanos.checked_neg()
    } else {
        Some(nanos)
    }
}

/// `1.5h`, `30 minutes`, `100ms` in nanoseconds.
fn with_unit(text: &str) -> Option<i128> {
    let split = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-')))?;
    let (number, unit) = text.split_at(split);
    times(number, unit_of_time(unit.trim())?)
}

/// Nanoseconds of a unit of fixed length, by any of its names (`h`, `hour`, `hours`). `None` for months and years, which vary.
pub(super) fn unit_of_time(name: &str) -> Option<i128> {
    let lower = name.to_ascii_lowercase();
    Some(match lower.as_str() {
        "d" | "day" | "days" => 86_400 * SECOND,
        "h" | "hr" | "hrs" | "hour" | "hours" => 3_600 * SECOND,
        "m" | "min" | "mins" | "minute" | "minutes" => 60 * SECOND,
        "s" | "sec" | "secs" | "second" | "seconds" => SECOND,
        "ms" | "milli" | "millis" | "millisec" | "millisecond" | "milliseconds" => SECOND / 1_000,
        "micro" | "micros" | "microsec" | "microsecond" | "microseconds" => SECOND / 1_000_000,
        "tick" | "ticks" => 100,
        "nano" | "nanos" | "nanosec" | "nanosecond" | "nanoseconds" => 1,
        _ => return None,
    })
}

/// `d.hh:mm:ss.f`, `hh:mm:ss` or `hh:mm` in nanoseconds.
fn clock(text: &str) -> Option<i128> {
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let mut parts = text.split(':');
    let (first, minutes) = (parts.next()?, parts.next()?);
    let seconds = parts.next().unwrap_or("0");
    if parts.next().is_some() {
        return None;
    }
    let (days, hours) = first.split_once('.').unwrap_or(("0", first));
    let sum = times(days, 86_400 * SECOND)?
        .checked_add(times(hours, 3_600 * SECOND)?)?
        .checked_add(times(minutes, 60 * SECOND)?)?
        .checked_add(times(seconds, SECOND)?)?;
    if negative {
        sum.checked_neg()
    } else {
        Some(sum)
    }
}

fn moment(text: &str) -> Option<NaiveDateTime> {
    if let Ok(at) = DateTime::parse_from_rfc3339(text) {
        return Some(at.naive_utc());
    }
    let (date, rest) = match text.find(['T', 't', ' ']) {
        Some(at) => (&text[..at], text[at + 1..].trim()),
        None => (text, ""),
    };
    let date = NaiveDate::parse_from_str(date, "%Y-%m-%d")
        .or_else(|_| NaiveDate::parse_from_str(date, "%m/%d/%Y"))
        .ok()?;
    let (time, offset) = zone(rest)?;
    let time = match time.trim() {
        "" => NaiveTime::MIN,
        time => NaiveTime::parse_from_str(time, "%H:%M:%S%.f")
            .or_else(|_| NaiveTime::parse_from_str(time, "%H:%M"))
            .ok()?,
    };
    date.and_time(time).checked_sub_signed(offset)
}

/// Splits a time of day into the time and its offset from UTC.
fn zone(text: &str) -> Option<(&str, TimeDelta)> {
    if let Some(time) = text.strip_suffix(['Z', 'z']) {
        return Some((time, TimeDelta::zero()));
    }
    let Some(at) = text.rfind(['+', '-']) else {
        return Some((text, TimeDelta::zero()));
    };
    let (time, offset) = text.split_at(at);
    let (hours, minutes) = offset[1..].split_once(':').unwrap_or((&offset[1..], "0"));
    let minutes = hours
        .parse::<i64>()
        .ok()?
        .checked_mul(60)?
        .checked_add(minutes.parse().ok()?)?;
    let minutes = if offset.starts_with('-') {
        minutes.checked_neg()?
    } else {
        minutes
    };
    Some((time, TimeDelta::try_minutes(minutes)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_plain_decimals() {
        let cases = [
            ("1", "1"),
            ("+01.50", "1.5"),
            ("-0.0", "0"),
            ("15e-1", "1.5"),
            ("1.2E3", "1200"),
            ("0.000120", "0.00012"),
            (".5", "0.5"),
            ("0x1F", "31"),
            (
                "123456789012345678901234567890",
                "123456789012345678901234567890",
            ),
            ("1e400", "0.1e401"),
            ("10e399", "0.1e401"),
            ("1e-400", "0.1e-399"),
            ("1e99999999999999999999", "1e99999999999999999999"),
            ("nan", "nan"),
            ("", ""),
        ];
        for (text, number) in cases {
            assert_eq!(
                Literal::number(text),
                Literal::Number(number.to_owned()),
                "{text}"
            );
        }
    }

    #[test]
    fn durations_are_nanoseconds() {
        let cases = [
            ("1h", Some(3_600 * SECOND)),
            ("60m", Some(3_600 * SECOND)),
            ("3600 seconds", Some(3_600 * SECOND)),
            ("1.5d", Some(129_600 * SECOND)),
            (".5s", Some(SECOND / 2)),
            ("100ms", Some(SECOND / 10)),
            ("7ticks", Some(700)),
            ("-2min", Some(-120 * SECOND)),
            ("1.02:03:04.5", Some(93_784 * SECOND + SECOND / 2)),
            ("00:10", Some(600 * SECOND)),
            ("-00:10", Some(-600 * SECOND)),
            ("1 month", None),
            ("h", None),
            ("1", None),
            ("1.2.3h", None),
            ("1:2:3:4", None),
            ("99999999999999999999999999999999999999d", None),
            ("--1h", None),
        ];
        for (text, nanos) in cases {
            assert_eq!(
                Literal::duration(text),
                nanos.map(Literal::Duration),
                "{text}"
            );
        }
    }

    #[test]
    fn times_are_utc() {
        let cases = [
            ("2024-03-08", Some("2024-03-08T00:00:00Z")),
            (" 2024-03-08T16:00:00Z", Some("2024-03-08T16:00:00Z")),
            ("2024-03-08 16:00", Some("2024-03-08T16:00:00Z")),
            ("2024-03-08T16:00Z", Some("2024-03-08T16:00:00Z")),
            (
                "2024-03-08T16:00:00.2500000Z",
                Some("2024-03-08T16:00:00.250Z"),
            ),
            ("2024-03-08T01:00:00+02:00", Some("2024-03-07T23:00:00Z")),
            ("2024-03-08 01:00:00 -02:30", Some("2024-03-08T03:30:00Z")),
            ("3/8/2024", Some("2024-03-08T00:00:00Z")),
            ("2024-13-08", None),
            ("soon", None),
            ("2024-03-08T16:00+é", None),
            ("2024-03-08T16:00-0:-9223372036854775808", None),
        ];
        for (text, at) in cases {
            let expected = at.map(|at| Literal::Instant(at.to_owned()));
            assert_eq!(Literal::instant(text), expected, "{text}");
        }
    }

    #[test]
    fn durations_are_displayed_in_seconds() {
        let cases = [
            (3_600 * SECOND, "3600s"),
            (-SECOND / 2, "-0.5s"),
            (100, "0.0000001s"),
            (0, "0s"),
        ];
        for (nanos, shown) in cases {
            assert_eq!(Literal::Duration(nanos).to_string(), shown);
        }
        assert_eq!(
            Literal::Text("a \"b\"".to_owned()).to_string(),
            r#""a \"b\"""#
        );
    }
}
