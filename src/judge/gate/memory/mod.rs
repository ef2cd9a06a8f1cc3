//! The in-process gate. It knows only what this process's calls met, and what it was told to close.

mod breaker;
mod lane;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use super::{CallOutcome, Closed, Closure, Gate, GateSnapshot, Permit, Refusal};
use lane::Lane;

/// Judges of one entry that takes any model are named by whoever asks; idle lanes beyond this many are forgotten.
const MOST_LANES: usize = 1024;

/// A job that is sent back comes again at once: without any patience that would be a busy loop.
const LEAST_PATIENCE: Duration = Duration::from_secs(1);

/// How soon a call that found every slot taken comes again.
const SLOTS_TAKEN: Duration = Duration::from_secs(5);

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

impl MemoryGate {
    /// A gate that knows nothing yet: every lane is open.
    pub fn new(options: GateOptions) -> Self {
        Self {
            options,
            lanes: Lanes::default(),
        }
    }

    fn with_lane<T>(&self, judge: &str, then: impl FnOnce(&mut Lane, Instant) -> T) -> T {
        let now = Instant::now();
        let mut lanes = lock(&self.lanes);
        if lanes.len() >= MOST_LANES && !lanes.contains_key(judge) {
            lanes.retain(|_, lane| !lane.is_idle(now));
        }
        let lane = lanes
            .entry(judge.to_owned())
            .or_insert_with(|| Lane::new(&self.options, self.cap(judge)));
        then(lane, now)
    }

    fn cap(&self, judge: &str) -> u32 {
        let entry = judge.split_once(':').map_or(judge, |(entry, _)| entry);
        let caps = &self.options.max_concurrency;
        caps.get(judge)
            .or_else(|| caps.get(entry))
            .copied()
            .unwrap_or(self.options.default_concurrency)
    }
}

#[async_trait]
impl Gate for MemoryGate {
    async fn enter(&self, judge: &str, patience: Duration) -> Result<Permit, Refusal> {
        // Asked before the slot: a closed lane answers at once, however long the line is.
        let slots = self.with_lane(judge, |lane, now| match lane.closed(now) {
            Some(refusal) => Err(refusal),
            None => Ok(lane.slots.clone()),
        })?;
        let slot = match slots {
            Some(slots) => Some(take_slot(slots, patience).await?),
            None => None,
        };
        let probe = self.with_lane(judge, Lane::admit)?;
        Ok(Permit {
            probe,
            _on_drop: Some(Box::new(Hold {
                judge: judge.to_owned(),
                lanes: Arc::clone(&self.lanes),
                probe,
                _slot: slot,
            })),
        })
    }

    fn report(&self, judge: &str, permit: Permit, outcome: &CallOutcome) {
        self.with_lane(judge, |lane, now| {
            lane.report(judge, permit.probe, outcome, now);
        });
        // The breaker has left its half-open state, so the permit's drop finds no probe to give back.
        drop(permit);
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
    patience: Duration,
) -> Result<OwnedSemaphorePermit, Refusal> {
    let taken = Refusal {
        why: Closed::Busy,
        retry_in: Some(SLOTS_TAKEN),
    };
    let patience = patience.max(LEAST_PATIENCE);
    match timeout_at(Instant::now() + patience, slots.acquire_owned()).await {
        Ok(Ok(slot)) => Ok(slot),
        Ok(Err(_)) | Err(_) => Err(taken),
    }
}

#[cfg(test)]
mod tests;
