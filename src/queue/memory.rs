//! In-process queue: ordered sets behind one lock, for the embedded setup and tests.
//!
//! Delays and leases use the runtime's clock, so a test can pause them. The queue isn't persistent.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::Instant;
use uuid::Uuid;

use super::{ClaimRequest, Claimed, Depth, Push, Queue, QueueError};
use crate::clock::Clock;
use crate::job::{JobId, Lane, Priority};

/// Maximum ids that become ready in one step, to bound the time under the lock.
const SLICE: usize = 500;

pub struct MemoryQueue {
    sets: Mutex<Sets>,
    ready: Notify,
    lease: Duration,
    clock: Arc<dyn Clock>,
}

impl MemoryQueue {
    /// Returns an empty queue; `clock` converts due times to delays.
    pub fn new(lease: Duration, clock: Arc<dyn Clock>) -> Self {
        Self {
            sets: Mutex::new(Sets::default()),
            ready: Notify::new(),
            lease,
            clock,
        }
    }

    /// Drops all ids, like a restarted server without data. For tests.
    pub fn forget_everything(&self) {
        *self.sets() = Sets::default();
    }

    fn sets(&self) -> MutexGuard<'_, Sets> {
        self.sets.lock()
    }

    /// Converts a due time to an instant, rounded up because the store rejects an early id.
    fn instant_of(&self, when: DateTime<Utc>) -> Instant {
        let left = (when - self.clock.now()).to_std().unwrap_or_default();
        let now = Instant::now();
        if left.is_zero() {
            return now;
        }
        let year = Duration::from_secs(365 * 24 * 3600);
        now + left.min(year) + Duration::from_millis(1)
    }
}

#[async_trait]
impl Queue for MemoryQueue {
    async fn push(&self, ids: &[Push]) -> Result<(), QueueError> {
        let now = Instant::now();
        let mut sets = self.sets();
        for push in ids {
            let due = push.due_at.map(|when| self.instant_of(when));
            let to = match due.filter(|due| *due > now) {
                Some(due) => To::Later(due),
                None => To::Back,
            };
            sets.push(push, to, now);
        }
        drop(sets);
        self.ready.notify_one();
        Ok(())
    }

    async fn push_first(&self, ids: &[Push]) -> Result<(), QueueError> {
        let now = Instant::now();
        let mut sets = self.sets();
        // Each id goes in front of the previous one.
        for push in ids.iter().rev() {
            sets.push(push, To::Front, now);
        }
        drop(sets);
        self.ready.notify_one();
        Ok(())
    }

    async fn claim(&self, owner: Uuid, claim: &ClaimRequest) -> Result<Vec<Claimed>, QueueError> {
        let now = Instant::now();
        let mut sets = self.sets();
        let promoted = sets.promote(now);
        let claimed = sets.claim(owner, claim, now + self.lease);
        drop(sets);
        if promoted > claimed.len() {
            self.ready.notify_one();
        }
        Ok(claimed)
    }

    async fn ack(&self, owner: Uuid, ids: &[JobId]) -> Result<(), QueueError> {
        let mut sets = self.sets();
        for id in ids {
            sets.end_lease(owner, *id);
        }
        Ok(())
    }

    async fn release(&self, owner: Uuid, ids: &[Claimed]) -> Result<(), QueueError> {
        let mut sets = self.sets();
        for claimed in ids.iter().rev() {
            if let Some((lane, priority)) = sets.end_lease(owner, claimed.id) {
                sets.ready_in_front(claimed.id, lane, priority);
            }
        }
        drop(sets);
        self.ready.notify_one();
        Ok(())
    }

    async fn later(&self, owner: Uuid, push: &Push, when: DateTime<Utc>) -> Result<(), QueueError> {
        let due = self.instant_of(when);
        let mut sets = self.sets();
        if sets.end_lease(owner, push.id).is_some() {
            sets.delay(push.id, push.lane.clone(), push.priority, due);
        }
        drop(sets);
        // A waiter may sleep past the new due time.
        self.ready.notify_one();
        Ok(())
    }

    async fn renew(&self, owner: Uuid, ids: &[JobId]) -> Result<Vec<JobId>, QueueError> {
        let ends = Instant::now() + self.lease;
        let mut sets = self.sets();
        Ok(ids
            .iter()
            .copied()
            .filter(|id| !sets.renew(owner, *id, ends))
            .collect())
    }

    async fn remove(&self, ids: &[JobId]) -> Result<(), QueueError> {
        let mut sets = self.sets();
        for id in ids {
            sets.take_out(*id);
        }
        Ok(())
    }

    async fn depth(&self, lane: &Lane) -> Result<Depth, QueueError> {
        Ok(self.sets().depth(lane))
    }

    async fn woken(&self, at_most: Duration) {
        let latest = Instant::now() + at_most;
        let until = {
            let mut sets = self.sets();
            if sets.promote(Instant::now()) > 0 {
                return;
            }
            sets.next_event().map_or(latest, |event| event.min(latest))
        };
        // The caller polls after a timeout as well.
        drop(tokio::time::timeout_at(until, self.ready.notified()).await);
    }

    async fn ping(&self) -> Result<(), QueueError> {
        Ok(())
    }

    fn lease(&self) -> Duration {
        self.lease
    }
}

/// Ids whose wait has ended go before all others, in the order of their due times.
const WAITED_FIRST: i64 = 1_000_000_000_000_000;

#[derive(Debug, Clone, Copy)]
enum To {
    Front,
    Back,
    Later(Instant),
}

#[derive(Debug, Clone, Copy)]
enum IdState {
    Ready(i64),
    Delayed(Instant),
    Leased { owner: Uuid, ends: Instant },
}

struct Entry {
    lane: Lane,
    priority: Priority,
    place: IdState,
}

#[derive(Default)]
struct LaneSets {
    interactive: BTreeMap<i64, JobId>,
    bulk: BTreeMap<i64, JobId>,
    delayed: usize,
    turn: u8,
}

impl LaneSets {
    fn set(&mut self, priority: Priority) -> &mut BTreeMap<i64, JobId> {
        match priority {
            Priority::Interactive => &mut self.interactive,
            Priority::Bulk => &mut self.bulk,
        }
    }

    /// Returns the next id: interactive first, but every tenth is bulk if there is one.
    fn next(&mut self, bulk_left: usize) -> Option<(JobId, Priority)> {
        let can_bulk = bulk_left > 0 && !self.bulk.is_empty();
        let priority = if can_bulk && (self.turn == 9 || self.interactive.is_empty()) {
            Priority::Bulk
        } else {
            Priority::Interactive
        };
        let (_, id) = self.set(priority).pop_first()?;
        self.turn = (self.turn + 1) % 10;
        Some((id, priority))
    }

    fn is_empty(&self) -> bool {
        self.interactive.is_empty() && self.bulk.is_empty() && self.delayed == 0
    }
}

struct Bounds {
    all: usize,
    bulk: usize,
}

#[derive(Default)]
struct Sets {
    ids: HashMap<JobId, Entry>,
    lanes: BTreeMap<Lane, LaneSets>,
    delayed: BTreeSet<(Instant, JobId)>,
    leases: BTreeSet<(Instant, JobId)>,
    front: i64,
    back: i64,
    waited: i64,
    turn: usize,
}

impl Sets {
    fn push(&mut self, push: &Push, to: To, now: Instant) {
        let is_ready = !matches!(to, To::Later(_));
        let mut priority = push.priority;
        if let Some(entry) = self.ids.get(&push.id) {
            let moves = match entry.place {
                IdState::Ready(_) => {
                    // `Interactive` sorts first, so a push doesn't lower the priority.
                    priority = priority.min(entry.priority);
                    is_ready && (entry.lane != push.lane || entry.priority != priority)
                }
                // Became due early because its wait has ended.
                IdState::Delayed(_) => {
                    priority = priority.min(entry.priority);
                    is_ready
                }
                IdState::Leased { ends, .. } => ends <= now,
            };
            if !moves {
                return;
            }
            self.take_out(push.id);
        }
        match to {
            To::Later(due) => self.delay(push.id, push.lane.clone(), priority, due),
            To::Back => self.ready_at_back(push.id, push.lane.clone(), priority),
            To::Front => self.ready_in_front(push.id, push.lane.clone(), priority),
        }
    }

    /// Makes due ids and ids with expired leases ready, one slice of each. Returns their number.
    fn promote(&mut self, now: Instant) -> usize {
        let mut promoted = 0;
        while promoted < SLICE
            && let Some((due, id)) = self.delayed.first().copied()
            && due <= now
        {
            if let Some(entry) = self.take_out(id) {
                self.waited += 1;
                let place = self.waited - WAITED_FIRST;
                self.ready(id, entry.lane, entry.priority, place);
                promoted += 1;
            }
        }
        let mut expired = Vec::new();
        while expired.len() < SLICE
            && let Some((ends, id)) = self.leases.first().copied()
            && ends <= now
        {
            expired.extend(self.take_out(id).map(|entry| (id, entry)));
        }
        promoted += expired.len();
        for (id, entry) in expired.into_iter().rev() {
            self.ready_in_front(id, entry.lane, entry.priority);
        }
        promoted
    }

    fn claim(&mut self, owner: Uuid, claim: &ClaimRequest, ends: Instant) -> Vec<Claimed> {
        let (mut claimed, mut left) = (Vec::new(), claim.clone());
        self.turn = self.turn.wrapping_add(1);
        for share in &claim.shares {
            let bounds = Bounds {
                all: share.max.min(left.max),
                bulk: match share.takes_kept {
                    true => share.max,
                    false => left.max_bulk,
                },
            };
            let taken = self.take_share(&share.lanes, bounds, owner, ends);
            left.take(&taken);
            claimed.extend(taken);
        }
        claimed
    }

    fn take_share(
        &mut self,
        lanes: &[Lane],
        mut left: Bounds,
        owner: Uuid,
        ends: Instant,
    ) -> Vec<Claimed> {
        let (mut claimed, start) = (Vec::new(), self.turn % lanes.len().max(1));
        let (after, before) = lanes.split_at(start);
        // Each lane gets an equal part. Unused parts go to the other lanes in the same order.
        for is_first_round in [true, false] {
            for (at, lane) in before.iter().chain(after).enumerate() {
                let want = match is_first_round {
                    true => left.all.div_ceil(lanes.len() - at),
                    false => left.all,
                };
                let taken = self.take(lane, want, &mut left.bulk, owner, ends);
                left.all -= taken.len();
                claimed.extend(taken);
            }
        }
        claimed
    }

    fn take(
        &mut self,
        lane: &Lane,
        share: usize,
        bulk_left: &mut usize,
        owner: Uuid,
        ends: Instant,
    ) -> Vec<Claimed> {
        let mut taken = Vec::new();
        let Some(sets) = self.lanes.get_mut(lane) else {
            return taken;
        };
        while taken.len() < share
            && let Some((id, priority)) = sets.next(*bulk_left)
        {
            if priority == Priority::Bulk {
                *bulk_left -= 1;
            }
            if let Some(entry) = self.ids.get_mut(&id) {
                entry.place = IdState::Leased { owner, ends };
            }
            self.leases.insert((ends, id));
            taken.push(Claimed {
                id,
                lane: lane.clone(),
                priority,
            });
        }
        self.remove_if_empty(lane);
        taken
    }

    fn end_lease(&mut self, owner: Uuid, id: JobId) -> Option<(Lane, Priority)> {
        self.held(owner, id)?;
        self.take_out(id).map(|entry| (entry.lane, entry.priority))
    }

    fn renew(&mut self, owner: Uuid, id: JobId, ends: Instant) -> bool {
        let Some(old) = self.held(owner, id) else {
            return false;
        };
        self.leases.remove(&(old, id));
        self.leases.insert((ends, id));
        if let Some(entry) = self.ids.get_mut(&id) {
            entry.place = IdState::Leased { owner, ends };
        }
        true
    }

    fn held(&self, owner: Uuid, id: JobId) -> Option<Instant> {
        match self.ids.get(&id)?.place {
            IdState::Leased {
                owner: holder,
                ends,
            } if holder == owner => Some(ends),
            IdState::Leased { .. } | IdState::Ready(_) | IdState::Delayed(_) => None,
        }
    }

    fn take_out(&mut self, id: JobId) -> Option<Entry> {
        let entry = self.ids.remove(&id)?;
        match entry.place {
            IdState::Ready(at) => {
                if let Some(sets) = self.lanes.get_mut(&entry.lane) {
                    sets.set(entry.priority).remove(&at);
                }
            }
            IdState::Delayed(due) => {
                self.delayed.remove(&(due, id));
                if let Some(sets) = self.lanes.get_mut(&entry.lane) {
                    sets.delayed -= 1;
                }
            }
            IdState::Leased { ends, .. } => {
                self.leases.remove(&(ends, id));
            }
        }
        self.remove_if_empty(&entry.lane);
        Some(entry)
    }

    fn ready_at_back(&mut self, id: JobId, lane: Lane, priority: Priority) {
        self.back += 1;
        self.ready(id, lane, priority, self.back);
    }

    fn ready_in_front(&mut self, id: JobId, lane: Lane, priority: Priority) {
        self.front -= 1;
        self.ready(id, lane, priority, self.front);
    }

    fn ready(&mut self, id: JobId, lane: Lane, priority: Priority, at: i64) {
        let sets = self.lanes.entry(lane.clone()).or_default();
        sets.set(priority).insert(at, id);
        let place = IdState::Ready(at);
        self.ids.insert(
            id,
            Entry {
                lane,
                priority,
                place,
            },
        );
    }

    fn delay(&mut self, id: JobId, lane: Lane, priority: Priority, due: Instant) {
        self.lanes.entry(lane.clone()).or_default().delayed += 1;
        self.delayed.insert((due, id));
        let place = IdState::Delayed(due);
        self.ids.insert(
            id,
            Entry {
                lane,
                priority,
                place,
            },
        );
    }

    fn depth(&self, lane: &Lane) -> Depth {
        self.lanes
            .get(lane)
            .map(|sets| Depth {
                interactive: sets.interactive.len(),
                bulk: sets.bulk.len(),
                delayed: sets.delayed,
            })
            .unwrap_or_default()
    }

    fn next_event(&self) -> Option<Instant> {
        let due = self.delayed.first().map(|(due, _)| *due);
        let ends = self.leases.first().map(|(ends, _)| *ends);
        due.into_iter().chain(ends).min()
    }

    fn remove_if_empty(&mut self, lane: &Lane) {
        if self.lanes.get(lane).is_some_and(LaneSets::is_empty) {
            self.lanes.remove(lane);
        }
    }
}
