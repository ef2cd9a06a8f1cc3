//! Rate limiter: requests a second over all concurrent callers. Counts requests, not responses.

use std::time::Duration;

use tokio::sync::{Mutex, watch};
use tokio::time::{Instant, sleep_until};

/// Maximum interval of two requests.
const MAX_INTERVAL: Duration = Duration::from_secs(3600);

pub(super) struct Pace {
    interval: watch::Sender<Duration>,
    last: Mutex<Option<Instant>>,
}

impl Pace {
    /// Allows `per_second` requests a second, evenly spaced; 0: no limit.
    pub(super) fn new(per_second: f64) -> Self {
        Self {
            interval: watch::Sender::new(interval(per_second)),
            last: Mutex::new(None),
        }
    }

    /// Changes the rate, also for waiting callers.
    pub(super) fn set(&self, per_second: f64) {
        self.interval.send_replace(interval(per_second));
    }

    pub(super) async fn turn(&self) {
        let mut interval = self.interval.subscribe();
        // A slot is reserved only when it is due, so that cancelled waits don't delay the others.
        let mut last = self.last.lock().await;
        while let Some(at) = *last {
            let each = *interval.borrow_and_update();
            if each.is_zero() {
                break;
            }
            tokio::select! {
                () = sleep_until(at + each) => break,
                // `self` owns the sender, so the channel isn't closed.
                _ = interval.changed() => {}
            }
        }
        *last = Some(Instant::now());
    }
}

fn interval(per_second: f64) -> Duration {
    if per_second > 0.0 {
        let exact = Duration::try_from_secs_f64(per_second.recip());
        exact.unwrap_or(MAX_INTERVAL).min(MAX_INTERVAL)
    } else {
        Duration::ZERO
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn requests_are_evenly_spaced_across_callers() {
        let pace = Pace::new(2.0);
        let begun = Instant::now();
        let five = std::iter::repeat_with(|| pace.turn()).take(5);
        futures::future::join_all(five).await;
        assert_eq!(begun.elapsed(), Duration::from_secs(2));
    }

    #[tokio::test(start_paused = true)]
    async fn cancelled_wait_uses_no_slot() {
        let pace = Pace::new(1.0);
        let begun = Instant::now();
        pace.turn().await;
        let gave_up = tokio::time::timeout(Duration::from_millis(100), pace.turn()).await;
        assert!(gave_up.is_err());
        pace.turn().await;
        assert_eq!(begun.elapsed(), Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn zero_rate_does_not_wait() {
        let pace = Pace::new(0.0);
        let begun = Instant::now();
        for _ in 0..1_000 {
            pace.turn().await;
        }
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }
    #[tokio::test(start_paused = true)]
    async fn rate_change_applies_to_waiting_callers() {
        let pace = Pace::new(0.01);
        let begun = Instant::now();
        pace.turn().await;
        let faster = async {
            tokio::time::sleep(Duration::from_secs(3)).await;
            pace.set(2.0);
        };
        tokio::join!(async { pace.turn().await }, faster);
        assert_eq!(begun.elapsed(), Duration::from_secs(3));
        pace.turn().await;
        assert_eq!(begun.elapsed(), Duration::from_millis(3_500));
        pace.set(0.0);
        pace.turn().await;
        assert_eq!(begun.elapsed(), Duration::from_millis(3_500));
    }

    #[tokio::test(start_paused = true)]
    async fn tiny_rate_is_slow_not_unlimited() {
        let pace = Pace::new(1e-300);
        let begun = Instant::now();
        pace.turn().await;
        pace.turn().await;
        assert_eq!(begun.elapsed(), MAX_INTERVAL);
    }
}
