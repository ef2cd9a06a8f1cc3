//! Announces committed jobs and pushes their ids. `rescue` pushes lost ids again.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::Enqueue;
use crate::events::{Event, EventType};
use crate::job::{Job, JobState};
use crate::queue::{Push, Queue};

const PUSH_GROUP: usize = 500;

/// Pushes committed ids, in groups of the ids queued so far.
pub(super) async fn push_committed(
    queue: Arc<dyn Queue>,
    mut waiting: mpsc::Receiver<Push>,
    shutdown: CancellationToken,
) {
    let mut group = Vec::with_capacity(PUSH_GROUP);
    let mut away = false;
    loop {
        tokio::select! {
            biased;
            n = waiting.recv_many(&mut group, PUSH_GROUP) => if n == 0 { return },
            () = shutdown.cancelled() => {
                waiting.close();
                if waiting.is_empty() {
                    return;
                }
                continue;
            }
        }
        let pushed = queue.push(&group).await;
        if let Err(error) = &pushed {
            if !away {
                tracing::error!(%error, "ids can't be pushed; workers find their jobs in the database");
            }
            if shutdown.is_cancelled() {
                // The remaining groups would delay the shutdown by a timeout each.
                return;
            }
        }
        away = pushed.is_err();
        group.clear();
    }
}

impl Enqueue {
    pub(super) fn announce(&self, event: EventType, job: &Job) {
        let event = Event::of_job(event, job, JobState::Queued, self.clock.now());
        self.events.announce(event);
    }

    /// Sends an id to the push task. A full channel means that the queue is slow or unavailable: `rescue` pushes the id
    /// later.
    pub(super) fn push(&self, job: &Job) {
        let push = Push {
            id: job.job_id,
            lane: job.lane.clone(),
            priority: job.priority,
            due_at: (job.state == JobState::Waiting).then_some(job.due_at),
        };
        if self.pushes.try_send(push).is_err() {
            tracing::debug!(job_id = %job.job_id, "not pushed: the queue is behind; rescue will push it");
        }
    }
}
