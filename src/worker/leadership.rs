//! Failure detection and leader election. One worker at a time rescues, expands and does the chores.
//!
//! A worker is dead when its heartbeat hasn't changed for its own lease, measured with the watcher's monotonic clock. Wall clocks are not
//! used, and a new watcher starts without any silence. Time without reads, or without writes of the watcher's own heartbeat, counts little,
//! because other workers could not write then either. [`super::rescue`] requeues the jobs.
//!
//! The leader fills the queue, so a worker that can't reach the queue yields to one that can.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{WorkerOptions, WorkerParts};
use crate::clock::Clock;
use crate::queue::Queue;
use crate::store::{Died, RollCall, Store, StoreError, WorkerPulse};
use crate::wire::WorkerState;

/// Maximum interval of checks. With a short lease, there are three per lease.
const PERIOD: Duration = Duration::from_secs(1);
/// Timeout of a ping of the queue.
const PING: Duration = Duration::from_millis(250);
/// A leader that can't reach the queue for this long resigns. By then, the other workers have reported whether they reach it.
const RESIGN_AFTER: Duration = Duration::from_secs(3);

/// Whether this worker reached the queue at the last check; false before the first one. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct QueueConnection(Arc<AtomicBool>);

impl QueueConnection {
    pub(super) fn is_away(&self) -> bool {
        !self.0.load(Ordering::Relaxed)
    }

    fn found(&self, connected: bool) {
        self.0.store(connected, Ordering::Relaxed);
    }
}

/// Whether this worker leads. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Leadership(Arc<LeadershipState>);

#[derive(Default)]
struct LeadershipState {
    leads: AtomicBool,
    died: AtomicBool,
    news: Notify,
}

impl Leadership {
    pub(super) fn leads(&self) -> bool {
        self.0.leads.load(Ordering::Acquire)
    }

    /// Returns whether a worker has died since the last call.
    pub(super) fn died(&self) -> Died {
        match self.0.died.swap(false, Ordering::AcqRel) {
            true => Died::Somebody,
            false => Died::Nobody,
        }
    }

    /// Restores the result of `died` after the caller failed to handle it.
    pub(super) fn restore(&self, died: Died) {
        match died {
            Died::Somebody => self.0.died.store(true, Ordering::Release),
            Died::Nobody => {}
        }
    }

    /// Returns when a worker has died or this worker has become the leader.
    pub(super) async fn news(&self) {
        self.0.news.notified().await;
    }

    fn set(&self, leads: bool, died: bool) {
        let led = self.0.leads.swap(leads, Ordering::AcqRel);
        if led != leads {
            tracing::info!(leads, "leadership changed");
        }
        let begins = leads && !led;
        // A new leader doesn't know which deaths the last leader left unhandled.
        if died || begins {
            self.0.died.store(true, Ordering::Release);
        }
        if leads && (died || begins) {
            self.0.news.notify_one();
        }
    }
}

/// Watches the workers, declares dead ones, and leads if no other worker does.
pub(super) struct LeaderElection {
    store: Arc<Store>,
    clock: Arc<dyn Clock>,
    worker_id: Uuid,
    lease: Duration,
    detector: FailureDetector,
    leadership: Leadership,
    queue: Arc<dyn Queue>,
    connection: QueueConnection,
    away_since: Option<Instant>,
}

impl LeaderElection {
    pub(super) fn new(
        parts: &WorkerParts,
        options: &WorkerOptions,
        connection: QueueConnection,
        leadership: Leadership,
    ) -> Self {
        Self {
            store: parts.store.clone(),
            clock: parts.clock.clone(),
            worker_id: options.worker_id,
            lease: options.lease,
            detector: FailureDetector::default(),
            leadership,
            queue: parts.queue.clone(),
            connection,
            away_since: None,
        }
    }

    /// Checks until `stop`, then gives up the lead.
    pub(super) async fn run(mut self, stop: CancellationToken) {
        let period = PERIOD.min(self.lease / 3);
        loop {
            if let Err(error) = self.tick().await {
                tracing::warn!(%error, "failed to list live workers");
            }
            tokio::select! {
                () = tokio::time::sleep(period) => {}
                () = stop.cancelled() => break,
            }
        }
        self.leadership.set(false, false);
    }

    async fn tick(&mut self) -> Result<(), StoreError> {
        self.look_for_queue().await;
        let (roll, now) = (self.store.workers().roll_call().await?, Instant::now());
        let (own, others): (Vec<_>, Vec<_>) = roll
            .workers
            .iter()
            .partition(|pulse| pulse.worker_id == self.worker_id);
        self.detector
            .observe_own_heartbeat(own.first().copied(), now);
        let seen = self.detector.observe(&others, self.lease, now);
        for (worker_id, _) in &seen.dead {
            let has_stopped = |pulse: &&WorkerPulse| {
                pulse.worker_id == *worker_id && pulse.state == WorkerState::Stopped
            };
            match others.iter().any(has_stopped) {
                true => tracing::info!(%worker_id, "a worker has stopped"),
                false => {
                    tracing::warn!(%worker_id, "worker silent past its lease: requeuing its jobs");
                }
            }
        }
        self.store.workers().declare_dead(&seen.dead).await?;
        let can_lead = |other: &&WorkerPulse| {
            !other.queue_away && is_active_leader(other.worker_id, &roll, &seen)
        };
        let away_for = self.away_since.map(|since| since.elapsed());
        let yields = away_for.is_some() && others.iter().any(can_lead);
        let leads = match roll.leader {
            Some(leader) if leader == self.worker_id => {
                let resigns = yields && away_for.is_some_and(|away_for| away_for >= RESIGN_AFTER);
                if resigns {
                    tracing::warn!("queue unreachable: yielding leadership");
                    self.store.workers().resign(self.worker_id).await?;
                }
                !resigns
            }
            Some(leader) if is_active_leader(leader, &roll, &seen) => false,
            Some(_) | None if yields => false,
            Some(_) | None => {
                self.store
                    .workers()
                    .lead(self.worker_id, self.clock.now())
                    .await?
            }
        };
        self.leadership.set(leads, seen.died);
        Ok(())
    }

    async fn look_for_queue(&mut self) {
        let answer = tokio::time::timeout(PING, self.queue.ping()).await;
        self.away_since = match answer {
            Ok(Ok(())) => None,
            Ok(Err(_)) | Err(_) => self.away_since.or_else(|| Some(Instant::now())),
        };
        self.connection.found(self.away_since.is_none());
    }
}

/// Returns whether a leader is active. A draining worker is alive but has stopped leading.
fn is_active_leader(leader: Uuid, roll: &RollCall, seen: &Observation) -> bool {
    let is_dead = seen.dead.iter().any(|(dead, _)| *dead == leader);
    let mut workers = roll.workers.iter();
    let runs =
        |pulse: &WorkerPulse| pulse.worker_id == leader && pulse.state == WorkerState::Running;
    !is_dead && workers.any(runs)
}

/// Observed silence of each worker.
#[derive(Debug, Default)]
struct FailureDetector {
    seen: HashMap<Uuid, Seen>,
    looked_at: Option<Instant>,
    /// This worker's own heartbeat, and when it was first seen.
    own: Option<(DateTime<Utc>, Instant)>,
}

#[derive(Debug)]
struct Seen {
    heartbeat_at: DateTime<Utc>,
    silent_for: Duration,
}

#[derive(Debug, Default, PartialEq)]
struct Observation {
    /// Workers to declare dead, each with its last heartbeat.
    dead: Vec<(Uuid, DateTime<Utc>)>,
    /// Whether a worker was declared dead, by this watcher or another one.
    died: bool,
}

impl FailureDetector {
    fn observe_own_heartbeat(&mut self, own: Option<&WorkerPulse>, now: Instant) {
        let is_old = |beat| self.own.is_some_and(|(before, _)| before == beat);
        match own.map(|pulse| pulse.heartbeat_at) {
            Some(beat) if is_old(beat) => {}
            beat => self.own = beat.map(|beat| (beat, now)),
        }
    }

    /// Updates the silence of workers that weren't declared dead. `lease` is this worker's.
    fn observe(&mut self, pulses: &[&WorkerPulse], lease: Duration, now: Instant) -> Observation {
        // If this worker's heartbeat isn't written, assume that no heartbeat is. After the outage, each worker still has a third of its
        // lease.
        let is_mute = |(_, since): (_, Instant)| now - since >= lease * 2 / 3;
        let gap = match self.looked_at {
            Some(before) if !self.own.is_some_and(is_mute) => now - before,
            Some(_) | None => Duration::ZERO,
        };
        self.looked_at = Some(now);
        let mut observation = Observation::default();
        let mut seen = HashMap::with_capacity(pulses.len());
        for pulse in pulses {
            let lease = pulse.lease;
            let silent_for = match self.seen.remove(&pulse.worker_id) {
                // One gap counts for at most a third of a lease, because workers could not write while this one could not read.
                Some(before) if before.heartbeat_at == pulse.heartbeat_at => {
                    before.silent_for + gap.min(lease / 3)
                }
                Some(_) | None => Duration::ZERO,
            };
            if pulse.state == WorkerState::Stopped || silent_for >= lease {
                observation.dead.push((pulse.worker_id, pulse.heartbeat_at));
            }
            let heartbeat_at = pulse.heartbeat_at;
            let now_seen = Seen {
                heartbeat_at,
                silent_for,
            };
            seen.insert(pulse.worker_id, now_seen);
        }
        // Workers that disappeared were declared dead by another watcher.
        observation.died = !observation.dead.is_empty() || !self.seen.is_empty();
        self.seen = seen;
        observation
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(3);
    const SECOND: Duration = Duration::from_secs(1);

    fn pulse(id: u128, beat: i64) -> WorkerPulse {
        WorkerPulse {
            worker_id: Uuid::from_u128(id),
            heartbeat_at: DateTime::from_timestamp(beat, 0).unwrap(),
            lease: LEASE,
            state: WorkerState::Running,
            queue_away: false,
        }
    }

    fn looks(gaps_and_beats: &[(Duration, i64)]) -> Vec<bool> {
        let (mut detector, mut now) = (FailureDetector::default(), Instant::now());
        let look = |(gap, beat): &(Duration, i64)| {
            now += *gap;
            let observation = detector.observe(&[&pulse(1, *beat)], SECOND, now);
            !observation.dead.is_empty()
        };
        gaps_and_beats.iter().map(look).collect()
    }

    #[test]
    fn worker_is_dead_after_a_lease_of_observed_silence() {
        let silent = [(SECOND, 9); 5];
        assert_eq!(looks(&silent), [false, false, false, true, true]);
        let heard = [
            (SECOND, 1),
            (SECOND, 1),
            (SECOND, 2),
            (SECOND, 2),
            (SECOND, 2),
        ];
        assert_eq!(looks(&heard), [false; 5]);
    }

    #[test]
    fn draining_or_dead_leader_is_not_active() {
        let (running, nobody) = (pulse(1, 1), Observation::default());
        let draining = WorkerPulse {
            state: WorkerState::Draining,
            ..pulse(2, 1)
        };
        let roll = RollCall {
            workers: vec![running.clone(), draining],
            leader: None,
        };
        let leads =
            |id: u128, seen: &Observation| is_active_leader(Uuid::from_u128(id), &roll, seen);
        assert_eq!([1, 2, 3].map(|id| leads(id, &nobody)), [true, false, false]);
        let dead = Observation {
            dead: vec![(running.worker_id, running.heartbeat_at)],
            died: true,
        };
        assert!(!leads(1, &dead));
    }

    #[test]
    fn clock_changes_do_not_affect_detection() {
        let set_back = [
            (SECOND, 7200),
            (SECOND, 3600),
            (SECOND, 3602),
            (SECOND, 9999),
        ];
        assert_eq!(looks(&set_back), [false; 4]);
    }

    #[test]
    fn read_outage_counts_for_a_third_of_a_lease() {
        let outage = [(SECOND, 1), (600 * SECOND, 1), (SECOND, 1), (SECOND, 2)];
        assert_eq!(looks(&outage), [false; 4]);
    }

    #[test]
    fn write_outage_declares_no_worker_dead() {
        let (mut detector, mut now) = (FailureDetector::default(), Instant::now());
        let mut dead = |own: i64, other: i64| {
            now += SECOND;
            detector.observe_own_heartbeat(Some(&pulse(7, own)), now);
            !detector
                .observe(&[&pulse(1, other)], LEASE, now)
                .dead
                .is_empty()
        };
        for _ in 0..30 {
            assert!(!dead(1, 1), "both are silent");
        }
        assert!(!dead(2, 1), "the election's heartbeat was written first");
        assert!(!dead(2, 2));
        let alone = (3..9).map(|own| dead(own, 2)).collect::<Vec<_>>();
        assert_eq!(alone, [false, false, true, true, true, true]);
    }

    #[test]
    fn workers_have_own_leases_and_stopped_ones_are_dead() {
        let long = WorkerPulse {
            lease: 10 * SECOND,
            ..pulse(1, 1)
        };
        let short = pulse(2, 1);
        let (mut detector, mut now) = (FailureDetector::default(), Instant::now());
        for dead in [0, 0, 0, 1] {
            let observation = detector.observe(&[&long, &short], LEASE, now);
            assert_eq!(observation.dead.len(), dead);
            assert_eq!(observation.died, dead > 0);
            now += SECOND;
        }
        let stopped = WorkerPulse {
            state: WorkerState::Stopped,
            ..pulse(3, 5)
        };
        let observation = detector.observe(&[&long, &stopped], LEASE, now);
        assert_eq!(
            observation.dead,
            [(stopped.worker_id, stopped.heartbeat_at)]
        );
        assert!(observation.died);
        // Declared dead by this watcher and by others.
        assert!(detector.observe(&[&long], LEASE, now + SECOND).died);
        assert!(!detector.observe(&[&long], LEASE, now + 2 * SECOND).died);
    }
}
