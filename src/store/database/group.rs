//! Groups writes: items that arrive during a commit go into the next one, so that a single caller doesn't wait.
//!
//! Groups without waiting callers may also be spaced, because a few large groups cost a fraction of many small ones in round
//! trips and wake-ups.

use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub(in crate::store) const GROUP: usize = 256;

/// Waits for an item and takes all that have arrived, up to [`GROUP`]. Empty once the channel is closed and drained.
pub(in crate::store) async fn next<T>(
    receiver: &mut mpsc::Receiver<T>,
    closing: &CancellationToken,
) -> Vec<T> {
    let mut group = Vec::new();
    loop {
        tokio::select! {
            biased;
            // Items sent earlier are still received.
            () = closing.cancelled(), if !receiver.is_closed() => receiver.close(),
            _ = receiver.recv_many(&mut group, GROUP) => return group,
        }
    }
}

/// Minimum time between the end of a group and the next one.
pub(in crate::store) struct Spacing {
    least: Duration,
    next: Instant,
}

impl Spacing {
    pub(in crate::store) fn new(least: Duration) -> Self {
        Self {
            least,
            next: Instant::now(),
        }
    }

    /// Waits until the next group may start: at once after an idle period, on `hurry`, and while closing.
    pub(in crate::store) async fn keep(&self, hurry: &Notify, closing: &CancellationToken) {
        tokio::select! {
            biased;
            () = tokio::time::sleep_until(self.next) => {}
            () = hurry.notified() => {}
            () = closing.cancelled() => {}
        }
    }

    /// Notes a group of this size. After a full group the next one starts at once, so that a backlog isn't slowed down.
    pub(in crate::store) fn ended(&mut self, group: usize) {
        if group < GROUP {
            self.next = Instant::now() + self.least;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: Duration = Duration::from_millis(20);

    async fn waited(spacing: &Spacing, hurry: &Notify, closing: &CancellationToken) -> Duration {
        let began = Instant::now();
        spacing.keep(hurry, closing).await;
        began.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn groups_are_spaced_unless_idle_hurried_or_closing() {
        let (hurry, closing) = (Notify::new(), CancellationToken::new());
        let mut spacing = Spacing::new(LEAST);
        assert_eq!(waited(&spacing, &hurry, &closing).await, Duration::ZERO);
        spacing.ended(1);
        assert!(waited(&spacing, &hurry, &closing).await >= LEAST);
        assert_eq!(waited(&spacing, &hurry, &closing).await, Duration::ZERO);
        spacing.ended(1);
        hurry.notify_one();
        assert_eq!(waited(&spacing, &hurry, &closing).await, Duration::ZERO);
        assert!(waited(&spacing, &hurry, &closing).await >= LEAST);
        spacing.ended(1);
        closing.cancel();
        assert_eq!(waited(&spacing, &hurry, &closing).await, Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn full_group_is_followed_immediately() {
        let (hurry, closing) = (Notify::new(), CancellationToken::new());
        let mut spacing = Spacing::new(LEAST);
        spacing.ended(GROUP);
        assert_eq!(waited(&spacing, &hurry, &closing).await, Duration::ZERO);
        spacing.ended(GROUP - 1);
        assert!(waited(&spacing, &hurry, &closing).await >= LEAST);
    }
}
