//! In-process queue for tests of the worker: first in, first out, with delays on the runtime's clock.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use chrono::Utc;
use gavel::job::{Lane, Priority};
use gavel::queue::{ClaimRequest, Claimed, Depth, Push, Queue, QueueError};
use tokio::sync::Notify;
use tokio::time::Instant;

#[derive(Default)]
pub(crate) struct Fifo {
    ready: Mutex<VecDeque<Claimed>>,
    delayed: Mutex<Vec<(Instant, Claimed)>>,
    pushed: Notify,
}

impl Fifo {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    fn promote(&self) {
        let (now, mut delayed) = (Instant::now(), self.delayed.lock().unwrap());
        let due = delayed.extract_if(.., |(due, _)| *due <= now);
        self.ready.lock().unwrap().extend(due.map(|(_, id)| id));
    }

    fn add(&self, push: &Push, in_front: bool) {
        let id = super::claimed(push);
        let wait = push.due_at.and_then(|due| (due - Utc::now()).to_std().ok());
        let mut ready = self.ready.lock().unwrap();
        match wait {
            _ if ready.contains(&id) => {}
            Some(wait) => (self.delayed.lock().unwrap()).push((Instant::now() + wait, id)),
            None if in_front => ready.push_front(id),
            None => ready.push_back(id),
        }
    }
}

#[async_trait]
impl Queue for Fifo {
    async fn push(&self, ids: &[Push]) -> Result<(), QueueError> {
        ids.iter().for_each(|push| self.add(push, false));
        self.pushed.notify_one();
        Ok(())
    }

    async fn push_first(&self, ids: &[Push]) -> Result<(), QueueError> {
        ids.iter().rev().for_each(|push| self.add(push, true));
        self.pushed.notify_one();
        Ok(())
    }

    async fn claim(&self, claim: &ClaimRequest) -> Result<Vec<Claimed>, QueueError> {
        self.promote();
        let (mut ready, mut bulk_left) = (self.ready.lock().unwrap(), claim.max_bulk);
        let mut claimed = Vec::new();
        for priority in [Priority::Interactive, Priority::Bulk] {
            for share in &claim.shares {
                let is_of_share = |id: &Claimed| share.lanes.contains(&id.lane);
                let mut room = share.max - claimed.iter().filter(|id| is_of_share(id)).count();
                ready.retain(|id| {
                    let is_bulk = priority == Priority::Bulk && !share.takes_kept;
                    let fits = room > 0 && claimed.len() < claim.max && (!is_bulk || bulk_left > 0);
                    let is_taken = fits && id.priority == priority && is_of_share(id);
                    if is_taken {
                        claimed.push(id.clone());
                        room -= 1;
                        bulk_left -= usize::from(is_bulk);
                    }
                    !is_taken
                });
            }
        }
        Ok(claimed)
    }

    async fn depth(&self, lane: &Lane) -> Result<Depth, QueueError> {
        let ready = self.ready.lock().unwrap();
        let count = |priority| {
            let is_of_it = |id: &&Claimed| id.lane == *lane && id.priority == priority;
            ready.iter().filter(is_of_it).count()
        };
        let delayed = self.delayed.lock().unwrap();
        Ok(Depth {
            interactive: count(Priority::Interactive),
            bulk: count(Priority::Bulk),
            delayed: delayed.iter().filter(|(_, id)| id.lane == *lane).count(),
        })
    }

    fn holds_ids(&self) -> bool {
        true
    }

    async fn woken(&self, at_most: Duration) {
        let latest = Instant::now() + at_most;
        let next = self
            .delayed
            .lock()
            .unwrap()
            .iter()
            .map(|(due, _)| *due)
            .min();
        let until = next.map_or(latest, |due| due.min(latest));
        drop(tokio::time::timeout_at(until, self.pushed.notified()).await);
    }

    async fn ping(&self) -> Result<(), QueueError> {
        Ok(())
    }
}
