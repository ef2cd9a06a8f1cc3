//! Enqueue: validates the request, inserts the row, pushes the id. Only the API calls this; pages and commands use the
//! API. The rows of a rescore are inserted by `worker/expand.rs`.
//!
//! A `202` only means that the row is committed. The push follows the commit and may be lost.

mod batch;
mod case;
mod current;
mod decide;
mod error;
mod push;
mod request;
mod rescore;
mod source;

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

pub use self::batch::{BatchError, FAULTS, Item, ItemFault, ReadItems, ScoreBatch};
pub use self::case::{Pinned, ScoreCase};
pub use self::current::CurrentCriteria;
use self::current::Definitions;
use self::decide::{Decision, decide};
pub use self::error::{EnqueueError, JudgeProblem};
use self::push::push_committed;
pub use self::request::{Enqueued, NewId, ScorableStatus, ScoreSession};
pub use self::rescore::Rescore;
pub use self::source::SourceProblem;
use crate::clock::Clock;
use crate::events::{Announcer, EventType};
use crate::history::on_demand::OnDemand;
use crate::job::{Job, JobId, NewJob};
use crate::judge::Providers;
use crate::queue::{Push, Queue};
use crate::store::{Accepted, FirstOutcome, Outage, ScoringFacts, Store, StoreError};

/// Maximum races between two requests for one session before an error.
const RACES: usize = 5;

impl Enqueue {
    /// Enqueues the score of a session: the table of POST `/api/v1/scoring/sessions/{id}/score`, row by row.
    pub async fn score_session(&self, request: &ScoreSession) -> Result<Enqueued, EnqueueError> {
        let criteria = self.current_criteria();
        if !criteria.enabled {
            return Err(EnqueueError::Disabled);
        }
        if let NewId::Repeated(id) = request.new_id
            && let Some(job) = self.store.jobs().get(id).await?
        {
            return Ok(job.into());
        }
        let hash = request.criteria_hash.as_deref().unwrap_or(&criteria.hash.0);
        // All attempts use one id, so that a row is found even if the result of its commit was lost.
        let job_id = request.new_id.id(self.clock.now());
        let (mut fetched, mut seen) = (false, None);
        // Most sessions have no score and no job yet, so the read and the insert are one step. Other cases use the
        // table.
        if let Ok(judge) = self.judge_of(hash, &criteria).await
            && self.check_judge(&judge).is_ok()
        {
            let new = self.new_job(request, hash, judge, job_id);
            let statuses = self.score_only.statuses();
            match self.store.jobs().accept_first(new.clone(), statuses).await {
                Ok(FirstOutcome::New) => return Ok(self.accepted(new).into()),
                Ok(FirstOutcome::Known(facts)) => seen = facts,
                // Reads still work, and a stored result may be enough.
                Err(StoreError::Unavailable {
                    outage: Outage::StorageFull,
                    ..
                }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        for _ in 0..RACES {
            let seen = seen.take().map(|facts| *facts);
            let facts = self.facts(request.session_id, seen, &mut fetched).await?;
            self.check_subject(request.session_id, &facts)?;
            let judge = self.judge_of(hash, &criteria).await?;
            match decide(&facts, request, hash, self.is_simulated(&judge)) {
                Decision::Scored(score_id) => return Ok(Enqueued::Scored(score_id)),
                Decision::InProgress(job) => {
                    return Err(EnqueueError::InProgress {
                        session_id: request.session_id,
                        job,
                    });
                }
                Decision::Running(job) => return Ok(Enqueued::Job(job)),
                Decision::Raise(job) => {
                    if let Some(raised) = self.raise(job.job_id, request).await? {
                        return Ok(raised.into());
                    }
                }
                Decision::New => {
                    if let Some(job) = self.insert(request, hash, judge, job_id).await? {
                        return Ok(job.into());
                    }
                }
            }
        }
        Err(EnqueueError::Store(StoreError::no_answer(
            "enqueueing a session that many clients request at once",
            format!("lost {RACES} races in a row"),
        )))
    }

    fn check_subject(&self, session_id: Uuid, facts: &ScoringFacts) -> Result<(), EnqueueError> {
        if !self.score_only.takes(facts.status) {
            return Err(EnqueueError::SessionNotCompleted {
                session_id,
                status: facts.status,
            });
        }
        if !facts.has_conversation {
            return Err(EnqueueError::NothingToJudge(session_id));
        }
        Ok(())
    }

    /// Inserts a job. Returns `None` if a concurrent insert won, so that the caller reads again.
    async fn insert(
        &self,
        request: &ScoreSession,
        hash: &str,
        judge: String,
        job_id: JobId,
    ) -> Result<Option<Job>, EnqueueError> {
        self.check_judge(&judge)
            .map_err(EnqueueError::JudgeNotConfigured)?;
        let new = self.new_job(request, hash, judge, job_id);
        match self.store.jobs().accept(new.clone()).await? {
            Accepted::New => Ok(Some(self.accepted(new))),
            Accepted::Active(_) => Ok(None),
        }
    }

    fn new_job(&self, request: &ScoreSession, hash: &str, judge: String, job_id: JobId) -> NewJob {
        let (options, now) = (request.options.clone(), self.clock.now());
        NewJob {
            job_id,
            criteria_hash: hash.to_owned(),
            ..NewJob::of_session(request.session_id, judge, options, now)
        }
    }

    fn accepted(&self, new: NewJob) -> Job {
        let job = Job::from(new);
        self.announce(EventType::JobQueued, &job);
        self.push(&job);
        job
    }

    async fn raise(
        &self,
        job_id: JobId,
        request: &ScoreSession,
    ) -> Result<Option<Job>, EnqueueError> {
        let raised = self
            .store
            .jobs()
            .raise(job_id, request.options.force)
            .await?;
        if let Some(job) = &raised {
            self.push(job);
        }
        Ok(raised)
    }

    /// Retries a failed job and pushes it. Returns `None` if it doesn't exist or hasn't failed.
    pub async fn retry(&self, id: JobId) -> Result<Option<Accepted>, EnqueueError> {
        let accepted = self.store.jobs().retry(id, self.clock.now()).await?;
        if accepted == Some(Accepted::New)
            && let Some(job) = self.store.jobs().get(id).await?
        {
            self.announce(EventType::JobRetried, &job);
            self.push(&job);
        }
        Ok(accepted)
    }
}

pub struct Enqueue {
    store: Arc<Store>,
    pushes: mpsc::Sender<Push>,
    clock: Arc<dyn Clock>,
    events: Announcer,
    providers: Providers,
    /// Fetches sessions that are missing, or that hadn't ended when they were stored.
    history: Option<OnDemand>,
    definitions: Definitions,
    score_only: ScorableStatus,
}

pub struct EnqueueParts {
    pub store: Arc<Store>,
    pub queue: Arc<dyn Queue>,
    pub clock: Arc<dyn Clock>,
    pub events: Announcer,
    pub providers: Providers,
    pub history: Option<OnDemand>,
}

/// Maximum pushes that wait for a slow queue. Further ones are left to `rescue`.
const PUSHES_WAITING: usize = 50_000;

impl Enqueue {
    /// Builds the service and the push task. The task ends once `shutdown` is cancelled and its pushes are sent.
    pub fn new(
        parts: EnqueueParts,
        current: CurrentCriteria,
        score_only: ScorableStatus,
        shutdown: CancellationToken,
    ) -> (Arc<Self>, impl Future<Output = ()> + Send + 'static) {
        let (pushes, waiting) = mpsc::channel(PUSHES_WAITING);
        let EnqueueParts {
            store,
            queue,
            clock,
            events,
            providers,
            history,
        } = parts;
        let enqueue = Self {
            store,
            pushes,
            clock,
            events,
            providers,
            history,
            definitions: Definitions::new(current),
            score_only,
        };
        (Arc::new(enqueue), push_committed(queue, waiting, shutdown))
    }

    pub fn is_simulated(&self, judge: &str) -> bool {
        let spec = self.providers.spec(judge);
        spec.is_ok_and(|spec| spec.simulated())
    }

    pub fn score_only(&self) -> ScorableStatus {
        self.score_only
    }
}
