//! Maps the outcome of a run to the end of its lease in the queue and to the event for listeners. No I/O.

use chrono::{DateTime, Utc};

use crate::events::{Event, EventType};
use crate::job::{Failure, FailureClass, Job, JobState, Lane};
use crate::queue::Push;
use crate::store::{Ending, Record};

pub(super) enum LeaseEnd {
    Ack,
    Later(Push, DateTime<Utc>),
    Release,
}

pub(super) fn lease_end(job: &Job, record: &Record) -> LeaseEnd {
    let at = record.at;
    match &record.ending {
        Ending::Scored { .. } | Ending::Evaluated { .. } | Ending::Failed(_) => LeaseEnd::Ack,
        Ending::Waiting { due_at, .. } => later(job, *due_at),
        // Releasing the id would leave it in the lane `suspect`.
        Ending::Requeued if job.lane.is_suspect() => later(job, at),
        Ending::Requeued | Ending::NotStarted => LeaseEnd::Release,
    }
}

/// Delays the id in its judge's lane. A suspect leaves the lane `suspect`, because its worker survived the run.
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

/// Returns the record stored if the database rejects the original: the same usage, no score.
pub(super) fn refused(record: &Record) -> Record {
    let failure = Failure {
        class: FailureClass::Internal,
        message: "the database rejected the result of the run; see the log".to_owned(),
    };
    Record {
        fence: record.fence,
        ending: Ending::Failed(failure),
        retries: record.retries,
        usage: record.usage,
        at: record.at,
    }
}

pub(super) fn event(job: &Job, record: &Record) -> Event {
    let of = |event, state| Event::of_job(event, job, state, record.at);
    match &record.ending {
        Ending::Scored { score, .. } => Event {
            score_id: Some(score.score_id),
            total_score: Some(score.score.total_score),
            simulated: Some(score.score.simulated),
            ..of(EventType::JobSucceeded, JobState::Succeeded)
        },
        Ending::Failed(failure)
        | Ending::Evaluated {
            failure: Some(failure),
            ..
        } => Event {
            class: Some(failure.class),
            ..of(EventType::JobFailed, JobState::Failed)
        },
        Ending::Evaluated {
            score,
            failure: None,
            ..
        } => Event {
            score_id: Some(score.score_id),
            simulated: Some(score.simulated),
            ..of(EventType::JobSucceeded, JobState::Succeeded)
        },
        Ending::Waiting { wait, .. } => Event {
            reason: Some(wait.reason),
            until: wait.until,
            ..of(EventType::JobWaiting, JobState::Waiting)
        },
        Ending::Requeued | Ending::NotStarted => of(EventType::JobQueued, JobState::Queued),
    }
}
