//! Estimates an undocumented request limit from 429s and separates it from random 429s.
//!
//! A server over its limit rejects most calls. A server that fails one call in six at random still does so at a lower rate. So a lane slows
//! down only if 429s dominate recent outcomes. It continues at the rate of successful replies and then probes higher: after a second if the
//! limit may be per second, after longer and longer holds if a limit per minute was hit repeatedly.

use std::time::Duration;

use tokio::time::Instant;

use super::meter::MINUTE;

/// Weight of an outcome in the moving average of 429s is at least 1/32.
const AVERAGE_OVER: f64 = 32.0;
/// Share of 429s that slows a lane, far above random errors on a sixth of all calls.
const THROTTLED_SHARE: f64 = 0.4;
/// Minimum number of outcomes before a lane slows down.
const MIN_OUTCOMES: u32 = 16;
/// Minimum rate per minute. Pauses handle anything slower.
const MIN_RATE: f64 = 30.0;
/// A limit per second recovers within this time, a limit per minute does not.
const BEYOND_SECONDS: Duration = Duration::from_secs(5);
/// Time between the first success at a new estimate and the first probe of a higher rate.
const FIRST_HOLD: Duration = Duration::from_secs(1);
/// Hold after the limit was hit again. Doubles with each hit up to `MAX_HOLD`.
const CONFIRMED_HOLD: Duration = Duration::from_secs(60);
const MAX_HOLD: Duration = Duration::from_secs(480);
/// Doubling time of the rate while probing, in seconds.
const DOUBLES_IN: f64 = 1.0;
const CONFIRMED_DOUBLES_IN: f64 = 4.0;
/// Number of doublings without a 429 after which the estimate is dropped.
const MAX_DOUBLINGS: f64 = 6.0;
/// Fewer 429s than this while probing can be random.
const MIN_REJECTED: u32 = 5;
/// Window that detects limits per second.
pub(super) const SECONDS: Duration = Duration::from_secs(4);

#[derive(Debug, Clone, Copy)]
pub(super) struct SuccessCounts {
    pub(super) minute: u64,
    pub(super) seconds: u64,
}

#[derive(Debug, Default)]
pub(super) struct LearnedRateLimit {
    throttled: f64,
    outcomes: u32,
    found: Option<RateEstimate>,
}

#[derive(Debug, Clone, Copy)]
struct RateEstimate {
    rate: f64,
    at: Instant,
    met: u32,
    first_success: Option<Instant>,
    /// Outcomes while probing.
    succeeded: u32,
    throttled: u32,
}

impl RateEstimate {
    fn new(rate: f64, met: u32, now: Instant) -> Self {
        Self {
            rate: rate.max(MIN_RATE),
            at: now,
            met,
            first_success: None,
            succeeded: 0,
            throttled: 0,
        }
    }

    fn probes_at(&self) -> Option<Instant> {
        let hold = match self.met {
            0 => FIRST_HOLD,
            met => (CONFIRMED_HOLD * (1 << (met - 1).min(8))).min(MAX_HOLD),
        };
        self.first_success.map(|at| at + hold)
    }

    /// Number of doublings since probing started. `None` before that.
    fn doubled(&self, now: Instant) -> Option<f64> {
        let since = now.checked_duration_since(self.probes_at()?)?;
        Some(since.as_secs_f64() / self.doubles_in())
    }

    fn doubles_in(&self) -> f64 {
        match self.met {
            0 => DOUBLES_IN,
            _ => CONFIRMED_DOUBLES_IN,
        }
    }

    /// Returns the estimate after a rejected probe. The limit counts per second if [`SECONDS`] had more successes than the old rate.
    fn estimate_after_probe(&self, succeeded: SuccessCounts, now: Instant) -> Self {
        let in_a_minute = MINUTE.as_secs_f64() / SECONDS.as_secs_f64();
        let (seconds, expected) = (succeeded.seconds as f64, self.rate / in_a_minute);
        if seconds > 1.2 * expected + 2.0 {
            return Self::new(seconds * in_a_minute, 0, now);
        }
        let by_minute = succeeded.minute as f64;
        let rate = match seconds < 0.8 * expected - 2.0 {
            true => by_minute,
            false => self.rate.max(by_minute),
        };
        Self::new(rate, self.met + 1, now)
    }
}

impl LearnedRateLimit {
    pub(super) fn rate(&self, now: Instant) -> Option<f64> {
        let found = self.found?;
        let doubled = found.doubled(now).unwrap_or(0.0);
        (doubled < MAX_DOUBLINGS).then(|| found.rate * doubled.exp2())
    }

    /// Returns the time until the estimate is dropped if no further 429 arrives.
    pub(super) fn ends_in(&self, now: Instant) -> Option<Duration> {
        self.rate(now)?;
        let found = self.found?;
        let tries = found.probes_at().unwrap_or(now + CONFIRMED_HOLD);
        let ends = tries + Duration::from_secs_f64(MAX_DOUBLINGS * found.doubles_in());
        Some(ends.saturating_duration_since(now))
    }

    fn is_dominant(&self) -> bool {
        self.throttled >= THROTTLED_SHARE
    }

    pub(super) fn succeeded(&mut self, sent: Instant, now: Instant) {
        self.count(0.0);
        self.drop_if_expired(now);
        if let Some(found) = self.found.as_mut().filter(|found| sent > found.at) {
            if found.doubled(now).is_some() {
                found.succeeded += 1;
            }
            found.first_success.get_or_insert(now);
        }
    }

    /// Records a 429 of a call sent at `sent`. Returns whether the lane should pause.
    pub(super) fn throttled(
        &mut self,
        sent: Instant,
        retry_after: Option<Duration>,
        succeeded: SuccessCounts,
        now: Instant,
    ) -> bool {
        self.count(1.0);
        self.drop_if_expired(now);
        let by_minute = succeeded.minute as f64;
        let Some(mut found) = self.found else {
            if self.is_dominant() && self.outcomes >= MIN_OUTCOMES {
                let met = u32::from(retry_after.is_some_and(|wait| wait >= BEYOND_SECONDS));
                self.found = Some(RateEstimate::new(by_minute, met, now));
            }
            return self.is_dominant();
        };
        // All calls in flight at the time of the estimate count once.
        if sent <= found.at {
            return self.is_dominant();
        }
        if found.doubled(now).is_some() {
            found.throttled += 1;
            let estimate_after_probe = f64::from(found.succeeded + found.throttled);
            if found.throttled >= MIN_REJECTED
                && f64::from(found.throttled) >= estimate_after_probe * THROTTLED_SHARE
            {
                found = found.estimate_after_probe(succeeded, now);
                // The new estimate accounts for these 429s.
                self.throttled = 0.0;
            }
            self.found = Some(found);
            return false;
        }
        if found.first_success.is_none() {
            // The limit outlasts [`BEYOND_SECONDS`], so it counts per minute and the successes of the last minute are its size.
            if now.saturating_duration_since(found.at) >= BEYOND_SECONDS {
                found.met = found.met.max(1);
            }
        } else if self.is_dominant() {
            found = RateEstimate::new(by_minute, found.met.max(1), now);
        }
        self.found = Some(found);
        self.is_dominant()
    }

    fn count(&mut self, throttled: f64) {
        self.outcomes = self.outcomes.saturating_add(1);
        let parts = f64::from(self.outcomes).min(AVERAGE_OVER);
        self.throttled += (throttled - self.throttled) / parts;
    }

    fn drop_if_expired(&mut self, now: Instant) {
        if self.rate(now).is_none() {
            self.found = None;
        }
    }
}
