//! Meter of one quantity that a judge limits per minute: recent usage and the time of the next departure.
//!
//! Two rules apply. Spacing distributes departures evenly. The window allows at most the limit in any 61.2 s, because network jitter can
//! move two calls that much closer together at the server.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use crate::gate::{LimitReport, MeterSnapshot};

/// Seconds over which a limit per minute is spread: 97.6 % of the limit is used.
const SPREAD: f64 = 61.5;
/// No interval of this length exceeds the limit.
const WINDOW: Duration = Duration::from_millis(61_200);
const GRAIN: Duration = Duration::from_millis(100);
/// Tolerance for early calls, so that a late call does not delay the next one.
const EARLY_TOLERANCE: Duration = Duration::from_millis(25);
/// The same if calls are closer together than [`GRAIN`], because timers and schedulers are less precise than that.
const FAST_EARLY_TOLERANCE: Duration = Duration::from_millis(100);
/// Lifetime of a learned limit without confirmation by a reply, because quotas are raised and headers misread.
const LIMIT_TTL: Duration = Duration::from_secs(600);

pub(super) const MINUTE: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(super) struct Meter {
    configured: Option<u64>,
    learned: Option<Learned>,
    window: SlidingWindow,
    /// Due time of the next departure under even spacing.
    next: Option<Instant>,
    /// Number of workers that share the limits.
    pub(super) divisor: u64,
}

#[derive(Debug, Clone, Copy)]
struct Learned {
    limit: u64,
    as_of: Instant,
}

impl Meter {
    pub(super) fn new(configured: Option<u64>) -> Self {
        Self {
            configured: configured.filter(|limit| *limit > 0),
            divisor: 1,
            ..Self::default()
        }
    }

    pub(super) fn observe(&mut self, report: &LimitReport, now: Instant) {
        let known = self.learned.map(|learned| learned.limit);
        if let Some(limit) = report.per_minute() {
            self.learned = Some(Learned { limit, as_of: now });
        } else if report.is_longer_than_a_minute() && report.limit == known {
            self.learned = None;
        }
    }

    /// Returns the effective limit: the lower of the configured and the learned one, divided by the number of workers.
    pub(super) fn limit(&self, now: Instant) -> Option<u64> {
        let learned = self.learned(now);
        let limit = self.configured.into_iter().chain(learned).min()?;
        Some((limit / self.divisor).max(1))
    }

    pub(super) fn adopt(&mut self, learned: Option<u64>, now: Instant) {
        self.learned = learned.map(|limit| Learned { limit, as_of: now });
    }

    /// Returns the due time by rate only, without the window.
    pub(super) fn due(&self, amount: u64, rate: f64, now: Instant) -> Instant {
        let early = early(amount, rate);
        let due = |next: Instant| next.checked_sub(early).unwrap_or(next).max(now);
        self.next.map_or(now, due)
    }

    /// Returns departures since `since`, or of the last minute without it.
    pub(super) fn departures_since(
        &self,
        since: Option<Instant>,
    ) -> impl Iterator<Item = (Instant, i64)> {
        let counted = self.window.grains.iter();
        counted
            .filter(move |grain| since.is_none_or(|since| grain.from >= since))
            .map(|grain| (grain.from, i64::try_from(grain.amount).unwrap_or(i64::MAX)))
    }

    pub(super) fn used(&self, now: Instant) -> u64 {
        self.window.sum(now)
    }

    /// Returns the time at which `amount` may leave. `rate` sets the spacing: the limit, or less. The window enforces only the limit, so
    /// that a reduced rate slows a lane down but does not stop it.
    pub(super) fn earliest(&self, amount: u64, rate: Rate, now: Instant) -> Instant {
        let fits = self
            .limit(now)
            .map_or(now, |limit| self.window.fits_at(amount, limit, now));
        match self.next {
            Some(next) if self.spreads(rate, now) => {
                let early = early(amount, rate.per_minute);
                fits.max(next.checked_sub(early).unwrap_or(next))
            }
            Some(_) | None => fits,
        }
    }

    pub(super) fn take(&mut self, amount: u64, rate: Option<Rate>, now: Instant) {
        self.window.expire(now);
        if let Some(rate) = rate {
            let due = match self.next {
                Some(next) if self.spreads(rate, now) => next.max(now),
                Some(_) | None => now,
            };
            self.next = Some(due + between(amount, rate.per_minute));
        }
        self.window.add(now, amount);
    }

    /// Corrects the amount that left at `at` from `before` to `after`.
    pub(super) fn correct(&mut self, at: Instant, before: u64, after: u64, now: Instant) {
        self.window.correct(at, before, after, now);
        let (Some(limit), Some(next)) = (self.limit(now), self.next) else {
            return;
        };
        let limit = limit as f64;
        let corrected = if after > before {
            next + between(after - before, limit)
        } else {
            let back = between(before - after, limit);
            next.checked_sub(back).unwrap_or(next).max(now.min(next))
        };
        // The window drops every amount after a minute.
        self.next = Some(corrected.min(now + WINDOW));
    }

    /// Returns the number of calls of `amount` that may leave between `from` and `until`: at least 1, because the first may.
    pub(super) fn calls_between(
        &self,
        amount: u64,
        rate: Rate,
        from: Instant,
        until: Instant,
    ) -> usize {
        let amount = amount.max(1);
        let used = self.used(from);
        let calls = if self.spreads(rate, from) {
            let step = between(amount, rate.per_minute).as_secs_f64();
            let span = until.saturating_duration_since(from).as_secs_f64();
            1 + (span / step) as u64
        } else {
            at_least_one(rate.per_minute / 2.0).saturating_sub(used) / amount
        };
        let room = self
            .limit(from)
            .map(|limit| limit.saturating_sub(used) / amount);
        let calls = calls.min(room.unwrap_or(u64::MAX)).max(1);
        usize::try_from(calls).unwrap_or(usize::MAX)
    }

    pub(super) fn snapshot(&self, rate: Option<Rate>, now: Instant) -> MeterSnapshot {
        MeterSnapshot {
            limit: rate.map(|rate| at_least_one(rate.per_minute)),
            configured: self.configured,
            learned: self.learned(now),
            used: self.used(now),
        }
    }

    fn learned(&self, now: Instant) -> Option<u64> {
        self.learned
            .filter(|learned| now.saturating_duration_since(learned.as_of) < LIMIT_TTL)
            .map(|learned| learned.limit)
    }

    /// A limit that is only learned does not space calls until half of it is used.
    fn spreads(&self, rate: Rate, now: Instant) -> bool {
        match rate.spread {
            Spread::Always => true,
            Spread::WhenScarce => {
                self.configured.is_some() || self.used(now) as f64 * 2.0 >= rate.per_minute
            }
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Rate {
    pub(super) per_minute: f64,
    pub(super) spread: Spread,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spread {
    Always,
    /// If the limit is configured or half of it is used.
    WhenScarce,
}

/// Returns the time of `amount` under a limit per minute: at most a full minute, so that no call waits forever behind a huge one.
pub(super) fn between(amount: u64, limit: f64) -> Duration {
    Duration::from_secs_f64(SPREAD * (amount as f64 / limit).min(1.0))
}

fn early(amount: u64, rate: f64) -> Duration {
    if between(amount, rate) < GRAIN {
        FAST_EARLY_TOLERANCE
    } else {
        EARLY_TOLERANCE
    }
}

fn at_least_one(limit: f64) -> u64 {
    (limit as u64).max(1)
}

/// Departures of the last minute, grouped by 100 ms: at most about 1,200 entries.
#[derive(Debug, Default)]
pub(super) struct SlidingWindow {
    grains: VecDeque<Grain>,
}

#[derive(Debug, Clone, Copy)]
struct Grain {
    from: Instant,
    amount: u64,
}

impl Grain {
    fn ends(&self) -> Instant {
        self.from + GRAIN + WINDOW
    }
}

impl SlidingWindow {
    fn sum(&self, now: Instant) -> u64 {
        self.grains
            .iter()
            .filter(|grain| grain.ends() > now)
            .fold(0, |sum, grain| sum.saturating_add(grain.amount))
    }

    /// Returns the total of the last `span`, to the precision of [`GRAIN`].
    pub(super) fn sum_within(&self, span: Duration, now: Instant) -> u64 {
        let newest_first = self.grains.iter().rev();
        newest_first
            .take_while(|grain| grain.from + span > now)
            .fold(0, |sum, grain| sum.saturating_add(grain.amount))
    }

    pub(super) fn expire(&mut self, now: Instant) {
        while self.grains.front().is_some_and(|grain| grain.ends() <= now) {
            self.grains.pop_front();
        }
    }

    pub(super) fn add(&mut self, at: Instant, amount: u64) {
        match self.grains.back_mut() {
            Some(last) if at < last.from + GRAIN => {
                last.amount = last.amount.saturating_add(amount);
            }
            Some(_) | None => self.grains.push_back(Grain { from: at, amount }),
        }
    }

    fn correct(&mut self, at: Instant, before: u64, after: u64, now: Instant) {
        self.expire(now);
        let behind = self.grains.partition_point(|grain| grain.from <= at);
        if let Some(grain) = behind
            .checked_sub(1)
            .and_then(|at| self.grains.get_mut(at))
            .filter(|grain| at < grain.from + GRAIN)
        {
            grain.amount = grain.amount.saturating_sub(before).saturating_add(after);
        }
    }

    /// Returns the time at which `amount` fits into `limit`. An amount above the limit fits into an empty window.
    fn fits_at(&self, amount: u64, limit: u64, now: Instant) -> Instant {
        let mut left = self.sum(now);
        if left == 0 || left.saturating_add(amount) <= limit {
            return now;
        }
        for grain in self.grains.iter().filter(|grain| grain.ends() > now) {
            left = left.saturating_sub(grain.amount);
            if left == 0 || left.saturating_add(amount) <= limit {
                return grain.ends();
            }
        }
        now
    }
}
