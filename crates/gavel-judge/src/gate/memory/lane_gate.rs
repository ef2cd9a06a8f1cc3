//! Gate of one judge: breaker, throttle, pace, closures and calls in flight.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::GateOptions;
use super::adaptive::AdaptiveConcurrency;
use super::breaker::{Admission, Breaker};
use super::outbox::PeerView;
use super::pace::{Pace, PaceTicket};
use super::rule::{Rule, part_of};
use super::slots::Slots;
use super::throttle::{MAX_CLOSURE, Throttle};
use crate::error::ErrorClass;
use crate::gate::{
    BreakerState, CallEnd, CallOutcome, Closure, Denial, GateSnapshot, HeldBack, LastError, Load,
    PaceLimits, Room,
};

/// A run is prepared when its call may leave within this time: long enough to read a session and render its prompt, shorter than other runs
/// of the worker wait for a permit.
const PREPARE_WITHIN: Duration = Duration::from_millis(500);

/// Retry delay when the adaptive limit is reached, because the end of a call can't be predicted.
const FULL_RETRY_DELAY: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(in crate::gate) struct LaneGate {
    pub(super) slots: Option<Slots>,
    pub(super) in_flight: u32,
    pub(super) rule: Rule,
    pub(super) shared: PeerView,
    /// Permit of the call that leaves next.
    pub(super) line: Arc<Semaphore>,
    pub(super) waiting: u32,
    /// Whether one waiting call is a large call that exceeds its timeout.
    pub(super) large_call_waiting: bool,
    pub(in crate::gate) pace: Pace,
    pub(super) breaker: Breaker,
    pub(super) throttle: Throttle,
    pub(super) adaptive: AdaptiveConcurrency,
    held: Option<LaneHold>,
    last_error: Option<(String, Instant)>,
    /// Uncollected closures, at most one per reason.
    closures: Vec<Closure>,
}

#[derive(Debug, Clone, Copy)]
pub(in crate::gate) struct Admitted {
    pub(in crate::gate) probe: bool,
    pub(in crate::gate) ticket: PaceTicket,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::gate) enum Denied {
    /// The lane is closed.
    HeldBack(Denial),
    Later(Duration),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::gate) enum LinePosition {
    /// Waiting calls go first.
    New,
    First,
}

#[derive(Debug, Clone, Copy)]
struct LaneHold {
    why: HeldBack,
    until: Option<Instant>,
}

impl LaneGate {
    pub(super) fn new(
        options: &GateOptions,
        cap: usize,
        limits: PaceLimits,
        rule: Rule,
        now: Instant,
    ) -> Self {
        let acquired = match rule {
            Rule::Alone | Rule::Part { .. } => part_of(cap, rule),
            Rule::Together => 0,
        };
        Self {
            slots: (cap > 0).then(|| Slots::new(cap, acquired, now)),
            in_flight: 0,
            rule,
            shared: PeerView::default(),
            line: Arc::new(Semaphore::new(1)),
            waiting: 0,
            large_call_waiting: false,
            pace: Pace::new(limits, rule),
            breaker: Breaker::new(options.failures_to_open, options.cool_down),
            throttle: Throttle::new(options.throttle_first, options.throttle_longest),
            adaptive: AdaptiveConcurrency::default(),
            held: None,
            last_error: None,
            closures: Vec::new(),
        }
    }

    /// Returns the reason why the lane is closed, without acquiring a probe.
    pub(super) fn closed(&mut self, now: Instant) -> Option<Denial> {
        if let Some(held) = self.held {
            match held.until {
                Some(until) if until <= now => self.held = None,
                until => {
                    return Some(Denial {
                        why: held.why,
                        retry_in: until.map(|until| until - now),
                    });
                }
            }
        }
        if let Admission::Deny(wait) = self.breaker.peek(now) {
            return Some(Denial::new(HeldBack::BreakerOpen, wait));
        }
        let until = self.throttle.until(now)?;
        Some(Denial::new(HeldBack::Throttled, until - now))
    }

    pub(super) fn counts_tokens(&self, now: Instant) -> bool {
        self.pace.counts_tokens(now)
    }

    pub(in crate::gate) fn admit(
        &mut self,
        load: Load,
        place: LinePosition,
        now: Instant,
    ) -> Result<Admitted, Denied> {
        self.may_leave(load, place, now)?;
        let ticket = self.pace.leave(load, None, now);
        if self.rule == Rule::Together {
            self.shared.departed(now, ticket.departure());
        }
        self.in_flight += 1;
        Ok(Admitted {
            probe: self.breaker.admit(now) == Admission::Probe,
            ticket,
        })
    }

    /// Checks whether a call may leave, before the request to peers.
    pub(super) fn may_leave(
        &mut self,
        load: Load,
        place: LinePosition,
        now: Instant,
    ) -> Result<(), Denied> {
        if let Some(denial) = self.closed(now) {
            return Err(Denied::HeldBack(denial));
        }
        if self.adaptive.is_full(self.in_flight) {
            return Err(Denied::Later(FULL_RETRY_DELAY));
        }
        if place == LinePosition::New && self.waiting > 0 {
            return Err(Denied::Later(self.wait_behind_line(load, now)));
        }
        self.pace
            .wait(load, now)
            .map_or(Ok(()), |wait| Err(Denied::Later(wait)))
    }

    /// Estimates the wait of a new call behind the waiting ones.
    fn wait_behind_line(&self, load: Load, now: Instant) -> Duration {
        let first = self.pace.wait(load, now).unwrap_or_default();
        let line = self.pace.step(load, now).saturating_mul(self.waiting);
        first.saturating_add(line)
    }

    /// Returns whether a call may wait beyond its `timeout`: only one at a time, and only if smaller calls would keep overtaking it.
    pub(super) fn can_exceed_timeout(
        &self,
        load: Load,
        wait: Duration,
        timeout: Duration,
        now: Instant,
    ) -> bool {
        !timeout.is_zero()
            && !self.large_call_waiting
            && wait > timeout
            && self.pace.is_overtaken(load, now)
    }

    /// Returns the capacity, or the reason why the lane is closed.
    pub(super) fn room(&mut self, now: Instant) -> Result<Room, Denial> {
        if let Some(denial) = self.closed(now) {
            return Err(denial);
        }
        let (starts, more_in) = match self.pace.startable(PREPARE_WITHIN, now) {
            // Newly prepared runs would wait behind the large call.
            _ if self.large_call_waiting => (Some(0), Some(PREPARE_WITHIN)),
            Some(startable) => {
                // Waiting calls are already prepared.
                let calls = match self.rule {
                    Rule::Together => startable.calls.saturating_sub(self.waiting as usize),
                    Rule::Alone | Rule::Part { .. } => startable.calls,
                };
                (Some(calls), Some(startable.more_in))
            }
            None => (None, None),
        };
        // Only the probe may start.
        let (starts, more_in) = match self.breaker.peek(now) {
            Admission::Probe => (
                Some(starts.map_or(1, |calls| calls.min(1))),
                more_in.or(Some(PREPARE_WITHIN)),
            ),
            Admission::Pass | Admission::Deny(_) => (starts, more_in),
        };
        Ok(Room {
            in_flight: self.in_flight as usize,
            cap: [self.max_concurrency_now(now), self.adaptive.most()]
                .into_iter()
                .flatten()
                .min(),
            starts,
            more_in,
        })
    }

    /// Records a dropped permit. `probe` is true for an unreported probe.
    pub(super) fn left(&mut self, probe: bool, now: Instant) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.shared.probes = self.shared.probes.saturating_sub(u32::from(probe));
        if probe && self.rule != Rule::Together {
            self.breaker.return_probe(now);
        }
    }

    pub(super) fn report(&mut self, judge: &str, call: Admitted, end: &CallEnd, now: Instant) {
        let Admitted { probe, ticket } = call;
        if let Some(used) = end.used {
            let shift = self.pace.settle(ticket, used, now);
            if self.rule == Rule::Together {
                let (at, there) = ticket.left_at();
                self.shared.corrected(at, there, shift);
            }
        }
        self.pace.observe(&end.rates, now);
        match &end.outcome {
            CallOutcome::Alive => {
                self.pace.hold(ticket, &end.rates, now);
                self.pace.succeeded(ticket, now);
                self.adaptive.succeeded(ticket.left_at().0);
                self.breaker.succeeded(probe);
                self.throttle.succeeded();
            }
            CallOutcome::Failed {
                class,
                retry_after,
                message,
            } => {
                self.last_error = Some((message.clone(), now));
                // A single 429 among many replies delays only its own call.
                if *class == ErrorClass::Throttled && self.pace.throttled(ticket, *retry_after, now)
                {
                    self.throttle.throttled(*retry_after, now);
                }
                // The reset of an exhausted quota closes the lane, so that an operator's resume is effective immediately.
                if *class != ErrorClass::Exhausted {
                    self.pace.hold(ticket, &end.rates, now);
                }
                self.failed(judge, probe, *class, *retry_after, now);
            }
            CallOutcome::Late(message) => {
                self.last_error = Some((message.clone(), now));
                if let Some(most) = self.adaptive.late(ticket.left_at().0, self.in_flight, now) {
                    tracing::warn!(judge, most, "calls time out; reducing concurrency");
                }
                self.failed(judge, probe, ErrorClass::Transient, None, now);
            }
        }
        if self.rule == Rule::Together {
            self.queue_outcome(probe, end, now);
        }
    }

    /// Queues the effects of a call's end for the other workers.
    fn queue_outcome(&mut self, probe: bool, end: &CallEnd, now: Instant) {
        let failed = match &end.outcome {
            CallOutcome::Alive => Some(false),
            CallOutcome::Failed { class, .. } => (*class == ErrorClass::Transient).then_some(true),
            CallOutcome::Late(_) => Some(true),
        };
        match (failed, probe) {
            (Some(false), false) => self.shared.outcome('a'),
            (Some(true), false) => self.shared.outcome('f'),
            (Some(true), true) => self.shared.outcome('F'),
            (Some(false) | None, true) => self.shared.outcome('A'),
            (None, false) => {}
        }
        self.shared.learned(&end.rates);
        self.shared.set_pause(self.throttle.until(now));
        self.shared.set_hold(self.pace.hold_end(now));
    }

    /// Logs that the breaker opened or closed. A failed probe isn't logged, because a judge that is down fails one per cool-down.
    pub(super) fn log_breaker(&self, judge: &str, before: BreakerState) {
        match (before, self.breaker.state()) {
            (BreakerState::Closed, BreakerState::Open | BreakerState::HalfOpen) => {
                let error = self
                    .last_error
                    .as_ref()
                    .map_or("calls of other workers failed", |(message, _)| {
                        message.as_str()
                    });
                tracing::warn!(
                    judge,
                    failures_in_row = self.breaker.failures_in_row(),
                    error,
                    "a judge's breaker opened: its jobs wait until a probe succeeds"
                );
            }
            (BreakerState::Open | BreakerState::HalfOpen, BreakerState::Closed) => {
                tracing::info!(judge, "a judge's breaker closed");
            }
            (BreakerState::Closed, BreakerState::Closed)
            | (
                BreakerState::Open | BreakerState::HalfOpen,
                BreakerState::Open | BreakerState::HalfOpen,
            ) => {}
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
        if class == ErrorClass::Transient {
            let others_out = self.in_flight.saturating_sub(1);
            self.breaker.failed(probe, others_out, now);
            return;
        }
        // Other error classes also show that the judge responds, so the probe succeeded.
        if probe {
            self.breaker.succeeded(true);
        }
        if class == ErrorClass::Exhausted {
            self.shut(judge, HeldBack::Exhausted, retry_after, now);
        } else if class == ErrorClass::Misconfigured {
            self.shut(judge, HeldBack::Misconfigured, None, now);
        }
    }

    fn shut(&mut self, judge: &str, why: HeldBack, reopens_in: Option<Duration>, now: Instant) {
        let reopens_in = reopens_in.map(|wait| wait.min(MAX_CLOSURE));
        // A call doesn't replace an operator's pause, but its closure is still stored.
        if self.held.is_none_or(|held| held.why != HeldBack::Paused) {
            self.hold(why, reopens_in, now);
        }
        if self.closures.iter().all(|closure| closure.why != why) {
            self.closures.push(Closure {
                judge: judge.to_owned(),
                why,
                message: self
                    .last_error
                    .as_ref()
                    .map(|(message, _)| message.clone())
                    .unwrap_or_default(),
                reopens_in,
            });
        }
    }

    pub(super) fn hold(&mut self, why: HeldBack, reopens_in: Option<Duration>, now: Instant) {
        self.held = Some(LaneHold {
            why,
            until: reopens_in.map(|wait| now + wait.min(MAX_CLOSURE)),
        });
    }

    /// Returns whether the lane has a closure without uncollected ones.
    pub(super) fn has_hold(&self) -> bool {
        self.held.is_some() && self.closures.is_empty()
    }

    pub(super) fn release(&mut self) {
        self.held = None;
    }

    pub(super) fn take_closures(&mut self) -> Vec<Closure> {
        std::mem::take(&mut self.closures)
    }

    /// Returns whether the lane can be dropped without losing state.
    pub(super) fn is_idle(&mut self, now: Instant) -> bool {
        self.in_flight == 0
            && self.waiting == 0
            && self.pace.is_idle(now)
            && self.closed(now).is_none()
            && self.closures.is_empty()
            && self.breaker.failures_in_row() == 0
            && self.adaptive.most().is_none()
    }

    pub(super) fn snapshot(&mut self, judge: &str, now: Instant) -> GateSnapshot {
        GateSnapshot {
            judge: judge.to_owned(),
            breaker: self.breaker.state(),
            failures_in_row: self.breaker.failures_in_row(),
            closed: self.closed(now).or_else(|| {
                let wait = self.pace.typical_wait(now)?;
                Some(Denial::new(HeldBack::Paced, wait))
            }),
            in_flight: self.in_flight,
            sharing: self.sharing(),
            pace: self.pace.snapshot(now),
            last_error: self.last_error.as_ref().map(|(message, at)| LastError {
                message: message.clone(),
                ago: now.saturating_duration_since(*at),
            }),
        }
    }
}
