//! Synchronizes this worker's gate with the holds in the store. Closures by an operator or another worker apply here within a second.
//! Permanent closures of this gate are stored for the other workers.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::caps::{Exceeded, exceeded};
use super::{WorkerOptions, WorkerParts};
use crate::clock::Clock;
use crate::events::{Announcer, Event, EventType};
use crate::job::{Lane, WaitReason};
use crate::judge::Caps;
use crate::judge::gate::{
    Closure, Denial, Gate, GateSnapshot, HeldBack, LastError, MeterSnapshot, PaceSnapshot,
    WorkerCounts,
};
use crate::store::{Hold, HoldTarget, Store, StoreError, wait_reason};

const PERIOD: Duration = Duration::from_millis(500);
const COUNTED_EVERY: Duration = Duration::from_secs(2);

/// Holds as last read.
pub(super) struct HoldSync {
    store: Arc<Store>,
    gate: Arc<Gate>,
    clock: Arc<dyn Clock>,
    worker_id: Uuid,
    worker_name: String,
    caps: Caps,
    queue_paused: AtomicBool,
    /// Judges with a lane that this gate closed because of a hold.
    held_lanes: Mutex<BTreeSet<String>>,
    /// Closures of this gate that are not yet in the store.
    unwritten: Mutex<Vec<Closure>>,
    /// Earliest expiry of the holds read; before the first read, a time in the past.
    next_lapse: Mutex<Option<DateTime<Utc>>>,
    /// Gate snapshots as last published, and the time.
    shown: Mutex<Option<(Instant, Vec<GateSnapshot>)>>,
    /// Time for which readers of the store trust published snapshots.
    publish_ttl: Duration,
    counted: Mutex<Option<Instant>>,
    events: Announcer,
}

impl HoldSync {
    pub(super) fn new(parts: &WorkerParts, options: &WorkerOptions) -> Self {
        Self {
            store: parts.store.clone(),
            gate: parts.gate.clone(),
            clock: parts.clock.clone(),
            worker_id: options.worker_id,
            worker_name: options.name.clone(),
            caps: options.caps.clone(),
            queue_paused: AtomicBool::new(false),
            held_lanes: Mutex::default(),
            unwritten: Mutex::default(),
            next_lapse: Mutex::new(Some(DateTime::<Utc>::MIN_UTC)),
            shown: Mutex::default(),
            publish_ttl: options.lease,
            counted: Mutex::default(),
            events: parts.events.clone(),
        }
    }

    pub(super) fn queue_paused(&self) -> bool {
        self.queue_paused.load(Ordering::Relaxed)
    }

    /// Returns lanes stopped by a hold; time in them doesn't count as waiting.
    pub(super) fn stopped_lanes(&self) -> Vec<Lane> {
        self.held_lanes.lock().iter().map(Lane::of_judge).collect()
    }

    /// Synchronizes twice a second until `stop`.
    pub(super) async fn run(self: Arc<Self>, stop: CancellationToken) {
        loop {
            if let Err(error) = self.sync().await {
                tracing::warn!(%error, "failed to read the holds; closed lanes stay closed");
            }
            tokio::select! {
                () = tokio::time::sleep(PERIOD) => {}
                () = stop.cancelled() => return,
            }
        }
    }

    /// Stores this gate's closures, applies the store's holds, publishes the gate's state.
    pub(super) async fn sync(&self) -> Result<(), StoreError> {
        let now = self.clock.now();
        self.write_closures(now).await?;
        self.release_expired(now).await?;
        let holds = self
            .enforce_caps(self.store.holds().list(now).await?, now)
            .await?;
        *self.next_lapse.lock() = holds.iter().filter_map(|hold| hold.until).min();
        self.apply(&holds, now);
        self.count_workers().await?;
        self.publish(now).await
    }

    /// Passes the gate the number of live workers, and the number without a share of a judge's limits.
    async fn count_workers(&self) -> Result<(), StoreError> {
        if self
            .counted
            .lock()
            .is_some_and(|at| at.elapsed() < COUNTED_EVERY)
        {
            return Ok(());
        }
        let workers = self.store.workers().list().await?;
        let alive = workers.iter().filter(|worker| worker.alive).count();
        let mut known = WorkerCounts {
            alive: u32::try_from(alive).unwrap_or(u32::MAX),
            ..WorkerCounts::default()
        };
        for row in self.store.judges().list().await? {
            let is_apart = row.pace.is_some_and(|pace| pace.part_of.is_some());
            if is_apart && row.worker_id != self.worker_id {
                *known.apart.entry(row.name).or_default() += 1;
            }
        }
        self.gate.live_workers(known);
        *self.counted.lock() = Some(Instant::now());
        Ok(())
    }

    /// Runs before the lanes open, so that a wait behind an expired hold doesn't count.
    async fn release_expired(&self, now: DateTime<Utc>) -> Result<(), StoreError> {
        if self.next_lapse.lock().is_some_and(|lapse| lapse <= now) {
            for target in self.store.holds().lapse(now).await? {
                self.events.announce(opened(target, now));
            }
        }
        Ok(())
    }

    /// Stops judges with an exceeded cap and releases the others. Returns the holds set afterwards.
    ///
    /// Holds of other reasons stay unchanged. If a cap is exceeded behind a pause, its hold is set with the release of the pause, before
    /// this gate reads the release.
    async fn enforce_caps(
        &self,
        holds: Vec<Hold>,
        now: DateTime<Utc>,
    ) -> Result<Vec<Hold>, StoreError> {
        let spent = if self.caps.are_set() {
            self.store.budgets().spent(now.date_naive()).await?
        } else {
            Vec::new()
        };
        let exceeded = exceeded(&self.caps, &spent, now);
        let of = |judge: &str| {
            let target = HoldTarget::Judge(judge.to_owned());
            holds.iter().find(move |hold| hold.target == target)
        };
        let mut changed = false;
        for (judge, cap) in &exceeded {
            let known = of(judge).is_some_and(|hold| {
                let same = hold.until == Some(cap.until) && hold.message == cap.message;
                hold.reason != WaitReason::Budget || same
            });
            if !known {
                self.close_over_cap(judge, cap, now).await?;
                changed = true;
            }
        }
        let judges = self.caps.entries.iter().flat_map(|entry| &entry.judges);
        let freed: Vec<String> = judges
            .filter(|judge| !exceeded.contains_key(*judge))
            .filter(|judge| of(judge).is_some_and(|hold| hold.reason == WaitReason::Budget))
            .cloned()
            .collect();
        for target in self.store.holds().release_budget(&freed, now).await? {
            self.events.announce(opened(target, now));
            changed = true;
        }
        if changed {
            return self.store.holds().list(now).await;
        }
        Ok(holds)
    }

    async fn close_over_cap(
        &self,
        judge: &str,
        cap: &Exceeded,
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let hold = Hold {
            target: HoldTarget::Judge(judge.to_owned()),
            reason: WaitReason::Budget,
            message: cap.message.clone(),
            set_by: self.worker_name.clone(),
            since: now,
            until: Some(cap.until),
        };
        if self.store.holds().set_budget(&hold).await? {
            tracing::warn!(%judge, until = %cap.until, reason = %cap.message, "judge stopped by its cap");
            self.events.announce(Event {
                reason: Some(hold.reason),
                until: hold.until,
                ..Event::of_judge(EventType::JudgeClosed, judge, now)
            });
        }
        Ok(())
    }

    /// Publishes the gate's state if it changed or the last publication is about to expire.
    async fn publish(&self, now: DateTime<Utc>) -> Result<(), StoreError> {
        let snapshot = self.gate.snapshot();
        let known = self.shown.lock().as_ref().is_some_and(|(at, shown)| {
            (at.elapsed() < self.publish_ttl / 3 || shown.is_empty()) && same(shown, &snapshot)
        });
        if known {
            return Ok(());
        }
        self.store
            .judges()
            .put(self.worker_id, &snapshot, now)
            .await?;
        *self.shown.lock() = Some((Instant::now(), snapshot));
        Ok(())
    }

    async fn write_closures(&self, now: DateTime<Utc>) -> Result<(), StoreError> {
        self.unwritten.lock().extend(self.gate.take_closures());
        loop {
            // Kept until it is stored, because an outage must not reopen a lane.
            let Some(closure) = self.unwritten.lock().first().cloned() else {
                return Ok(());
            };
            let hold = Hold {
                target: HoldTarget::Judge(closure.judge.clone()),
                reason: wait_reason(closure.why),
                message: closure.message.clone(),
                set_by: self.worker_name.clone(),
                since: now,
                until: closure.reopens_in.map(|delay| later(now, delay)),
            };
            if self.store.holds().set(&hold).await? {
                self.events.announce(Event {
                    reason: Some(hold.reason),
                    until: hold.until,
                    ..Event::of_judge(EventType::JudgeClosed, &closure.judge, now)
                });
            }
            tracing::error!(judge = %closure.judge, reason = %hold.reason, "judge lane closed");
            self.unwritten.lock().remove(0);
        }
    }

    fn apply(&self, holds: &[Hold], now: DateTime<Utc>) {
        *self.held_lanes.lock() = close_and_open(&self.gate, holds, now);
        let paused = holds.iter().any(|hold| hold.target == HoldTarget::Queue);
        if self.queue_paused.swap(paused, Ordering::Relaxed) != paused {
            tracing::info!(paused, "queue pause changed");
        }
    }
}

/// Closes the lanes with a hold and opens the others. Returns the closed judges.
///
/// Compares with the state of the gate, not with the last read: a hold set by this gate may be released before it was ever read.
fn close_and_open(gate: &Gate, holds: &[Hold], now: DateTime<Utc>) -> BTreeSet<String> {
    let mut closed = BTreeSet::new();
    for hold in holds {
        match &hold.target {
            HoldTarget::Queue => {}
            HoldTarget::Judge(judge) => {
                let reopens_in = hold.until.and_then(|until| (until - now).to_std().ok());
                gate.close(judge, closed_by(hold.reason), reopens_in);
                closed.insert(judge.clone());
            }
        }
    }
    for judge in gate.held() {
        if !closed.contains(&judge) {
            tracing::info!(%judge, "judge lane reopened");
            gate.open(&judge);
        }
    }
    closed
}

pub(super) fn opened(target: HoldTarget, now: DateTime<Utc>) -> Event {
    match target {
        HoldTarget::Queue => Event::new(EventType::QueueResumed, now),
        HoldTarget::Judge(judge) => Event::of_judge(EventType::JudgeOpened, judge, now),
    }
}

/// Returns whether two snapshots are equal except for values that change all the time: remaining waits, use within the minute, calls in
/// flight.
fn same(before: &[GateSnapshot], now: &[GateSnapshot]) -> bool {
    let uncounted = |meter: MeterSnapshot| MeterSnapshot { used: 0, ..meter };
    let timeless = |snapshot: &GateSnapshot| GateSnapshot {
        pace: PaceSnapshot {
            requests: uncounted(snapshot.pace.requests),
            tokens: uncounted(snapshot.pace.tokens),
            input_tokens: uncounted(snapshot.pace.input_tokens),
            output_tokens: uncounted(snapshot.pace.output_tokens),
            shrunk_for: snapshot.pace.shrunk_for.map(|_| Duration::ZERO),
            held_for: snapshot.pace.held_for.map(|_| Duration::ZERO),
        },
        closed: snapshot.closed.clone().map(|denial| Denial {
            retry_in: denial.retry_in.map(|_| Duration::ZERO),
            ..denial
        }),
        in_flight: 0,
        last_error: snapshot.last_error.clone().map(|error| LastError {
            ago: Duration::ZERO,
            ..error
        }),
        ..snapshot.clone()
    };
    before.iter().map(timeless).eq(now.iter().map(timeless))
}

fn later(now: DateTime<Utc>, delay: Duration) -> DateTime<Utc> {
    TimeDelta::from_std(delay)
        .ok()
        .and_then(|delay| now.checked_add_signed(delay))
        .unwrap_or(DateTime::<Utc>::MAX_UTC)
}

fn closed_by(reason: WaitReason) -> HeldBack {
    match reason {
        WaitReason::BreakerOpen => HeldBack::BreakerOpen,
        WaitReason::Throttled => HeldBack::Throttled,
        WaitReason::Paced => HeldBack::Paced,
        WaitReason::Exhausted => HeldBack::Exhausted,
        WaitReason::Misconfigured => HeldBack::Misconfigured,
        WaitReason::Budget => HeldBack::Budget,
        WaitReason::Paused
        | WaitReason::Storage
        | WaitReason::Fallback
        | WaitReason::Queued
        | WaitReason::NoWorker
        | WaitReason::NoWorkerForJudge
        | WaitReason::Economy => HeldBack::Paused,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::ErrorClass;
    use crate::judge::gate::{CallOutcome, GateOptions, Load};

    const JUDGE: &str = "openai-default";

    async fn exhausted() -> Gate {
        let gate = Gate::new(GateOptions::default());
        let permit = gate
            .enter(JUDGE, Duration::ZERO, &Load::default)
            .await
            .unwrap();
        let outcome = CallOutcome::Failed {
            class: ErrorClass::Exhausted,
            retry_after: None,
            message: "nothing is left".to_owned(),
        };
        gate.report(JUDGE, permit, &outcome.into());
        gate
    }

    #[tokio::test]
    async fn hold_released_before_read_reopens_lane() {
        let gate = exhausted().await;
        assert_eq!(gate.take_closures().len(), 1);
        // The hold was stored and released before the read.
        assert!(close_and_open(&gate, &[], DateTime::UNIX_EPOCH).is_empty());
        assert_eq!(gate.closed(JUDGE), None);
    }

    #[tokio::test]
    async fn unsaved_closure_is_kept() {
        let gate = exhausted().await;
        close_and_open(&gate, &[], DateTime::UNIX_EPOCH);
        assert!(gate.closed(JUDGE).is_some());
    }

    #[tokio::test]
    async fn lanes_follow_the_holds_in_the_store() {
        let gate = Gate::new(GateOptions::default());
        let hold = Hold {
            target: HoldTarget::Judge(JUDGE.to_owned()),
            reason: WaitReason::Paused,
            message: String::new(),
            set_by: "somebody".to_owned(),
            since: DateTime::UNIX_EPOCH,
            until: None,
        };
        let closed = close_and_open(&gate, &[hold], DateTime::UNIX_EPOCH);
        assert_eq!(closed, BTreeSet::from([JUDGE.to_owned()]));
        assert_eq!(
            gate.closed(JUDGE).map(|denial| denial.why),
            Some(HeldBack::Paused)
        );
        close_and_open(&gate, &[], DateTime::UNIX_EPOCH);
        assert_eq!(gate.closed(JUDGE), None);
    }
}
