//! Active leases. Each ends exactly once, and a keeper task renews it until then.
//!
//! Ending a lease doesn't wait and can't fail: the keeper sends ends to the queue in groups. During an outage of the
//! queue, ends are dropped and the leases expire. The store then still has the correct state.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::super::{Claimed, Push, Queue, QueueError};
use super::slots::{ActiveJobGuard, Slot};
use crate::job::JobId;

/// Maximum ends that wait for the queue. Further ends are dropped, and their leases expire.
const MAX_ENDS: usize = 10_000;
const SHORTEST_RENEWAL: Duration = Duration::from_millis(10);

pub struct Delivery<Item> {
    pub claimed: Claimed,
    pub item: Item,
    pub guard: DeliveryGuard,
}

/// Slot and lease of a job. Dropping it frees the slot and releases the id: ready again, in front.
pub struct DeliveryGuard {
    slot: Slot,
    lease: Lease,
}

impl DeliveryGuard {
    pub(super) fn new(slot: Slot, mut lease: Lease, job: Arc<ActiveJobGuard>) -> Self {
        lease.job = Some(job);
        Self { slot, lease }
    }

    /// Splits the guard into slot and lease, so that the slot can be freed before the lease ends with the commit.
    pub fn split(self) -> (Slot, Lease) {
        (self.slot, self.lease)
    }

    /// Frees the slot and removes the id from the queue.
    pub fn ack(self) {
        self.lease.ack();
    }

    /// Frees the slot and delays the id until `when`.
    pub fn later(self, push: Push, when: DateTime<Utc>) {
        self.lease.later(push, when);
    }

    /// Frees the slot and makes the id ready again, in front.
    pub fn release(self) {
        self.lease.release();
    }
}

/// Lease on one id, ended by `ack`, `later` or `release`. Dropping it releases the id.
pub struct Lease {
    claimed: Claimed,
    kind: LeaseKind,
    ended: bool,
    leases: Arc<Leases>,
    /// Set once the job is delivered.
    job: Option<Arc<ActiveJobGuard>>,
}

impl Lease {
    pub fn claimed(&self) -> &Claimed {
        &self.claimed
    }

    pub fn ack(mut self) {
        self.end(|id, kind| match kind {
            LeaseKind::Leased => Some(End::Ack(id)),
            LeaseKind::Unleased => None,
        });
    }

    /// Delays the id until `when`; then it is ready in the given lane and set.
    pub fn later(mut self, push: Push, when: DateTime<Utc>) {
        self.end(|_, kind| match kind {
            LeaseKind::Leased => Some(End::Later(push, when)),
            LeaseKind::Unleased => Some(End::Push(Push {
                due_at: Some(when),
                ..push
            })),
        });
    }

    pub fn release(self) {
        drop(self);
    }

    fn end(&mut self, how: impl FnOnce(JobId, LeaseKind) -> Option<End>) {
        if !self.ended {
            self.ended = true;
            let id = self.claimed.id;
            self.leases.end(id, how(id, self.kind));
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let claimed = self.claimed.clone();
        self.end(|id, kind| match kind {
            LeaseKind::Leased => Some(End::Release(claimed)),
            LeaseKind::Unleased => Some(End::Push(Push {
                id,
                lane: claimed.lane,
                priority: claimed.priority,
                due_at: None,
            })),
        });
    }
}

/// Whether the queue knows the lease. Jobs claimed from the store during an outage have none.
#[derive(Clone, Copy)]
enum LeaseKind {
    Leased,
    Unleased,
}

enum End {
    Ack(JobId),
    Release(Claimed),
    Later(Push, DateTime<Utc>),
    Push(Push),
}

/// Leases of one worker, and the loop that renews them.
pub(super) struct Leases {
    queue: Arc<dyn Queue>,
    owner: Uuid,
    book: Mutex<LeaseTable>,
    changed: Notify,
}

#[derive(Default)]
struct LeaseTable {
    held: HashSet<JobId>,
    ends: Vec<End>,
    live: usize,
}

impl Leases {
    pub(super) fn new(queue: Arc<dyn Queue>, owner: Uuid) -> Self {
        Self {
            queue,
            owner,
            book: Mutex::default(),
            changed: Notify::new(),
        }
    }

    pub(super) fn claimed(self: &Arc<Self>, claimed: Claimed) -> Lease {
        self.book().held.insert(claimed.id);
        self.lease(claimed, LeaseKind::Leased)
    }

    /// Returns a placeholder lease for a job that was claimed from the store.
    pub(super) fn unleased(self: &Arc<Self>, claimed: Claimed) -> Lease {
        self.lease(claimed, LeaseKind::Unleased)
    }

    /// Sends ended leases to the queue and renews the others every third of a lease. Ends when `closing` is set and no
    /// lease is left.
    pub(super) async fn keep(&self, closing: CancellationToken) {
        let mut renewals = tokio::time::interval((self.queue.lease() / 3).max(SHORTEST_RENEWAL));
        renewals.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut closed = false;
        loop {
            let mut renewal = false;
            tokio::select! {
                () = self.changed.notified() => {}
                _ = renewals.tick() => renewal = true,
                () = closing.cancelled(), if !closed => closed = true,
            }
            let ends = std::mem::take(&mut self.book().ends);
            self.tell(ends).await;
            if renewal {
                self.renew().await;
            }
            if closed && self.is_idle() {
                return;
            }
        }
    }

    fn lease(self: &Arc<Self>, claimed: Claimed, kind: LeaseKind) -> Lease {
        self.book().live += 1;
        Lease {
            claimed,
            kind,
            ended: false,
            leases: Arc::clone(self),
            job: None,
        }
    }

    fn end(&self, id: JobId, end: Option<End>) {
        let mut book = self.book();
        book.live -= 1;
        book.held.remove(&id);
        if let Some(end) = end
            && book.ends.len() < MAX_ENDS
        {
            book.ends.push(end);
        }
        drop(book);
        self.changed.notify_one();
    }

    async fn tell(&self, ends: Vec<End>) {
        let (mut acks, mut releases, mut pushes) = (Vec::new(), Vec::new(), Vec::new());
        for end in ends {
            match end {
                End::Ack(id) => acks.push(id),
                End::Release(claimed) => releases.push(claimed),
                End::Push(push) => pushes.push(push),
                End::Later(push, when) => {
                    let done = self.queue.later(self.owner, &push, when).await;
                    forget(done, 1);
                }
            }
        }
        if !acks.is_empty() {
            forget(self.queue.ack(self.owner, &acks).await, acks.len());
        }
        if !releases.is_empty() {
            let done = self.queue.release(self.owner, &releases).await;
            forget(done, releases.len());
        }
        if !pushes.is_empty() {
            forget(self.queue.push(&pushes).await, pushes.len());
        }
    }

    async fn renew(&self) {
        let held: Vec<JobId> = self.book().held.iter().copied().collect();
        if held.is_empty() {
            return;
        }
        match self.queue.renew(self.owner, &held).await {
            Ok(lost) => {
                let mut book = self.book();
                for id in lost {
                    // The job continues; the fence in the store decides which result counts.
                    if book.held.remove(&id) {
                        metrics::counter!("gavel_leases_lost_total").increment(1);
                        tracing::warn!(job_id = %id, "lease lost, the job continues");
                    }
                }
            }
            Err(error) => tracing::debug!(%error, leases = held.len(), "failed to renew leases"),
        }
    }

    fn is_idle(&self) -> bool {
        let book = self.book();
        book.live == 0 && book.ends.is_empty()
    }

    fn book(&self) -> MutexGuard<'_, LeaseTable> {
        self.book.lock()
    }
}

fn forget(done: Result<(), QueueError>, leases: usize) {
    if let Err(error) = done {
        tracing::debug!(%error, leases, "failed to release leases; they will expire");
    }
}
