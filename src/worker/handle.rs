//! Around one run: panics caught, a hard stop obeyed, the end recorded, the slot freed, the lease ended.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use futures::FutureExt;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::process::Pipeline;
use crate::job::{Failure, FailureClass, Job, Lane};
use crate::queue::Push;
use crate::queue::backend::{Delivery, Lease};
use crate::store::{Ending, Record, RecordTicket, Recorded, Store, StoreError};

/// What every run of a worker shares.
pub(super) struct Handler {
    pub(super) pipeline: Pipeline,
    pub(super) store: Arc<Store>,
    /// Runs whose end is handed over and not yet committed.
    pub(super) settling: TaskTracker,
    pub(super) hard: CancellationToken,
}

impl Handler {
    /// Runs one delivery to its end.
    pub(super) async fn handle(&self, delivery: Delivery<Job>) {
        let Delivery {
            item: job, hold, ..
        } = delivery;
        let started = tokio::time::Instant::now();
        // Boxed here: a run's future is large, and every layer around it would hold it twice.
        let run = Box::pin(self.pipeline.process(&job));
        let record = tokio::select! {
            biased;
            () = self.hard.cancelled() => self.pipeline.given_back(&job),
            run = AssertUnwindSafe(run).catch_unwind() => {
                run.unwrap_or_else(|_| self.pipeline.panicked(&job))
            }
        };
        log_end(&job, &record, started.elapsed());
        let lease_end = lease_end(&job, &record);
        let refused = refused(&record);
        let (slot, lease) = hold.split();
        match self.store.record(record).await {
            Ok(ticket) => {
                // The slot is free when the recorder has the result; the lease ends with the commit.
                drop(slot);
                let store = self.store.clone();
                let committed = async move { committed(&store, ticket, refused).await };
                self.settling.spawn(settle(committed, lease, lease_end));
            }
            Err(error) => {
                tracing::error!(job_id = %job.job_id, %error, "could not hand over a run's end; it will run again");
                lease.release();
            }
        }
    }
}

/// What becomes of the id in the queue.
enum LeaseEnd {
    Ack,
    Later(Push, DateTime<Utc>),
    Release,
}

fn lease_end(job: &Job, record: &Record) -> LeaseEnd {
    let at = record.at;
    match &record.ending {
        Ending::Scored { .. } | Ending::Failed(_) => LeaseEnd::Ack,
        Ending::Waiting { due_at, .. } => later(job, *due_at),
        // Released, the id would stay where it no longer belongs, and empty the hand of whoever claims it there.
        Ending::Requeued if job.lane.is_suspect() => later(job, at),
        Ending::Requeued | Ending::NotStarted => LeaseEnd::Release,
    }
}

/// A run that came to its end killed nobody: the job leaves the lane `suspect`.
fn later(job: &Job, due_at: DateTime<Utc>) -> LeaseEnd {
    let judge = job.judge.clone();
    let push = Push {
        id: job.job_id,
        lane: Lane::of_judge(judge.unwrap_or_else(|| Lane::NONE.to_owned())),
        priority: job.priority,
        due_at: Some(due_at),
    };
    LeaseEnd::Later(push, due_at)
}

/// Waits for the commit. An end that the database refuses would leave the row in this worker's hand for as long as the
/// worker lives, so the job ends with that refusal instead.
async fn committed(
    store: &Store,
    ticket: RecordTicket,
    refused: Record,
) -> Result<Recorded, StoreError> {
    match ticket.committed().await {
        Err(StoreError::Unexpected { attempted, reason }) => {
            tracing::error!(job_id = %refused.fence.job_id, attempted, reason, "the database refused a run's end; the job fails");
            store.record(refused).await?.committed().await
        }
        other => other,
    }
}

/// What is recorded in place of an end that the database refuses: the same spending, no score.
fn refused(record: &Record) -> Record {
    let failure = Failure {
        class: FailureClass::Internal,
        message: "the database refused the run's end; the log says why".to_owned(),
    };
    Record {
        fence: record.fence,
        ending: Ending::Failed(failure),
        retries: record.retries,
        usage: record.usage,
        at: record.at,
    }
}

async fn settle(
    committed: impl Future<Output = Result<Recorded, StoreError>>,
    lease: Lease,
    end: LeaseEnd,
) {
    match committed.await {
        Ok(Recorded::Applied) => match end {
            LeaseEnd::Ack => lease.ack(),
            LeaseEnd::Later(push, when) => lease.later(push, when),
            LeaseEnd::Release => lease.release(),
        },
        Ok(Recorded::Stale) => lease.ack(),
        Err(error) => {
            tracing::error!(%error, "a run's end was not recorded; it will run again");
            lease.release();
        }
    }
}

fn log_end(job: &Job, record: &Record, took: std::time::Duration) {
    let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    let (job_id, claim_no) = (job.job_id, job.claim_no);
    metrics::counter!("gavel_runs_total", "kind" => job.kind.as_str(), "ending" => ending_name(&record.ending)).increment(1);
    match &record.ending {
        Ending::Scored { score, .. } => tracing::info!(
            %job_id, claim_no, took_ms, score_id = %score.score_id, total = score.score.total_score,
            simulated = score.score.simulated, "scored"
        ),
        Ending::Failed(failure) => tracing::warn!(
            %job_id, claim_no, took_ms, class = %failure.class, reason = %failure.message, "failed"
        ),
        Ending::Waiting { wait, .. } => tracing::info!(
            %job_id, claim_no, took_ms, reason = %wait.reason, "waits"
        ),
        Ending::Requeued | Ending::NotStarted => {
            tracing::info!(%job_id, claim_no, took_ms, "goes back to the queue")
        }
    }
}

/// The ending as the metric names it.
fn ending_name(ending: &Ending) -> &'static str {
    match ending {
        Ending::Scored { .. } => "scored",
        Ending::Failed(failure) => failure.class.as_str(),
        Ending::Waiting { .. } => "waiting",
        Ending::Requeued | Ending::NotStarted => "requeued",
    }
}
