//! What gathers while a commit runs goes into the next one: a lone caller waits for nobody.
//!
//! Where nobody waits for the commit, groups may also be spaced: under load a few large ones cost a fraction of many
//! small ones, for each is some round trips and as many wake-ups on both sides.

use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The most that goes into one transaction.
pub(in crate::store) const GROUP: usize = 256;

/// Waits for something to write and takes what else is there, up to [`GROUP`]. Empty: closed, and nothing is left.
pub(in crate::store) async fn next<T>(
    receiver: &mut mpsc::Receiver<T>,
    closing: &CancellationToken,
) -> Vec<T> {
    let mut group = Vec::new();
    loop {
        tokio::select! {
            biased;
            // What was sent before is still received.
            () = closing.cancelled(), if !receiver.is_closed() => receiver.close(),
            _ = receiver.recv_many(&mut group, GROUP) => return group,
        }
    }
}

/// The least time between the end of a group and the next one.
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

    /// Waits until the next group may be taken. At once after a rest, when somebody is in a hurry, and while closing.
    pub(in crate::store) async fn keep(&self, hurry: &Notify, closing: &CancellationToken) {
        tokio::select! {
            biased;
            () = tokio::time::sleep_until(self.next) => {}
            () = hurry.notified() => {}
            () = closing.cancelled() => {}
        }
    }

    /// A group of so many has ended. Behind a full one more may lie, which is taken at once: what is spaced is never the
    /// work of a backlog.
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
    async fn groups_are_spaced_unless_there_was_a_rest_a_hurry_or_an_end() {
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
    async fn a_full_group_is_followed_at_once() {
        let (hurry, closing) = (Notify::new(), CancellationToken::new());
        let mut spacing = Spacing::new(LEAST);
        spacing.ended(GROUP);
        assert_eq!(waited(&spacing, &hurry, &closing).await, Duration::ZERO);
        spacing.ended(GROUP - 1);
        assert!(waited(&spacing, &hurry, &closing).await >= LEAST);
    }
}
