//! Asking for the score of a case: a payload that is all there is, so that nothing but its own faults stands in its way.

use serde_json::Value;

use super::{Enqueue, EnqueueError, NewId};
use crate::events::EventType;
use crate::job::{BatchPlace, Job, JobOptions, Kind, NewJob, Payload};
use crate::memory::{JsonShape, blocking};
use crate::score::read_case;

/// A request to score a case of any kind but `session`.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoreCase {
    pub kind: Kind,
    pub payload: Value,
    pub options: JobOptions,
    /// What the new job is called.
    pub new_id: NewId,
    /// The batch that it is an item of.
    pub batch: Option<BatchPlace>,
}

/// Criteria that a request goes by: found, stored, and their judge known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pinned {
    pub kind: Kind,
    /// 64 hex digits.
    pub hash: String,
    /// The judge that they name.
    pub judge: String,
}

/// A payload that is good, and what a job needs to know of it.
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
    /// Pins the criteria of a kind: those of `hash`, else the current ones.
    ///
    /// # Errors
    /// `UnknownCriteria`, `CriteriaOfOtherKind`, `Disabled`, `Store`.
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

    /// The job that a request makes under pinned criteria, checked and not yet inserted.
    ///
    /// # Errors
    /// `BadPayload`, `UnknownModel`, `JudgeNotConfigured`.
    pub fn case_job(
        &self,
        mut request: ScoreCase,
        pinned: &Pinned,
    ) -> Result<NewJob, EnqueueError> {
        let checked = check(request.kind, request.payload.take())?;
        self.checked_job(request, checked, pinned)
    }

    /// The job of a payload that was checked.
    fn checked_job(
        &self,
        request: ScoreCase,
        checked: Checked,
        pinned: &Pinned,
    ) -> Result<NewJob, EnqueueError> {
        let judge = match (checked.needs_judge, checked.model.as_deref()) {
            (true, model) => Some(self.judge_for(model, &pinned.judge)?),
            // Whether a name is good doesn't hang on what the queries are.
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

    /// Asks for a case's score: a new job, or the one that an earlier try of the same request made.
    ///
    /// # Errors
    /// Those of [`Enqueue::pin`] and [`Enqueue::case_job`].
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
        // Nothing else is active for a payload: it is new, or it is this very job.
        self.store.jobs().accept(new.clone()).await?;
        let job = Job::from(new);
        self.announce(EventType::JobQueued, &job);
        self.push(&job);
        Ok(job)
    }

    /// The judge of a case: the one that it names by itself or by a model, else that of the criteria.
    fn judge_for(&self, model: Option<&str>, default: &str) -> Result<String, EnqueueError> {
        let Some(model) = model else {
            self.check_judge(default)
                .map_err(EnqueueError::JudgeNotConfigured)?;
            return Ok(default.to_owned());
        };
        let judge = self.directory.named(model, default);
        match (self.judges)(&judge) {
            Ok(()) => Ok(judge),
            Err(problem) => Err(EnqueueError::UnknownModel {
                model: model.to_owned(),
                remedy: problem.named,
            }),
        }
    }
}
