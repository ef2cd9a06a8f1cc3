//! Runs one job: catches panics, obeys a hard stop, records the outcome, frees the slot and pushes a job that waits.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::after_ending::{event, refused, requeued};
use super::claims::ClaimedJob;
use super::process::Pipeline;
use crate::clock::Clock;
use crate::events::{Announcer, Event, EventType};
use crate::job::{Job, JobState};
use crate::queue::backend::Delivery;
use crate::queue::{Push, Queue};
use crate::store::{Ending, Record, Recorded, Store, StoreError};

/// Maximum ended runs that are not yet recorded while their slots are free.
pub(super) const UNRECORDED: usize = 1_024;
/// Maximum wait of a batch item's outcome for its cost to be counted.
const COUNTED_WITHIN: Duration = Duration::from_secs(1);

pub(super) struct Handler {
    pub(super) pipeline: Pipeline,
    pub(super) store: Arc<Store>,
    pub(super) queue: Arc<dyn Queue>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) events: Announcer,
    /// Ended runs with an uncommitted outcome, and the limit of their number.
    pub(super) settling: TaskTracker,
    pub(super) unrecorded: Arc<Semaphore>,
    pub(super) hard: CancellationToken,
}

impl Handler {
    pub(super) async fn handle(&self, delivery: Delivery<ClaimedJob>) {
        let Delivery {
            item: claimed,
            slot,
            active,
            ..
        } = delivery;
        let job = &claimed.job;
        let started = tokio::time::Instant::now();
        count_pick_up(job);
        self.events.announce(Event::of_job(
            EventType::JobStarted,
            job,
            JobState::Running,
            self.clock.now(),
        ));
        // Boxed, because a run's future is large and every layer around it would reserve its size again.
        let run = Box::pin(self.pipeline.process(job));
        let record = tokio::select! {
            biased;
            () = self.hard.cancelled() => self.pipeline.given_back(job),
            run = AssertUnwindSafe(run).catch_unwind() => {
                run.unwrap_or_else(|_| self.pipeline.panicked(job))
            }
        };
        log_end(job, &record, started.elapsed());
        let requeued = requeued(job, &record);
        let refused = refused(&record);
        let events = EndEvents {
            announcer: self.events.clone(),
            ended: event(job, &record),
            refused: event(job, &refused),
        };
        // The semaphore is never closed. If the database is slow, slots stay occupied so that judge calls don't outpace records.
        let place = self.unrecorded.clone().acquire_owned().await;
        // The slot is freed now, before the commit. With a budget, it stays occupied until the commit, because the result may end the
        // budget. The same holds for a suspect, so that a dying worker has only one suspect active.
        let slot = (job.budgeted || job.lane.is_suspect()).then_some(slot);
        let (store, queue) = (self.store.clone(), self.queue.clone());
        self.settling.spawn(async move {
            wait_for_cost(&store, &claimed.job).await;
            let unrecorded = Unrecorded::new();
            let recorded = committed(&store, record, refused, events).await;
            if let Err(error) = &recorded {
                tracing::error!(%error, "failed to record a run's result; the job will run again");
                claimed.mark_uncertain();
            }
            drop((unrecorded, place, slot, claimed));
            if let (Ok(Recorded::Applied), Some(push)) = (recorded, requeued) {
                push_again(&*queue, push).await;
            }
            drop(active);
        });
    }
}

/// Waits until the cost of an item's calls is added to its batch, so that readers who see the item's end see its cost. If the batch has a
/// budget, the wait has no limit, because the next item must see the cost.
async fn wait_for_cost(store: &Store, job: &Job) {
    if job.budgeted {
        store.calls().counted().await;
    } else if job.batch.is_some() {
        // A slow call log must not delay results longer.
        let _ = tokio::time::timeout(COUNTED_WITHIN, store.calls().written()).await;
    }
}

/// Metric guard: time from the end of a run to its commit.
struct Unrecorded(tokio::time::Instant);

impl Unrecorded {
    fn new() -> Self {
        metrics::gauge!("gavel_records_pending").increment(1.0);
        Self(tokio::time::Instant::now())
    }
}

impl Drop for Unrecorded {
    fn drop(&mut self) {
        metrics::gauge!("gavel_records_pending").decrement(1.0);
        metrics::histogram!("gavel_record_seconds").record(self.0.elapsed().as_secs_f64());
    }
}

fn count_pick_up(job: &Job) {
    let waited = job.started_at.map(|started| started - job.due_at);
    if let Some(waited) = waited.and_then(|waited| waited.to_std().ok()) {
        metrics::histogram!("gavel_job_pick_up_seconds", "priority" => job.priority.as_str())
            .record(waited.as_secs_f64());
    }
}

struct EndEvents {
    announcer: Announcer,
    ended: Event,
    refused: Event,
}

/// Records the outcome of a run, waits for the commit and announces it. If the database rejects the outcome, the job ends with that error,
/// otherwise its row would stay with this worker until the worker stops.
async fn committed(
    store: &Store,
    record: Record,
    refused: Record,
    events: EndEvents,
) -> Result<Recorded, StoreError> {
    let ticket = store.jobs().record(record).await?;
    let (recorded, event) = match ticket.committed().await {
        Err(StoreError::Unexpected { attempted, reason }) => {
            tracing::error!(job_id = %refused.fence.job_id, attempted, reason, "database rejected a run's result; the job fails");
            let recorded = store.jobs().record(refused).await?.committed().await?;
            (recorded, events.refused)
        }
        other => (other?, events.ended),
    };
    match recorded {
        Recorded::Applied => events.announcer.announce(event),
        Recorded::Stale => metrics::counter!("gavel_results_stale_total").increment(1),
    }
    Ok(recorded)
}

async fn push_again(queue: &dyn Queue, push: Push) {
    let pushed = match push.due_at {
        Some(_) => queue.push(&[push]).await,
        None => queue.push_first(&[push]).await,
    };
    if let Err(error) = pushed {
        tracing::debug!(%error, "not pushed; rescue will push it");
    }
}

fn log_end(job: &Job, record: &Record, took: Duration) {
    let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    let (job_id, claim_no) = (job.job_id, job.claim_no);
    metrics::counter!("gavel_runs_total", "kind" => job.kind.as_str(), "ending" => ending_name(&record.ending)).increment(1);
    match &record.ending {
        Ending::Scored { score, .. } => tracing::info!(
            %job_id, claim_no, took_ms, score_id = %score.score_id, total = score.score.total_score,
            simulated = score.score.simulated, "scored"
        ),
        Ending::Evaluated {
            score,
            failure: None,
            ..
        } => tracing::info!(
            %job_id, claim_no, took_ms, score_id = %score.score_id, total = score.total, simulated = score.simulated,
            "scored"
        ),
        Ending::Failed(failure)
        | Ending::Evaluated {
            failure: Some(failure),
            ..
        } => tracing::warn!(
            %job_id, claim_no, took_ms, class = %failure.class, reason = %failure.message, "failed"
        ),
        Ending::Waiting { wait, .. } => tracing::info!(
            %job_id, claim_no, took_ms, reason = %wait.reason, "waits"
        ),
        Ending::Requeued | Ending::NotStarted => {
            tracing::info!(%job_id, claim_no, took_ms, "returned to the queue")
        }
    }
}

fn ending_name(ending: &Ending) -> &'static str {
    match ending {
        Ending::Scored { .. } | Ending::Evaluated { failure: None, .. } => "scored",
        Ending::Failed(failure)
        | Ending::Evaluated {
            failure: Some(failure),
            ..
        } => failure.class.as_str(),
        Ending::Waiting { .. } => "waiting",
        Ending::Requeued | Ending::NotStarted => "requeued",
    }
}
