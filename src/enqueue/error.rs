//! Why a request was not accepted: by what its client can do about it.

use uuid::Uuid;

use super::SourceProblem;
use crate::job::{Job, Kind};
use crate::score::Fault;
use crate::store::StoreError;
use crate::wire::SessionStatus;

/// Why a judge of some name can't be asked: what the client is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JudgeProblem {
    pub judge: String,
    /// What is wrong and what to do, for whoever chose the criteria's judge.
    pub remedy: String,
    /// The same, for whoever named the judge in a request.
    pub named: String,
}

/// Why a request was not accepted.
#[derive(Debug, thiserror::Error)]
pub enum EnqueueError {
    /// No such session.
    #[error("session {0} is not known: put it first")]
    SessionNotFound(Uuid),
    /// The session has not ended, or not in a way that is scored.
    #[error(
        "session {session_id} is {status}: {}",
        if status.is_terminal() { "only completed sessions are scored here" } else { "only sessions that have ended are scored" }
    )]
    SessionNotCompleted {
        session_id: Uuid,
        /// Where it stands.
        status: SessionStatus,
    },
    /// The session may be known where sessions come from, which doesn't answer.
    #[error("session {session_id} could not be fetched: {}", problem.reason)]
    SourceUnavailable {
        session_id: Uuid,
        /// How, and when to try again.
        problem: SourceProblem,
    },
    /// The session is known where sessions come from, and can't be stored.
    #[error("session {session_id} can't be stored as TARSy has it: {reason}")]
    SourceUnusable { session_id: Uuid, reason: String },
    /// There is nothing to judge.
    #[error("session {0} has an empty conversation: put it again with its messages")]
    NothingToJudge(Uuid),
    /// The criteria asked for are not stored.
    #[error(
        "criteria_hash {0} is not stored: add the definition first (`gavel criteria add FILE`)"
    )]
    UnknownCriteria(String),
    /// The criteria asked for are for another kind of work.
    #[error("criteria_hash {hash} is of kind {kind}: name one of kind {asked}")]
    CriteriaOfOtherKind {
        hash: String,
        kind: Kind,
        /// What is to be scored.
        asked: Kind,
    },
    /// The payload has faults, each with its JSON pointer.
    #[error("the payload can't be scored: {} faults", .0.len())]
    BadPayload(Vec<Fault>),
    /// The payload names a model of a judge that can't be asked.
    #[error("model {model:?}: {remedy}")]
    UnknownModel {
        /// What was named.
        model: String,
        /// What is wrong, with what there is.
        remedy: String,
    },
    /// Another job stands in the way.
    #[error("session {session_id} is being scored by job {}", job.job_id)]
    InProgress { session_id: Uuid, job: Box<Job> },
    /// Scoring is switched off by the criteria file.
    #[error("scoring is disabled: set scoring.enabled (SCORING_ENABLED) to true and reload")]
    Disabled,
    /// The judge that the criteria name can't be asked.
    #[error("judge {:?}: {}", .0.judge, .0.remedy)]
    JudgeNotConfigured(JudgeProblem),
    /// A judge that the request names can't be asked.
    #[error("judge {:?}: {}", problem.judge, problem.named)]
    UnknownJudge {
        /// Its place in the list, from 0.
        place: usize,
        /// What is wrong, and the remedy.
        problem: JudgeProblem,
    },
    /// The request names a judge by two of its names.
    #[error("judge {judge:?} is {other:?} by another name ({full_name}): each judge has one vote")]
    SameJudge {
        /// Its place in the list, from 0.
        place: usize,
        /// The name.
        judge: String,
        /// The name before it.
        other: String,
        /// Entry and model.
        full_name: String,
    },
    /// There is nothing that a budget could be held against.
    #[error(
        "judge {0:?} has no price, so that nothing can be held against a budget: give its model a price under `prices` in llm_providers.yaml, or leave budget_usd out"
    )]
    Unpriced(String),
    /// A judge whose fallback's calls have no price.
    #[error(
        "judge {judge:?} falls back to {fallback:?}, which has no price, so that no budget holds: give it one under `prices` in llm_providers.yaml, or leave budget_usd out"
    )]
    UnpricedFallback {
        /// The judge that is asked.
        judge: String,
        /// The judge that is asked what that one declines.
        fallback: String,
    },
    /// A judge whose replies can't be collected.
    #[error(
        "judge {0:?} has no batch endpoint: give its entry in llm_providers.yaml a batch_price_factor if its server has one, or leave economy out"
    )]
    NoBatchEndpoint(String),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}
