//! The breaker: three small functions over a state, and `give_back` for a probe that came to nothing.

use std::time::Duration;

use tokio::time::Instant;

use crate::gate::BreakerState;

/// Opens after so many transient failures in a row; after the cool-down one probe decides.
#[derive(Debug)]
pub(super) struct Breaker {
    threshold: u32,
    cool_down: Duration,
    failures: u32,
    state: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Closed,
    Open { until: Instant },
    HalfOpen,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Admission {
    /// It may.
    Pass,
    /// It may, and it decides whether the breaker closes.
    Probe,
    /// It may not, for so long.
    Refuse(Duration),
}

/// While a probe is out nobody knows how long it takes; those behind it look again after this.
const PROBE_OUT: Duration = Duration::from_secs(5);

impl Breaker {
    pub(super) fn new(threshold: u32, cool_down: Duration) -> Self {
        Self {
            threshold: threshold.max(1),
            cool_down,
            failures: 0,
            state: Phase::Closed,
        }
    }

    /// What a call would meet now; changes nothing.
    pub(super) fn peek(&self, now: Instant) -> Admission {
        match self.state {
            Phase::Closed => Admission::Pass,
            Phase::Open { until } if until > now => Admission::Refuse(until - now),
            Phase::Open { .. } => Admission::Probe,
            Phase::HalfOpen => Admission::Refuse(PROBE_OUT.min(self.cool_down)),
        }
    }

    /// Lets a call pass, or says for how long not. [`Admission::Probe`] takes the one probe there is.
    pub(super) fn admit(&mut self, now: Instant) -> Admission {
        let admission = self.peek(now);
        if admission == Admission::Probe {
            self.state = Phase::HalfOpen;
        }
        admission
    }

    /// The judge answered. Answers to calls that were sent before it opened don't close it: the probe decides.
    pub(super) fn succeeded(&mut self, probe: bool) {
        if probe || self.state == Phase::Closed {
            self.failures = 0;
            self.state = Phase::Closed;
        }
    }

    /// A transient failure, while so many others are out.
    ///
    /// Where a hundred calls are out at once, five failures next to one another are chance: the row counts once it is as
    /// long as what is still out, any of which may succeed.
    pub(super) fn failed(&mut self, probe: bool, others_out: u32, now: Instant) {
        if !probe && self.state != Phase::Closed {
            return;
        }
        self.failures = self.failures.saturating_add(1);
        if probe || self.failures >= self.threshold.max(others_out) {
            self.state = Phase::Open {
                until: now + self.cool_down,
            };
        }
    }

    /// The probe ended without a word on the judge's health: the next call may be the probe.
    pub(super) fn give_back(&mut self, now: Instant) {
        if self.state == Phase::HalfOpen {
            self.state = Phase::Open { until: now };
        }
    }

    /// Takes in how it stands for all workers; `until`: how long it stays open.
    pub(super) fn adopt(&mut self, state: BreakerState, failures: u32, until: Instant) {
        self.failures = failures;
        self.state = match state {
            BreakerState::Closed => Phase::Closed,
            BreakerState::Open => Phase::Open { until },
            BreakerState::HalfOpen => Phase::HalfOpen,
        };
    }

    pub(super) fn state(&self) -> BreakerState {
        match self.state {
            Phase::Closed => BreakerState::Closed,
            Phase::Open { .. } => BreakerState::Open,
            Phase::HalfOpen => BreakerState::HalfOpen,
        }
    }

    pub(super) fn failures_in_row(&self) -> u32 {
        self.failures
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const COOL_DOWN: Duration = Duration::from_secs(30);

    fn opened() -> Breaker {
        let mut breaker = Breaker::new(5, COOL_DOWN);
        for _ in 0..5 {
            breaker.failed(false, 0, Instant::now());
        }
        breaker
    }

    #[tokio::test(start_paused = true)]
    async fn five_failures_in_a_row_open_it_and_a_success_resets_the_row() {
        let mut breaker = Breaker::new(5, COOL_DOWN);
        for _ in 0..4 {
            breaker.failed(false, 0, Instant::now());
        }
        breaker.succeeded(false);
        for _ in 0..4 {
            breaker.failed(false, 0, Instant::now());
        }
        assert_eq!(breaker.admit(Instant::now()), Admission::Pass);
        breaker.failed(false, 0, Instant::now());
        assert_eq!(breaker.admit(Instant::now()), Admission::Refuse(COOL_DOWN));
        advance(Duration::from_secs(29)).await;
        assert_eq!(
            breaker.admit(Instant::now()),
            Admission::Refuse(Duration::from_secs(1))
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_row_counts_once_it_is_as_long_as_what_is_still_out() {
        let mut breaker = Breaker::new(5, COOL_DOWN);
        for out in (48..96).rev() {
            assert_eq!(breaker.admit(Instant::now()), Admission::Pass);
            breaker.failed(false, out, Instant::now());
        }
        assert_eq!(breaker.admit(Instant::now()), Admission::Refuse(COOL_DOWN));
    }

    #[tokio::test(start_paused = true)]
    async fn after_the_cool_down_one_probe_goes_out_and_its_success_closes() {
        let mut breaker = opened();
        advance(COOL_DOWN).await;
        assert_eq!(breaker.admit(Instant::now()), Admission::Probe);
        assert_eq!(breaker.state(), BreakerState::HalfOpen);
        assert!(matches!(
            breaker.admit(Instant::now()),
            Admission::Refuse(_)
        ));
        breaker.succeeded(true);
        assert_eq!(breaker.admit(Instant::now()), Admission::Pass);
        assert_eq!(breaker.failures_in_row(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_probe_opens_it_for_another_cool_down() {
        let mut breaker = opened();
        advance(COOL_DOWN).await;
        assert_eq!(breaker.admit(Instant::now()), Admission::Probe);
        breaker.failed(true, 0, Instant::now());
        assert_eq!(breaker.admit(Instant::now()), Admission::Refuse(COOL_DOWN));
        assert_eq!(breaker.failures_in_row(), 6);
    }

    #[tokio::test(start_paused = true)]
    async fn a_probe_given_back_leaves_the_probe_to_the_next_call() {
        let mut breaker = opened();
        advance(COOL_DOWN).await;
        assert_eq!(breaker.admit(Instant::now()), Admission::Probe);
        breaker.give_back(Instant::now());
        assert_eq!(breaker.admit(Instant::now()), Admission::Probe);
    }

    #[tokio::test(start_paused = true)]
    async fn calls_sent_before_it_opened_decide_nothing() {
        let mut breaker = opened();
        breaker.succeeded(false);
        assert_eq!(breaker.state(), BreakerState::Open);
        advance(Duration::from_secs(20)).await;
        breaker.failed(false, 0, Instant::now());
        assert_eq!(
            breaker.admit(Instant::now()),
            Admission::Refuse(Duration::from_secs(10))
        );
    }
}
