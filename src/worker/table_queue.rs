//! Queue without ids of its own: claims read the ids of due rows. Serves embedded setups, and workers during an outage of Redis.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::clock::Clock;
use crate::job::{JobId, Lane, Priority};
use crate::queue::{ClaimRequest, Claimed, Depth, Push, Queue, QueueError};
use crate::store::{Store, StoreError};

/// Minimum ids read at once per lane and priority.
const PAGE: usize = 256;
/// Interval after which an empty page is read again without a push.
const POLL: Duration = Duration::from_secs(1);

pub struct TableQueue {
    store: Arc<Store>,
    clock: Arc<dyn Clock>,
    readers: Readers,
    pages: tokio::sync::Mutex<Pages>,
    pushed: Mutex<Pushed>,
    ready: Notify,
}

/// Workers that read the same rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readers {
    One,
    /// Pages are shuffled, so that workers seldom claim the same rows.
    Several,
}

#[derive(Default)]
struct Pushed {
    /// Number of pushes.
    count: u64,
    /// When pushed ids become due.
    due: BTreeSet<Instant>,
}

#[derive(Default)]
struct Pages {
    of_lanes: HashMap<Lane, LanePages>,
    turn: usize,
    read_at: Option<Instant>,
    /// `Pushed::count` at the last read.
    pushes: u64,
}

#[derive(Default)]
struct LanePages {
    interactive: Page,
    bulk: Page,
    turn: u8,
}

/// Ids read but not yet claimed.
struct Page {
    ids: VecDeque<JobId>,
    /// Whether the table may have further ids.
    has_more: bool,
}

impl Default for Page {
    fn default() -> Self {
        Self {
            ids: VecDeque::new(),
            has_more: true,
        }
    }
}

impl LanePages {
    fn page(&mut self, priority: Priority) -> &mut Page {
        match priority {
            Priority::Interactive => &mut self.interactive,
            Priority::Bulk => &mut self.bulk,
        }
    }

    /// Removes the next id: interactive first, but every tenth is bulk if there is one.
    fn next(&mut self, bulk_left: usize) -> Option<(JobId, Priority)> {
        let can_bulk = bulk_left > 0 && !self.bulk.ids.is_empty();
        let priority = match can_bulk && (self.turn == 9 || self.interactive.ids.is_empty()) {
            true => Priority::Bulk,
            false => Priority::Interactive,
        };
        let id = self.page(priority).ids.pop_front()?;
        self.turn = (self.turn + 1) % 10;
        Some((id, priority))
    }
}

impl TableQueue {
    pub fn new(store: Arc<Store>, clock: Arc<dyn Clock>, readers: Readers) -> Self {
        Self {
            store,
            clock,
            readers,
            pages: tokio::sync::Mutex::default(),
            pushed: Mutex::default(),
            ready: Notify::new(),
        }
    }

    /// Reads the empty pages of the claim's lanes, unless the last read found that they are empty and nothing has become due since.
    async fn fill(&self, pages: &mut Pages, claim: &ClaimRequest) -> Result<(), StoreError> {
        let (now, pushes) = (Instant::now(), self.due_pushes());
        let is_due = pages.pushes != pushes || pages.read_at.is_none_or(|at| now - at >= POLL);
        if is_due {
            (pages.pushes, pages.read_at) = (pushes, Some(now));
        }
        let limit = PAGE.max(claim.max);
        for lane in claim.shares.iter().flat_map(|share| &share.lanes) {
            let of_lane = pages.of_lanes.entry(lane.clone()).or_default();
            for priority in [Priority::Interactive, Priority::Bulk] {
                let page = of_lane.page(priority);
                if !page.ids.is_empty() || !(is_due || page.has_more) {
                    continue;
                }
                let limit = u32::try_from(limit).unwrap_or(u32::MAX);
                let jobs = self.store.jobs();
                let due = jobs
                    .due(lane, priority, self.clock.now(), None, limit)
                    .await?;
                page.has_more = due.len() >= limit as usize;
                page.ids = due.into_iter().map(|job| job.job_id).collect();
                if self.readers == Readers::Several {
                    fastrand::shuffle(page.ids.make_contiguous());
                }
            }
        }
        Ok(())
    }

    /// Counts the pushes of ids that have become due.
    fn due_pushes(&self) -> u64 {
        let mut pushed = self.pushed.lock();
        let later = pushed
            .due
            .split_off(&(Instant::now() + Duration::from_nanos(1)));
        let due = std::mem::replace(&mut pushed.due, later);
        pushed.count += u64::from(!due.is_empty());
        pushed.count
    }
}

#[async_trait]
impl Queue for TableQueue {
    async fn push(&self, ids: &[Push]) -> Result<(), QueueError> {
        let (now, mut is_ready) = (self.clock.now(), false);
        let mut pushed = self.pushed.lock();
        for push in ids {
            let wait = push.due_at.and_then(|due| (due - now).to_std().ok());
            match wait.and_then(|wait| Instant::now().checked_add(wait)) {
                // Rounded up, because the row isn't due before.
                Some(due) => drop(pushed.due.insert(due + Duration::from_millis(1))),
                None => is_ready = true,
            }
        }
        pushed.count += u64::from(is_ready);
        drop(pushed);
        // A waiter may sleep past a new due time.
        self.ready.notify_one();
        Ok(())
    }

    async fn push_first(&self, ids: &[Push]) -> Result<(), QueueError> {
        self.push(ids).await
    }

    async fn claim(&self, claim: &ClaimRequest) -> Result<Vec<Claimed>, QueueError> {
        let mut pages = self.pages.lock().await;
        let filled = self.fill(&mut pages, claim).await;
        filled.map_err(|error| QueueError::Unreachable {
            attempted: "reading due jobs",
            reason: error.to_string(),
        })?;
        pages.turn = pages.turn.wrapping_add(1);
        let (mut claimed, mut left) = (Vec::new(), claim.clone());
        for (at, share) in claim.shares.iter().enumerate() {
            let (after, before) = (share.lanes).split_at(pages.turn % share.lanes.len().max(1));
            // Each lane gets an equal part. Unused parts go to the other lanes in the same order.
            for is_first_round in [true, false] {
                for (served, lane) in before.iter().chain(after).enumerate() {
                    let room = left.shares[at].max.min(left.max);
                    let want = match is_first_round {
                        true => room.div_ceil(share.lanes.len() - served),
                        false => room,
                    };
                    let taken = pages.take(
                        lane,
                        want,
                        match share.takes_kept {
                            true => want,
                            false => left.max_bulk,
                        },
                    );
                    left.take(&taken);
                    claimed.extend(taken);
                }
            }
        }
        Ok(claimed)
    }

    async fn depth(&self, _: &Lane) -> Result<Depth, QueueError> {
        Ok(Depth::default())
    }

    fn holds_ids(&self) -> bool {
        false
    }

    async fn discard(&self) {
        self.pages.lock().await.of_lanes.clear();
    }

    async fn woken(&self, at_most: Duration) {
        let latest = Instant::now() + at_most;
        let next = self.pushed.lock().due.first().copied();
        let until = next.map_or(latest, |due| due.min(latest));
        // The caller polls after a timeout as well.
        drop(tokio::time::timeout_at(until, self.ready.notified()).await);
    }

    async fn ping(&self) -> Result<(), QueueError> {
        Ok(())
    }
}

impl Pages {
    fn take(&mut self, lane: &Lane, want: usize, mut bulk_left: usize) -> Vec<Claimed> {
        let mut taken = Vec::new();
        let Some(pages) = self.of_lanes.get_mut(lane) else {
            return taken;
        };
        while taken.len() < want
            && let Some((id, priority)) = pages.next(bulk_left)
        {
            bulk_left -= usize::from(priority == Priority::Bulk);
            taken.push(Claimed {
                id,
                lane: lane.clone(),
                priority,
            });
        }
        taken
    }
}
