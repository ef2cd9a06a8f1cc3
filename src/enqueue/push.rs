//! After the commit: who is told, and the task that pushes. A push is a hint: what gets lost, `rescue` pushes again.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::Enqueue;
use crate::events::{Event, EventType};
use crate::job::{Job, JobState};
use crate::queue::{Push, Queue};

/// How many ids go into one push.
const PUSH_GROUP: usize = 500;

/// Pushes what was committed, in groups of what gathered meanwhile.
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
                // What is left would hold up the shutdown, a timeout for each group.
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

    /// Hands an id to the pushing task. A full channel means that the queue is slow or away: `rescue` pushes it later.
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
