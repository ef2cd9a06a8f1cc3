//! Maps the outcome of a run to its push and to the event for listeners. No I/O.

use crate::events::{Event, EventType};
use crate::job::{Failure, FailureClass, Job, JobState, Lane};
use crate::queue::Push;
use crate::store::{Ending, Record};

/// Returns the push of a job that didn't end. A suspect that ran returns to its judge's lane, because its worker survived the run.
pub(super) fn requeued(job: &Job, record: &Record) -> Option<Push> {
    let of_judge = || Lane::of_judge(job.judge.clone().unwrap_or_else(|| Lane::NONE.to_owned()));
    let (lane, due_at) = match &record.ending {
        Ending::Scored { .. } | Ending::Evaluated { .. } | Ending::Failed(_) => return None,
        Ending::Waiting { due_at, .. } => (of_judge(), Some(*due_at)),
        Ending::Requeued => (of_judge(), None),
        Ending::NotStarted => (job.lane.clone(), None),
    };
    Some(Push {
        id: job.job_id,
        lane,
        priority: job.priority,
        due_at,
    })
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
