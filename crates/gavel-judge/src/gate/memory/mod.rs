//! The gate of one process: alone, or in step with the other workers' by its [`Peers`].

mod adaptive;
mod breaker;
mod lane_gate;
mod outbox;
mod pace;
mod rule;
mod shared;
mod slots;
mod throttle;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use super::{
    CallEnd, Closure, Denial, GateSnapshot, HeldBack, Load, PaceLimits, Permit, Room, WorkerCounts,
};
pub(super) use lane_gate::{Admitted, Denied, LaneGate, LinePosition};
pub(super) use outbox::{PeerMessage, SharedState};
pub(crate) use pace::PaceTicket;
pub(super) use rule::Rule;
pub(super) use shared::LocalDecision;

/// Judges of one entry that takes any model are named by whoever asks; idle lanes beyond this many are forgotten.
const MOST_LANES: usize = 1024;

/// A job that is sent back comes again at once: without any wait that would be a busy loop.
const LEAST_TIMEOUT: Duration = Duration::from_secs(1);

/// How soon a call that found every slot taken comes again.
const SLOTS_TAKEN: Duration = Duration::from_secs(5);

/// How long the one large call of a lane stays in line: until what went out within a minute is forgotten, and those before
/// it are gone.
const LONGEST_STAY: Duration = Duration::from_secs(75);

/// The first in line looks at the pace at least so often: it may have got faster.
const LONGEST_LOOK: Duration = Duration::from_secs(1);

/// The gate's figures.
#[derive(Debug, Clone)]
pub struct GateOptions {
    /// Transient failures in a row that open the breaker; 5.
    pub failures_to_open: u32,
    /// How long it stays open before a probe; 30 s.
    pub cool_down: Duration,
    /// A process that shares the gate and says nothing for so long is gone, with its slots and its probe; 5 s.
    pub lease: Duration,
    /// The pause after a 429 that names none; 10 s, doubling.
    pub throttle_first: Duration,
    /// The longest such pause; 5 min.
    pub throttle_longest: Duration,
    /// Calls in flight by judge, or by the entry before the colon; 0 for no cap.
    pub max_concurrency: BTreeMap<String, u32>,
    /// Calls in flight of a judge that isn't listed; 64.
    pub default_concurrency: u32,
    /// What may be asked a minute by judge, or by the entry before the colon; whoever isn't listed has no such limit.
    pub paces: BTreeMap<String, PaceLimits>,
}

impl Default for GateOptions {
    fn default() -> Self {
        Self {
            failures_to_open: 5,
            cool_down: Duration::from_secs(30),
            lease: Duration::from_secs(5),
            throttle_first: Duration::from_secs(10),
            throttle_longest: Duration::from_secs(300),
            max_concurrency: BTreeMap::new(),
            default_concurrency: 64,
            paces: BTreeMap::new(),
        }
    }
}

/// Lets calls pass, or says why not. One gate serves all judges of a process.
pub struct Gate {
    options: GateOptions,
    lanes: Lanes,
    /// What new lanes go by.
    rule: Mutex<Rule>,
    peers: Arc<dyn Peers>,
}

/// The other workers, who let a call leave together with this one.
#[async_trait]
pub(super) trait Peers: Send + Sync {
    /// Lets one call pass, or says why not, or for how long not.
    async fn leave(
        &self,
        gate: &Gate,
        judge: &str,
        load: Load,
        place: LinePosition,
    ) -> Result<Admitted, Denied>;
    /// There is something that they should hear soon.
    fn news(&self);
    fn live_workers(&self, workers: WorkerCounts);
}

/// There are none.
struct NoPeers;

#[async_trait]
impl Peers for NoPeers {
    async fn leave(
        &self,
        gate: &Gate,
        judge: &str,
        load: Load,
        place: LinePosition,
    ) -> Result<Admitted, Denied> {
        gate.with_lane(judge, |lane, now| lane.admit(load, place, now))
    }

    fn news(&self) {}

    fn live_workers(&self, _: WorkerCounts) {}
}

type Lanes = Arc<Mutex<BTreeMap<String, LaneGate>>>;

/// Does this when it is dropped.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

impl Gate {
    /// A gate of a process that is alone, and knows nothing yet: every lane is open.
    pub fn new(options: GateOptions) -> Self {
        Self::with_peers(options, Rule::Alone, Arc::new(NoPeers))
    }

    pub(super) fn with_peers(options: GateOptions, rule: Rule, peers: Arc<dyn Peers>) -> Self {
        Self {
            options,
            lanes: Lanes::default(),
            rule: Mutex::new(rule),
            peers,
        }
    }

    /// Asks leave for one call. Waits at most `timeout` for a slot of the judge's concurrency and for its pace; one call
    /// of a judge at a time may wait longer for its tokens, up to a minute or so, where smaller calls would overtake it
    /// for ever. `load` is asked for only where tokens are limited, as the estimate isn't free.
    pub async fn enter(
        &self,
        judge: &str,
        timeout: Duration,
        load: &(dyn Fn() -> Load + Send + Sync),
    ) -> Result<Permit, Denial> {
        let begun = Instant::now();
        // Asked before the slot: a closed lane answers at once, however long the line is.
        let slots = self.with_lane(judge, |lane, now| match lane.closed(now) {
            Some(denial) => Err(denial),
            None => Ok(lane.slots.as_ref().map(|slots| slots.semaphore.clone())),
        })?;
        let mut slot = match slots {
            Some(slots) => {
                let deadline = begun + timeout.max(LEAST_TIMEOUT);
                Some(self.take_slot(judge, slots, deadline).await?)
            }
            None => None,
        };
        let load = match self.with_lane(judge, |lane, now| lane.counts_tokens(now)) {
            true => load(),
            false => Load::default(),
        };
        let Admitted { probe, ticket } =
            match self.peers.leave(self, judge, load, LinePosition::New).await {
                Ok(admitted) => admitted,
                Err(Denied::HeldBack(denial)) => return Err(denial),
                Err(Denied::Later(wait)) => {
                    self.stand_in_line(judge, load, wait, begun + timeout)
                        .await?
                }
            };
        let (judge, lanes) = (judge.to_owned(), Arc::clone(&self.lanes));
        let left = move || {
            if let Some(lane) = lanes.lock().get_mut(&judge) {
                lane.left(probe, Instant::now());
                // Where another process is short of slots, it goes there rather than to the next in line here.
                if let Some(slot) = slot.take_if(|_| lane.has_a_slot_too_many()) {
                    slot.forget();
                }
            }
            slot = None;
        };
        Ok(Permit {
            probe,
            ticket,
            _on_drop: Some(Box::new(OnDrop(left))),
        })
    }

    /// Says how the call ended. Must be called with the permit, before the next `enter` of the same question.
    pub fn report(&self, judge: &str, permit: Permit, end: &CallEnd) {
        let call = Admitted {
            probe: permit.probe,
            ticket: permit.ticket,
        };
        self.with_lane(judge, |lane, now| lane.report(judge, call, end, now));
        // The breaker has left its half-open state, so the permit's drop finds no probe to give back.
        drop(permit);
        if self.with_lane(judge, |lane, now| lane.has_urgent_news(now)) {
            self.peers.news();
        }
    }

    /// For how many runs the judge has room now and soon, or why its lane is closed. Consumes nothing.
    pub fn room(&self, judge: &str) -> Result<Room, Denial> {
        let now = Instant::now();
        match self.lanes.lock().get_mut(judge) {
            Some(lane) => lane.room(now),
            // Asking makes no lane: the snapshot shows judges that were called, or closed.
            None => self.lane(judge, now).room(now),
        }
    }

    /// Why the judge's lane is closed now; `None` if it is open. Never consumes a probe. A pace closes no lane.
    pub fn closed(&self, judge: &str) -> Option<Denial> {
        let mut lanes = self.lanes.lock();
        lanes.get_mut(judge)?.closed(Instant::now())
    }

    /// Closes a lane until [`Self::open`], or for `reopens_in`, as the store says.
    pub fn close(&self, judge: &str, why: HeldBack, reopens_in: Option<Duration>) {
        self.with_lane(judge, |lane, now| lane.hold(why, reopens_in, now));
    }

    /// Takes back what [`Self::close`] did, and nothing else: the breaker, a throttling and the pace stay.
    pub fn open(&self, judge: &str) {
        if let Some(lane) = self.lanes.lock().get_mut(judge) {
            lane.release();
        }
    }

    /// Which workers live, by the store: among so many the figures are divided while they can't be shared.
    pub fn live_workers(&self, workers: WorkerCounts) {
        self.peers.live_workers(workers);
    }

    /// Judges whose lanes are closed until somebody opens them, by [`Self::close`] or by a closure that was taken.
    pub fn held(&self) -> Vec<String> {
        let lanes = self.lanes.lock();
        let held = lanes.iter().filter(|(_, lane)| lane.is_held());
        held.map(|(judge, _)| judge.clone()).collect()
    }

    /// Closures of class exhausted or misconfigured since the last call, for the worker to store.
    pub fn take_closures(&self) -> Vec<Closure> {
        let mut lanes = self.lanes.lock();
        lanes
            .values_mut()
            .flat_map(LaneGate::take_closures)
            .collect()
    }

    /// What it knows of each judge it has seen.
    pub fn snapshot(&self) -> Vec<GateSnapshot> {
        let now = Instant::now();
        let mut lanes = self.lanes.lock();
        let lanes = lanes.iter_mut();
        lanes
            .map(|(judge, lane)| lane.snapshot(judge, now))
            .collect()
    }
}

impl Gate {
    pub(super) fn options(&self) -> &GateOptions {
        &self.options
    }

    /// Goes by another rule from now on.
    pub(super) fn follow(&self, rule: Rule) {
        let mut lanes = self.lanes.lock();
        *self.rule.lock() = rule;
        for lane in lanes.values_mut() {
            lane.follow(rule);
        }
    }

    /// The judges that it knows.
    pub(super) fn judges(&self) -> Vec<String> {
        self.lanes.lock().keys().cloned().collect()
    }

    /// What each lane has to say to the other workers now.
    pub(super) fn messages(&self) -> Vec<(String, PeerMessage)> {
        let mut lanes = self.lanes.lock();
        let now = Instant::now();
        let messages =
            |(judge, lane): (&String, &mut LaneGate)| Some((judge.clone(), lane.message(now)?));
        lanes.iter_mut().filter_map(messages).collect()
    }

    pub(super) fn with_lane<T>(
        &self,
        judge: &str,
        then: impl FnOnce(&mut LaneGate, Instant) -> T,
    ) -> T {
        let mut lanes = self.lanes.lock();
        // Read under the lock: a lane's time never runs backwards.
        let now = Instant::now();
        if lanes.len() >= MOST_LANES && !lanes.contains_key(judge) {
            lanes.retain(|_, lane| !lane.is_idle(now));
        }
        let lane = lanes
            .entry(judge.to_owned())
            .or_insert_with(|| self.lane(judge, now));
        let before = lane.breaker.state();
        let result = then(lane, now);
        lane.log_breaker(judge, before);
        result
    }

    fn lane(&self, judge: &str, now: Instant) -> LaneGate {
        let rule = *self.rule.lock();
        let cap = self.cap(judge) as usize;
        LaneGate::new(&self.options, cap, self.limits(judge), rule, now)
    }

    pub(super) fn cap(&self, judge: &str) -> u32 {
        figure_of(&self.options.max_concurrency, judge).unwrap_or(self.options.default_concurrency)
    }

    pub(super) fn limits(&self, judge: &str) -> PaceLimits {
        figure_of(&self.options.paces, judge).unwrap_or_default()
    }

    async fn take_slot(
        &self,
        judge: &str,
        slots: Arc<Semaphore>,
        deadline: Instant,
    ) -> Result<OwnedSemaphorePermit, Denial> {
        if let Ok(slot) = Arc::clone(&slots).try_acquire_owned() {
            return Ok(slot);
        }
        let wait = |more: isize| {
            self.with_lane(judge, |lane, _| {
                if let Some(slots) = &mut lane.slots {
                    slots.waiting = slots.waiting.saturating_add_signed(more);
                }
            });
        };
        wait(1);
        let _waiting = OnDrop(|| wait(-1));
        self.peers.news();
        match timeout_at(deadline, slots.acquire_owned()).await {
            Ok(Ok(slot)) => Ok(slot),
            Ok(Err(_)) | Err(_) => Err(Denial::new(HeldBack::Busy, SLOTS_TAKEN)),
        }
    }

    /// Waits for the pace behind those who came before, unless that would take longer than there is time; `wait` is about
    /// how long.
    ///
    /// A call of more tokens than a busy lane ever has to spare would be refused for ever, as smaller ones take them in the
    /// meantime. One such call at a time stays in line beyond its timeout, and those behind it let it pass.
    async fn stand_in_line(
        &self,
        judge: &str,
        load: Load,
        wait: Duration,
        deadline: Instant,
    ) -> Result<Admitted, Denial> {
        let in_line = self.with_lane(judge, |lane, now| {
            let stays = now + wait > deadline;
            let left = deadline.saturating_duration_since(now);
            if stays && !lane.may_stay(load, wait, left, now) {
                return None;
            }
            lane.one_stays |= stays;
            lane.waiting += 1;
            Some((Arc::clone(&lane.line), stays))
        });
        let Some((line, stays)) = in_line else {
            return Err(Denial::new(HeldBack::Paced, wait));
        };
        let _waiting = OnDrop(|| {
            self.with_lane(judge, |lane, _| {
                lane.waiting = lane.waiting.saturating_sub(1);
                lane.one_stays &= !stays;
            });
        });
        let deadline = match stays {
            true => Instant::now() + LONGEST_STAY,
            false => deadline,
        };
        let Ok(Ok(_first)) = timeout_at(deadline, line.acquire_owned()).await else {
            return Err(Denial::new(HeldBack::Paced, wait));
        };
        loop {
            let wait = match self
                .peers
                .leave(self, judge, load, LinePosition::First)
                .await
            {
                Ok(admitted) => return Ok(admitted),
                Err(Denied::HeldBack(denial)) => return Err(denial),
                Err(Denied::Later(wait)) => wait,
            };
            let now = Instant::now();
            if now + wait > deadline {
                return Err(Denial::new(HeldBack::Paced, wait));
            }
            tokio::time::sleep_until(now + wait.min(LONGEST_LOOK)).await;
        }
    }
}

/// An entry's figure holds for each of its models.
fn figure_of<T: Copy>(figures: &BTreeMap<String, T>, judge: &str) -> Option<T> {
    let entry = judge.split_once(':').map_or(judge, |(entry, _)| entry);
    figures.get(judge).or_else(|| figures.get(entry)).copied()
}

#[cfg(test)]
mod tests;
