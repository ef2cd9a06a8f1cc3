//! A judge's slots for calls in this process: as many as it may have out at once. What it has in hand may change.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;

/// Slots are kept for as long as they were needed lately.
const LATELY: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Slots {
    pub(super) semaphore: Arc<Semaphore>,
    /// The most at once, of all workers together.
    pub(super) cap: usize,
    /// How many are in hand here, those of calls that are out included.
    in_hand: usize,
    pub(super) waiting: usize,
    /// The most that were needed in the stretch that runs, and in the one before.
    needed: [usize; 2],
    began: Instant,
}

impl Slots {
    pub(super) fn new(cap: usize, in_hand: usize, now: Instant) -> Self {
        Self {
            semaphore: Arc::new(Semaphore::new(in_hand)),
            cap,
            in_hand,
            waiting: 0,
            needed: [0; 2],
            began: now,
        }
    }

    pub(super) fn in_hand(&self) -> usize {
        self.in_hand
    }

    pub(super) fn out(&self) -> usize {
        let idle = self.semaphore.available_permits();
        self.in_hand.saturating_sub(idle)
    }

    /// Has so many in hand; of fewer than before, those of calls that are out go later.
    pub(super) fn resize(&mut self, to: usize) {
        if to > self.in_hand {
            self.semaphore.add_permits(to - self.in_hand);
            self.in_hand = to;
        } else {
            self.in_hand -= self.semaphore.forget_permits(self.in_hand - to);
        }
    }

    /// Whether a slot that was just left is one more than allowed; if so, it is no longer in hand.
    pub(super) fn gives_back(&mut self, allowed: usize) -> bool {
        let too_many = self.in_hand > allowed;
        self.in_hand -= usize::from(too_many);
        too_many
    }

    /// Notes what is needed now; answers what was needed lately.
    pub(super) fn needs(&mut self, now: Instant) -> usize {
        if now.saturating_duration_since(self.began) >= LATELY {
            self.needed = [0, self.needed[0]];
            self.began = now;
        }
        self.needed[0] = self.needed[0].max(self.out() + self.waiting);
        self.needed[0].max(self.needed[1]).min(self.cap)
    }
}
