//! Enqueues the score of a case. Its payload is complete, so only an invalid payload can be rejected.

use serde_json::Value;

use super::{Enqueue, EnqueueError, NewId};
use crate::events::EventType;
use crate::job::{BatchPlace, Job, JobOptions, Kind, NewJob, Payload};
use crate::memory::{JsonShape, blocking};
use crate::score::read_case;

/// Request to score a case of any kind except `session`.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoreCase {
    pub kind: Kind,
    pub payload: Value,
    pub options: JobOptions,
    pub new_id: NewId,
    pub batch: Option<BatchPlace>,
}

/// Criteria of a request, stored, with their judge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pinned {
    pub kind: Kind,
    /// 64 hex digits.
    pub hash: String,
    pub judge: String,
}

struct Checked {
    payload: Payload,
    needs_judge: bool,
    model: Option<String>,
}

fn check(kind: Kind, payload: Value) -> Result<Checked, EnqueueError> {
    let case = read_case(kind, &payload).map_err(EnqueueError::BadPayload)?;
    Ok(Checked {
        needs_judge: case.needs_judge(),
        model: case.model().map(str::to_owned),
        payload: payload.into(),
    })
}

impl Enqueue {
    /// Pins the criteria of a kind: those with `hash`, or the current ones. Errors: `UnknownCriteria`,
    /// `CriteriaOfOtherKind`, `Disabled`, `Store`.
    pub async fn pin(&self, kind: Kind, hash: Option<&str>) -> Result<Pinned, EnqueueError> {
        let current = self.current_criteria_of(kind);
        if !current.enabled {
            return Err(EnqueueError::Disabled);
        }
        let hash = hash.unwrap_or(&current.hash.0);
        let judge = self.judge_of(hash, &current).await?;
        Ok(Pinned {
            kind,
            hash: hash.to_owned(),
            judge,
        })
    }

    /// Validates a request and returns its job under pinned criteria. Doesn't insert it. Errors: `BadPayload`,
    /// `UnknownModel`, `JudgeNotConfigured`.
    pub fn case_job(
        &self,
        mut request: ScoreCase,
        pinned: &Pinned,
    ) -> Result<NewJob, EnqueueError> {
        let checked = check(request.kind, request.payload.take())?;
        self.checked_job(request, checked, pinned)
    }

    fn checked_job(
        &self,
        request: ScoreCase,
        checked: Checked,
        pinned: &Pinned,
    ) -> Result<NewJob, EnqueueError> {
        let judge = match (checked.needs_judge, checked.model.as_deref()) {
            (true, model) => Some(self.judge_for(model, &pinned.judge)?),
            // The name is validated even if the queries need no judge.
            (false, Some(model)) => self.judge_for(Some(model), &pinned.judge).map(|_| None)?,
            (false, None) => None,
        };
        let now = self.clock.now();
        Ok(NewJob {
            job_id: request.new_id.id(now),
            judge,
            criteria_hash: pinned.hash.clone(),
            batch: request.batch,
            ..NewJob::new(request.kind, checked.payload, request.options, now)
        })
    }

    /// Inserts a job for a case, or returns the job of an earlier attempt of the same request. Errors: those of
    /// [`Enqueue::pin`] and [`Enqueue::case_job`].
    pub async fn score_case(
        &self,
        mut request: ScoreCase,
        criteria_hash: Option<&str>,
    ) -> Result<Job, EnqueueError> {
        if let NewId::Repeated(id) = request.new_id
            && let Some(job) = self.store.jobs().get(id).await?
        {
            return Ok(job);
        }
        let pinned = self.pin(request.kind, criteria_hash).await?;
        let (kind, payload) = (request.kind, request.payload.take());
        let checked = match JsonShape::of_value(&payload).is_heavy() {
            false => check(kind, payload),
            true => blocking(move || check(kind, payload)).await,
        };
        let new = self.checked_job(request, checked?, &pinned)?;
        // No other job can be active for a payload: it is new, or it is this job.
        self.store.jobs().accept(new.clone()).await?;
        let job = Job::from(new);
        self.announce(EventType::JobQueued, &job);
        self.push(&job);
        Ok(job)
    }

    /// Returns the judge of a case: named directly or by a model, otherwise that of the criteria.
    fn judge_for(&self, model: Option<&str>, default: &str) -> Result<String, EnqueueError> {
        let Some(model) = model else {
            self.check_judge(default)
                .map_err(EnqueueError::JudgeNotConfigured)?;
            return Ok(default.to_owned());
        };
        let judge = self.providers.named(model, default);
        match self.check_configured(&judge) {
            Ok(()) => Ok(judge),
            Err(problem) => Err(EnqueueError::UnknownModel {
                model: model.to_owned(),
                remedy: problem.named,
            }),
        }
    }
}
