//! Enqueues the scores of a backlog: the sessions matched by a filter, as a batch that expands in steps.
//!
//! One transaction stores the request. Steps then select the sessions: the first steps here, the others in the leading worker.
//! [`Enqueue::plan_rescore`] returns a plan without storing anything.

mod estimate;
mod judge_facts;
mod plan;
mod sample;

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use self::judge_facts::is_priced;
use self::sample::Sampler;
use super::{Enqueue, EnqueueError, JudgeProblem, NewId, Pinned, ScorableStatus};
use crate::job::{Force, Kind, Priority, Purpose, Requester};
use crate::store::{
    BacklogPlan, BatchRow, ClassifyRules, Disposition, Found, NewBacklog, NewBatch, SessionFilter,
    StepOutcome, StoreError,
};
use crate::wire::{BatchOrigin, Sample, Scored};

/// Approximate number of jobs of a step that the client waits for.
const FIRST_STEP: u32 = 250;
/// Maximum number of steps that it waits for while they find no sessions.
const FIRST_STEPS: usize = 8;
/// Sessions classified at once if no result is stored.
const PAGE: u32 = 5_000;

#[derive(Debug, Clone, PartialEq)]
pub struct Rescore {
    pub name: Option<String>,
    /// Selected sessions. `ids`, if not empty, were named in the request.
    pub filter: SessionFilter,
    /// `None`: the current criteria.
    pub criteria_hash: Option<String>,
    pub purpose: Purpose,
    /// Whether existing scores and cached replies are skipped.
    pub force: Force,
    /// Maximum sessions, the newest first; named or sampled ones in the order of their ids.
    pub max: Option<u64>,
    /// The batch is paused once its calls cost this, USD.
    pub budget_usd: Option<f64>,
    pub priority: Priority,
    /// Size of the sample of scorable sessions; `None`: all.
    pub sample: Option<Sample>,
    pub repeats: u32,
    /// Judges of each session; empty: the judge of the criteria.
    pub judges: Vec<String>,
    /// Whether replies are collected through the judge's batch endpoint, for a part of the price.
    pub economy: bool,
    pub triggered_by: Requester,
    /// Id of the batch, and whether an earlier attempt of the same request may have created it.
    pub new_id: NewId,
}

impl Enqueue {
    /// Creates the batch of a backlog. It is complete, or expands while its items run. Errors: those of [`Enqueue::pin`]; `UnknownJudge`;
    /// `SameJudge`; `Unpriced` if there is a budget and the judge has no price.
    pub async fn rescore(&self, request: Rescore) -> Result<BatchRow, EnqueueError> {
        let batch_id = request.new_id.id(self.clock.now()).0;
        if matches!(request.new_id, NewId::Repeated(_))
            && let Some(batch) = self.store.batches().get(batch_id).await?
        {
            return Ok(batch);
        }
        let plan = self.backlog_plan(&request).await?;
        if request.budget_usd.is_some() {
            for judge in &plan.judges {
                self.check_price(judge)?;
            }
        }
        let now = self.clock.now();
        let stored = self
            .store
            .sessions()
            .count_stored(&request.filter.ids, now)
            .await?;
        let picks = match request.sample {
            Some(sample) => {
                self.sample(&request.filter, &plan.rules, sample, now)
                    .await?
                    .1
            }
            None => request.filter.ids.clone(),
        };
        let new = NewBacklog {
            batch: NewBatch {
                batch_id,
                name: request.name,
                kind: Kind::Session,
                origin: BatchOrigin::Rescore,
                threshold: None,
                criteria_hash: plan.rules.criteria_hash.clone(),
                budget_usd: request.budget_usd,
                created_by: request.triggered_by,
                created_at: now,
            },
            unknown: count((request.filter.ids.len() as u64).saturating_sub(stored)),
            filter: SessionFilter {
                ids: Vec::new(),
                ..request.filter
            },
            plan,
            picks,
        };
        self.store.batches().begin_backlog(&new).await?;
        self.first_steps(batch_id).await
    }

    /// Runs the first steps of a new batch. Returns the batch even if they fail.
    async fn first_steps(&self, batch_id: Uuid) -> Result<BatchRow, EnqueueError> {
        for _ in 0..FIRST_STEPS {
            let stepped = self
                .store
                .batches()
                .expand(batch_id, FIRST_STEP, self.clock.now());
            match stepped.await {
                Ok(StepOutcome::Part(0)) => {}
                Ok(StepOutcome::Part(_) | StepOutcome::Whole(_) | StepOutcome::Stopped) => break,
                Err(error) => {
                    tracing::debug!(%batch_id, %error, "failed to run the first step of a rescore; a worker will run it");
                    break;
                }
            }
        }
        let gone = || StoreError::Unexpected {
            attempted: "reading a new batch",
            reason: "not found".to_owned(),
        };
        let batch = self.store.batches().get(batch_id).await?.ok_or_else(gone)?;
        self.begun(&batch).await;
        Ok(batch)
    }

    /// Checks that the calls of a judge and of its fallback have a price. Errors: `Unpriced` and `UnpricedFallback`.
    pub fn check_price(&self, judge: &str) -> Result<(), EnqueueError> {
        if !self
            .providers
            .spec(judge)
            .is_ok_and(|spec| is_priced(&spec))
        {
            return Err(EnqueueError::Unpriced(judge.to_owned()));
        }
        match self.unpriced_fallback(judge) {
            None => Ok(()),
            Some(fallback) => Err(EnqueueError::UnpricedFallback {
                judge: judge.to_owned(),
                fallback,
            }),
        }
    }

    /// Returns the judges of a batch: those of its plan, otherwise the judge of its criteria. Errors: those of [`Enqueue::pin`].
    pub async fn judges_of(&self, batch: &BatchRow) -> Result<Vec<String>, EnqueueError> {
        if let Some(plan) = &batch.plan {
            return Ok(plan.judges.clone());
        }
        let pinned = self.pin(batch.kind, batch.criteria_hash.as_deref()).await?;
        Ok(vec![pinned.judge])
    }

    fn check_batch_endpoint(&self, judge: &str) -> Result<(), EnqueueError> {
        let spec = self.providers.spec(judge).ok();
        match spec.and_then(|spec| spec.batch_price_factor()) {
            Some(_) => Ok(()),
            None => Err(EnqueueError::NoBatchEndpoint(judge.to_owned())),
        }
    }

    /// Checks that no judge is listed twice, even under different names.
    fn check_jury(&self, judges: &[String]) -> Result<(), EnqueueError> {
        let mut known: HashMap<String, &str> = HashMap::new();
        for (place, judge) in judges.iter().enumerate() {
            let Ok(spec) = self.providers.spec(judge) else {
                continue;
            };
            let full_name = format!("{}:{}", spec.entry_name(), spec.model());
            if let Some(other) = known.insert(full_name.clone(), judge) {
                return Err(EnqueueError::SameJudge {
                    place,
                    judge: judge.clone(),
                    other: other.to_owned(),
                    full_name,
                });
            }
        }
        Ok(())
    }

    /// Returns the plan of a request, with pinned criteria and known judges.
    async fn backlog_plan(&self, request: &Rescore) -> Result<BacklogPlan, EnqueueError> {
        let hash = request.criteria_hash.as_deref();
        let pinned: Pinned = self.pin(Kind::Session, hash).await?;
        let judges = if request.judges.is_empty() {
            self.check_judge(&pinned.judge)
                .map_err(EnqueueError::JudgeNotConfigured)?;
            vec![pinned.judge.clone()]
        } else {
            for (place, judge) in request.judges.iter().enumerate() {
                self.check_judge(judge).map_err(|problem: JudgeProblem| {
                    EnqueueError::UnknownJudge { place, problem }
                })?;
            }
            self.check_jury(&request.judges)?;
            request.judges.clone()
        };
        if request.economy {
            for judge in &judges {
                self.check_batch_endpoint(judge)?;
            }
        }
        let ids = request.filter.ids.len() as u64;
        // If the newest job failed, an older score by the same criteria must not be returned.
        let force = request.force == Force::Yes || request.filter.scored == Some(Scored::Failed);
        Ok(BacklogPlan {
            economy: request.economy,
            rules: ClassifyRules {
                purpose: request.purpose,
                criteria_hash: pinned.hash,
                force,
                simulated: self.is_simulated(&pinned.judge),
                completed_only: self.score_only == ScorableStatus::Completed,
            },
            judges,
            repeats: request.repeats.max(1),
            // A repeat must not use the cache, because the reply would be the same.
            force_rescore: request.force == Force::Yes || request.purpose == Purpose::Repeat,
            priority: request.priority,
            max: request.max,
            ids: (ids > 0).then_some(ids),
            sample: request.sample,
        })
    }

    /// Samples the scorable sessions. Returns the number of matching sessions and the sample.
    async fn sample(
        &self,
        filter: &SessionFilter,
        rules: &ClassifyRules,
        sample: Sample,
        now: DateTime<Utc>,
    ) -> Result<(u64, Vec<Uuid>), EnqueueError> {
        let (mut matching, mut sampler) = (0, Sampler::new(sample));
        self.walk(filter, rules, now, &mut |found| {
            matching += 1;
            match found.disposition {
                Disposition::ToScore | Disposition::AlreadyCurrent | Disposition::InProgress => {
                    sampler.offer(found.session_id);
                }
                Disposition::NotScorable => {}
            }
        })
        .await?;
        Ok((matching, sampler.into_ids()))
    }

    /// Visits the sessions matched by a filter in the order of a batch.
    async fn walk(
        &self,
        filter: &SessionFilter,
        rules: &ClassifyRules,
        before: DateTime<Utc>,
        visit: &mut (dyn FnMut(&Found) + Send),
    ) -> Result<(), EnqueueError> {
        let mut named = filter.ids.chunks(PAGE as usize);
        let mut look = filter.clone();
        look.ids = named.next().unwrap_or_default().to_vec();
        let mut after = None;
        loop {
            let page = self
                .store
                .sessions()
                .classify(&look, rules, before, after, PAGE)
                .await?;
            page.found.iter().for_each(&mut *visit);
            after = page.last;
            match named.next() {
                Some(ids) => look.ids = ids.to_vec(),
                None if page.more => {}
                None => return Ok(()),
            }
        }
    }
}

fn count(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
