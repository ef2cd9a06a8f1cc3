//! Injectable clocks, and validation of external times.
//!
//! Processes that share a database use its clock: [`DatabaseClock`]. Otherwise [`SystemClock`] is used.

use std::fmt;
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, Instant};

use chrono::{DateTime, Datelike as _, SubsecRound, TimeDelta, Utc};

/// Source of the current time. Microsecond precision, because both databases store that without loss.
pub trait Clock: Send + Sync {
    /// Returns the current UTC time, truncated to microseconds.
    fn now(&self) -> DateTime<Utc>;
}

#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "the only place that reads the machine's clock"
    )]
    fn now(&self) -> DateTime<Utc> {
        Utc::now().trunc_subsecs(6)
    }
}

/// Maximum accepted difference between the database's and this machine's clock. Synchronized clocks differ by less than a second,
/// unsynchronized ones drift by seconds a day. A larger difference means that one was set wrong.
pub const MAX_SKEW: TimeDelta = TimeDelta::minutes(5);

/// Lead of the database's clock over this machine's. Negative if it is behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockSkew(TimeDelta);

impl ClockSkew {
    /// Compares a reading of the database's clock with this machine's clock.
    #[must_use]
    pub fn of(database: DateTime<Utc>) -> Self {
        Self(database - SystemClock.now())
    }

    #[must_use]
    pub fn is_too_large(self) -> bool {
        self.0.abs() > MAX_SKEW
    }
}

impl fmt::Display for ClockSkew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = match self.0 < TimeDelta::zero() {
            true => "behind",
            false => "ahead of",
        };
        let seconds = self.0.abs().as_seconds_f64();
        write!(
            f,
            "the database's clock is {seconds:.1} s {side} this machine's"
        )
    }
}

/// Database clock, extrapolated from a reading by the monotonic clock.
///
/// The system clock isn't used, so that hosts with different clocks agree on due times. The error is at most half of a reading's round
/// trip, plus drift.
#[derive(Debug)]
pub struct DatabaseClock(RwLock<DatabaseTime>);

#[derive(Debug, Clone, Copy)]
pub struct DatabaseTime {
    time: DateTime<Utc>,
    at: Instant,
    error: Duration,
}

/// Maximum drift between two quartz clocks is 1/10,000.
const DRIFT: u32 = 10_000;
const ROUNDING: Duration = Duration::from_millis(1);

impl DatabaseTime {
    /// Creates a reading of `time`, with the times of the request and of the response.
    #[must_use]
    pub fn new(time: DateTime<Utc>, asked: Instant, answered: Instant) -> Self {
        let half = answered.saturating_duration_since(asked) / 2;
        Self {
            time,
            at: asked + half,
            error: half,
        }
    }

    fn time_at(&self, instant: Instant) -> DateTime<Utc> {
        let delta = |span| TimeDelta::from_std(span).unwrap_or(TimeDelta::MAX);
        let moved = match instant.checked_duration_since(self.at) {
            Some(later) => self.time.checked_add_signed(delta(later)),
            None => self.time.checked_sub_signed(delta(self.at - instant)),
        };
        moved.unwrap_or(self.time)
    }

    fn error_at(&self, instant: Instant) -> Duration {
        self.error + instant.saturating_duration_since(self.at) / DRIFT
    }
}

impl DatabaseClock {
    /// Creates a clock from a first reading.
    #[must_use]
    pub fn new(first: DatabaseTime) -> Self {
        Self(RwLock::new(first))
    }

    /// Applies a further reading. If the database's clock was changed, returns the difference and uses the new time.
    pub fn correct(&self, reading: DatabaseTime) -> Option<TimeDelta> {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let (expected, doubt) = (known.time_at(reading.at), known.error_at(reading.at));
        let difference = reading.time - expected;
        let explained = doubt + reading.error + ROUNDING;
        let was_set = difference.abs().to_std().is_ok_and(|by| by > explained);
        if was_set || reading.error < doubt {
            *known = reading;
        }
        was_set.then_some(difference)
    }
}

impl Clock for DatabaseClock {
    fn now(&self) -> DateTime<Utc> {
        let known = *self.0.read().unwrap_or_else(PoisonError::into_inner);
        known.time_at(Instant::now()).trunc_subsecs(6)
    }
}

/// Returns whether a time is in the years 1 to 9999, which both databases can store and sort as text.
pub fn is_taken(at: DateTime<Utc>) -> bool {
    (1..=9999).contains(&at.year())
}

/// Parses an external time. Errors name the expected format.
pub fn read_time(text: &str) -> Result<DateTime<Utc>, &'static str> {
    let at = DateTime::parse_from_rfc3339(text)
        .map_err(|_| "is not a time; RFC 3339 is expected, for example 2026-03-02T10:00:00Z")?;
    let at = at.to_utc();
    if is_taken(at) {
        Ok(at)
    } else {
        Err("is outside of the years 1 to 9999")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn reading(time: DateTime<Utc>, asked: Instant, took: Duration) -> DatabaseTime {
        DatabaseTime::new(time, asked, asked + took)
    }

    #[test]
    fn database_clock_keeps_best_reading_and_follows_changes() {
        let (begin, noon) = (Instant::now(), read_time("2026-03-02T12:00:00Z").unwrap());
        let second = Duration::from_secs(1);
        let clock = DatabaseClock::new(reading(noon, begin, 10 * MS));
        let at = |after: Duration| clock.0.read().unwrap().time_at(begin + after);
        assert_eq!(at(5 * MS), noon, "the time of half way");

        // The delay explains a deviation of 30 ms.
        let slow = reading(noon + second + 35 * MS, begin + second, 60 * MS);
        assert_eq!(clock.correct(slow), None);
        assert_eq!(at(5 * MS + second), noon + second);

        // A faster reading is more precise.
        let quick = reading(noon + second + 2 * MS, begin + second, 2 * MS);
        assert_eq!(clock.correct(quick), None);
        assert_eq!(at(MS + second), noon + second + 2 * MS);

        // No delay explains a change of an hour.
        for hours in [1, -1] {
            let hour = TimeDelta::hours(hours);
            let before = at(2 * second);
            let set = reading(before + hour, begin + 2 * second, 4 * MS);
            let by = clock.correct(set).unwrap();
            assert!((by - hour).abs() < TimeDelta::milliseconds(5), "{by}");
            assert_eq!(at(2 * second + 2 * MS), before + hour);
        }
    }

    #[test]
    fn old_reading_is_replaced_by_slower_one() {
        let (begin, noon) = (Instant::now(), read_time("2026-03-02T12:00:00Z").unwrap());
        let clock = DatabaseClock::new(reading(noon, begin, 2 * MS));
        let hour = Duration::from_secs(3600);
        let drifted = reading(noon + hour + 100 * MS, begin + hour, 20 * MS);
        assert_eq!(clock.correct(drifted), None, "0.1 s in an hour is drift");
        assert_eq!(clock.0.read().unwrap().error, 10 * MS);
    }

    #[test]
    fn skew_above_five_minutes_is_too_large() {
        for (seconds, is_too_large) in [(0, false), (290, false), (-290, false), (310, true)] {
            let skew = ClockSkew::of(SystemClock.now() + TimeDelta::seconds(seconds));
            assert_eq!(skew.is_too_large(), is_too_large, "{skew}");
        }
        let days = |days| ClockSkew(TimeDelta::days(days));
        assert!(days(60).is_too_large() && days(-60).is_too_large());
        assert_eq!(
            days(60).to_string(),
            "the database's clock is 5184000.0 s ahead of this machine's"
        );
        assert_eq!(
            days(-1).to_string(),
            "the database's clock is 86400.0 s behind this machine's"
        );
    }

    #[test]
    fn accepts_times_of_years_1_to_9999() {
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
