//! So many requests a second, however many ask at once. Never counts what was answered: only what is sent.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until};

/// Hands out moments to send at.
pub(super) struct Pace {
    interval: Duration,
    next: Mutex<Option<Instant>>,
}

impl Pace {
    /// `per_second` requests a second, evenly; 0: at once.
    pub(super) fn new(per_second: f64) -> Self {
        let interval = if per_second > 0.0 {
            Duration::try_from_secs_f64(per_second.recip()).unwrap_or(Duration::MAX)
        } else {
            Duration::ZERO
        };
        Self {
            interval,
            next: Mutex::new(None),
        }
    }

    /// Waits for the next free moment.
    pub(super) async fn turn(&self) {
        if self.interval.is_zero() {
            return;
        }
        let mut next = self.next.lock().await;
        // The moment is taken only when it has come: who gives up waiting takes none from the others.
        if let Some(at) = *next {
            sleep_until(at).await;
        }
        *next = Instant::now().checked_add(self.interval);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn requests_are_spread_over_the_seconds_whoever_sends_them() {
        let pace = Pace::new(2.0);
        let begun = Instant::now();
        let five = std::iter::repeat_with(|| pace.turn()).take(5);
        futures::future::join_all(five).await;
        assert_eq!(begun.elapsed(), Duration::from_secs(2));
    }

    #[tokio::test(start_paused = true)]
    async fn who_gives_up_waiting_takes_no_turn() {
        let pace = Pace::new(1.0);
        let begun = Instant::now();
        pace.turn().await;
        let gave_up = tokio::time::timeout(Duration::from_millis(100), pace.turn()).await;
        assert!(gave_up.is_err());
        pace.turn().await;
        assert_eq!(begun.elapsed(), Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn no_rate_means_no_waiting() {
        let pace = Pace::new(0.0);
        let begun = Instant::now();
        for _ in 0..1_000 {
            pace.turn().await;
        }
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }
}
