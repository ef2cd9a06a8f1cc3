//! Local slots for concurrent calls to a judge. Their number changes while the gate is shared.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;

/// Lifetime of unused slots.
const DEMAND_WINDOW: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Slots {
    pub(super) semaphore: Arc<Semaphore>,
    /// Maximum concurrency of all workers.
    pub(super) cap: usize,
    /// Slots acquired by this process, including slots of calls in flight.
    acquired: usize,
    pub(super) waiting: usize,
    /// Maximum demand in the current and the previous [`DEMAND_WINDOW`] interval.
    needed: [usize; 2],
    interval_start: Instant,
}

impl Slots {
    pub(super) fn new(cap: usize, acquired: usize, now: Instant) -> Self {
        Self {
            semaphore: Arc::new(Semaphore::new(acquired)),
            cap,
            acquired,
            waiting: 0,
            needed: [0; 2],
            interval_start: now,
        }
    }

    pub(super) fn acquired(&self) -> usize {
        self.acquired
    }

    pub(super) fn in_use(&self) -> usize {
        let idle = self.semaphore.available_permits();
        self.acquired.saturating_sub(idle)
    }

    /// Changes the number of slots. Slots of calls in flight are removed later.
    pub(super) fn resize(&mut self, to: usize) {
        if to > self.acquired {
            self.semaphore.add_permits(to - self.acquired);
            self.acquired = to;
        } else {
            self.acquired -= self.semaphore.forget_permits(self.acquired - to);
        }
    }

    /// Returns whether a freed slot exceeds `allowed`. If so, it no longer counts as acquired.
    pub(super) fn release_excess(&mut self, allowed: usize) -> bool {
        let too_many = self.acquired > allowed;
        self.acquired -= usize::from(too_many);
        too_many
    }

    /// Records the current demand. Returns the recent maximum.
    pub(super) fn record_demand(&mut self, now: Instant) -> usize {
        if now.saturating_duration_since(self.interval_start) >= DEMAND_WINDOW {
            self.needed = [0, self.needed[0]];
            self.interval_start = now;
        }
        self.needed[0] = self.needed[0].max(self.in_use() + self.waiting);
        self.needed[0].max(self.needed[1]).min(self.cap)
    }
}
