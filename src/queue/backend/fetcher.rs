//! Fetcher task: claims ids for free slots in lanes with room, admits them in one batch and sends them to the handlers.
//!
//! It runs until the shutdown. Errors are logged and retried within 2 s.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use chrono::DateTime;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::super::{ClaimRequest, Claimed, Push, Queue, QueueError};
use super::lease::{Delivery, DeliveryGuard, Lease, Leases};
use super::shares::{Shares, sooner};
use super::slots::{Free, Slots};
use super::source::Unstarted;
use super::{Admission, Admit, OpenLane};
use crate::job::{JobId, Lane};

/// Poll interval without wake-ups. Also the interval of claims from an empty lane `suspect` and, during an outage of the queue, from a
/// store without due jobs.
const POLL: Duration = Duration::from_secs(1);
/// Timeout of the ping that detects the end of an outage.
const PROBE: Duration = Duration::from_millis(250);
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// Interval at which the log repeats that the queue is unavailable.
const REMINDER_INTERVAL: Duration = Duration::from_mins(10);

pub(super) struct Fetcher<A: Admit> {
    pub(super) queue: Arc<dyn Queue>,
    pub(super) owner: Uuid,
    pub(super) admit: Arc<A>,
    pub(super) slots: Arc<Slots>,
    pub(super) leases: Arc<Leases>,
    pub(super) handlers: mpsc::Sender<Delivery<A::Item>>,
    pub(super) unstarted: Unstarted<A::Item>,
    pub(super) stop: CancellationToken,
}

/// State kept between rounds.
struct FetchState {
    /// Next claim from the lane `suspect` after it was empty.
    next_suspect: Instant,
    /// Number of rounds, used to rotate the claim that goes first.
    turn: usize,
    refusals: Pause,
    outage: Option<Outage>,
}

struct Outage {
    pause: Pause,
    next_reminder: Instant,
    next_claim: Instant,
    next_look: Instant,
}

/// Event to wait for before the next round.
enum Wait {
    No,
    Slot,
    /// Ids, up to this timeout. Also a freed slot, if the claim was limited by reserved slots or by the capacity of a lane.
    Ids {
        or_slot: bool,
        at_most: Duration,
    },
    Until(Instant),
}

impl<A: Admit> Fetcher<A> {
    /// Fetches until the shutdown, then releases what no handler has started.
    pub(super) async fn run(self) {
        let mut memory = FetchState {
            next_suspect: Instant::now(),
            turn: 0,
            refusals: Pause::new(),
            outage: None,
        };
        while !self.stop.is_cancelled() {
            let wait = self.round(&mut memory).await;
            self.wait(wait).await;
        }
        self.give_back().await;
    }

    async fn round(&self, memory: &mut FetchState) -> Wait {
        let free = self.slots.free();
        if free.all == 0 {
            return Wait::Slot;
        }
        let mut lanes = self.admit.lanes().await;
        // If no lane is open, the queue is paused, for suspects too.
        let all_closed = lanes.is_empty();
        if !all_closed && Instant::now() >= memory.next_suspect {
            lanes.push(OpenLane::of_suspects());
        }
        memory.turn = memory.turn.wrapping_add(1);
        let in_hand = |lane: &Lane| self.slots.of_lane(lane);
        let shares = Shares::new(lanes, free, in_hand, memory.turn);
        if let Some(outage) = &mut memory.outage
            && Instant::now() < outage.next_claim
        {
            let claim = shares.claim(free);
            return self.fetch_without_queue(outage, claim).await;
        }
        if memory.outage.is_some() {
            match self.probe().await {
                Ok(()) => leave_outage(memory),
                Err(error) => {
                    self.enter_outage(&error, memory);
                    return Wait::No;
                }
            }
        }
        if all_closed {
            return Wait::Until(Instant::now() + POLL);
        }
        self.fetch(shares, free, memory).await
    }

    /// Claims for one round and starts the claimed jobs.
    async fn fetch(&self, shares: Shares, free: Free, memory: &mut FetchState) -> Wait {
        let (mut left, mut poll_after, mut full) = (free, shares.poll_after, shares.full);
        let ids = match self.queue.claim(self.owner, &shares.claim(free)).await {
            Ok(ids) => {
                leave_outage(memory);
                left.take(&ids);
                ids
            }
            Err(error) => {
                self.enter_outage(&error, memory);
                Vec::new()
            }
        };
        for share in &shares.of_lanes {
            let claimed = share.count(&ids);
            if share.is_of_suspects() && claimed == 0 && left.all > 0 {
                memory.next_suspect = Instant::now() + POLL;
            }
            poll_after = sooner(poll_after, share.poll_after(claimed));
            full |= share.is_full(claimed);
        }
        let claimed = ids.len();
        let leases = ids.into_iter().map(|id| self.leases.claimed(id)).collect();
        match self.start(leases).await {
            Admitted::Refused => Wait::Until(Instant::now() + memory.refusals.next()),
            Admitted::Count(admitted) => {
                memory.refusals.reset();
                // Some ids could not start and have left the queue, so it claims again at once. Each such round shortens the queue.
                if memory.outage.is_some() || left.all == 0 || admitted < claimed {
                    Wait::No
                } else {
                    Wait::Ids {
                        or_slot: full || (free.bulk < free.all && left.bulk == 0),
                        at_most: poll_after.unwrap_or(POLL).min(POLL),
                    }
                }
            }
        }
    }

    /// Pings a queue in outage. The timeout is short because no jobs are claimed from the store in the meantime.
    async fn probe(&self) -> Result<(), QueueError> {
        let asked = tokio::time::timeout(PROBE, self.queue.ping()).await;
        asked.unwrap_or_else(|_| {
            Err(QueueError::Unreachable {
                attempted: "checking whether it has recovered",
                reason: "no answer in time".to_owned(),
            })
        })
    }

    /// Admits claimed ids and sends the admitted jobs to the handlers. Early ids are delayed until they are due, others leave the queue. If
    /// the store is unavailable, all ids return to the queue.
    async fn start(&self, leases: Vec<Lease>) -> Admitted {
        if leases.is_empty() {
            return Admitted::Count(0);
        }
        let ids: Vec<Claimed> = leases.iter().map(|lease| lease.claimed().clone()).collect();
        let Admission { started, early } = match self.admit.admit(ids).await {
            Ok(admission) => admission,
            Err(refused) => {
                tracing::warn!(error = %refused, ids = leases.len(), "returning claimed ids to the queue");
                for lease in leases {
                    lease.release();
                }
                return Admitted::Refused;
            }
        };
        let mut by_id: HashMap<JobId, Lease> = leases
            .into_iter()
            .map(|lease| (lease.claimed().id, lease))
            .collect();
        let count = started.len();
        for (push, due_at) in early {
            if let Some(lease) = by_id.remove(&push.id) {
                lease.later(push, due_at);
            }
        }
        for (claimed, item) in started {
            match by_id.remove(&claimed.id) {
                Some(lease)
                    if claimed.lane != lease.claimed().lane && claimed.lane.is_suspect() =>
                {
                    self.redirect(claimed, item, lease).await;
                }
                Some(lease) => self.deliver(claimed, item, lease).await,
                None => {}
            }
        }
        for lease in by_id.into_values() {
            lease.ack();
        }
        Admitted::Count(count)
    }

    async fn deliver(&self, claimed: Claimed, item: A::Item, lease: Lease) {
        let (slot, job) = self.slots.take(&claimed.lane, claimed.priority);
        let delivery = Delivery {
            claimed,
            item,
            guard: DeliveryGuard::new(slot, lease, job),
        };
        // The channel has a place for each slot, so a full channel means that the handlers have stopped.
        if let Err(unsent) = self.handlers.try_send(delivery) {
            let delivery = match unsent {
                mpsc::error::TrySendError::Full(delivery)
                | mpsc::error::TrySendError::Closed(delivery) => delivery,
            };
            self.put_back(vec![delivery]).await;
        }
    }

    /// Moves an id to the lane `suspect` if its row became suspect after the push.
    async fn redirect(&self, claimed: Claimed, item: A::Item, lease: Lease) {
        let push = Push {
            id: claimed.id,
            lane: claimed.lane.clone(),
            priority: claimed.priority,
            due_at: None,
        };
        self.admit.put_back(vec![(claimed, item)]).await;
        lease.later(push, DateTime::UNIX_EPOCH);
    }

    fn enter_outage(&self, error: &QueueError, memory: &mut FetchState) {
        let now = Instant::now();
        let outage = memory.outage.get_or_insert_with(|| Outage {
            pause: Pause::new(),
            next_reminder: now,
            next_claim: now,
            next_look: now,
        });
        if now >= outage.next_reminder {
            tracing::error!(%error, "queue unavailable, claiming due jobs from the store");
            outage.next_reminder = now + REMINDER_INTERVAL;
        }
        outage.next_claim = now + outage.pause.next();
    }

    async fn fetch_without_queue(&self, outage: &mut Outage, claim: ClaimRequest) -> Wait {
        let now = Instant::now();
        if now >= outage.next_look {
            let due = self.admit.due_without_queue(claim).await;
            // If work was found, there may be more soon.
            let pause = if due.is_empty() { POLL } else { FIRST_PAUSE };
            outage.next_look = now + pause;
            for (claimed, item) in due {
                let lease = self.leases.unleased(claimed.clone());
                self.deliver(claimed, item, lease).await;
            }
        }
        Wait::Until(outage.next_look.min(outage.next_claim))
    }

    async fn wait(&self, wait: Wait) {
        tokio::select! {
            () = self.stop.cancelled() => {}
            () = async {
                match wait {
                    Wait::No => {}
                    Wait::Slot => {
                        // The next round starts after a timeout as well.
                        drop(tokio::time::timeout(POLL, self.slots.changed.notified()).await);
                    }
                    Wait::Ids { or_slot: false, at_most } => {
                        self.queue.woken(at_most).await;
                    }
                    Wait::Ids { or_slot: true, at_most } => tokio::select! {
                        () = self.queue.woken(at_most) => {}
                        () = self.slots.changed.notified() => {}
                    },
                    Wait::Until(instant) => tokio::time::sleep_until(instant).await,
                }
            } => {}
        }
    }

    /// Releases jobs that no handler has started. Rows are released first, so that the ids can be claimed as soon as they are ready.
    async fn give_back(&self) {
        let mut unstarted = Vec::new();
        {
            let mut waiting = self.unstarted.lock();
            while let Ok(delivery) = waiting.try_recv() {
                unstarted.push(delivery);
            }
        }
        if !unstarted.is_empty() {
            self.put_back(unstarted).await;
        }
    }

    async fn put_back(&self, unstarted: Vec<Delivery<A::Item>>) {
        let (mut items, mut guards) = (Vec::new(), Vec::new());
        for delivery in unstarted {
            items.push((delivery.claimed, delivery.item));
            guards.push(delivery.guard);
        }
        self.admit.put_back(items).await;
        for guard in guards {
            guard.release();
        }
    }
}

fn leave_outage(memory: &mut FetchState) {
    if memory.outage.take().is_some() {
        tracing::info!("queue available again");
    }
}

enum Admitted {
    Count(usize),
    Refused,
}

/// Pause that doubles from 0.1 s to 2 s.
struct Pause(Duration);

impl Pause {
    fn new() -> Self {
        Self(FIRST_PAUSE)
    }

    fn next(&mut self) -> Duration {
        let pause = self.0;
        self.0 = (pause * 2).min(LONGEST_PAUSE);
        pause
    }

    fn reset(&mut self) {
        self.0 = FIRST_PAUSE;
    }
}
