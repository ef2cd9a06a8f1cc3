//! Leases in hand: each ends exactly once, and until then one task keeps it alive.
//!
//! Ending a lease never waits and never fails: what became of it is noted, and the keeper tells the queue, many at a
//! time. While the queue is away that is forgotten: the lease expires, and the row in the store is the truth.

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
use super::slots::{JobInHand, Slot};
use crate::job::JobId;

/// Ends that wait for the queue beyond this count are dropped: their leases expire.
const MOST_ENDS: usize = 10_000;
const SHORTEST_RENEWAL: Duration = Duration::from_millis(10);

/// What a handler gets: the id, what the worker made of it, and the guard of its slot and lease.
pub struct Delivery<Item> {
    /// The id, its lane and set.
    pub claimed: Claimed,
    /// What [`super::Admit`] made of it.
    pub item: Item,
    /// Frees the slot and ends the lease.
    pub guard: DeliveryGuard,
}

/// A job's slot and lease. Dropped as it is, the slot is free and the id is released: ready again, in front.
pub struct DeliveryGuard {
    slot: Slot,
    lease: Lease,
}

impl DeliveryGuard {
    pub(super) fn new(slot: Slot, mut lease: Lease, job: Arc<JobInHand>) -> Self {
        lease.job = Some(job);
        Self { slot, lease }
    }

    /// Parts slot and lease: the slot may be freed while the lease is kept until the result is committed.
    pub fn split(self) -> (Slot, Lease) {
        (self.slot, self.lease)
    }

    /// Frees the slot; the id leaves the queue.
    pub fn ack(self) {
        self.lease.ack();
    }

    /// Frees the slot; the id is delayed until `when`.
    pub fn later(self, push: Push, when: DateTime<Utc>) {
        self.lease.later(push, when);
    }

    /// Frees the slot; the id is ready again, in front.
    pub fn release(self) {
        self.lease.release();
    }
}

/// A lease on one id, ended by one of `ack`, `later` and `release`, or, if it is dropped, by `release`.
pub struct Lease {
    claimed: Claimed,
    kind: LeaseKind,
    ended: bool,
    leases: Arc<Leases>,
    /// Set once the job is delivered.
    job: Option<Arc<JobInHand>>,
}

impl Lease {
    /// The id, its lane and set.
    pub fn claimed(&self) -> &Claimed {
        &self.claimed
    }

    /// The id leaves the queue.
    pub fn ack(mut self) {
        self.end(|id, kind| match kind {
            LeaseKind::Leased => Some(End::Ack(id)),
            LeaseKind::Unleased => None,
        });
    }

    /// The id is delayed until `when`, then ready in the lane and set given.
    pub fn later(mut self, push: Push, when: DateTime<Utc>) {
        self.end(|_, kind| match kind {
            LeaseKind::Leased => Some(End::Later(push, when)),
            LeaseKind::Unleased => Some(End::Push(Push {
                due_at: Some(when),
                ..push
            })),
        });
    }

    /// The id is ready again, in front.
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

/// Whether the queue knows of the lease: work that came from the store while the queue was away has none.
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

/// The leases of one worker, and the task that keeps them.
pub(super) struct Leases {
    queue: Arc<dyn Queue>,
    owner: Uuid,
    book: Mutex<Book>,
    changed: Notify,
}

#[derive(Default)]
struct Book {
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

    /// Keeps an id that a claim handed out.
    pub(super) fn claimed(self: &Arc<Self>, claimed: Claimed) -> Lease {
        self.book().held.insert(claimed.id);
        self.lease(claimed, LeaseKind::Leased)
    }

    /// Stands for a lease on work that the queue knows nothing of.
    pub(super) fn unleased(self: &Arc<Self>, claimed: Claimed) -> Lease {
        self.lease(claimed, LeaseKind::Unleased)
    }

    /// Tells the queue of ended leases and renews the others, every third of a lease; ends when `closing` is set and no
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
            && book.ends.len() < MOST_ENDS
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
                    // The fence in the store decides whose result counts.
                    if book.held.remove(&id) {
                        metrics::counter!("gavel_leases_lost_total").increment(1);
                        tracing::warn!(job_id = %id, "lease lost, the job goes on");
                    }
                }
            }
            Err(error) => tracing::debug!(%error, leases = held.len(), "leases not renewed"),
        }
    }

    fn is_idle(&self) -> bool {
        let book = self.book();
        book.live == 0 && book.ends.is_empty()
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock()
    }
}

fn forget(done: Result<(), QueueError>, leases: usize) {
    if let Err(error) = done {
        tracing::debug!(%error, leases, "could not report the ends of leases; they expire");
    }
}
