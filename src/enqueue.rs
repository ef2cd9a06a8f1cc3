//! Step 1 of the flow: check the request, insert the row, push the id. API, dashboard and CLI all call this.
//!
//! A `202` means that the row is committed, and nothing else: the push is a hint that goes out after the commit and may
//! get lost. Never calls a judge.

mod batch;
mod case;
mod current;
mod decide;
mod error;
mod push;
mod rescore;
mod source;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

pub use self::batch::{BatchError, FAULTS, Item, ItemFault, Items, OpenItems, ScoreBatch};
pub use self::case::{Pinned, ScoreCase};
pub use self::current::CurrentCriteria;
use self::decide::{Decision, decide};
pub use self::error::{EnqueueError, JudgeProblem};
use self::push::push_committed;
pub use self::rescore::{JudgeTerms, Rescore, Terms};
use self::source::Asked;
pub use self::source::{SessionSource, SourceError, SourceProblem, Sourced};
use crate::clock::Clock;
use crate::events::{Announcer, Event, EventType};
use crate::job::{Job, JobId, JobState, Kind, NewJob, Priority, SessionPayload};
use crate::queue::{Push, Queue};
use crate::score::Criteria;
use crate::store::{Accepted, Force, ScoringView, Store, StoreError};
use crate::wire::SessionStatus;

/// Says whether a judge of that name could be asked. `app` makes it from `llm_providers.yaml`.
pub type JudgeCheck = Arc<dyn Fn(&str) -> Result<(), JudgeProblem> + Send + Sync>;

/// The id of the job that a request may make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewId {
    /// Any new one.
    Any,
    /// This one.
    Reserved(JobId),
    /// This one, which an earlier try of the same request may have used: then that job is the answer.
    Repeated(JobId),
}

/// A request to score a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScoreSession {
    /// The session.
    pub session_id: Uuid,
    /// Whether an existing score and cached replies are passed over.
    pub force: Force,
    /// The criteria asked for; `None`: the current ones.
    pub criteria_hash: Option<String>,
    /// Who asks.
    pub triggered_by: String,
    /// Who waits.
    pub priority: Priority,
    /// What a new job is called.
    pub new_id: NewId,
}

/// What came of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Enqueued {
    /// A score exists and is what was asked for: its id.
    Scored(Uuid),
    /// A job is active, new or older.
    Job(Box<Job>),
}

/// Takes requests.
pub struct Enqueue {
    store: Arc<Store>,
    pushes: mpsc::Sender<Push>,
    clock: Arc<dyn Clock>,
    events: Announcer,
    judges: JudgeCheck,
    terms: Arc<dyn JudgeTerms>,
    current: RwLock<CurrentCriteria>,
    /// The kind and the judge of each stored definition that was asked for; definitions never change.
    judge_of: RwLock<BTreeMap<String, (Kind, String)>>,
    score_only: ScoreOnly,
    source: OnceLock<Arc<dyn SessionSource>>,
}

/// Which ended sessions are scored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScoreOnly {
    /// All.
    Ended,
    /// Those that ended `completed`.
    Completed,
}

impl ScoreOnly {
    /// Whether a session in this status is scored.
    #[must_use]
    pub fn takes(self, status: SessionStatus) -> bool {
        match self {
            Self::Ended => status.is_terminal(),
            Self::Completed => status == SessionStatus::Completed,
        }
    }
}

/// How many pushes may wait for a slow queue; what doesn't fit is left to `rescue`.
const PUSHES_WAITING: usize = 20_000;
/// How often two requests for one session may get into each other's way before we give up.
const RACES: usize = 5;

/// What the step works with.
pub struct EnqueueParts {
    /// The truth.
    pub store: Arc<Store>,
    /// The hint.
    pub queue: Arc<dyn Queue>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Who is told.
    pub events: Announcer,
    /// Which judges could be asked.
    pub judges: JudgeCheck,
    /// What is known of them.
    pub terms: Arc<dyn JudgeTerms>,
}

impl Enqueue {
    /// Builds the step and the task that pushes; the task ends when `shutdown` is cancelled and what it held is pushed.
    pub fn new(
        parts: EnqueueParts,
        current: CurrentCriteria,
        score_only: ScoreOnly,
        shutdown: CancellationToken,
    ) -> (Arc<Self>, impl Future<Output = ()> + Send + 'static) {
        let (pushes, waiting) = mpsc::channel(PUSHES_WAITING);
        let EnqueueParts {
            store,
            queue,
            clock,
            events,
            judges,
            terms,
        } = parts;
        let enqueue = Self {
            store,
            pushes,
            clock,
            events,
            judges,
            terms,
            current: RwLock::new(current),
            judge_of: RwLock::default(),
            score_only,
            source: OnceLock::new(),
        };
        (Arc::new(enqueue), push_committed(queue, waiting, shutdown))
    }

    /// Which ended sessions are scored.
    pub fn score_only(&self) -> ScoreOnly {
        self.score_only
    }

    /// The criteria that new requests to score a session get.
    pub fn current_criteria(&self) -> Arc<Criteria> {
        self.current_criteria_of(Kind::Session)
    }

    /// The criteria that new requests of a kind get.
    pub fn current_criteria_of(&self, kind: Kind) -> Arc<Criteria> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        current.of(kind).clone()
    }

    /// Replaces the current criteria of all kinds (a reload).
    pub fn set_current(&self, criteria: CurrentCriteria) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = criteria;
    }

    /// Replaces the current criteria of the kind that they are for.
    pub fn set_current_criteria(&self, criteria: Arc<Criteria>) {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        current.set(criteria.kind, criteria);
    }

    /// Whether what this judge says is made up.
    pub fn is_simulated(&self, judge: &str) -> bool {
        let terms = self.terms.terms(judge);
        terms.is_some_and(|terms| terms.simulated)
    }

    /// The kinds whose current criteria name this judge.
    pub fn kinds_of(&self, judge: &str) -> Vec<Kind> {
        let kinds = Kind::ALL.iter().copied();
        kinds
            .filter(|kind| self.current_criteria_of(*kind).judge == judge)
            .collect()
    }

    /// Whether a judge of that name could be asked.
    pub fn check_judge(&self, name: &str) -> Result<(), JudgeProblem> {
        (self.judges)(name)
    }

    /// Asks for a session's score: the table of POST `/api/v1/scoring/sessions/{id}/score`, row by row.
    pub async fn score_session(&self, request: &ScoreSession) -> Result<Enqueued, EnqueueError> {
        let criteria = self.current_criteria();
        if !criteria.enabled {
            return Err(EnqueueError::Disabled);
        }
        if let NewId::Repeated(id) = request.new_id
            && let Some(job) = self.store.jobs().get(id).await?
        {
            return Ok(Enqueued::Job(Box::new(job)));
        }
        let hash = request.criteria_hash.as_deref().unwrap_or(&criteria.hash.0);
        let mut asked = Asked::No;
        for _ in 0..RACES {
            let view = self.view(request.session_id, &mut asked).await?;
            self.check_subject(request.session_id, &view)?;
            let judge = self.judge_of(hash, &criteria).await?;
            match decide(&view, request, hash) {
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
                        return Ok(Enqueued::Job(Box::new(raised)));
                    }
                }
                Decision::New => {
                    if let Some(job) = self.insert(request, hash, judge, &criteria).await? {
                        return Ok(Enqueued::Job(Box::new(job)));
                    }
                }
            }
        }
        Err(EnqueueError::Store(StoreError::no_answer(
            "enqueueing a session that many clients ask for at once",
            format!("lost {RACES} races in a row"),
        )))
    }

    /// Retries a failed job and pushes it. `None`: no such job, or it hasn't failed.
    pub async fn retry(&self, id: JobId) -> Result<Option<Accepted>, EnqueueError> {
        let accepted = self.store.jobs().retry(id, self.clock.now()).await?;
        if accepted == Some(Accepted::New)
            && let Some(job) = self.store.jobs().get(id).await?
        {
            self.tell(EventType::JobRetried, &job);
            self.push(&job);
        }
        Ok(accepted)
    }

    fn check_subject(&self, session_id: Uuid, view: &ScoringView) -> Result<(), EnqueueError> {
        if !self.score_only.takes(view.status) {
            return Err(EnqueueError::SessionNotCompleted {
                session_id,
                status: view.status,
            });
        }
        if !view.has_conversation {
            return Err(EnqueueError::NothingToJudge(session_id));
        }
        Ok(())
    }

    /// The judge that a stored definition names, if it is of the current one's kind. The current one is stored on its first use.
    async fn judge_of(&self, hash: &str, current: &Arc<Criteria>) -> Result<String, EnqueueError> {
        let known = self
            .judge_of
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(hash)
            .cloned();
        let (kind, judge) = match known {
            Some(known) => known,
            None => self.look_up(hash, current).await?,
        };
        if kind != current.kind {
            return Err(EnqueueError::CriteriaOfOtherKind {
                hash: hash.to_owned(),
                kind,
                asked: current.kind,
            });
        }
        Ok(judge)
    }

    async fn look_up(
        &self,
        hash: &str,
        current: &Arc<Criteria>,
    ) -> Result<(Kind, String), EnqueueError> {
        let found = if hash == current.hash.0 {
            self.store.criteria().put(current, self.clock.now()).await?;
            (current.kind, current.judge.clone())
        } else {
            let content = self
                .store
                .criteria()
                .content(hash)
                .await?
                .ok_or_else(|| EnqueueError::UnknownCriteria(hash.to_owned()))?;
            let stored =
                Criteria::from_value(&content).map_err(|error| StoreError::Unexpected {
                    attempted: "reading a stored criteria definition",
                    reason: error.to_string(),
                })?;
            (stored.kind, stored.judge)
        };
        self.judge_of
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(hash.to_owned(), found.clone());
        Ok(found)
    }

    async fn raise(
        &self,
        job_id: JobId,
        request: &ScoreSession,
    ) -> Result<Option<Job>, EnqueueError> {
        let raised = self.store.jobs().raise(job_id, request.force).await?;
        if let Some(job) = &raised {
            self.push(job);
        }
        Ok(raised)
    }

    /// Inserts a job. `None`: another one was faster, look again.
    async fn insert(
        &self,
        request: &ScoreSession,
        hash: &str,
        judge: String,
        current: &Criteria,
    ) -> Result<Option<Job>, EnqueueError> {
        (self.judges)(&judge).map_err(EnqueueError::JudgeNotConfigured)?;
        debug_assert!(current.enabled);
        let payload = SessionPayload {
            session_id: request.session_id,
            force_rescore: request.force == Force::Yes,
            is_fetched_ahead: false,
        };
        let new = NewJob {
            job_id: match request.new_id {
                NewId::Any => JobId::new(),
                NewId::Reserved(id) | NewId::Repeated(id) => id,
            },
            priority: request.priority,
            criteria_hash: hash.to_owned(),
            triggered_by: request.triggered_by.clone(),
            ..NewJob::of_session(&payload, judge, self.clock.now())
        };
        match self.store.jobs().accept(new.clone()).await? {
            Accepted::New => {
                let job = accepted_row(new);
                self.tell(EventType::JobQueued, &job);
                self.push(&job);
                Ok(Some(job))
            }
            Accepted::Active(_) => Ok(None),
        }
    }

    fn tell(&self, event: EventType, job: &Job) {
        let event = Event::of_job(event, job, JobState::Queued, self.clock.now());
        self.events.announce(event);
    }

    /// Hands an id to the pushing task. A full channel means that the queue is slow or away: `rescue` pushes it later.
    fn push(&self, job: &Job) {
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

/// The row that `accept` inserted.
fn accepted_row(new: NewJob) -> Job {
    let lane = new.lane();
    Job {
        job_id: new.job_id,
        kind: new.kind,
        subject_id: new.subject_id,
        purpose: new.purpose,
        payload: new.payload,
        judge: new.judge,
        lane,
        priority: new.priority,
        state: JobState::Queued,
        claim_no: 0,
        attempts: 0,
        losses: 0,
        retries: 0,
        wait: None,
        due_at: new.created_at,
        waiting_since: None,
        worker_id: None,
        failure: None,
        criteria_hash: new.criteria_hash,
        force_rescore: new.force_rescore,
        triggered_by: new.triggered_by,
        batch: new.batch,
        budgeted: false,
        on_demand: false,
        result: None,
        simulated: false,
        usage: crate::job::Usage {
            cost_usd: Some(0.0),
            ..Default::default()
        },
        created_at: new.created_at,
        started_at: None,
        finished_at: None,
    }
}
