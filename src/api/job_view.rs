//! A job as clients see it: what it came to, or why it waits.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use super::ApiState;
use super::lanes::{Lanes, WaitView};
use super::score_view::ScoreView;
use crate::job::{FailureClass, Job, JobId, JobState, Kind, Priority, Usage};
use crate::store::{SessionScoreRow, StoreError};

/// The entry of the simulated judge in the judges' file that comes with gavel.
const SIMULATED: &str = "simulated";

/// Tokens and money.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, utoipa::ToSchema)]
pub(super) struct UsageView {
    /// Prompt tokens, cached ones included.
    pub(super) tokens_in: i64,
    /// Tokens of the replies.
    pub(super) tokens_out: i64,
    /// USD; null where a model has no price.
    pub(super) cost_usd: Option<f64>,
}

impl From<Usage> for UsageView {
    fn from(usage: Usage) -> Self {
        Self {
            tokens_in: usage.tokens_in,
            tokens_out: usage.tokens_out,
            cost_usd: usage.cost_usd,
        }
    }
}

/// Where to go from a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub(super) struct JobLinks {
    /// The job.
    #[serde(rename = "self")]
    pub(super) this: String,
    /// The session that is scored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) session: Option<String>,
    /// The session's current score.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) score: Option<String>,
    /// POST there to cancel; while the job is active.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cancel: Option<String>,
    /// POST there to retry; once the job failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) retry: Option<String>,
}

impl JobLinks {
    fn of(job: &Job) -> Self {
        let this = job_path(job.job_id);
        Self {
            session: job.subject_id.map(|id| format!("/api/v1/sessions/{id}")),
            score: job.subject_id.map(score_path),
            cancel: (!job.state.is_terminal()).then(|| format!("{this}/cancel")),
            retry: (job.state == JobState::Failed).then(|| format!("{this}/retry")),
            this,
        }
    }
}

/// The path of a job.
pub(super) fn job_path(id: JobId) -> String {
    format!("/api/v1/jobs/{id}")
}

/// The path of a session's score.
pub(super) fn score_path(session_id: Uuid) -> String {
    format!("/api/v1/scoring/sessions/{session_id}/score")
}

/// A job in short: what a 202 answers, and what a problem names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub(super) struct JobRef {
    /// The job's id.
    pub(super) job_id: Uuid,
    /// The session that is scored.
    pub(super) session_id: Option<Uuid>,
    /// Where it stands.
    pub(super) state: JobState,
    /// Where to go from here.
    pub(super) links: JobLinks,
}

impl JobRef {
    /// The short form of a job.
    pub(super) fn of(job: &Job) -> Self {
        Self {
            job_id: job.job_id.0,
            session_id: job.subject_id,
            state: job.state,
            links: JobLinks::of(job),
        }
    }
}

/// Why a job failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub(super) struct JobErrorView {
    /// The class.
    pub(super) class: FailureClass,
    /// What happened.
    pub(super) message: String,
    /// What a person can do about it.
    pub(super) remedy: String,
}

/// A job's times.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub(super) struct JobTimes {
    /// When it was asked for.
    pub(super) created_at: DateTime<Utc>,
    /// When it may be claimed.
    pub(super) due_at: DateTime<Utc>,
    /// When it was last claimed.
    pub(super) started_at: Option<DateTime<Utc>>,
    /// When it ended.
    pub(super) finished_at: Option<DateTime<Utc>>,
}

/// What a job came to.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
#[serde(untagged)]
pub(super) enum JobResult {
    /// Kind `session`: the score that it made.
    Session(Box<ScoreView>),
    /// What the job's row keeps, where there is no score to show.
    #[schema(value_type = Object)]
    Kept(Value),
}

/// A job.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub(super) struct JobView {
    /// The job's id.
    pub(super) job_id: Uuid,
    /// What is scored.
    pub(super) kind: Kind,
    /// The session's id for kind `session`.
    pub(super) subject_id: Option<Uuid>,
    /// The batch that it is an item of.
    pub(super) batch_id: Option<Uuid>,
    /// Its place among the batch's items, from 0.
    pub(super) item_no: Option<i64>,
    /// Where it stands.
    pub(super) state: JobState,
    /// Why it isn't running yet; null once it runs or has ended.
    pub(super) wait: Option<WaitView>,
    /// Runs that ended with the worker's death, alone in a worker.
    pub(super) attempts: i32,
    /// Judge calls spent beyond the first.
    pub(super) retries: i32,
    /// Why it failed.
    pub(super) error: Option<JobErrorView>,
    /// What it came to; null until it has.
    pub(super) result: Option<JobResult>,
    /// About how many tokens of evidence were left out so that it fit the judge's context window; null for none.
    pub(super) trimmed_tokens: Option<u64>,
    /// Whether a simulated judge made the result.
    pub(super) simulated: bool,
    /// What its judge calls used so far.
    pub(super) usage: UsageView,
    /// Who waits for it.
    pub(super) priority: Priority,
    /// The judge that it needs.
    pub(super) judge: Option<String>,
    /// The criteria pinned when it was asked for.
    pub(super) criteria_hash: String,
    /// Who asked.
    pub(super) triggered_by: String,
    /// Whether an existing score and cached replies are passed over.
    pub(super) force_rescore: bool,
    /// Where to go from here.
    pub(super) links: JobLinks,
    /// Its times.
    pub(super) times: JobTimes,
}

impl JobView {
    fn of(job: &Job, lanes: &Lanes, position: Option<i64>, score: Option<ScoreView>) -> Self {
        Self {
            job_id: job.job_id.0,
            kind: job.kind,
            subject_id: job.subject_id,
            batch_id: job.batch.map(|place| place.batch_id),
            item_no: job.batch.map(|place| place.item_no),
            state: job.state,
            wait: lanes.wait_of(job, position),
            attempts: job.attempts,
            retries: job.retries,
            error: job.failure.as_ref().map(|failure| JobErrorView {
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
            usage: job.usage.into(),
            priority: job.priority,
            judge: job.judge.clone(),
            criteria_hash: job.criteria_hash.clone(),
            triggered_by: job.triggered_by.clone(),
            force_rescore: job.force_rescore,
            links: JobLinks::of(job),
            times: JobTimes {
                created_at: job.created_at,
                due_at: job.due_at,
                started_at: job.started_at,
                finished_at: job.finished_at,
            },
        }
    }

    /// One job, with its place in its lane if it is queued.
    pub(super) async fn load(state: &ApiState, job: &Job) -> Result<Self, StoreError> {
        let jobs = std::slice::from_ref(job);
        let lanes = Lanes::load(state, jobs).await?;
        let position = match job.state {
            JobState::Queued => state.store.position(job).await?,
            JobState::Running
            | JobState::Waiting
            | JobState::Succeeded
            | JobState::Failed
            | JobState::Cancelled => None,
        };
        let score = scores(state, jobs).await?.remove(&job.job_id);
        Ok(Self::of(job, &lanes, position, score))
    }

    /// A page of jobs; their places are not counted.
    pub(super) async fn load_all(state: &ApiState, jobs: &[Job]) -> Result<Vec<Self>, StoreError> {
        let lanes = Lanes::load(state, jobs).await?;
        let mut scores = scores(state, jobs).await?;
        let view = |job: &Job| Self::of(job, &lanes, None, scores.remove(&job.job_id));
        Ok(jobs.iter().map(view).collect())
    }
}

/// The scores that these jobs made, as bodies.
async fn scores(state: &ApiState, jobs: &[Job]) -> Result<HashMap<JobId, ScoreView>, StoreError> {
    let made_one = |job: &&Job| job.kind == Kind::Session && job.state == JobState::Succeeded;
    let ids: Vec<JobId> = jobs.iter().filter(made_one).map(|job| job.job_id).collect();
    let current = state.enqueue.current_criteria();
    let rows = state.store.scores_of_jobs(&ids).await?;
    let view = |row: SessionScoreRow| (row.job_id, ScoreView::of(row, &current.hash.0));
    Ok(rows.into_iter().map(view).collect())
}
