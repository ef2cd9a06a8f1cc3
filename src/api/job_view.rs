//! A job as clients see it: what it came to, or why it waits. Reads brakes, judges and workers from the store; asks no gate.

use std::collections::HashMap;

use chrono::{DateTime, Duration, Utc};
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use super::ApiState;
use super::score_view::ScoreView;
use crate::job::{FailureClass, Job, JobId, JobState, Kind, Priority, Usage, Wait, WaitReason};
use crate::store::{Brake, BrakeTarget, JudgeRow, PausedBy, SessionScoreRow, StoreError};

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

/// Why a job is not running yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub(super) struct WaitView {
    /// `queued` (others go first), `no_worker` (none is alive), or what closed its lane: `paused` (or its batch is), `breaker_open`,
    /// `throttled`, `exhausted`, `misconfigured`, `storage`. `paced`: its judge's requests or tokens a minute are used up for
    /// the moment (GET /api/v1/judges shows them), and it goes on by itself. `economy`: its batch's replies are being fetched by
    /// the judge's batch endpoint, within a day; POST its session's score, and it is asked at once. `fallback`: its judge declined, and the judge
    /// that stands in can't be asked yet.
    pub(super) reason: String,
    /// Only with `fallback`: the judge that stands in. `GET /api/v1/judges` says what closed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) judge: Option<String>,
    /// When it is tried again; null where that isn't known, or somebody must act first.
    pub(super) until: Option<DateTime<Utc>>,
    /// Its place in its lane, 1 = next, counted to 10,000; null if it isn't queued, and in lists.
    pub(super) position: Option<i64>,
    /// Only where its judge is what it waits for (`breaker_open`, `throttled`, `exhausted`, `misconfigured`, `fallback`): what the
    /// judge's last failed call said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) last_error: Option<String>,
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
                remedy: failure.class.remedy().to_owned(),
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

/// The wait that a row tells of, until it is over: from then on the job is held back by what holds back its lane.
fn own_wait(state: JobState, wait: Option<&Wait>, now: DateTime<Utc>) -> Option<&Wait> {
    wait.filter(|wait| state == JobState::Waiting && wait.until.is_none_or(|until| until > now))
}

fn waits_for_fallback(job: &Job) -> bool {
    let reason = job.wait.as_ref().map(|wait| wait.reason);
    job.state == JobState::Waiting && reason == Some(WaitReason::Fallback)
}

/// What may hold a job back: brakes, what live workers' gates say, and whether there is a live worker at all.
#[derive(Debug, Default)]
struct Lanes {
    brakes: Vec<Brake>,
    judges: Vec<JudgeRow>,
    worker_alive: bool,
    /// Of the judges whose jobs wait for a fallback: the fallback's name.
    fallbacks: HashMap<String, String>,
    /// Batches that are paused.
    paused: Vec<(Uuid, PausedBy)>,
    /// Batches whose replies are being fetched ahead.
    fetched: Vec<Uuid>,
    /// When they were read.
    now: DateTime<Utc>,
}

/// What holds a job back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Held {
    /// Its judge, its batch, a brake or the store.
    By(WaitReason),
    /// Its judge's provider, which answers its batch within a day.
    Economy,
    /// No worker is alive.
    WithoutWorker,
    /// Other jobs, which go first.
    Behind,
}

impl Held {
    fn as_str(self) -> &'static str {
        match self {
            Self::By(reason) => reason.as_str(),
            Self::Economy => "economy",
            Self::WithoutWorker => "no_worker",
            Self::Behind => "queued",
        }
    }
}

impl Lanes {
    /// Reads them, unless none of the jobs is held back.
    async fn load(state: &ApiState, jobs: &[Job]) -> Result<Self, StoreError> {
        let held = |job: &Job| matches!(job.state, JobState::Queued | JobState::Waiting);
        if !jobs.iter().any(held) {
            return Ok(Self::default());
        }
        let now = state.clock.now();
        let stale = Duration::from_std(state.worker_stale_after).unwrap_or(Duration::MAX);
        let heard_since = now.checked_sub_signed(stale).unwrap_or(now);
        let fallbacks = jobs
            .iter()
            .filter(|job| waits_for_fallback(job))
            .filter_map(|job| job.judge.clone())
            .filter_map(|judge| (state.fallback_of)(&judge).map(|fallback| (judge, fallback)))
            .collect();
        let batch = |job: &Job| job.batch.map(|place| place.batch_id);
        let mut batches: Vec<Uuid> = jobs.iter().filter_map(batch).collect();
        batches.sort_unstable();
        batches.dedup();
        Ok(Self {
            now,
            fallbacks,
            paused: state.store.paused_batches(&batches).await?,
            fetched: state.store.fetched_ahead(&batches).await?,
            brakes: state.store.brakes(now).await?,
            judges: state.store.judges(heard_since).await?,
            worker_alive: state
                .store
                .workers(state.worker_stale_after)
                .await?
                .iter()
                .any(|worker| worker.alive),
        })
    }

    fn wait_of(&self, job: &Job, position: Option<i64>) -> Option<WaitView> {
        let held = match job.state {
            JobState::Queued | JobState::Waiting => self.brake_of(job.judge.as_deref()),
            JobState::Running | JobState::Succeeded | JobState::Failed | JobState::Cancelled => {
                return None;
            }
        };
        let wait = own_wait(job.state, job.wait.as_ref(), self.now);
        let (reason, until) = if let Some(brake) = held {
            (Held::By(brake.reason), brake.until)
        } else if let Some(by) = self.paused_by(job) {
            let reason = match by {
                PausedBy::Operator => WaitReason::Paused,
                PausedBy::Budget => WaitReason::Budget,
            };
            (Held::By(reason), None)
        } else if self.is_fetched(job) {
            (Held::Economy, None)
        } else if let Some(wait) = wait {
            (Held::By(wait.reason), wait.until)
        } else if !self.worker_alive {
            (Held::WithoutWorker, None)
        } else if let Some((why, until)) = self.closed(job.judge.as_deref()) {
            (Held::By(why), until)
        } else {
            (Held::Behind, None)
        };
        let fallback = || self.fallbacks.get(job.judge.as_deref()?).cloned();
        let stands_in = (held.is_none() && wait.is_some() && waits_for_fallback(job))
            .then(fallback)
            .flatten();
        let asked = stands_in.as_deref().or(job.judge.as_deref());
        Some(WaitView {
            last_error: match reason {
                Held::By(why) => self.last_error(asked, why),
                Held::Behind | Held::WithoutWorker | Held::Economy => None,
            },
            reason: reason.as_str().to_owned(),
            judge: stands_in,
            until,
            position,
        })
    }

    /// What the judge's last failed call said, as the worker tells that wrote last, where that is why its jobs wait.
    fn last_error(&self, judge: Option<&str>, why: WaitReason) -> Option<String> {
        match why {
            WaitReason::BreakerOpen
            | WaitReason::Throttled
            | WaitReason::Exhausted
            | WaitReason::Misconfigured
            | WaitReason::Fallback => {}
            WaitReason::Paused | WaitReason::Paced | WaitReason::Budget | WaitReason::Storage => {
                return None;
            }
        }
        self.judges
            .iter()
            .filter(|row| Some(row.name.as_str()) == judge && row.last_error.is_some())
            .max_by_key(|row| row.updated_at)
            .and_then(|row| row.last_error.clone())
    }

    /// Who paused a job's batch; `None`: nobody, or it is in none.
    fn paused_by(&self, job: &Job) -> Option<PausedBy> {
        let id = job.batch?.batch_id;
        let mut paused = self.paused.iter();
        paused.find(|(paused, _)| *paused == id).map(|(_, by)| *by)
    }

    /// Whether a job's reply is being fetched ahead. One that somebody waits for is asked at once.
    fn is_fetched(&self, job: &Job) -> bool {
        let batch = job.batch.map(|place| place.batch_id);
        job.priority == Priority::Bulk && batch.is_some_and(|id| self.fetched.contains(&id))
    }

    /// The brake that stops a judge's lane: the queue's own, else the judge's.
    fn brake_of(&self, judge: Option<&str>) -> Option<&Brake> {
        let stops = |target: &BrakeTarget| match target {
            BrakeTarget::Queue => true,
            BrakeTarget::Judge(name) => Some(name.as_str()) == judge,
        };
        self.brakes
            .iter()
            .filter(|brake| stops(&brake.target))
            .min_by_key(|brake| brake.target.clone())
    }

    /// Why no live worker would take a job of that judge: all gates that know the judge are closed. The first to open counts.
    fn closed(&self, judge: Option<&str>) -> Option<(WaitReason, Option<DateTime<Utc>>)> {
        let gates: Vec<&JudgeRow> = self
            .judges
            .iter()
            .filter(|row| Some(row.name.as_str()) == judge)
            .collect();
        if gates.iter().any(|row| row.closed.is_none()) {
            return None;
        }
        gates
            .iter()
            .min_by_key(|row| row.closed_until.unwrap_or(DateTime::<Utc>::MAX_UTC))
            .and_then(|row| row.closed.map(|why| (why, row.closed_until)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_that_is_over_is_no_reason_any_more() {
        let at = |second: u32| format!("2026-01-01T00:00:{second:02}Z").parse().unwrap();
        let wait = |until: Option<u32>| Wait {
            reason: WaitReason::BreakerOpen,
            until: until.map(at),
        };
        for (state, until, holds) in [
            (JobState::Waiting, Some(30), true),
            (JobState::Waiting, Some(10), false),
            (JobState::Waiting, None, true),
            (JobState::Queued, Some(30), false),
        ] {
            let wait = wait(until);
            let held = own_wait(state, Some(&wait), at(10));
            assert_eq!(held.is_some(), holds, "{state:?} until {until:?}");
        }
    }
}
