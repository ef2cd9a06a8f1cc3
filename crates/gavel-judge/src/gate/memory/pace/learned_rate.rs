//! A limit that nobody states: found by the 429s that come with it, and told from noise.
//!
//! A server that is over its limit refuses most calls; a server that refuses one in six at random refuses no fewer when it
//! is asked less. So a lane slows down only where 429s prevail. It goes on at what was really answered, and tries more: at
//! once where the limit may count by the second, later and later where a minute's limit was met again and again.

use std::time::Duration;

use tokio::time::Instant;

use super::meter::MINUTE;

/// One outcome counts for one part in so many of the share of 429s.
const PARTS: f64 = 32.0;
/// 429s prevail from this share on: far beyond what a fault that comes at random in a sixth of all calls reaches.
const PREVAILS: f64 = 0.4;
/// A lane isn't slowed down on fewer outcomes than this.
const LEAST_OUTCOMES: u32 = 16;
/// A lane is slowed to no less than this a minute: slower is what a pause is for.
const LEAST: f64 = 30.0;
/// What counts over a minute isn't back after this; what counts by the second is.
const BEYOND_SECONDS: Duration = Duration::from_secs(5);
/// How long a new estimate stands before more is tried, counted from the first success at it.
const FIRST_HOLD: Duration = Duration::from_secs(1);
/// The same once a limit was met again; doubles each time.
const CONFIRMED_HOLD: Duration = Duration::from_secs(60);
const LONGEST_HOLD: Duration = Duration::from_secs(480);
/// While more is tried the rate doubles in so many seconds.
const DOUBLES_IN: f64 = 1.0;
/// The same once a limit was met again.
const CONFIRMED_DOUBLES_IN: f64 = 4.0;
/// A rate that has doubled so often without a refusal is no limit.
const FREE_AFTER: f64 = 6.0;
/// Fewer 429s than this while more is tried may be chance.
const LEAST_REFUSED: u32 = 5;
/// What was answered within this tells a limit that counts by the second.
pub(super) const SECONDS: Duration = Duration::from_secs(4);

/// What was answered lately.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answered {
    /// Within a minute.
    pub(super) minute: u64,
    /// Within [`SECONDS`].
    pub(super) seconds: u64,
}

#[derive(Debug, Default)]
pub(super) struct LearnedRateLimit {
    /// The share of 429s among the last outcomes.
    refused: f64,
    outcomes: u32,
    found: Option<RateEstimate>,
}

#[derive(Debug, Clone, Copy)]
struct RateEstimate {
    rate: f64,
    at: Instant,
    met: u32,
    first_success: Option<Instant>,
    /// Outcomes while more was tried.
    answered: u32,
    refused: u32,
}

impl RateEstimate {
    fn new(rate: f64, met: u32, now: Instant) -> Self {
        Self {
            rate: rate.max(LEAST),
            at: now,
            met,
            first_success: None,
            answered: 0,
            refused: 0,
        }
    }

    fn tries_at(&self) -> Option<Instant> {
        let hold = match self.met {
            0 => FIRST_HOLD,
            met => (CONFIRMED_HOLD * (1 << (met - 1).min(8))).min(LONGEST_HOLD),
        };
        self.first_success.map(|at| at + hold)
    }

    /// How often the rate has doubled; `None` before more is tried.
    fn doubled(&self, now: Instant) -> Option<f64> {
        let since = now.checked_duration_since(self.tries_at()?)?;
        Some(since.as_secs_f64() / self.doubles_in())
    }

    fn doubles_in(&self) -> f64 {
        match self.met {
            0 => DOUBLES_IN,
            _ => CONFIRMED_DOUBLES_IN,
        }
    }

    /// More was tried, and refused. A minute's limit lets no more pass meanwhile; one by the second may let.
    fn tried(&self, answered: Answered, now: Instant) -> Self {
        let in_a_minute = MINUTE.as_secs_f64() / SECONDS.as_secs_f64();
        let (seconds, expected) = (answered.seconds as f64, self.rate / in_a_minute);
        if seconds > 1.2 * expected + 2.0 {
            return Self::new(seconds * in_a_minute, 0, now);
        }
        let by_minute = answered.minute as f64;
        let rate = match seconds < 0.8 * expected - 2.0 {
            true => by_minute,
            false => self.rate.max(by_minute),
        };
        Self::new(rate, self.met + 1, now)
    }
}

impl LearnedRateLimit {
    /// Requests a minute, where a limit was found.
    pub(super) fn rate(&self, now: Instant) -> Option<f64> {
        let found = self.found?;
        let doubled = found.doubled(now).unwrap_or(0.0);
        (doubled < FREE_AFTER).then(|| found.rate * doubled.exp2())
    }

    /// How long until the lane is free of it, if it meets no limit any more.
    pub(super) fn ends_in(&self, now: Instant) -> Option<Duration> {
        self.rate(now)?;
        let found = self.found?;
        let tries = found.tries_at().unwrap_or(now + CONFIRMED_HOLD);
        let ends = tries + Duration::from_secs_f64(FREE_AFTER * found.doubles_in());
        Some(ends.saturating_duration_since(now))
    }

    /// Whether 429s prevail among the last outcomes.
    fn prevails(&self) -> bool {
        self.refused >= PREVAILS
    }

    pub(super) fn answered(&mut self, sent: Instant, now: Instant) {
        self.count(0.0);
        self.forget_if_free(now);
        if let Some(found) = self.found.as_mut().filter(|found| sent > found.at) {
            if found.doubled(now).is_some() {
                found.answered += 1;
            }
            found.first_success.get_or_insert(now);
        }
    }

    /// A call that left at `sent` met a 429; answers whether the lane should pause.
    pub(super) fn refused(
        &mut self,
        sent: Instant,
        retry_after: Option<Duration>,
        answered: Answered,
        now: Instant,
    ) -> bool {
        self.count(1.0);
        self.forget_if_free(now);
        let by_minute = answered.minute as f64;
        let Some(mut found) = self.found else {
            if self.prevails() && self.outcomes >= LEAST_OUTCOMES {
                let met = u32::from(retry_after.is_some_and(|wait| wait >= BEYOND_SECONDS));
                self.found = Some(RateEstimate::new(by_minute, met, now));
            }
            return self.prevails();
        };
        // Those that were out together count once.
        if sent <= found.at {
            return self.prevails();
        }
        if found.doubled(now).is_some() {
            found.refused += 1;
            let tried = f64::from(found.answered + found.refused);
            if found.refused >= LEAST_REFUSED && f64::from(found.refused) >= tried * PREVAILS {
                found = found.tried(answered, now);
                // These 429s are explained.
                self.refused = 0.0;
            }
            self.found = Some(found);
            return false;
        }
        if found.first_success.is_none() {
            // It lasts: whatever was answered in the minute before is what the minute takes.
            if now.saturating_duration_since(found.at) >= BEYOND_SECONDS {
                found.met = found.met.max(1);
            }
        } else if self.prevails() {
            found = RateEstimate::new(by_minute, found.met.max(1), now);
        }
        self.found = Some(found);
        self.prevails()
    }

    fn count(&mut self, refused: f64) {
        self.outcomes = self.outcomes.saturating_add(1);
        let parts = f64::from(self.outcomes).min(PARTS);
        self.refused += (refused - self.refused) / parts;
    }

    fn forget_if_free(&mut self, now: Instant) {
        if self.rate(now).is_none() {
            self.found = None;
        }
    }
}
