//! Local slots for concurrent calls to a judge. Their number changes while the gate is shared.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;

/// Lifetime of unused slots.
const LATELY: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Slots {
    pub(super) semaphore: Arc<Semaphore>,
    /// Maximum concurrency of all workers.
    pub(super) cap: usize,
    /// Slots acquired by this process, including slots of calls in flight.
    in_hand: usize,
    pub(super) waiting: usize,
    /// Maximum demand in the current and the previous [`LATELY`] interval.
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

    /// Changes the number of slots. Slots of calls in flight are removed later.
    pub(super) fn resize(&mut self, to: usize) {
        if to > self.in_hand {
            self.semaphore.add_permits(to - self.in_hand);
            self.in_hand = to;
        } else {
            self.in_hand -= self.semaphore.forget_permits(self.in_hand - to);
        }
    }

    /// Returns whether a freed slot exceeds `allowed`. If so, it no longer counts as acquired.
    pub(super) fn gives_back(&mut self, allowed: usize) -> bool {
        let too_many = self.in_hand > allowed;
        self.in_hand -= usize::from(too_many);
        too_many
    }

    /// Records the current demand. Returns the recent maximum.
    pub(super) fn needs(&mut self, now: Instant) -> usize {
        if now.saturating_duration_since(self.began) >= LATELY {
            self.needed = [0, self.needed[0]];
            self.began = now;
        }
        self.needed[0] = self.needed[0].max(self.out() + self.waiting);
        self.needed[0].max(self.needed[1]).min(self.cap)
    }
}
