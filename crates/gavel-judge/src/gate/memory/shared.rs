//! Synchronization of a lane with other workers through a shared gate. No I/O.

use std::time::Duration;

use tokio::time::Instant;

use super::breaker::Admission;
use super::lane_gate::{Admitted, Denied, LaneGate, LinePosition};
use super::outbox::{PeerMessage, SharedState};
use super::rule::{Rule, part_of};
use crate::gate::{BreakerState, Denial, HeldBack, Load, Sharing};

/// Maximum age of the shared state for admitting a call locally.
const MAX_STATE_AGE: Duration = Duration::from_secs(1);
/// Poll interval of a lane in use.
const POLL: Duration = Duration::from_millis(250);
/// Poll interval of an idle lane. It must poll because its worker also reports the state of the breaker.
const IDLE_POLL: Duration = Duration::from_secs(2);
/// Time after its last call during which a lane is in use.
const ACTIVE_FOR: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(in crate::gate) enum LocalDecision {
    Admitted(Admitted),
    AskPeers { input: u64, output: u64 },
}

impl LaneGate {
    /// Applies another rule. When the lane becomes shared again, it reports unsynchronized departures from its own record.
    pub(in crate::gate) fn follow(&mut self, rule: Rule) {
        if rule == Rule::Together && self.rule != rule {
            let since = self.shared.synced;
            self.shared.departures = Vec::new();
            self.requeue_departures(since, None);
            self.shared.retold_from = since;
        }
        if rule != Rule::Together && self.rule == Rule::Together && self.shared.probes == 0 {
            // The probe belongs to another worker and its result is lost. Each worker now has its own probe.
            self.breaker.return_probe(Instant::now());
        }
        self.rule = rule;
        self.pace.follow(rule);
        if let Some(slots) = &mut self.slots {
            match rule {
                Rule::Alone | Rule::Part { .. } => slots.resize(part_of(slots.cap, rule)),
                // Current slots stay until peers allow a different number.
                Rule::Together => self.shared.allowed = slots.acquired(),
            }
        }
    }

    /// Queues departures between these times for the report. `since` defaults to the last minute.
    fn requeue_departures(&mut self, since: Option<Instant>, until: Option<Instant>) {
        for (at, amounts) in self.pace.departures_since(since) {
            if until.is_none_or(|until| at < until) {
                self.shared.departed(at, amounts);
            }
        }
    }

    /// Admits an unlimited call. Otherwise peers must decide.
    pub(in crate::gate) fn decide_locally(
        &mut self,
        load: Load,
        place: LinePosition,
        now: Instant,
    ) -> Result<LocalDecision, Denied> {
        let fresh = |at: Instant| now.saturating_duration_since(at) < MAX_STATE_AGE;
        let known = self.shared.synced.is_some_and(fresh);
        self.shared.used = Some(now);
        let is_open = self.breaker.state() == BreakerState::Closed && !self.pace.is_limited(now);
        if self.rule != Rule::Together || (known && is_open) {
            return self.admit(load, place, now).map(LocalDecision::Admitted);
        }
        self.may_leave(load, place, now)?;
        let (input, output) = self.pace.amounts(load);
        Ok(LocalDecision::AskPeers { input, output })
    }

    pub(in crate::gate) fn grant(
        &mut self,
        load: Load,
        probe: bool,
        at_ms: i64,
        now: Instant,
    ) -> Admitted {
        self.shared.probes += u32::from(probe);
        self.in_flight += 1;
        Admitted {
            probe,
            ticket: self.pace.leave(load, Some(at_ms), now),
        }
    }

    /// Applies the shared state from the reply to a message sent at `sent`.
    pub(in crate::gate) fn adopt(&mut self, state: &SharedState, sent: Instant, now: Instant) {
        let half = now.saturating_duration_since(sent) / 2;
        // Ignores replies out of order, unless the clock was reset and with it the state.
        let is_older = self.shared.clock.is_some_and(|(_, ms)| ms > state.now_ms);
        if is_older && self.shared.born == state.born {
            return;
        }
        self.shared.clock = Some((sent + half, state.now_ms));
        let lost = self.shared.born != 0 && self.shared.born != state.born;
        self.shared.born = state.born;
        // Departures during the outage of Redis are already reported.
        let retold_from = self.shared.retold_from.take();
        if lost {
            self.requeue_departures(None, retold_from);
        }
        self.shared.synced = Some(now);
        let is_shut = matches!(self.breaker.peek(now), Admission::Deny(_));
        if lost && state.breaker == BreakerState::Closed && is_shut {
            self.shared.outcome('O');
        } else {
            self.breaker
                .adopt(state.breaker, state.failures, now + state.opens_in);
        }
        self.shared.failures = state.failures;
        self.throttle.adopt(now + state.throttled_for);
        self.pace.adopt(state, now);
    }

    pub(in crate::gate) fn adopt_slots(&mut self, state: &SharedState) {
        (self.shared.allowed, self.shared.free) = (state.allowed, state.free);
        if let Some(slots) = &mut self.slots {
            slots.resize(state.slots.max(slots.acquired()));
        }
    }

    /// Returns whether a freed slot belongs to the shared pool. If so, it no longer counts as acquired.
    pub(super) fn release_excess_slot(&mut self) -> bool {
        let Some(slots) = &mut self.slots else {
            return false;
        };
        let allowed = match self.rule {
            Rule::Alone | Rule::Part { .. } => part_of(slots.cap, self.rule),
            Rule::Together => self.shared.allowed,
        };
        slots.release_excess(allowed)
    }

    /// Returns the pending message, if any: updates, requested or returned slots, or a keep-alive.
    pub(in crate::gate) fn message(&mut self, now: Instant) -> Option<PeerMessage> {
        let (mut slots, mut wanted, mut short) = (0, 0, false);
        if let Some(own) = &mut self.slots {
            let needs = own.record_demand(now);
            // Slots are released before the report, so that the report can't understate the slots in use.
            let kept = needs.min(self.shared.allowed.max(own.in_use()));
            own.resize(kept.min(own.acquired()));
            (slots, wanted) = (own.acquired(), needs);
            short = own.waiting > 0;
        }
        if self.breaker.state() == BreakerState::HalfOpen
            && self.shared.probes == 0
            && self.shared.pending == 0
        {
            // No local call is the probe. If this worker had it, its call was dropped.
            self.shared.outcome('G');
        }
        let period = if self.is_used(slots, now) {
            POLL
        } else {
            IDLE_POLL
        };
        let silent = |at: Instant| now.saturating_duration_since(at) >= period;
        let due = self.shared.synced.is_none_or(silent);
        if !due && !short && !self.has_urgent_updates(now) {
            return None;
        }
        Some(PeerMessage {
            out: self.in_flight,
            slots,
            wanted,
            report: self.shared.take(now),
        })
    }

    /// Returns whether updates can't wait for the next poll. Successful replies can wait if the lane has no failures and free slots.
    pub(in crate::gate) fn has_urgent_updates(&self, now: Instant) -> bool {
        let answers = self.breaker.state() == BreakerState::Closed
            && self.shared.failures == 0
            && !self.pace.is_limited(now);
        let slots = self.slots.as_ref();
        let has_room =
            slots.is_none_or(|own| self.shared.free > 0 && own.acquired() <= self.shared.allowed);
        self.shared.has_more_than_successes()
            || (self.shared.has_updates() && !(answers && has_room))
    }

    /// Returns the final message of a worker that shuts down.
    pub(in crate::gate) fn last_message(&mut self, now: Instant) -> PeerMessage {
        PeerMessage {
            report: self.shared.take(now),
            ..PeerMessage::default()
        }
    }

    /// Changes the number of calls that await the decision of peers.
    pub(in crate::gate) fn adjust_pending(&mut self, more: i32) {
        self.shared.pending = self.shared.pending.saturating_add_signed(more);
    }

    fn is_used(&self, slots: usize, now: Instant) -> bool {
        let lately = |at: Instant| now.saturating_duration_since(at) < ACTIVE_FOR;
        self.in_flight > 0
            || self.waiting > 0
            || slots > 0
            || self.breaker.state() != BreakerState::Closed
            || self.shared.used.is_some_and(lately)
    }

    /// Returns the maximum concurrency that this process can reach, or `None` without a cap.
    pub(super) fn max_concurrency_now(&self, now: Instant) -> Option<usize> {
        let slots = self.slots.as_ref()?;
        let fresh = |at: Instant| now.saturating_duration_since(at) < MAX_STATE_AGE;
        Some(match self.rule {
            Rule::Alone | Rule::Part { .. } => part_of(slots.cap, self.rule),
            Rule::Together if self.shared.synced.is_some_and(fresh) => {
                (slots.acquired() + self.shared.free).clamp(1, slots.cap)
            }
            Rule::Together => slots.cap,
        })
    }

    pub(super) fn sharing(&self) -> Sharing {
        match self.rule {
            Rule::Alone => Sharing::Alone,
            Rule::Part { workers } => Sharing::Part { workers },
            Rule::Together => Sharing::Together,
        }
    }

    pub(in crate::gate) fn denied(&mut self, now: Instant) -> Denied {
        let paced = Denial::new(HeldBack::Paced, POLL);
        Denied::HeldBack(self.closed(now).unwrap_or(paced))
    }
}
