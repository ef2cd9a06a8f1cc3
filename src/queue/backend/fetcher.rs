//! Fetcher task: claims ids for free slots in lanes with room, admits them in one batch and sends them to the handlers.
//!
//! It runs until the shutdown. Errors are logged and retried within 2 s.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::super::{ClaimRequest, Claimed, Push, Queue, QueueError};
use super::shares::{Shares, sooner};
use super::slots::{Delivery, Free, Slots};
use super::source::Unstarted;
use super::{Admit, OpenLane, Refused};
use crate::job::Lane;

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
    /// Queue during an outage of `queue`.
    pub(super) fallback: Arc<dyn Queue>,
    pub(super) admit: Arc<A>,
    pub(super) slots: Arc<Slots>,
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
    /// Whether no row of the last claim could be started. The queue has read the store again since.
    was_stuck: bool,
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
    /// Fetches until the shutdown, then returns what no handler has started.
    pub(super) async fn run(self) {
        let mut memory = FetchState {
            next_suspect: Instant::now(),
            turn: 0,
            refusals: Pause::new(),
            was_stuck: false,
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
            // The outage ends with the next claim, which may fail although the probe succeeds.
            if let Err(error) = self.probe().await {
                self.enter_outage(&error, memory);
                return Wait::No;
            }
        }
        if all_closed {
            return Wait::Until(Instant::now() + POLL);
        }
        self.fetch(shares, free, memory).await
    }

    /// Claims for one round and starts the claimed jobs.
    async fn fetch(&self, shares: Shares, free: Free, memory: &mut FetchState) -> Wait {
        let ids = match self.queue.claim(&shares.claim(free)).await {
            Ok(ids) => {
                self.leave_outage(memory).await;
                ids
            }
            Err(error) if self.queue.holds_ids() => {
                self.enter_outage(&error, memory);
                return Wait::No;
            }
            Err(error) => {
                tracing::warn!(%error, "failed to claim due jobs");
                return Wait::Until(Instant::now() + memory.refusals.next());
            }
        };
        let (mut left, mut poll_after, mut full) = (free, shares.poll_after, shares.full);
        left.take(&ids);
        for share in &shares.of_lanes {
            let claimed = share.count(&ids);
            if share.is_of_suspects() && claimed == 0 && left.all > 0 {
                memory.next_suspect = Instant::now() + POLL;
            }
            poll_after = sooner(poll_after, share.poll_after(claimed));
            full |= share.is_full(claimed);
        }
        let claimed = ids.len();
        let Ok(started) = self.start(ids).await else {
            return Wait::Until(Instant::now() + memory.refusals.next());
        };
        if started < claimed {
            self.queue.discard().await;
        }
        // Rows that can't be claimed stay due, so a queue that reads them would return them again at once.
        let is_stuck = started == 0 && claimed > 0 && !self.queue.holds_ids();
        if is_stuck && std::mem::replace(&mut memory.was_stuck, true) {
            return Wait::Until(Instant::now() + memory.refusals.next());
        }
        memory.was_stuck = is_stuck;
        memory.refusals.reset();
        // Some ids could not start and have left the queue, so it claims again at once. Each such round shortens the queue.
        if left.all == 0 || started < claimed {
            return Wait::No;
        }
        Wait::Ids {
            or_slot: full || (free.bulk < free.all && left.bulk == 0),
            at_most: poll_after.unwrap_or(POLL).min(POLL),
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

    /// Admits claimed ids, sends the admitted jobs to the handlers and returns their number. The others have left the queue; `rescue`
    /// pushes those that are due. If the store is unavailable, all ids return to the queue.
    async fn start(&self, ids: Vec<Claimed>) -> Result<usize, Refused> {
        if ids.is_empty() {
            return Ok(0);
        }
        let admitted = match self.admit.admit(ids.clone()).await {
            Ok(admitted) => admitted,
            Err(refused) => {
                tracing::warn!(error = %refused, ids = ids.len(), "returning claimed ids to the queue");
                self.push_first(ids).await;
                return Err(refused);
            }
        };
        let count = admitted.len();
        // A row that became suspect after its push moves to that lane.
        let is_moved = |claimed: &Claimed| claimed.lane.is_suspect() && !ids.contains(claimed);
        let (moved, started): (Vec<_>, Vec<_>) = admitted
            .into_iter()
            .partition(|(claimed, _)| is_moved(claimed));
        self.put_back(moved).await;
        for (claimed, item) in started {
            let delivery = self.slots.take(claimed, item);
            // The channel has a place for each slot, so a full channel means that the handlers have stopped.
            if let Err(unsent) = self.handlers.try_send(delivery) {
                let delivery = unsent.into_inner();
                self.put_back(vec![(delivery.claimed, delivery.item)]).await;
            }
        }
        Ok(count)
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

    async fn leave_outage(&self, memory: &mut FetchState) {
        if memory.outage.take().is_some() {
            tracing::info!("queue available again");
            // Its ids are claimed through the queue from now on.
            self.fallback.discard().await;
        }
    }

    /// Starts due jobs during an outage of the queue: once a second, ten times a second while rows are found.
    async fn fetch_without_queue(&self, outage: &mut Outage, claim: ClaimRequest) -> Wait {
        let now = Instant::now();
        if now >= outage.next_look {
            let claimed = self.fallback.claim(&claim).await.unwrap_or_else(|error| {
                tracing::warn!(%error, "failed to claim due jobs from the store");
                Vec::new()
            });
            let count = claimed.len();
            let started = self.start(claimed).await;
            if started.as_ref().is_ok_and(|started| *started < count) {
                self.fallback.discard().await;
            }
            let is_found = started.is_ok() && count > 0;
            outage.next_look = now + if is_found { FIRST_PAUSE } else { POLL };
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

    /// Returns jobs that no handler has started to the queue.
    async fn give_back(&self) {
        let mut unstarted = Vec::new();
        {
            let mut waiting = self.unstarted.lock();
            while let Ok(delivery) = waiting.try_recv() {
                unstarted.push((delivery.claimed, delivery.item));
            }
        }
        self.put_back(unstarted).await;
    }

    /// Releases rows, then pushes their ids, so that the rows can be claimed as soon as the ids are ready.
    async fn put_back(&self, unstarted: Vec<(Claimed, A::Item)>) {
        if unstarted.is_empty() {
            return;
        }
        let ids = unstarted
            .iter()
            .map(|(claimed, _)| claimed.clone())
            .collect();
        self.admit.put_back(unstarted).await;
        self.push_first(ids).await;
    }

    async fn push_first(&self, ids: Vec<Claimed>) {
        let pushes: Vec<Push> = ids.into_iter().map(Push::from).collect();
        if let Err(error) = self.queue.push_first(&pushes).await {
            tracing::debug!(%error, "not pushed; rescue will push them");
        }
    }
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
