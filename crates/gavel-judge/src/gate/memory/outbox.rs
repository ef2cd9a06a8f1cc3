//! What a lane has yet to tell the other workers, and what it last heard of them.

use std::time::Duration;

use tokio::time::Instant;

use crate::gate::{BreakerState, LimitReport, RateReport};

/// Departures within this are told as one.
const TOGETHER: Duration = Duration::from_millis(50);

/// When something happened, by this process' clock or by Redis'.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    Here(Instant),
    There(i64),
}

/// What went out, or by how much it was put down wrongly.
#[derive(Debug, Clone, Copy)]
pub(super) struct Departure {
    when: When,
    /// By how much it was put down wrongly; else what went out and wasn't put down.
    is_correction: bool,
    requests: i64,
    input: i64,
    output: i64,
}

/// What the others must still be told, and what was heard of them.
#[derive(Debug, Default)]
pub(super) struct PeerView {
    outcomes: String,
    pause_until: Option<Instant>,
    hold_until: Option<Instant>,
    learned: [i64; 4],
    pub(super) departures: Vec<Departure>,
    /// Redis' clock, ms, at a moment of ours.
    pub(super) clock: Option<(Instant, i64)>,
    pub(super) born: i64,
    /// Failures in a row, as the others count them.
    pub(super) failures: u32,
    pub(super) synced: Option<Instant>,
    /// From when on it was told what went out while Redis was away, until an answer to that comes.
    pub(super) retold_from: Option<Instant>,
    pub(super) used: Option<Instant>,
    /// Calls that ask, or are the probe: while there are any, a probe isn't given back.
    pub(super) asking: u32,
    pub(super) probes: u32,
    /// Slots that may be kept, and that are free beside them.
    pub(super) allowed: usize,
    pub(super) free: usize,
}

/// What a member asks of the others, and tells them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in crate::gate) struct PeerMessage {
    /// Calls in flight.
    pub(in crate::gate) out: u32,
    /// Slots in hand, and wanted.
    pub(in crate::gate) slots: usize,
    pub(in crate::gate) wanted: usize,
    /// Arguments of the script `report`, from the outcomes on.
    pub(in crate::gate) report: Vec<String>,
}

/// One judge's lane as all workers share it, at the moment of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::gate) struct SharedState {
    /// Redis' clock, ms.
    pub(in crate::gate) now_ms: i64,
    /// When the state was begun; another one means that Redis lost it.
    pub(in crate::gate) born: i64,
    pub(in crate::gate) breaker: BreakerState,
    pub(in crate::gate) failures: u32,
    /// How long the breaker stays open.
    pub(in crate::gate) opens_in: Duration,
    /// How long a 429 holds the lane closed.
    pub(in crate::gate) throttled_for: Duration,
    /// How long nothing goes out because nothing is left.
    pub(in crate::gate) held_for: Duration,
    /// When the next call is due by the pace.
    pub(in crate::gate) next_in: Duration,
    /// What replies said of requests, tokens, tokens of prompts, tokens of answers.
    pub(in crate::gate) learned: [Option<u64>; 4],
    /// Slots in hand, how many of them may be kept, and how many are free beside them.
    pub(in crate::gate) slots: usize,
    pub(in crate::gate) allowed: usize,
    pub(in crate::gate) free: usize,
}

impl PeerView {
    /// A call ended this way: `a`nswered, `f`ailed; of the probe `A`, `F`. `O`: the breaker is open, and Redis has forgotten that. Of
    /// answers in a row one says it all.
    pub(super) fn outcome(&mut self, outcome: char) {
        if outcome != 'a' || !self.outcomes.ends_with('a') {
            self.outcomes.push(outcome);
        }
    }

    pub(super) fn paused(&mut self, until: Option<Instant>) {
        self.pause_until = self.pause_until.max(until);
    }

    pub(super) fn held(&mut self, until: Option<Instant>) {
        self.hold_until = self.hold_until.max(until);
    }

    pub(super) fn learned(&mut self, rates: &RateReport) {
        let of = |report: &LimitReport| match report.per_minute() {
            Some(limit) => i64::try_from(limit).unwrap_or(i64::MAX),
            // Taken back where the others took the same figure for a minute's.
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

    /// Something went out that nobody put down yet.
    pub(super) fn departed(&mut self, at: Instant, amounts: [i64; 3]) {
        self.add(When::Here(at), false, amounts);
    }

    /// A call used so much more than was put down for it. `there`: when it went out, by Redis' clock, if that is known.
    pub(super) fn corrected(&mut self, at: Instant, there: Option<i64>, amounts: [i64; 3]) {
        let when = there.map_or(When::Here(at), When::There);
        self.add(when, true, amounts);
    }

    fn add(&mut self, when: When, is_correction: bool, [requests, input, output]: [i64; 3]) {
        if [requests, input, output] == [0; 3] {
            return;
        }
        // More and less than was put down move a pace in different ways: they are told apart.
        let is_less = |input: i64, output: i64| [input < 0, output < 0, input + output < 0];
        let is_alike = |told: &&mut Departure| {
            told.is_correction == is_correction
                && is_less(told.input, told.output) == is_less(input, output)
        };
        if let Some(last) = self.departures.iter_mut().rev().find(is_alike) {
            let together = match (last.when, when) {
                (When::Here(last), When::Here(at)) => at.saturating_duration_since(last) < TOGETHER,
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

    pub(super) fn has_news(&self) -> bool {
        self.has_more_than_answers() || !self.outcomes.is_empty() || !self.departures.is_empty()
    }

    /// Whether there is more than calls that went out and were answered.
    pub(super) fn has_more_than_answers(&self) -> bool {
        self.learned.iter().any(|said| *said != 0)
            || self.outcomes.contains(|outcome| outcome != 'a')
            || self.pause_until.is_some()
            || self.hold_until.is_some()
    }

    /// Empties it into the arguments of the script `report`.
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
                When::There(at) => at,
                When::Here(at) => match self.there(at) {
                    Some(at) => at,
                    // Told when the answer to this message has said what the time is there.
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

    /// A moment of ours by Redis' clock.
    fn there(&self, at: Instant) -> Option<i64> {
        let (known, ms) = self.clock?;
        let whole = |span: Duration| i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
        Some(match at.checked_duration_since(known) {
            Some(later) => ms.saturating_add(whole(later)),
            None => ms.saturating_sub(whole(known - at)),
        })
    }
}
