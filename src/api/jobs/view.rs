//! A job as clients see it: what it came to, or why it waits.

use std::collections::HashMap;

use serde_json::Value;

use crate::api::http::links::links;
use crate::api::jobs::waits::Blockers;
use crate::api::{ApiState, scores};
use crate::job::{FailureClass, Job, JobId, JobState};
use crate::store::{SessionScoreRow, StoreError};
use crate::wire::{self, JobError, JobResult, JobTimes, Score};

/// The entry of the simulated judge in the judges' file that comes with gavel.
const SIMULATED: &str = "simulated";

fn body(job: &Job, blockers: &Blockers, position: Option<i64>, score: Option<Score>) -> wire::Job {
    wire::Job {
        job_id: job.job_id.0,
        kind: job.kind,
        subject_id: job.subject_id,
        batch_id: job.batch.map(|place| place.batch_id),
        item_no: job.batch.map(|place| place.item_no),
        state: job.state,
        wait: blockers.wait_of(job, position),
        attempts: job.attempts,
        retries: job.retries,
        error: job.failure.as_ref().map(|failure| JobError {
            class: failure.class,
            message: failure.message.clone(),
            remedy: match (failure.class, job.judge.as_deref()) {
                (FailureClass::Transient, Some(SIMULATED)) => {
                    "Start the simulated judge (`gavel simulate-judge`) or see to its address, then retry the job."
                }
                (class, _) => class.remedy(),
            }
            .to_owned(),
        }),
        result: match score {
            Some(score) => Some(JobResult::Session(Box::new(score))),
            None => job.result.clone().map(JobResult::Kept),
        },
        trimmed_tokens: job
            .result
            .as_ref()
            .and_then(|kept| kept.get("trimmed_tokens"))
            .and_then(Value::as_u64),
        simulated: job.simulated,
        usage: job.usage,
        priority: job.priority,
        judge: job.judge.clone(),
        criteria_hash: job.criteria_hash.clone(),
        triggered_by: job.triggered_by.user.clone(),
        authenticated_as: job.triggered_by.authenticated_as.clone(),
        force_rescore: job.force_rescore,
        links: links(job),
        times: JobTimes {
            created_at: job.created_at,
            due_at: job.due_at,
            started_at: job.started_at,
            finished_at: job.finished_at,
        },
    }
}

/// One job, with its place in its lane if it is queued.
pub(crate) async fn load(state: &ApiState, job: &Job) -> Result<wire::Job, StoreError> {
    let jobs = std::slice::from_ref(job);
    let blockers = Blockers::load(state, jobs).await?;
    let position = match job.state {
        JobState::Queued => state.store.jobs().position(job).await?,
        JobState::Running
        | JobState::Waiting
        | JobState::Succeeded
        | JobState::Failed
        | JobState::Cancelled => None,
    };
    let score = scores(state, jobs).await?.remove(&job.job_id);
    Ok(body(job, &blockers, position, score))
}

/// A page of jobs; their places are not counted.
pub(crate) async fn load_all(state: &ApiState, jobs: &[Job]) -> Result<Vec<wire::Job>, StoreError> {
    let blockers = Blockers::load(state, jobs).await?;
    let mut scores = scores(state, jobs).await?;
    let one = |job: &Job| body(job, &blockers, None, scores.remove(&job.job_id));
    Ok(jobs.iter().map(one).collect())
}

/// The scores that these jobs made.
async fn scores(state: &ApiState, jobs: &[Job]) -> Result<HashMap<JobId, Score>, StoreError> {
    let made_one = |job: &&Job| !job.kind.is_case() && job.state == JobState::Succeeded;
    let ids: Vec<JobId> = jobs.iter().filter(made_one).map(|job| job.job_id).collect();
    let current = state.enqueue.current_criteria();
    let rows = state.store.scores().of_jobs(&ids).await?;
    let one = |row: SessionScoreRow| (row.job_id, scores::view::score(row, &current.hash.0));
    Ok(rows.into_iter().map(one).collect())
}
