//! Which claimed rows this worker has in hand, and the comparison with the rows that bear its name.
//!
//! A claim may be committed after it was given up, and a run's end may be refused for good: such a row says `running` while
//! nobody runs it. The comparison returns it to the queue. Never touches a row that is in hand, or claimed a moment ago.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::push_of;
use crate::clock::Clock;
use crate::job::{Job, JobId};
use crate::queue::{Push, Queue};
use crate::store::{CLAIM_GIVEN_UP, Store, StoreError};

/// How often the rows are compared while that costs little, or where a claim or a record went wrong.
const PERIOD: Duration = Duration::from_secs(5);
/// How often otherwise: it costs a walk over all unfinished jobs.
const LONG_PERIOD: Duration = Duration::from_secs(60);

/// The claims that this worker has in hand. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct ClaimRegistry(Arc<SharedClaims>);

#[derive(Default)]
struct SharedClaims {
    claims: Mutex<HashMap<JobId, i64>>,
    /// Until then a row may be left behind at any time.
    in_doubt_until: Mutex<Option<Instant>>,
}

/// A claimed row in hand. Dropping it says that the row is no longer in hand, however that came.
pub(super) struct ClaimedJob {
    /// Boxed: it goes through many hands, and each of them would have room for it.
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
    /// Its end may not have been recorded.
    pub(super) fn doubt(&self) {
        self.registry.doubt();
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

    /// A claim's answer or a record's was lost: a row may be left behind, as soon as the claim is committed.
    pub(super) fn doubt(&self) {
        *self.in_doubt_until() = Some(Instant::now() + 3 * CLAIM_GIVEN_UP);
    }

    fn is_in_doubt(&self) -> bool {
        self.in_doubt_until()
            .is_some_and(|until| until > Instant::now())
    }

    fn in_doubt_until(&self) -> MutexGuard<'_, Option<Instant>> {
        let until = &self.0.in_doubt_until;
        until.lock()
    }

    fn claims(&self) -> MutexGuard<'_, HashMap<JobId, i64>> {
        self.0.claims.lock()
    }
}

/// Requeues rows in this worker's name that it isn't running, until told to stop.
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
            registry.doubt();
            tracing::warn!(%error, "could not compare this worker's rows with what it has in hand");
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
        "rows in this worker's name were in nobody's hand; they are queued again"
    );
    let pushes: Vec<Push> = returned.into_iter().map(push_of).collect();
    if let Err(error) = queue.push_first(&pushes).await {
        tracing::debug!(%error, "not pushed; rescue will push them");
    }
    Ok(())
}
