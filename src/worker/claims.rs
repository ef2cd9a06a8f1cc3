//! Registry of the claims of this worker, and their reconciliation with the rows in its name.
//!
//! A claim may be committed after the worker gave it up, and a run's record may be rejected permanently. Such a row stays `running`
//! although no worker runs it; reconciliation requeues it. Active and recent claims are skipped.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::to_push;
use crate::clock::Clock;
use crate::job::{Job, JobId};
use crate::queue::{Push, Queue};
use crate::store::{CLAIM_GIVEN_UP, Store, StoreError};

/// Interval while the comparison is cheap, or after a failed claim or record.
const PERIOD: Duration = Duration::from_secs(5);
/// Interval otherwise, because the comparison scans all unfinished jobs.
const LONG_PERIOD: Duration = Duration::from_secs(60);

/// Active claims of this worker. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct ClaimRegistry(Arc<SharedClaims>);

#[derive(Default)]
struct SharedClaims {
    claims: Mutex<HashMap<JobId, i64>>,
    /// Until this time, orphaned rows may appear.
    uncertain_until: Mutex<Option<Instant>>,
}

/// Active claimed row. Dropping it removes it from the registry.
pub(super) struct ClaimedJob {
    /// Boxed, because the claim is moved through many futures and each would reserve space for it.
    pub(super) job: Box<Job>,
    registry: ClaimRegistry,
}

impl Drop for ClaimedJob {
    fn drop(&mut self) {
        let mut claims = self.registry.claims();
        if claims.get(&self.job.job_id) == Some(&self.job.claim_no) {
            claims.remove(&self.job.job_id);
        }
    }
}

impl ClaimedJob {
    /// Notes that the outcome may not be recorded.
    pub(super) fn mark_uncertain(&self) {
        self.registry.mark_uncertain();
    }
}

impl ClaimRegistry {
    pub(super) fn take(&self, job: Job) -> ClaimedJob {
        self.claims().insert(job.job_id, job.claim_no);
        ClaimedJob {
            job: Box::new(job),
            registry: self.clone(),
        }
    }

    /// Notes that the reply to a claim or record was lost. The row becomes an orphan once the claim is committed.
    pub(super) fn mark_uncertain(&self) {
        *self.uncertain_until() = Some(Instant::now() + 3 * CLAIM_GIVEN_UP);
    }

    fn is_in_doubt(&self) -> bool {
        self.uncertain_until()
            .is_some_and(|until| until > Instant::now())
    }

    fn uncertain_until(&self) -> MutexGuard<'_, Option<Instant>> {
        let until = &self.0.uncertain_until;
        until.lock()
    }

    fn claims(&self) -> MutexGuard<'_, HashMap<JobId, i64>> {
        self.0.claims.lock()
    }
}

/// Requeues orphaned rows in this worker's name until `stop`.
pub(super) async fn reconcile(
    registry: ClaimRegistry,
    worker_id: Uuid,
    store: Arc<Store>,
    queue: Arc<dyn Queue>,
    clock: Arc<dyn Clock>,
    stop: CancellationToken,
) {
    let mut reconciled_at = Instant::now();
    loop {
        tokio::select! {
            () = tokio::time::sleep(PERIOD) => {}
            () = stop.cancelled() => return,
        }
        let is_due = registry.is_in_doubt() || reconciled_at.elapsed() >= LONG_PERIOD;
        let reconciled = async {
            if !is_due && store.jobs().many_unfinished().await? {
                return Ok(());
            }
            reconciled_at = Instant::now();
            return_orphans(&registry, worker_id, &store, &*queue, clock.now()).await
        };
        if let Err(error) = reconciled.await {
            registry.mark_uncertain();
            tracing::warn!(%error, "failed to compare this worker's rows with its active jobs");
        }
    }
}

async fn return_orphans(
    registry: &ClaimRegistry,
    worker_id: Uuid,
    store: &Store,
    queue: &dyn Queue,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let given_up = TimeDelta::from_std(CLAIM_GIVEN_UP).unwrap_or(TimeDelta::MAX);
    let mut running = store.jobs().running_of(worker_id, now - given_up).await?;
    running.retain(|(id, claim_no)| registry.claims().get(id) != Some(claim_no));
    let returned = store.jobs().return_claims(worker_id, &running, now).await?;
    if returned.is_empty() {
        return Ok(());
    }
    tracing::warn!(
        jobs = returned.len(),
        "rows in this worker's name were orphaned; requeued"
    );
    let pushes: Vec<Push> = returned.into_iter().map(to_push).collect();
    if let Err(error) = queue.push_first(&pushes).await {
        tracing::debug!(%error, "not pushed; rescue will push them");
    }
    Ok(())
}
