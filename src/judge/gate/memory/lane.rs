//! What the gate knows of one judge: breaker, throttle, what holds it closed, calls in flight.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::GateOptions;
use super::breaker::{Admission, Breaker};
use crate::judge::error::ErrorClass;
use crate::judge::gate::{CallOutcome, Closed, Closure, GateSnapshot, Refusal};

/// A provider's clock may be wrong by years; a lane isn't closed for longer than this on its word.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);

/// One judge's lane.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) slots: Option<Arc<Semaphore>>,
    pub(super) in_flight: u32,
    breaker: Breaker,
    throttle: Throttle,
    held: Option<Held>,
    last_error: Option<String>,
    /// Known closures that nobody has taken yet; at most one of each reason.
    closures: Vec<Closure>,
}

#[derive(Debug, Clone, Copy)]
struct Held {
    why: Closed,
    until: Option<Instant>,
}

/// The pause that 429s ask for.
#[derive(Debug)]
struct Throttle {
    first: Duration,
    longest: Duration,
    next: Duration,
    until: Option<Instant>,
}

impl Throttle {
    /// A 429. Calls that were in flight together count once, or a burst would double the pause to its longest.
    fn throttled(&mut self, retry_after: Option<Duration>, now: Instant) {
        let pause = match retry_after {
            Some(asked) => asked.clamp(Duration::from_secs(1), LONGEST),
            None if self.until.is_some_and(|until| until > now) => return,
            None => {
                let pause = self.next;
                self.next = (pause * 2).min(self.longest);
                pause
            }
        };
        let until = now + pause;
        self.until = Some(self.until.map_or(until, |known| known.max(until)));
    }

    fn succeeded(&mut self) {
        self.next = self.first;
    }

    fn remaining(&self, now: Instant) -> Option<Duration> {
        self.until
            .filter(|until| *until > now)
            .map(|until| until - now)
    }
}

impl Lane {
    pub(super) fn new(options: &GateOptions, cap: u32) -> Self {
        Self {
            slots: (cap > 0).then(|| Arc::new(Semaphore::new(cap as usize))),
            in_flight: 0,
            breaker: Breaker::new(options.failures_to_open, options.cool_down),
            throttle: Throttle {
                first: options.throttle_first,
                longest: options.throttle_longest,
                next: options.throttle_first,
                until: None,
            },
            held: None,
            last_error: None,
            closures: Vec::new(),
        }
    }

    /// Why the lane is closed now; consumes nothing.
    pub(super) fn closed(&mut self, now: Instant) -> Option<Refusal> {
        if let Some(held) = self.held {
            match held.until {
                Some(until) if until <= now => self.held = None,
                until => {
                    return Some(Refusal {
                        why: held.why,
                        retry_in: until.map(|until| until - now),
                    });
                }
            }
        }
        if let Admission::Refuse(wait) = self.breaker.peek(now) {
            return Some(Refusal {
                why: Closed::BreakerOpen,
                retry_in: Some(wait),
            });
        }
        self.throttle.remaining(now).map(|wait| Refusal {
            why: Closed::Throttled,
            retry_in: Some(wait),
        })
    }

    /// Lets one call pass and says whether it is the probe, or says why not.
    pub(super) fn admit(&mut self, now: Instant) -> Result<bool, Refusal> {
        match self.closed(now) {
            Some(refusal) => Err(refusal),
            None => {
                self.in_flight += 1;
                Ok(self.breaker.admit(now) == Admission::Probe)
            }
        }
    }

    /// A permit was dropped; `probe`: it was the probe, and nobody reported.
    pub(super) fn left(&mut self, probe: bool, now: Instant) {
        self.in_flight = self.in_flight.saturating_sub(1);
        if probe {
            self.breaker.give_back(now);
        }
    }

    /// How a call ended.
    pub(super) fn report(&mut self, judge: &str, probe: bool, outcome: &CallOutcome, now: Instant) {
        match outcome {
            CallOutcome::Alive => {
                self.breaker.succeeded(probe);
                self.throttle.succeeded();
            }
            CallOutcome::Failed {
                class,
                retry_after,
                message,
            } => {
                self.last_error = Some(message.clone());
                self.failed(judge, probe, *class, *retry_after, now);
            }
        }
    }

    fn failed(
        &mut self,
        judge: &str,
        probe: bool,
        class: ErrorClass,
        retry_after: Option<Duration>,
        now: Instant,
    ) {
        match class {
            ErrorClass::Transient => self.breaker.failed(probe, now),
            ErrorClass::Throttled => {
                self.throttle.throttled(retry_after, now);
                self.reachable(probe);
            }
            ErrorClass::Exhausted => {
                self.reachable(probe);
                self.shut(judge, Closed::Exhausted, retry_after, now);
            }
            ErrorClass::Misconfigured => {
                self.reachable(probe);
                self.shut(judge, Closed::Misconfigured, None, now);
            }
            ErrorClass::Capability
            | ErrorClass::TooLarge
            | ErrorClass::Truncated
            | ErrorClass::Refused
            | ErrorClass::Rejected
            | ErrorClass::Unparsable => self.reachable(probe),
        }
    }

    /// An error that isn't the breaker's business still shows a probe that somebody answers.
    fn reachable(&mut self, probe: bool) {
        if probe {
            self.breaker.succeeded(true);
        }
    }

    fn shut(&mut self, judge: &str, why: Closed, reopens_in: Option<Duration>, now: Instant) {
        let reopens_in = reopens_in.map(|wait| wait.min(LONGEST));
        // An operator's pause is never replaced by what a call met; it is told to the store all the same.
        if self.held.is_none_or(|held| held.why != Closed::Paused) {
            self.hold(why, reopens_in, now);
        }
        if self.closures.iter().all(|closure| closure.why != why) {
            self.closures.push(Closure {
                judge: judge.to_owned(),
                why,
                message: self.last_error.clone().unwrap_or_default(),
                reopens_in,
            });
        }
    }

    pub(super) fn hold(&mut self, why: Closed, reopens_in: Option<Duration>, now: Instant) {
        self.held = Some(Held {
            why,
            until: reopens_in.map(|wait| now + wait.min(LONGEST)),
        });
    }

    pub(super) fn release(&mut self) {
        self.held = None;
    }

    pub(super) fn take_closures(&mut self) -> Vec<Closure> {
        std::mem::take(&mut self.closures)
    }

    /// Whether forgetting the lane loses nothing.
    pub(super) fn is_idle(&mut self, now: Instant) -> bool {
        self.in_flight == 0
            && self.closed(now).is_none()
            && self.closures.is_empty()
            && self.breaker.failures_in_row() == 0
    }

    pub(super) fn snapshot(&mut self, judge: &str, now: Instant) -> GateSnapshot {
        GateSnapshot {
            judge: judge.to_owned(),
            breaker: self.breaker.state(),
            failures_in_row: self.breaker.failures_in_row(),
            closed: self.closed(now),
            in_flight: self.in_flight,
            last_error: self.last_error.clone(),
        }
    }
}
