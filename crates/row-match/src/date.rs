//! Normalizes ISO 8601 dates in text. Other formats are rejected, so that the order of day and month isn't guessed.

use chrono::{Datelike, Duration, NaiveDate, NaiveDateTime, Timelike};

/// Normalizes an ISO date or time to `2024-05-01`, `2024-05-01 10:00:00` or `2024-05-01 10:00:00.25`, in UTC.
///
/// Accepts `YYYY-MM-DD`, optionally with `T` or a space, `HH:MM`, seconds, a fraction, and `Z`, `UTC` or an offset. Times without an offset
/// are UTC. Midnight and a zero fraction are dropped. Also accepts a time with seconds and without a day (`9:15:00.0` is `09:15:00`). `None`
/// for anything else, including invalid days.
pub(super) fn canonical(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    match (bytes.get(1), bytes.get(5)) {
        (Some(b':'), _) => return canonical(&format!("0{text}")),
        (_, Some(b':')) => return time(&clock(bytes)?),
        _ => {}
    }
    if bytes.len() < 10 || bytes[4] != b'-' || bytes[7] != b'-' {
        return None;
    }
    let year = digits(bytes, 0, 4)?;
    let day = NaiveDate::from_ymd_opt(
        i32::try_from(year).ok()?,
        digits(bytes, 5, 2)?,
        digits(bytes, 8, 2)?,
    )?;
    let Some(separator) = bytes.get(10) else {
        return Some(spelled(day.and_hms_opt(0, 0, 0)?, ""));
    };
    if !matches!(separator, b'T' | b't' | b' ') {
        return None;
    }
    let clock = clock(bytes.get(11..)?)?;
    let moment = day
        .and_hms_opt(clock.hour, clock.minute, clock.second)?
        .checked_sub_signed(Duration::minutes(clock.offset_minutes))?;
    Some(spelled(moment, clock.fraction))
}

struct Clock<'a> {
    hour: u32,
    minute: u32,
    second: u32,
    /// Digits after the dot, without trailing zeros.
    fraction: &'a str,
    offset_minutes: i64,
}

fn clock(bytes: &[u8]) -> Option<Clock<'_>> {
    let hour = digits(bytes, 0, 2)?;
    let minute = (*bytes.get(2)? == b':').then(|| digits(bytes, 3, 2))??;
    let mut at = 5;
    let mut second = 0;
    let mut fraction = "";
    if bytes.get(at) == Some(&b':') {
        second = digits(bytes, at + 1, 2)?;
        at += 3;
        if bytes.get(at) == Some(&b'.') {
            let from = at + 1;
            let count = bytes[from..]
                .iter()
                .take_while(|b| b.is_ascii_digit())
                .count();
            at = from + count;
            fraction = std::str::from_utf8(&bytes[from..at])
                .ok()
                .filter(|digits| !digits.is_empty())?
                .trim_end_matches('0');
        }
    }
    let offset_minutes = offset(bytes.get(at..)?.trim_ascii_start())?;
    Some(Clock {
        hour,
        minute,
        second,
        fraction,
        offset_minutes,
    })
}

/// Normalizes a time of day to UTC, or a time of up to 99 hours.
fn time(clock: &Clock<'_>) -> Option<String> {
    let minutes = i64::from(clock.hour * 60 + clock.minute) - clock.offset_minutes;
    let minutes = match clock.offset_minutes {
        0 => u32::try_from(minutes).ok()?,
        _ => u32::try_from(minutes.rem_euclid(24 * 60)).ok()?,
    };
    let mut text = String::new();
    push_time(
        &mut text,
        (minutes / 60, minutes % 60, clock.second),
        clock.fraction,
    );
    (clock.minute < 60 && clock.second < 60).then_some(text)
}

/// Minutes ahead of UTC for an empty text, `Z`, `UTC`, `+02`, `+0200` or `+02:00`.
fn offset(bytes: &[u8]) -> Option<i64> {
    if bytes.is_empty() || bytes.eq_ignore_ascii_case(b"z") || bytes.eq_ignore_ascii_case(b"utc") {
        return Some(0);
    }
    let sign = match bytes[0] {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let hours = digits(bytes, 1, 2)?;
    let minutes = match (bytes.len(), bytes.get(3)) {
        (3, _) => 0,
        (5, _) => digits(bytes, 3, 2)?,
        (6, Some(b':')) => digits(bytes, 4, 2)?,
        _ => return None,
    };
    (hours < 24 && minutes < 60).then(|| sign * i64::from(hours * 60 + minutes))
}

fn digits(bytes: &[u8], from: usize, count: usize) -> Option<u32> {
    bytes
        .get(from..from + count)?
        .iter()
        .try_fold(0, |value, byte| {
            byte.is_ascii_digit()
                .then(|| value * 10 + u32::from(byte - b'0'))
        })
}

fn spelled(moment: NaiveDateTime, fraction: &str) -> String {
    let mut text = String::with_capacity(20 + fraction.len());
    // Only an offset can cause a year before 0.
    let year = moment.year();
    if year < 0 {
        text.push('-');
    }
    push_two(&mut text, year.unsigned_abs() / 100);
    push_two(&mut text, year.unsigned_abs() % 100);
    text.push('-');
    push_two(&mut text, moment.month());
    text.push('-');
    push_two(&mut text, moment.day());
    if moment.num_seconds_from_midnight() > 0 || !fraction.is_empty() {
        text.push(' ');
        let time = (moment.hour(), moment.minute(), moment.second());
        push_time(&mut text, time, fraction);
    }
    text
}

fn push_time(text: &mut String, (hour, minute, second): (u32, u32, u32), fraction: &str) {
    push_two(text, hour);
    text.push(':');
    push_two(text, minute);
    text.push(':');
    push_two(text, second);
    if !fraction.is_empty() {
        text.push('.');
        text.push_str(fraction);
    }
}

/// Appends at least two digits.
fn push_two(text: &mut String, number: u32) {
    if number > 99 {
        text.push_str(&number.to_string());
    } else {
        text.extend([number / 10, number % 10].map(|digit| char::from(b'0' + digit as u8)));
    }
}
