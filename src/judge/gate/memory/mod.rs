//! The in-process gate. It knows only what this process's calls met, and what it was told to close.

mod breaker;
mod lane;
mod pace;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use super::{
    CallEnd, Closed, Closure, Gate, GateSnapshot, Load, PaceLimits, Permit, Refusal, Room,
};
use lane::{Admitted, Denied, Lane, Place};
pub(in crate::judge) use pace::Ticket;

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
}

type Lanes = Arc<Mutex<BTreeMap<String, Lane>>>;

/// What a permit holds: its slot, and the lane to tell when it goes.
struct Hold {
    judge: String,
    lanes: Lanes,
    probe: bool,
    _slot: Option<OwnedSemaphorePermit>,
}

impl Drop for Hold {
    fn drop(&mut self) {
        if let Some(lane) = lock(&self.lanes).get_mut(&self.judge) {
            lane.left(self.probe, Instant::now());
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

impl MemoryGate {
    /// A gate that knows nothing yet: every lane is open.
    pub fn new(options: GateOptions) -> Self {
        Self {
            options,
            lanes: Lanes::default(),
        }
    }

    fn with_lane<T>(&self, judge: &str, then: impl FnOnce(&mut Lane, Instant) -> T) -> T {
        let mut lanes = lock(&self.lanes);
        // Read under the lock: a lane's time never runs backwards.
        let now = Instant::now();
        if lanes.len() >= MOST_LANES && !lanes.contains_key(judge) {
            lanes.retain(|_, lane| !lane.is_idle(now));
        }
        let lane = lanes
            .entry(judge.to_owned())
            .or_insert_with(|| Lane::new(&self.options, self.cap(judge), self.limits(judge)));
        then(lane, now)
    }

    fn cap(&self, judge: &str) -> u32 {
        self.of(&self.options.max_concurrency, judge)
            .unwrap_or(self.options.default_concurrency)
    }

    fn limits(&self, judge: &str) -> PaceLimits {
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
    ) -> Result<Admitted, Refusal> {
        let in_line = self.with_lane(judge, |lane, now| {
            let stays = now + wait > deadline;
            let left = deadline.saturating_duration_since(now);
            if stays && !lane.may_stay(load, left, now) {
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
            let wait = match self.with_lane(judge, |lane, now| lane.admit(load, Place::First, now))
            {
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
        let begun = Instant::now();
        // Asked before the slot: a closed lane answers at once, however long the line is.
        let (slots, counts_tokens) = self.with_lane(judge, |lane, now| match lane.closed(now) {
            Some(refusal) => Err(refusal),
            None => Ok((lane.slots.clone(), lane.counts_tokens(now))),
        })?;
        let slot = match slots {
            Some(slots) => Some(take_slot(slots, begun + patience.max(LEAST_PATIENCE)).await?),
            None => None,
        };
        let load = if counts_tokens {
            load()
        } else {
            Load::default()
        };
        let admitted = match self.with_lane(judge, |lane, now| lane.admit(load, Place::New, now)) {
            Ok(admitted) => admitted,
            Err(Denied::Closed(refusal)) => return Err(refusal),
            Err(Denied::Later(wait)) => {
                self.stand_in_line(judge, load, wait, begun + patience)
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
                _slot: slot,
            })),
        })
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
            None => Lane::new(&self.options, self.cap(judge), self.limits(judge)).room(now),
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

async fn take_slot(
    slots: Arc<Semaphore>,
    deadline: Instant,
) -> Result<OwnedSemaphorePermit, Refusal> {
    let taken = Refusal {
        why: Closed::Busy,
        retry_in: Some(SLOTS_TAKEN),
    };
    match timeout_at(deadline, slots.acquire_owned()).await {
        Ok(Ok(slot)) => Ok(slot),
        Ok(Err(_)) | Err(_) => Err(taken),
    }
}

#[cfg(test)]
mod servers;
#[cfg(test)]
mod tests;
