//! Between the queue and a run: which lanes are open, and the claim of rows for ids.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;
use uuid::Uuid;

use super::WorkerParts;
use super::brakes::Brakes;
use crate::clock::Clock;
use crate::job::{Job, JobId, Lane, Priority, Usage};
use crate::judge::Judges;
use crate::judge::gate::Gate;
use crate::queue::Claimed;
use crate::queue::backend::{Admit, Refused};
use crate::store::{Ending, Fence, Record, Store, StoreError};

/// How long the list of lanes in the store is believed.
const LANES_FRESH: Duration = Duration::from_secs(1);

/// Admits ids by claiming their rows in the store.
pub(super) struct StoreAdmit {
    store: Arc<Store>,
    gate: Arc<dyn Gate>,
    clock: Arc<dyn Clock>,
    brakes: Arc<Brakes>,
    worker_id: Uuid,
    judges: Arc<Judges>,
    /// Judges that this worker can ask, by configuration.
    configured: BTreeSet<Lane>,
    /// Lanes with work that the store named last, and when.
    seen: Mutex<(Option<Instant>, BTreeSet<Lane>)>,
}

impl StoreAdmit {
    /// Builds the admission of one worker.
    pub(super) fn new(parts: &WorkerParts, brakes: Arc<Brakes>, worker_id: Uuid) -> Self {
        let mut configured: BTreeSet<Lane> = parts.judge_names.iter().map(Lane::of_judge).collect();
        configured.insert(Lane::of_judge(Lane::NONE));
        Self {
            store: parts.store.clone(),
            gate: parts.gate.clone(),
            clock: parts.clock.clone(),
            brakes,
            worker_id,
            judges: parts.judges.clone(),
            configured,
            seen: Mutex::default(),
        }
    }

    /// Lanes of judges by name (`entry:model`) that no list in a file names, but that the store has work for.
    async fn refresh_lanes(&self) {
        {
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            if seen.0.is_some_and(|at| at.elapsed() < LANES_FRESH) {
                return;
            }
            seen.0 = Some(Instant::now());
        }
        match self.store.lanes().await {
            Ok(lanes) => {
                let mine = lanes
                    .into_iter()
                    .filter(|lane| !lane.is_suspect() && self.judges.get(lane.as_str()).is_ok())
                    .collect();
                self.seen.lock().unwrap_or_else(PoisonError::into_inner).1 = mine;
            }
            Err(error) => tracing::debug!(%error, "could not read the lanes"),
        }
    }

    fn open_lanes(&self) -> Vec<Lane> {
        if self.brakes.queue_paused() {
            return Vec::new();
        }
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        self.configured
            .union(&seen.1)
            .filter(|lane| self.gate.closed(lane.as_str()).is_none())
            .cloned()
            .collect()
    }

    async fn claim(&self, ids: &[JobId]) -> Result<Vec<Job>, StoreError> {
        self.store
            .claim(ids, self.worker_id, self.clock.now())
            .await
    }
}

#[async_trait]
impl Admit for StoreAdmit {
    type Item = Job;

    async fn lanes(&self) -> Vec<Lane> {
        self.refresh_lanes().await;
        self.open_lanes()
    }

    async fn admit(&self, ids: Vec<Claimed>) -> Result<Vec<(Claimed, Job)>, Refused> {
        let job_ids: Vec<JobId> = ids.iter().map(|claimed| claimed.id).collect();
        let mut jobs = self.claim(&job_ids).await.map_err(|error| Refused {
            reason: error.to_string(),
        })?;
        Ok(ids
            .into_iter()
            .filter_map(|claimed| {
                let found = jobs.iter().position(|job| job.job_id == claimed.id)?;
                let job = jobs.swap_remove(found);
                // The row's lane counts: it may have become `suspect` since the id was pushed.
                Some((
                    Claimed {
                        lane: job.lane.clone(),
                        ..claimed
                    },
                    job,
                ))
            })
            .collect())
    }

    async fn put_back(&self, unstarted: Vec<(Claimed, Job)>) {
        for (_, job) in unstarted {
            if let Err(error) = self.put_back_one(&job).await {
                tracing::warn!(job_id = %job.job_id, %error, "could not put a claimed row back; rescue will");
            }
        }
    }

    async fn due_without_queue(&self, max: usize) -> Vec<(Claimed, Job)> {
        self.refresh_lanes().await;
        match self.due(max).await {
            Ok(jobs) => jobs,
            Err(error) => {
                tracing::warn!(%error, "could not take due work from the store");
                Vec::new()
            }
        }
    }
}

impl StoreAdmit {
    /// Nothing of the job ran, so nothing is spent: its row is as it was before the claim, but for `claim_no`.
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
            .record(record)
            .await?
            .committed()
            .await
            .map(|_| ())
    }

    async fn due(&self, max: usize) -> Result<Vec<(Claimed, Job)>, StoreError> {
        let now = self.clock.now();
        let mut taken = Vec::new();
        for priority in [Priority::Interactive, Priority::Bulk] {
            for lane in self.open_lanes() {
                let room = u32::try_from(max.saturating_sub(taken.len())).unwrap_or(u32::MAX);
                if room == 0 {
                    return Ok(taken);
                }
                let due = self.store.due(&lane, priority, now, None, room).await?;
                let ids: Vec<JobId> = due.iter().map(|job| job.job_id).collect();
                if ids.is_empty() {
                    continue;
                }
                taken.extend(self.claim(&ids).await?.into_iter().map(|job| {
                    let claimed = Claimed {
                        id: job.job_id,
                        lane: job.lane.clone(),
                        priority: job.priority,
                    };
                    (claimed, job)
                }));
            }
        }
        Ok(taken)
    }
}
