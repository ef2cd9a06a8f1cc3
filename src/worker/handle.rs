//! Around one run: panics caught, a hard stop obeyed, the end recorded, the slot freed, the lease ended.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use futures::FutureExt;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::process::Pipeline;
use crate::job::{Job, Lane};
use crate::queue::Push;
use crate::queue::backend::{Delivery, Lease};
use crate::store::{Ending, Record, RecordTicket, Recorded, Store};

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
        let record = tokio::select! {
            biased;
            () = self.hard.cancelled() => self.pipeline.given_back(&job),
            run = AssertUnwindSafe(self.pipeline.process(&job)).catch_unwind() => {
                run.unwrap_or_else(|_| self.pipeline.panicked(&job))
            }
        };
        log_end(&job, &record, started.elapsed());
        let lease_end = lease_end(&job, &record.ending);
        let (slot, lease) = hold.split();
        match self.store.record(record).await {
            Ok(ticket) => {
                // The slot is free when the recorder has the result; the lease ends with the commit.
                drop(slot);
                self.settling.spawn(settle(ticket, lease, lease_end));
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

fn lease_end(job: &Job, ending: &Ending) -> LeaseEnd {
    match ending {
        Ending::Scored { .. } | Ending::Failed(_) => LeaseEnd::Ack,
        Ending::Waiting { due_at, .. } => LeaseEnd::Later(
            Push {
                id: job.job_id,
                // A run that came to a wait killed nobody: the job leaves the lane `suspect`.
                lane: Lane::of_judge(job.judge.clone().unwrap_or_else(|| Lane::NONE.to_owned())),
                priority: job.priority,
                due_at: Some(*due_at),
            },
            *due_at,
        ),
        Ending::Requeued | Ending::NotStarted => LeaseEnd::Release,
    }
}

async fn settle(ticket: RecordTicket, lease: Lease, end: LeaseEnd) {
    match ticket.committed().await {
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
