//! Learns from timeouts the number of concurrent calls that a judge can handle.
//!
//! A serial server finishes the last of many concurrent calls too late, but each costs it the same work. So when timeouts accumulate,
//! concurrency is halved and then increases one by one. It increases more slowly after each repeated hit.

use tokio::time::Instant;

/// Weight of an outcome in the moving average of timeouts is 1/16.
const AVERAGE_OVER: f64 = 16.0;
/// A single timeout among many calls is random. Two within a few calls are not.
const TIMEOUT_SHARE: f64 = 0.1;
/// Maximum number of repeated hits that slow the increase.
const MAX_HITS: u32 = 6;

#[derive(Debug, Default)]
pub(super) struct AdaptiveConcurrency {
    late: f64,
    found: Option<LimitEstimate>,
}

#[derive(Debug, Clone, Copy)]
struct LimitEstimate {
    most: f64,
    /// Calls in flight when the limit was hit.
    too_many: u32,
    /// Calls sent before this time are ignored.
    at: Instant,
    met: u32,
    /// Whether a later call succeeded.
    answers: bool,
}

impl AdaptiveConcurrency {
    /// Returns the learned limit, or `None` without one.
    pub(super) fn most(&self) -> Option<usize> {
        self.found.map(|found| found.most as usize)
    }

    pub(super) fn is_full(&self, out: u32) -> bool {
        self.most().is_some_and(|most| out as usize >= most)
    }

    pub(super) fn succeeded(&mut self, sent: Instant) {
        self.late -= self.late / AVERAGE_OVER;
        let Some(found) = self.found.as_mut().filter(|found| sent >= found.at) else {
            return;
        };
        found.answers = true;
        found.most += 1.0 / (found.most * f64::from(1 << found.met));
        // The server's capacity has changed.
        if found.most > 2.0 * f64::from(found.too_many) {
            self.found = None;
        }
    }

    /// Records a timeout of a call sent at `sent`, with `out` calls in flight including itself. Returns the new limit if it is lower.
    pub(super) fn late(&mut self, sent: Instant, out: u32, now: Instant) -> Option<usize> {
        // All calls in flight at that time count once.
        if self.found.is_some_and(|found| sent < found.at) {
            return None;
        }
        self.late += (1.0 - self.late) / AVERAGE_OVER;
        if self.late < TIMEOUT_SHARE {
            return None;
        }
        self.late = 0.0;
        // A server that still processes earlier calls has no successes, which does not confirm the limit again.
        let (met, too_many) = match self.found {
            None => (0, out),
            Some(found) if found.answers => (found.met + 1, out),
            Some(found) => (found.met, found.too_many),
        };
        self.found = Some(LimitEstimate {
            most: f64::from((out / 2).max(1)),
            too_many,
            at: now,
            met: met.min(MAX_HITS),
            answers: false,
        });
        self.most()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Simulates a serial server that needs 1 s per call. `patience`: timeout in s. Returns timeouts and the final limit.
    fn run(calls: u32, at_once: u32, patience: u64) -> (u32, Option<usize>) {
        let (start, mut adaptive) = (Instant::now(), AdaptiveConcurrency::default());
        let (mut now, mut free, mut late, mut left) = (start, start, 0, calls);
        let mut out: std::collections::VecDeque<(Instant, Instant)> = Default::default();
        while left > 0 || !out.is_empty() {
            while left > 0 && (out.len() as u32) < at_once && !adaptive.is_full(out.len() as u32) {
                free = free.max(now) + Duration::from_secs(1);
                out.push_back((now, free));
                left -= 1;
            }
            let Some((sent, answer)) = out.front().copied() else {
                break;
            };
            let deadline = sent + Duration::from_secs(patience);
            now = now.max(answer.min(deadline));
            match answer <= deadline {
                true => adaptive.succeeded(sent),
                false => {
                    late += 1;
                    adaptive.late(sent, out.len() as u32, now);
                }
            }
            out.pop_front();
        }
        (late, adaptive.most())
    }

    #[tokio::test(start_paused = true)]
    async fn limits_concurrency_of_a_serial_server() {
        let (late, most) = run(2_000, 64, 10);
        assert!(late < 250, "{late} of 2000 were late");
        assert!(most.unwrap() <= 12, "{most:?}");
        assert_eq!(run(2_000, 8, 10), (0, None), "in time, as it is");
    }

    #[tokio::test(start_paused = true)]
    async fn single_timeouts_set_no_limit() {
        let (now, mut adaptive) = (Instant::now(), AdaptiveConcurrency::default());
        for call in 0..500 {
            match call % 20 {
                0 => assert_eq!(adaptive.late(now, 64, now), None),
                _ => adaptive.succeeded(now),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn concurrent_timeouts_count_once_and_recovery_lifts_limit() {
        let (start, mut adaptive) = (Instant::now(), AdaptiveConcurrency::default());
        let later = start + Duration::from_secs(60);
        assert_eq!(adaptive.late(start, 8, later), None);
        assert_eq!(adaptive.late(start, 8, later), Some(4));
        for _ in 0..6 {
            assert_eq!(adaptive.late(start, 6, later), None);
            adaptive.succeeded(start);
        }
        assert_eq!(adaptive.most(), Some(4));
        let mut answers = 0;
        while adaptive.most().is_some() {
            adaptive.succeeded(later + Duration::from_secs(1));
            answers += 1;
        }
        assert!(answers < 200, "{answers} answers");
    }
}
