//! The time, as an argument; and the times that are taken from outside.

use chrono::{DateTime, Datelike as _, SubsecRound, Utc};

/// Tells the time. Stored times have microseconds, so that both databases give back what was written.
pub trait Clock: Send + Sync {
    /// Now, UTC, cut to microseconds.
    fn now(&self) -> DateTime<Utc>;
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place that reads the machine's clock"
    )]
    fn now(&self) -> DateTime<Utc> {
        Utc::now().trunc_subsecs(6)
    }
}

/// Whether a time from outside is taken: the years 1 to 9999, which both databases keep, and which sort as text.
pub fn is_taken(at: DateTime<Utc>) -> bool {
    (1..=9999).contains(&at.year())
}

/// Reads a time that is given from outside.
///
/// # Errors
/// What is wrong with it, and what is expected.
pub fn read_time(text: &str) -> Result<DateTime<Utc>, &'static str> {
    let at = DateTime::parse_from_rfc3339(text)
        .map_err(|_| "is not a time; RFC 3339 is expected, for example 2026-03-02T10:00:00Z")?;
    let at = at.to_utc();
    if is_taken(at) {
        Ok(at)
    } else {
        Err("lies outside of the years 1 to 9999")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_taken_if_both_databases_keep_and_sort_it() {
        let faults = [
            ("0001-01-01T00:00:00Z", ""),
            ("9999-12-31T23:59:59.999999Z", ""),
            ("0001-01-01T00:00:00+01:00", "years 1 to 9999"),
            ("9999-12-31T23:59:59-01:00", "years 1 to 9999"),
            ("-9999-01-01T00:00:00Z", "RFC 3339"),
            ("2026-01-31", "RFC 3339"),
        ];
        for (text, fault) in faults {
            let read = read_time(text);
            assert_eq!(read.is_ok(), fault.is_empty(), "{text}");
            assert!(read.err().unwrap_or_default().contains(fault), "{text}");
        }
    }
}
