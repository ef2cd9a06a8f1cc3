use std::time::Duration;

use tokio::time::Instant;

use crate::gate::BreakerState;

/// Circuit breaker. Opens after `threshold` consecutive transient failures. After the cool-down one probe decides.
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
    Pass,
    /// Admitted. Its outcome decides whether the breaker closes.
    Probe,
    Deny(Duration),
}

/// Retry delay while a probe is in flight, because its duration is unknown.
const PROBE_RETRY_DELAY: Duration = Duration::from_secs(5);

impl Breaker {
    pub(super) fn new(threshold: u32, cool_down: Duration) -> Self {
        Self {
            threshold: threshold.max(1),
            cool_down,
            failures: 0,
            state: Phase::Closed,
        }
    }

    /// Returns the admission of a call without changing the state.
    pub(super) fn peek(&self, now: Instant) -> Admission {
        match self.state {
            Phase::Closed => Admission::Pass,
            Phase::Open { until } if until > now => Admission::Deny(until - now),
            Phase::Open { .. } => Admission::Probe,
            Phase::HalfOpen => Admission::Deny(PROBE_RETRY_DELAY.min(self.cool_down)),
        }
    }

    /// Admits or denies a call. [`Admission::Probe`] acquires the only probe.
    pub(super) fn admit(&mut self, now: Instant) -> Admission {
        let admission = self.peek(now);
        if admission == Admission::Probe {
            self.state = Phase::HalfOpen;
        }
        admission
    }

    /// Records a reply. Replies to calls sent before the breaker opened don't close it.
    pub(super) fn succeeded(&mut self, probe: bool) {
        if probe || self.state == Phase::Closed {
            self.failures = 0;
            self.state = Phase::Closed;
        }
    }

    /// Records a transient failure while `others_out` other calls are in flight. The threshold is at least that number,
    /// because with a hundred concurrent calls five consecutive failures can be random.
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

    /// Returns a probe without a result, so that the next call can be the probe.
    pub(super) fn return_probe(&mut self, now: Instant) {
        if self.state == Phase::HalfOpen {
            self.state = Phase::Open { until: now };
        }
    }

    /// Applies the state shared by all workers. `until` is the end of the cool-down.
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
    async fn opens_after_five_failures_and_success_resets_count() {
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
        assert_eq!(breaker.admit(Instant::now()), Admission::Deny(COOL_DOWN));
        advance(Duration::from_secs(29)).await;
        assert_eq!(
            breaker.admit(Instant::now()),
            Admission::Deny(Duration::from_secs(1))
        );
    }

    #[tokio::test(start_paused = true)]
    async fn threshold_is_at_least_the_calls_in_flight() {
        let mut breaker = Breaker::new(5, COOL_DOWN);
        for out in (48..96).rev() {
            assert_eq!(breaker.admit(Instant::now()), Admission::Pass);
            breaker.failed(false, out, Instant::now());
        }
        assert_eq!(breaker.admit(Instant::now()), Admission::Deny(COOL_DOWN));
    }

    #[tokio::test(start_paused = true)]
    async fn successful_probe_after_cool_down_closes() {
        let mut breaker = opened();
        advance(COOL_DOWN).await;
        assert_eq!(breaker.admit(Instant::now()), Admission::Probe);
        assert_eq!(breaker.state(), BreakerState::HalfOpen);
        assert!(matches!(breaker.admit(Instant::now()), Admission::Deny(_)));
        breaker.succeeded(true);
        assert_eq!(breaker.admit(Instant::now()), Admission::Pass);
        assert_eq!(breaker.failures_in_row(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn failed_probe_restarts_cool_down() {
        let mut breaker = opened();
        advance(COOL_DOWN).await;
        assert_eq!(breaker.admit(Instant::now()), Admission::Probe);
        breaker.failed(true, 0, Instant::now());
        assert_eq!(breaker.admit(Instant::now()), Admission::Deny(COOL_DOWN));
        assert_eq!(breaker.failures_in_row(), 6);
    }

    #[tokio::test(start_paused = true)]
    async fn next_call_can_take_a_returned_probe() {
        let mut breaker = opened();
        advance(COOL_DOWN).await;
        assert_eq!(breaker.admit(Instant::now()), Admission::Probe);
        breaker.return_probe(Instant::now());
        assert_eq!(breaker.admit(Instant::now()), Admission::Probe);
    }

    #[tokio::test(start_paused = true)]
    async fn ignores_calls_sent_before_opening() {
        let mut breaker = opened();
        breaker.succeeded(false);
        assert_eq!(breaker.state(), BreakerState::Open);
        advance(Duration::from_secs(20)).await;
        breaker.failed(false, 0, Instant::now());
        assert_eq!(
            breaker.admit(Instant::now()),
            Admission::Deny(Duration::from_secs(10))
        );
    }
}
