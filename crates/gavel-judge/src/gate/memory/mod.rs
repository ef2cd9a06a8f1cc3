//! Gate of one process, single or synchronized with other workers through [`Peers`].

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

/// Maximum number of lanes before idle ones are dropped, because callers choose the models of entries that accept any model.
const MAX_LANES: usize = 1024;

/// Minimum wait for a slot. A denied job returns immediately, so that a shorter wait would be a busy loop.
const MIN_SLOT_WAIT: Duration = Duration::from_secs(1);

/// Retry delay of a call that found no free slot.
const BUSY_RETRY_DELAY: Duration = Duration::from_secs(5);

/// Maximum wait of the large call of a lane: long enough for the usage of a minute to expire and for earlier calls to leave.
const MAX_LARGE_CALL_WAIT: Duration = Duration::from_secs(75);

/// Maximum interval between pace checks of the first call in line, because the pace can become faster.
const MAX_CHECK_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug, Clone)]
pub struct GateOptions {
    /// Consecutive transient failures that open the breaker. Default 5.
    pub failures_to_open: u32,
    /// Time between opening and the probe. Default 30 s.
    pub cool_down: Duration,
    /// Time after which a silent process loses its slots and its probe in a shared gate. Default 5 s.
    pub lease: Duration,
    /// First pause after a 429 without `Retry-After`. Default 10 s, doubles.
    pub throttle_first: Duration,
    /// Maximum pause after a 429 without `Retry-After`. Default 5 min.
    pub throttle_longest: Duration,
    /// Maximum calls in flight by judge, or by the entry before the colon. 0 means no cap.
    pub max_concurrency: BTreeMap<String, u32>,
    /// Cap of unlisted judges. Default 64.
    pub default_concurrency: u32,
    /// Limits per minute by judge, or by the entry before the colon. Unlisted judges have no limit.
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

/// Admits or denies calls to all judges of a process.
pub struct Gate {
    options: GateOptions,
    lanes: Lanes,
    rule: Mutex<Rule>,
    peers: Arc<dyn Peers>,
}

/// Other workers that share the gate.
#[async_trait]
pub(super) trait Peers: Send + Sync {
    /// Admits one call, or returns the denial or the wait.
    async fn leave(
        &self,
        gate: &Gate,
        judge: &str,
        load: Load,
        place: LinePosition,
    ) -> Result<Admitted, Denied>;
    /// Requests a prompt synchronization.
    fn wake_sync(&self);
    fn live_workers(&self, workers: WorkerCounts);
}

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

    fn wake_sync(&self) {}

    fn live_workers(&self, _: WorkerCounts) {}
}

type Lanes = Arc<Mutex<BTreeMap<String, LaneGate>>>;

struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

impl Gate {
    /// Creates the gate of a single process. Every lane starts open.
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

    /// Acquires a permit for one call. Waits at most `timeout` for a slot and for the pace. One call of a judge at a time may wait about a
    /// minute longer for its tokens, because smaller calls would otherwise keep overtaking it. Calls `load` only if tokens are limited,
    /// because the estimate is expensive.
    pub async fn enter(
        &self,
        judge: &str,
        timeout: Duration,
        load: &(dyn Fn() -> Load + Send + Sync),
    ) -> Result<Permit, Denial> {
        let begun = Instant::now();
        // Checked before the slot, so that a closed lane denies immediately.
        let slots = self.with_lane(judge, |lane, now| match lane.closed(now) {
            Some(denial) => Err(denial),
            None => Ok(lane.slots.as_ref().map(|slots| slots.semaphore.clone())),
        })?;
        let mut slot = match slots {
            Some(slots) => {
                let deadline = begun + timeout.max(MIN_SLOT_WAIT);
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
                    self.wait_in_line(judge, load, wait, begun + timeout)
                        .await?
                }
            };
        let (judge, lanes) = (judge.to_owned(), Arc::clone(&self.lanes));
        let left = move || {
            if let Some(lane) = lanes.lock().get_mut(&judge) {
                lane.left(probe, Instant::now());
                // Surrenders the slot if another process needs it.
                if let Some(slot) = slot.take_if(|_| lane.release_excess_slot()) {
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

    /// Records the end of a call and drops its permit. Must run before the next `enter` of the same job.
    pub fn report(&self, judge: &str, permit: Permit, end: &CallEnd) {
        let call = Admitted {
            probe: permit.probe,
            ticket: permit.ticket,
        };
        self.with_lane(judge, |lane, now| lane.report(judge, call, end, now));
        // The breaker is no longer half-open, so that dropping the permit doesn't return the probe.
        drop(permit);
        if self.with_lane(judge, |lane, now| lane.has_urgent_updates(now)) {
            self.peers.wake_sync();
        }
    }

    /// Returns the current capacity of a judge, or the reason why its lane is closed. Acquires no probe.
    pub fn room(&self, judge: &str) -> Result<Room, Denial> {
        let now = Instant::now();
        match self.lanes.lock().get_mut(judge) {
            Some(lane) => lane.room(now),
            // Creates no lane, because the snapshot shows only judges that were called or closed.
            None => self.lane(judge, now).room(now),
        }
    }

    /// Returns the reason why the lane is closed, or `None` if it is open. Consumes no probe. A pace closes no lane.
    pub fn closed(&self, judge: &str) -> Option<Denial> {
        let mut lanes = self.lanes.lock();
        lanes.get_mut(judge)?.closed(Instant::now())
    }

    /// Closes a lane until [`Self::open`] or for `reopens_in`, as stored.
    pub fn close(&self, judge: &str, why: HeldBack, reopens_in: Option<Duration>) {
        self.with_lane(judge, |lane, now| lane.hold(why, reopens_in, now));
    }

    /// Undoes [`Self::close`]. Breaker, throttling and pace are unaffected.
    pub fn open(&self, judge: &str) {
        if let Some(lane) = self.lanes.lock().get_mut(judge) {
            lane.release();
        }
    }

    /// Sets the live workers according to the store. They divide the limits while Redis is unavailable.
    pub fn live_workers(&self, workers: WorkerCounts) {
        self.peers.live_workers(workers);
    }

    /// Returns judges with lanes closed by [`Self::close`] or by a closure that the worker has already collected.
    pub fn held(&self) -> Vec<String> {
        let lanes = self.lanes.lock();
        let held = lanes.iter().filter(|(_, lane)| lane.has_hold());
        held.map(|(judge, _)| judge.clone()).collect()
    }

    /// Drains exhausted and misconfigured closures, for the worker to store.
    pub fn take_closures(&self) -> Vec<Closure> {
        let mut lanes = self.lanes.lock();
        lanes
            .values_mut()
            .flat_map(LaneGate::take_closures)
            .collect()
    }

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

    pub(super) fn follow(&self, rule: Rule) {
        let mut lanes = self.lanes.lock();
        *self.rule.lock() = rule;
        for lane in lanes.values_mut() {
            lane.follow(rule);
        }
    }

    pub(super) fn judges(&self) -> Vec<String> {
        self.lanes.lock().keys().cloned().collect()
    }

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
        // Read under the lock, so that a lane's time can't decrease.
        let now = Instant::now();
        if lanes.len() >= MAX_LANES && !lanes.contains_key(judge) {
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
        value_of(&self.options.max_concurrency, judge).unwrap_or(self.options.default_concurrency)
    }

    pub(super) fn limits(&self, judge: &str) -> PaceLimits {
        value_of(&self.options.paces, judge).unwrap_or_default()
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
        self.peers.wake_sync();
        match timeout_at(deadline, slots.acquire_owned()).await {
            Ok(Ok(slot)) => Ok(slot),
            Ok(Err(_)) | Err(_) => Err(Denial::new(HeldBack::Busy, BUSY_RETRY_DELAY)),
        }
    }

    /// Waits in line for the pace. Fails immediately if the expected `wait` exceeds the deadline.
    ///
    /// A call with more tokens than a busy lane ever has free would starve, because smaller calls use them first. One such call at a time
    /// stays in line beyond its timeout, and later calls wait behind it.
    async fn wait_in_line(
        &self,
        judge: &str,
        load: Load,
        wait: Duration,
        deadline: Instant,
    ) -> Result<Admitted, Denial> {
        let in_line = self.with_lane(judge, |lane, now| {
            let exceeds_timeout = now + wait > deadline;
            let left = deadline.saturating_duration_since(now);
            if exceeds_timeout && !lane.can_exceed_timeout(load, wait, left, now) {
                return None;
            }
            lane.large_call_waiting |= exceeds_timeout;
            lane.waiting += 1;
            Some((Arc::clone(&lane.line), exceeds_timeout))
        });
        let Some((line, exceeds_timeout)) = in_line else {
            return Err(Denial::new(HeldBack::Paced, wait));
        };
        let _waiting = OnDrop(|| {
            self.with_lane(judge, |lane, _| {
                lane.waiting = lane.waiting.saturating_sub(1);
                lane.large_call_waiting &= !exceeds_timeout;
            });
        });
        let deadline = match exceeds_timeout {
            true => Instant::now() + MAX_LARGE_CALL_WAIT,
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
            tokio::time::sleep_until(now + wait.min(MAX_CHECK_INTERVAL)).await;
        }
    }
}

/// Returns the value of the judge or of its entry. It applies to each model separately.
fn value_of<T: Copy>(figures: &BTreeMap<String, T>, judge: &str) -> Option<T> {
    let entry = judge.split_once(':').map_or(judge, |(entry, _)| entry);
    figures.get(judge).or_else(|| figures.get(entry)).copied()
}

#[cfg(test)]
mod tests;
