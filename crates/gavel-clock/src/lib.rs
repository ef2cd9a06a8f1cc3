//! The time, as an argument; and the times that are taken from outside.
//!
//! Processes that share a database share its clock: [`DatabaseClock`]. The machine's own is used where nothing is shared.

use std::fmt;
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, Instant};

use chrono::{DateTime, Datelike as _, SubsecRound, TimeDelta, Utc};

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

/// How far the database's clock may be from this machine's. Synchronized clocks are within a second and an unsynchronized
/// one drifts by seconds a day, so a greater difference means that one of them was set wrong.
pub const MAX_SKEW: TimeDelta = TimeDelta::minutes(5);

/// How far the database's clock is ahead of this machine's; negative if it is behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockSkew(TimeDelta);

impl ClockSkew {
    /// Compares a reading of the database's clock with this machine's clock.
    #[must_use]
    pub fn of(database: DateTime<Utc>) -> Self {
        Self(database - SystemClock.now())
    }

    /// Whether it exceeds [`MAX_SKEW`].
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

/// The database's clock, as this process follows it: a reading, and the steady clock since then.
///
/// The machine's wall clock plays no part, so hosts whose clocks differ agree on what is due. It is off by at most half of
/// a reading's round trip, plus drift.
#[derive(Debug)]
pub struct DatabaseClock(RwLock<DatabaseTime>);

/// What the database said its time is.
#[derive(Debug, Clone, Copy)]
pub struct DatabaseTime {
    time: DateTime<Utc>,
    at: Instant,
    /// By how much the time may be wrong.
    error: Duration,
}

/// How far two quartz clocks may drift apart: one part in so many.
const DRIFT: u32 = 10_000;
/// Roundings never look like a step.
const ROUNDING: Duration = Duration::from_millis(1);

impl DatabaseTime {
    /// A reading of `time` that was asked for at `asked` and answered at `answered`.
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
    /// Begins with one reading.
    #[must_use]
    pub fn new(first: DatabaseTime) -> Self {
        Self(RwLock::new(first))
    }

    /// Takes a further reading into account. Answers the difference if the database's clock was set: the new time holds then.
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

    const MS: Duration = Duration::from_millis(1);

    fn reading(time: DateTime<Utc>, asked: Instant, took: Duration) -> DatabaseTime {
        DatabaseTime::new(time, asked, asked + took)
    }

    #[test]
    fn the_database_clock_keeps_the_surest_reading_and_follows_a_clock_that_was_set() {
        let (begin, noon) = (Instant::now(), read_time("2026-03-02T12:00:00Z").unwrap());
        let second = Duration::from_secs(1);
        let clock = DatabaseClock::new(reading(noon, begin, 10 * MS));
        let at = |after: Duration| clock.0.read().unwrap().time_at(begin + after);
        assert_eq!(at(5 * MS), noon, "the time of half way");

        // Slower and 30 ms off: the delay explains it.
        let slow = reading(noon + second + 35 * MS, begin + second, 60 * MS);
        assert_eq!(clock.correct(slow), None);
        assert_eq!(at(5 * MS + second), noon + second);

        // Quicker: known better than before.
        let quick = reading(noon + second + 2 * MS, begin + second, 2 * MS);
        assert_eq!(clock.correct(quick), None);
        assert_eq!(at(MS + second), noon + second + 2 * MS);

        // Forward by an hour, and back: no delay explains either.
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
    fn a_reading_ages_until_a_slower_one_is_surer() {
        let (begin, noon) = (Instant::now(), read_time("2026-03-02T12:00:00Z").unwrap());
        let clock = DatabaseClock::new(reading(noon, begin, 2 * MS));
        let hour = Duration::from_secs(3600);
        let drifted = reading(noon + hour + 100 * MS, begin + hour, 20 * MS);
        assert_eq!(clock.correct(drifted), None, "0.1 s in an hour is drift");
        assert_eq!(clock.0.read().unwrap().error, 10 * MS);
    }

    #[test]
    fn clocks_more_than_five_minutes_apart_are_too_far_apart() {
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
