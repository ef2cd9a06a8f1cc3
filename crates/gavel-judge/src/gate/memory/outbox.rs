//! Pending updates of a lane for other workers, and the last known shared state.

use std::time::Duration;

use tokio::time::Instant;

use crate::gate::{BreakerState, LimitReport, RateReport};

/// Departures within this time are merged.
const MERGED: Duration = Duration::from_millis(50);

/// Time on the local clock or on the Redis clock in ms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    Local(Instant),
    Redis(i64),
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Departure {
    when: When,
    /// Whether the amounts correct a reservation. Otherwise they are an unreserved departure.
    is_correction: bool,
    requests: i64,
    input: i64,
    output: i64,
}

#[derive(Debug, Default)]
pub(super) struct PeerView {
    outcomes: String,
    pause_until: Option<Instant>,
    hold_until: Option<Instant>,
    learned: [i64; 4],
    pub(super) departures: Vec<Departure>,
    /// Redis clock in ms at a local time.
    pub(super) clock: Option<(Instant, i64)>,
    pub(super) born: i64,
    pub(super) failures: u32,
    pub(super) synced: Option<Instant>,
    /// Start of the departures reported after an outage of Redis, until the reply.
    pub(super) retold_from: Option<Instant>,
    pub(super) used: Option<Instant>,
    /// Calls that await a decision or are the probe. While there are any, a probe isn't returned.
    pub(super) pending: u32,
    pub(super) probes: u32,
    /// Number of slots that this process may have, and further free slots.
    pub(super) allowed: usize,
    pub(super) free: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in crate::gate) struct PeerMessage {
    pub(in crate::gate) out: u32,
    pub(in crate::gate) slots: usize,
    pub(in crate::gate) wanted: usize,
    /// Arguments of the script `report`, starting with the outcomes.
    pub(in crate::gate) report: Vec<String>,
}

/// State of a judge's lane shared by all workers, at the time of the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::gate) struct SharedState {
    pub(in crate::gate) now_ms: i64,
    /// Creation time of the state. A different value means that Redis lost the state.
    pub(in crate::gate) born: i64,
    pub(in crate::gate) breaker: BreakerState,
    pub(in crate::gate) failures: u32,
    /// Time until the breaker allows a probe.
    pub(in crate::gate) opens_in: Duration,
    /// Time until a pause after 429s ends.
    pub(in crate::gate) throttled_for: Duration,
    /// Time until an exhausted limit resets.
    pub(in crate::gate) held_for: Duration,
    /// Time until the next call by pace.
    pub(in crate::gate) next_in: Duration,
    /// Learned limits of requests, tokens, prompt tokens and answer tokens.
    pub(in crate::gate) learned: [Option<u64>; 4],
    /// Slots acquired, the number that this process may have, and further free slots.
    pub(in crate::gate) slots: usize,
    pub(in crate::gate) allowed: usize,
    pub(in crate::gate) free: usize,
}

impl PeerView {
    /// Records an outcome: `a`nswered or `f`ailed, for the probe `A` or `F`. `O` means that the breaker is open but Redis lost that state.
    /// Consecutive `a` are merged.
    pub(super) fn outcome(&mut self, outcome: char) {
        if outcome != 'a' || !self.outcomes.ends_with('a') {
            self.outcomes.push(outcome);
        }
    }

    pub(super) fn set_pause(&mut self, until: Option<Instant>) {
        self.pause_until = self.pause_until.max(until);
    }

    pub(super) fn set_hold(&mut self, until: Option<Instant>) {
        self.hold_until = self.hold_until.max(until);
    }

    pub(super) fn learned(&mut self, rates: &RateReport) {
        let of = |report: &LimitReport| match report.per_minute() {
            Some(limit) => i64::try_from(limit).unwrap_or(i64::MAX),
            // Revokes a limit that other workers mistake for one per minute.
            None if report.is_longer_than_a_minute() => report
                .limit
                .and_then(|limit| i64::try_from(limit).ok())
                .map_or(0, |limit| -limit),
            None => 0,
        };
        for (said, report) in self.learned.iter_mut().zip(rates.all()) {
            match of(report) {
                0 => {}
                heard => *said = heard,
            }
        }
    }

    /// Records an unreserved departure.
    pub(super) fn departed(&mut self, at: Instant, amounts: [i64; 3]) {
        self.add(When::Local(at), false, amounts);
    }

    /// Records usage minus reservation of a call. `there` is its departure on the Redis clock, if known.
    pub(super) fn corrected(&mut self, at: Instant, there: Option<i64>, amounts: [i64; 3]) {
        let when = there.map_or(When::Local(at), When::Redis);
        self.add(when, true, amounts);
    }

    fn add(&mut self, when: When, is_correction: bool, [requests, input, output]: [i64; 3]) {
        if [requests, input, output] == [0; 3] {
            return;
        }
        // Higher and lower usage change the pace differently, so they are reported separately.
        let is_less = |input: i64, output: i64| [input < 0, output < 0, input + output < 0];
        let is_alike = |told: &&mut Departure| {
            told.is_correction == is_correction
                && is_less(told.input, told.output) == is_less(input, output)
        };
        if let Some(last) = self.departures.iter_mut().rev().find(is_alike) {
            let together = match (last.when, when) {
                (When::Local(last), When::Local(at)) => at.saturating_duration_since(last) < MERGED,
                (last, when) => last == when,
            };
            if together {
                last.requests += requests;
                last.input += input;
                last.output += output;
                return;
            }
        }
        self.departures.push(Departure {
            when,
            is_correction,
            requests,
            input,
            output,
        });
    }

    pub(super) fn has_updates(&self) -> bool {
        self.has_more_than_successes() || !self.outcomes.is_empty() || !self.departures.is_empty()
    }

    /// Returns whether there are updates other than departures and successful replies.
    pub(super) fn has_more_than_successes(&self) -> bool {
        self.learned.iter().any(|said| *said != 0)
            || self.outcomes.contains(|outcome| outcome != 'a')
            || self.pause_until.is_some()
            || self.hold_until.is_some()
    }

    /// Drains the updates into arguments of the script `report`.
    pub(super) fn take(&mut self, now: Instant) -> Vec<String> {
        let left = |until: Option<Instant>| {
            let left = until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now));
            left.as_millis().to_string()
        };
        let mut args = vec![
            std::mem::take(&mut self.outcomes),
            left(self.pause_until.take()),
            left(self.hold_until.take()),
        ];
        let learned = std::mem::take(&mut self.learned);
        args.extend(learned.iter().map(i64::to_string));
        for departure in std::mem::take(&mut self.departures) {
            let at = match departure.when {
                When::Redis(at) => at,
                When::Local(at) => match self.redis_time(at) {
                    Some(at) => at,
                    // Sent after the reply to this message provides the Redis clock.
                    None => {
                        self.departures.push(departure);
                        continue;
                    }
                },
            };
            let Departure {
                is_correction,
                requests,
                input,
                output,
                ..
            } = departure;
            let figures = [at, i64::from(is_correction), requests, input, output];
            args.extend(figures.map(|figure| figure.to_string()));
        }
        args
    }

    fn redis_time(&self, at: Instant) -> Option<i64> {
        let (known, ms) = self.clock?;
        let whole = |span: Duration| i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
        Some(match at.checked_duration_since(known) {
            Some(later) => ms.saturating_add(whole(later)),
            None => ms.saturating_sub(whole(known - at)),
        })
    }
}
