//! Slots of one worker; some are reserved for interactive work.
//!
//! A slot is a guard: dropping it frees the slot.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use super::super::Claimed;
use crate::job::{Lane, Priority};

/// Number of active jobs of a worker: delivered and not settled yet. Reported in heartbeats.
#[derive(Debug, Clone, Default)]
pub struct InHand(Arc<AtomicUsize>);

impl InHand {
    pub fn count(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }
}

/// Number of jobs beyond the slots that may be active, adjustable while the worker runs. Handlers must ensure that only as many jobs as
/// slots make calls.
#[derive(Debug, Clone, Default)]
pub struct Prefetch(Arc<AtomicUsize>);

impl Prefetch {
    /// Maximum value.
    pub const MOST: usize = 128;

    /// Sets the number, limited to [`Prefetch::MOST`].
    pub fn set(&self, jobs: usize) {
        self.0.store(jobs.min(Self::MOST), Ordering::Relaxed);
    }

    pub fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// Job for a handler.
pub struct Delivery<Item> {
    pub claimed: Claimed,
    pub item: Item,
    pub slot: Slot,
    pub active: ActiveJob,
}

/// Slot of a running job. Dropping it frees it for the next job.
pub struct Slot {
    slots: Arc<Slots>,
    lane: Lane,
    priority: Priority,
}

/// A delivered job. Dropping it means that the job is settled.
pub struct ActiveJob(InHand);

impl Drop for ActiveJob {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut used = self.slots.used();
        used.all -= 1;
        if self.priority == Priority::Bulk {
            used.bulk -= 1;
        }
        if let Some(jobs) = used.lanes.get_mut(&self.lane) {
            *jobs -= 1;
            if *jobs == 0 {
                used.lanes.remove(&self.lane);
            }
        }
        drop(used);
        self.slots.changed.notify_one();
    }
}

pub(super) struct Slots {
    limit: usize,
    kept: usize,
    prefetch: Prefetch,
    used: Mutex<Used>,
    in_hand: InHand,
    /// Notified when a slot is freed. Only the fetcher waits for it.
    pub(super) changed: Notify,
}

#[derive(Default)]
struct Used {
    all: usize,
    bulk: usize,
    lanes: HashMap<Lane, usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Free {
    pub(super) all: usize,
    pub(super) bulk: usize,
}

impl Free {
    const NOTHING: Self = Self { all: 0, bulk: 0 };

    pub(super) fn take(&mut self, claimed: &[Claimed]) {
        let is_bulk = |id: &&Claimed| id.priority == Priority::Bulk;
        let bulk = claimed.iter().filter(is_bulk).count();
        self.all = self.all.saturating_sub(claimed.len());
        self.bulk = self.bulk.saturating_sub(bulk).min(self.all);
    }
}

impl Slots {
    /// Reserves a tenth of the slots for interactive work. With less than ten slots, none, because one slot would cost bulk work more than
    /// a tenth.
    pub(super) fn new(limit: usize, prefetch: Prefetch, in_hand: InHand) -> Self {
        Self {
            limit,
            kept: limit / 10,
            prefetch,
            used: Mutex::default(),
            in_hand,
            changed: Notify::new(),
        }
    }

    /// Prefetched jobs are claimed once half of the prefetch is free. A claim for each ended job would cost several times as much.
    pub(super) fn free(&self) -> Free {
        let used = self.used();
        let prefetch = self.prefetch.get();
        let all = (self.limit + prefetch).saturating_sub(used.all);
        if used.all >= self.limit && all < prefetch.div_ceil(2) {
            return Free::NOTHING;
        }
        let bulk = (self.limit - self.kept).saturating_sub(used.bulk).min(all);
        Free { all, bulk }
    }

    pub(super) fn of_lane(&self, lane: &Lane) -> usize {
        self.used().lanes.get(lane).copied().unwrap_or(0)
    }

    /// Reserves a slot for a job.
    pub(super) fn take<Item>(self: &Arc<Self>, claimed: Claimed, item: Item) -> Delivery<Item> {
        let mut used = self.used();
        used.all += 1;
        if claimed.priority == Priority::Bulk {
            used.bulk += 1;
        }
        *used.lanes.entry(claimed.lane.clone()).or_default() += 1;
        drop(used);
        self.in_hand.0.fetch_add(1, Ordering::AcqRel);
        Delivery {
            slot: Slot {
                slots: Arc::clone(self),
                lane: claimed.lane.clone(),
                priority: claimed.priority,
            },
            active: ActiveJob(self.in_hand.clone()),
            claimed,
            item,
        }
    }

    fn used(&self) -> MutexGuard<'_, Used> {
        self.used.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::JobId;

    fn slots(limit: usize, prefetched: usize) -> (Arc<Slots>, Prefetch) {
        let prefetch = Prefetch::default();
        prefetch.set(prefetched);
        let slots = Slots::new(limit, prefetch.clone(), InHand::default());
        (Arc::new(slots), prefetch)
    }

    fn take(slots: &Arc<Slots>, judge: &str, priority: Priority) -> Delivery<()> {
        let claimed = Claimed {
            id: JobId::new(),
            lane: Lane::of_judge(judge),
            priority,
        };
        slots.take(claimed, ())
    }

    fn fill(slots: &Arc<Slots>, jobs: usize) -> Vec<Delivery<()>> {
        (0..jobs)
            .map(|_| take(slots, "a", Priority::Interactive))
            .collect()
    }

    fn free(all: usize, bulk: usize) -> Free {
        Free { all, bulk }
    }

    #[test]
    fn prefetch_is_claimed_by_half_and_slots_at_once() {
        let (slots, prefetch) = slots(20, 10);
        assert_eq!(slots.free(), free(30, 18));
        let mut jobs = fill(&slots, 30);
        assert_eq!(slots.free(), Free::NOTHING);
        jobs.truncate(26);
        assert_eq!(slots.free(), Free::NOTHING, "less than half of it is left");
        jobs.truncate(25);
        assert_eq!(slots.free().all, 5);
        prefetch.set(0);
        assert_eq!(slots.free(), Free::NOTHING);
        jobs.truncate(20);
        assert_eq!(slots.free(), Free::NOTHING);
        jobs.truncate(19);
        assert_eq!(slots.free().all, 1);
    }

    #[test]
    fn small_workers_claim_for_each_free_slot() {
        for (limit, prefetched) in [(1, 0), (2, 1), (3, 1), (4, 2), (5, 2), (6, 3)] {
            let (slots, _ahead) = slots(limit, prefetched);
            let most = limit + prefetched;
            for in_hand in 0..=most {
                let _jobs = fill(&slots, in_hand);
                let left = most - in_hand;
                let expected = if in_hand < limit || 2 * left >= prefetched {
                    left
                } else {
                    0
                };
                assert_eq!(slots.free().all, expected, "{in_hand} of {limit}");
            }
        }
    }

    #[test]
    fn counts_jobs_by_lane_until_slot_is_freed() {
        let (slots, _ahead) = slots(10, 0);
        let [a, b] = ["a", "b"].map(Lane::of_judge);
        let jobs = fill(&slots, 3);
        let other = take(&slots, "b", Priority::Bulk);
        assert_eq!((slots.of_lane(&a), slots.of_lane(&b)), (3, 1));
        drop(jobs);
        assert_eq!((slots.of_lane(&a), slots.of_lane(&b)), (0, 1));
        drop(other);
        assert!(slots.used().lanes.is_empty(), "no lane is kept for ever");
    }

    #[test]
    fn prefetch_is_limited_to_maximum() {
        let (slots, _ahead) = slots(1000, 500);
        assert_eq!(slots.free().all, 1000 + Prefetch::MOST);
    }
}
