//! The in-process gate. It knows only what this process's calls met, and what it was told to close.

mod breaker;
mod lane;
mod outbox;
mod pace;
mod shared;
mod slots;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use super::{
    CallEnd, Closed, Closure, Gate, GateSnapshot, Load, PaceLimits, Permit, Refusal, Room,
};
pub(super) use lane::{Admitted, Denied, Lane, Place};
pub(super) use outbox::Message;
pub(in crate::judge) use pace::Ticket;
pub(super) use shared::{Asked, Rule};

/// Judges of one entry that takes any model are named by whoever asks; idle lanes beyond this many are forgotten.
const MOST_LANES: usize = 1024;

/// A job that is sent back comes again at once: without any patience that would be a busy loop.
const LEAST_PATIENCE: Duration = Duration::from_secs(1);

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
            throttle_first: Duration::from_secs(10),
            throttle_longest: Duration::from_secs(300),
            max_concurrency: BTreeMap::new(),
            default_concurrency: 64,
            paces: BTreeMap::new(),
        }
    }
}

/// The gate of one process.
#[derive(Debug)]
pub struct MemoryGate {
    options: GateOptions,
    lanes: Lanes,
    /// What new lanes go by.
    rule: Mutex<Rule>,
}

/// Who lets a call leave: this process, or all workers together.
#[async_trait]
pub(super) trait Leave: Send + Sync {
    /// Lets one call pass, or says why not, or for how long not.
    async fn leave(
        &self,
        gate: &MemoryGate,
        judge: &str,
        load: Load,
        place: Place,
    ) -> Result<Admitted, Denied>;
    /// A call waits for a slot.
    fn wants_slot(&self);
}

/// This process.
struct Here;

#[async_trait]
impl Leave for Here {
    async fn leave(
        &self,
        gate: &MemoryGate,
        judge: &str,
        load: Load,
        place: Place,
    ) -> Result<Admitted, Denied> {
        gate.with_lane(judge, |lane, now| lane.admit(load, place, now))
    }

    fn wants_slot(&self) {}
}

type Lanes = Arc<Mutex<BTreeMap<String, Lane>>>;

/// What a permit holds: its slot, and the lane to tell when it goes.
struct Hold {
    judge: String,
    lanes: Lanes,
    probe: bool,
    slot: Option<OwnedSemaphorePermit>,
}

impl Drop for Hold {
    fn drop(&mut self) {
        if let Some(lane) = lock(&self.lanes).get_mut(&self.judge) {
            lane.left(self.probe, Instant::now());
            // Where another process is short of slots, it goes there rather than to the next in line here.
            if let Some(slot) = self.slot.take_if(|_| lane.has_a_slot_too_many()) {
                slot.forget();
            }
        }
    }
}

/// A place in a lane's line.
struct Waiting {
    judge: String,
    lanes: Lanes,
    /// Whether it is the large call that stays longer than its patience.
    stays: bool,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(lane) = lock(&self.lanes).get_mut(&self.judge) {
            lane.waiting = lane.waiting.saturating_sub(1);
            lane.one_stays &= !self.stays;
        }
    }
}

/// A call that waits for a slot.
struct InNeed<'a> {
    gate: &'a MemoryGate,
    judge: &'a str,
}

impl Drop for InNeed<'_> {
    fn drop(&mut self) {
        let slots = |lane: &mut Lane| lane.slots.as_mut().map(|slots| slots.waiting -= 1);
        lock(&self.gate.lanes).get_mut(self.judge).and_then(slots);
    }
}

impl MemoryGate {
    /// A gate that knows nothing yet: every lane is open.
    pub fn new(options: GateOptions) -> Self {
        Self::by(options, Rule::Alone)
    }

    pub(super) fn by(options: GateOptions, rule: Rule) -> Self {
        Self {
            options,
            lanes: Lanes::default(),
            rule: Mutex::new(rule),
        }
    }

    pub(super) fn options(&self) -> &GateOptions {
        &self.options
    }

    /// Goes by another rule from now on.
    pub(super) fn follow(&self, rule: Rule) {
        let mut lanes = lock(&self.lanes);
        *self.rule.lock().unwrap_or_else(PoisonError::into_inner) = rule;
        for lane in lanes.values_mut() {
            lane.follow(rule);
        }
    }

    /// The judges that it knows.
    pub(super) fn judges(&self) -> Vec<String> {
        lock(&self.lanes).keys().cloned().collect()
    }

    /// What each lane has to say to the other workers now.
    pub(super) fn messages(&self) -> Vec<(String, Message)> {
        let mut lanes = lock(&self.lanes);
        let now = Instant::now();
        lanes
            .iter_mut()
            .filter_map(|(judge, lane)| Some((judge.clone(), lane.message(now)?)))
            .collect()
    }

    pub(super) fn with_lane<T>(
        &self,
        judge: &str,
        then: impl FnOnce(&mut Lane, Instant) -> T,
    ) -> T {
        let mut lanes = lock(&self.lanes);
        // Read under the lock: a lane's time never runs backwards.
        let now = Instant::now();
        if lanes.len() >= MOST_LANES && !lanes.contains_key(judge) {
            lanes.retain(|_, lane| !lane.is_idle(now));
        }
        let lane = lanes
            .entry(judge.to_owned())
            .or_insert_with(|| self.lane(judge, now));
        then(lane, now)
    }

    fn lane(&self, judge: &str, now: Instant) -> Lane {
        let rule = *self.rule.lock().unwrap_or_else(PoisonError::into_inner);
        let cap = self.cap(judge) as usize;
        Lane::new(&self.options, cap, self.limits(judge), rule, now)
    }

    pub(super) fn cap(&self, judge: &str) -> u32 {
        self.of(&self.options.max_concurrency, judge)
            .unwrap_or(self.options.default_concurrency)
    }

    pub(super) fn limits(&self, judge: &str) -> PaceLimits {
        self.of(&self.options.paces, judge).unwrap_or_default()
    }

    /// An entry's figure holds for each of its models.
    fn of<T: Copy>(&self, figures: &BTreeMap<String, T>, judge: &str) -> Option<T> {
        let entry = judge.split_once(':').map_or(judge, |(entry, _)| entry);
        figures.get(judge).or_else(|| figures.get(entry)).copied()
    }

    /// Waits for the pace behind those who came before, unless that would take longer than there is time; `wait` is about
    /// how long.
    ///
    /// A call of more tokens than a busy lane ever has to spare would be refused for ever, as smaller ones take them in the
    /// meantime. One such call at a time stays in line beyond its patience, and those behind it let it pass.
    async fn stand_in_line(
        &self,
        judge: &str,
        load: Load,
        wait: Duration,
        deadline: Instant,
        leave: &dyn Leave,
    ) -> Result<Admitted, Refusal> {
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
            return Err(paced(wait));
        };
        let _waiting = Waiting {
            judge: judge.to_owned(),
            lanes: Arc::clone(&self.lanes),
            stays,
        };
        let deadline = match stays {
            true => Instant::now() + LONGEST_STAY,
            false => deadline,
        };
        let Ok(Ok(_first)) = timeout_at(deadline, line.acquire_owned()).await else {
            return Err(paced(wait));
        };
        loop {
            let wait = match leave.leave(self, judge, load, Place::First).await {
                Ok(admitted) => return Ok(admitted),
                Err(Denied::Closed(refusal)) => return Err(refusal),
                Err(Denied::Later(wait)) => wait,
            };
            let now = Instant::now();
            if now + wait > deadline {
                return Err(paced(wait));
            }
            tokio::time::sleep_until(now + wait.min(LONGEST_LOOK)).await;
        }
    }
}

impl MemoryGate {
    /// As [`Gate::enter`], where `leave` lets calls go.
    pub(super) async fn enter_by(
        &self,
        judge: &str,
        patience: Duration,
        load: &(dyn Fn() -> Load + Send + Sync),
        leave: &dyn Leave,
    ) -> Result<Permit, Refusal> {
        let begun = Instant::now();
        // Asked before the slot: a closed lane answers at once, however long the line is.
        let slots = self.with_lane(judge, |lane, now| match lane.closed(now) {
            Some(refusal) => Err(refusal),
            None => Ok(lane.slots.as_ref().map(|slots| slots.semaphore.clone())),
        })?;
        let slot = match slots {
            Some(slots) => {
                let deadline = begun + patience.max(LEAST_PATIENCE);
                Some(self.take_slot(judge, slots, deadline, leave).await?)
            }
            None => None,
        };
        let load = match self.with_lane(judge, |lane, now| lane.counts_tokens(now)) {
            true => load(),
            false => Load::default(),
        };
        let admitted = match leave.leave(self, judge, load, Place::New).await {
            Ok(admitted) => admitted,
            Err(Denied::Closed(refusal)) => return Err(refusal),
            Err(Denied::Later(wait)) => {
                self.stand_in_line(judge, load, wait, begun + patience, leave)
                    .await?
            }
        };
        Ok(Permit {
            probe: admitted.probe,
            ticket: admitted.ticket,
            _on_drop: Some(Box::new(Hold {
                judge: judge.to_owned(),
                lanes: Arc::clone(&self.lanes),
                probe: admitted.probe,
                slot,
            })),
        })
    }

    async fn take_slot(
        &self,
        judge: &str,
        slots: Arc<Semaphore>,
        deadline: Instant,
        leave: &dyn Leave,
    ) -> Result<OwnedSemaphorePermit, Refusal> {
        if let Ok(slot) = Arc::clone(&slots).try_acquire_owned() {
            return Ok(slot);
        }
        self.with_lane(judge, |lane, _| {
            lane.slots.as_mut().map(|slots| slots.waiting += 1)
        });
        let _in_need = InNeed { gate: self, judge };
        leave.wants_slot();
        match timeout_at(deadline, slots.acquire_owned()).await {
            Ok(Ok(slot)) => Ok(slot),
            Ok(Err(_)) | Err(_) => Err(Refusal {
                why: Closed::Busy,
                retry_in: Some(SLOTS_TAKEN),
            }),
        }
    }
}

fn paced(wait: Duration) -> Refusal {
    Refusal {
        why: Closed::Paced,
        retry_in: Some(wait),
    }
}

#[async_trait]
impl Gate for MemoryGate {
    async fn enter(
        &self,
        judge: &str,
        patience: Duration,
        load: &(dyn Fn() -> Load + Send + Sync),
    ) -> Result<Permit, Refusal> {
        self.enter_by(judge, patience, load, &Here).await
    }

    fn report(&self, judge: &str, permit: Permit, end: &CallEnd) {
        let call = Admitted {
            probe: permit.probe,
            ticket: permit.ticket,
        };
        self.with_lane(judge, |lane, now| lane.report(judge, call, end, now));
        // The breaker has left its half-open state, so the permit's drop finds no probe to give back.
        drop(permit);
    }

    fn room(&self, judge: &str) -> Result<Room, Refusal> {
        let now = Instant::now();
        match lock(&self.lanes).get_mut(judge) {
            Some(lane) => lane.room(now),
            // Asking makes no lane: the snapshot shows judges that were called, or closed.
            None => self.lane(judge, now).room(now),
        }
    }

    fn closed(&self, judge: &str) -> Option<Refusal> {
        let now = Instant::now();
        lock(&self.lanes)
            .get_mut(judge)
            .and_then(|lane| lane.closed(now))
    }

    fn close(&self, judge: &str, why: Closed, reopens_in: Option<Duration>) {
        self.with_lane(judge, |lane, now| lane.hold(why, reopens_in, now));
    }

    fn open(&self, judge: &str) {
        if let Some(lane) = lock(&self.lanes).get_mut(judge) {
            lane.release();
        }
    }

    fn live_workers(&self, _: u32) {}

    fn held(&self) -> Vec<String> {
        lock(&self.lanes)
            .iter()
            .filter(|(_, lane)| lane.is_held())
            .map(|(judge, _)| judge.clone())
            .collect()
    }

    fn take_closures(&self) -> Vec<Closure> {
        lock(&self.lanes)
            .values_mut()
            .flat_map(Lane::take_closures)
            .collect()
    }

    fn snapshot(&self) -> Vec<GateSnapshot> {
        let now = Instant::now();
        lock(&self.lanes)
            .iter_mut()
            .map(|(judge, lane)| lane.snapshot(judge, now))
            .collect()
    }
}

/// A panic elsewhere while the lock was held leaves counters at worst; the gate goes on.
fn lock(lanes: &Lanes) -> MutexGuard<'_, BTreeMap<String, Lane>> {
    lanes.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod servers;
#[cfg(test)]
mod tests;
