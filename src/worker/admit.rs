//! Selects the open lanes for the queue and claims the rows of the ids that it returns.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use parking_lot::Mutex;
use tokio::time::Instant;
use uuid::Uuid;

use super::WorkerParts;
use super::claims::{ClaimRegistry, ClaimedJob};
use super::heartbeat::HeartbeatTask;
use super::holds::HoldSync;
use super::to_push;
use crate::clock::Clock;
use crate::job::{Job, JobId, Lane, Usage};
use crate::judge::Judges;
use crate::judge::gate::{Gate, Room};
use crate::queue::backend::{Admit, LaneRoom, OpenLane, Refused};
use crate::queue::{Claimed, Push, Queue};
use crate::store::{Ending, Fence, Record, Store, StoreError};

/// Lifetime of the cached list of lanes.
const LANES_FRESH: Duration = Duration::from_secs(1);

pub(super) struct StoreAdmit {
    store: Arc<Store>,
    queue: Arc<dyn Queue>,
    gate: Arc<Gate>,
    clock: Arc<dyn Clock>,
    holds: Arc<HoldSync>,
    worker_id: Uuid,
    pulse: HeartbeatTask,
    claims: ClaimRegistry,
    judges: Arc<Judges>,
    configured: BTreeSet<Lane>,
    /// Lanes with work, as last read from the store, and the time of the read.
    seen: Mutex<(Option<Instant>, BTreeSet<Lane>)>,
    claims_stopped: AtomicBool,
}

impl StoreAdmit {
    pub(super) fn new(
        parts: &WorkerParts,
        holds: Arc<HoldSync>,
        worker_id: Uuid,
        pulse: HeartbeatTask,
        claims: ClaimRegistry,
    ) -> Self {
        let mut configured: BTreeSet<Lane> = parts.judge_names.iter().map(Lane::of_judge).collect();
        configured.insert(Lane::of_judge(Lane::NONE));
        Self {
            store: parts.store.clone(),
            queue: parts.queue.clone(),
            gate: parts.gate.clone(),
            clock: parts.clock.clone(),
            holds,
            worker_id,
            pulse,
            claims,
            judges: parts.judges.clone(),
            configured,
            seen: Mutex::default(),
            claims_stopped: AtomicBool::new(false),
        }
    }

    /// Refreshes the lanes of judges (`entry:model`) that have work but aren't listed in the configuration.
    async fn refresh_lanes(&self) {
        {
            let mut seen = self.seen.lock();
            if seen.0.is_some_and(|at| at.elapsed() < LANES_FRESH) {
                return;
            }
            seen.0 = Some(Instant::now());
        }
        match self.store.jobs().lanes().await {
            Ok(lanes) => {
                let mine = lanes
                    .into_iter()
                    .filter(|lane| !lane.is_suspect() && self.judges.get(lane.as_str()).is_ok())
                    .collect();
                self.seen.lock().1 = mine;
            }
            Err(error) => tracing::debug!(%error, "failed to read the lanes"),
        }
    }

    fn open_lanes(&self) -> Vec<OpenLane> {
        if self.holds.queue_paused() {
            return Vec::new();
        }
        let seen = self.seen.lock();
        self.configured
            .union(&seen.1)
            .filter_map(|lane| {
                let room = self.gate.room(lane.as_str()).ok()?;
                Some(OpenLane {
                    lane: lane.clone(),
                    room: room_of(room),
                })
            })
            .collect()
    }

    async fn claim(
        &self,
        ids: &[JobId],
        now: DateTime<Utc>,
    ) -> Result<Vec<ClaimedJob>, StoreError> {
        let asked = Instant::now();
        let claimed = self.store.jobs().claim(ids, self.worker_id, now).await;
        metrics::histogram!("gavel_claim_seconds").record(asked.elapsed().as_secs_f64());
        if claimed.is_err() {
            self.claims.mark_uncertain();
        }
        let jobs = claimed?.into_iter();
        let jobs: Vec<ClaimedJob> = jobs.map(|job| self.claims.take(job)).collect();
        let mut given_back = self.store.jobs().take_given_back().await;
        given_back.retain(|due| !jobs.iter().any(|taken| taken.job.job_id == due.job_id));
        if !given_back.is_empty() {
            let pushes: Vec<Push> = given_back.into_iter().map(to_push).collect();
            if let Err(error) = self.queue.push_first(&pushes).await {
                tracing::debug!(%error, "not pushed; rescue will push them");
            }
        }
        Ok(jobs)
    }
}

#[async_trait]
impl Admit for StoreAdmit {
    type Item = ClaimedJob;

    async fn lanes(&self) -> Vec<OpenLane> {
        // If other workers may count this one as dead, a job that it claims would run twice. If results can't be stored, runs are wasted.
        if !self.pulse.is_confirmed() || self.outage_stops_claims().await {
            return Vec::new();
        }
        self.refresh_lanes().await;
        self.open_lanes()
    }

    async fn admit(&self, ids: Vec<Claimed>) -> Result<Vec<(Claimed, ClaimedJob)>, Refused> {
        let job_ids: Vec<JobId> = ids.iter().map(|claimed| claimed.id).collect();
        let jobs = self.claim(&job_ids, self.clock.now()).await;
        let mut jobs = jobs.map_err(|error| Refused {
            reason: error.to_string(),
        })?;
        let admitted = ids.into_iter().filter_map(|claimed| {
            let found = jobs
                .iter()
                .position(|taken| taken.job.job_id == claimed.id)?;
            let taken = jobs.swap_remove(found);
            // Use the lane of the row: it may have changed to `suspect` since the push.
            let lane = taken.job.lane.clone();
            Some((Claimed { lane, ..claimed }, taken))
        });
        Ok(admitted.collect())
    }

    async fn put_back(&self, unstarted: Vec<(Claimed, ClaimedJob)>) {
        for (_, ClaimedJob { job, .. }) in &unstarted {
            if let Err(error) = self.put_back_one(job).await {
                self.claims.mark_uncertain();
                tracing::warn!(job_id = %job.job_id, %error, "failed to release a claimed row, retrying");
            }
        }
    }
}

impl StoreAdmit {
    /// Returns whether claims stop because the database rejects results. Logs only the change.
    async fn outage_stops_claims(&self) -> bool {
        let outage = self.store.known_outage();
        let stops = outage.is_some_and(|known| known.outage.stops_claims());
        let stopped = self.claims_stopped.swap(stops, Ordering::Relaxed);
        if stops && !stopped {
            let why = self.store.explain_outage().await.unwrap_or_default();
            tracing::error!("claims stopped: {why}");
        } else if stopped && !stops {
            tracing::info!("claims resumed: the database can be used");
        }
        stops
    }

    /// Restores the row of a job that didn't start, except `claim_no`.
    async fn put_back_one(&self, job: &Job) -> Result<(), StoreError> {
        let record = Record {
            fence: Fence {
                job_id: job.job_id,
                claim_no: job.claim_no,
                worker_id: self.worker_id,
            },
            ending: Ending::NotStarted,
            retries: job.retries,
            usage: Usage {
                cost_usd: Some(0.0),
                ..Usage::default()
            },
            at: self.clock.now(),
        };
        self.store
            .jobs()
            .record(record)
            .await?
            .committed()
            .await
            .map(|_| ())
    }
}

/// Converts the room of a gate into the capacity of its lane: calls in flight plus calls that may start soon.
fn room_of(room: Room) -> Option<LaneRoom> {
    let by_pace = room
        .starts
        .map(|starts| room.in_flight.saturating_add(starts));
    let most = room.cap.into_iter().chain(by_pace).min()?;
    Some(LaneRoom {
        most,
        more_in: room.more_in,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lane_room_is_minimum_of_cap_and_pace() {
        let second = Some(Duration::from_secs(1));
        let room = |in_flight, cap, starts: Option<usize>| {
            room_of(Room {
                in_flight,
                cap,
                starts,
                more_in: starts.and(second),
            })
        };
        let of = |most, more_in| Some(LaneRoom { most, more_in });
        assert_eq!(room(9, None, None), None);
        assert_eq!(room(1, Some(2), None), of(2, None));
        assert_eq!(room(9, None, Some(1)), of(10, second));
        assert_eq!(room(9, None, Some(0)), of(9, second));
        assert_eq!(room(2, Some(2), Some(50)), of(2, second));
        assert_eq!(room(1, Some(64), Some(3)), of(4, second));
    }
}
