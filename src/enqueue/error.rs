//! Errors of rejected requests, grouped by the client's remedy.

use uuid::Uuid;

use super::SourceProblem;
use crate::job::{Job, Kind};
use crate::judge::NotConfigured;
use crate::score::Fault;
use crate::store::StoreError;
use crate::wire::SessionStatus;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JudgeProblem {
    pub judge: String,
    /// Error and remedy for the user who chose the judge of the criteria.
    pub remedy: String,
    /// The same for a client that named the judge in a request.
    pub named: String,
}

impl JudgeProblem {
    pub(super) fn new(judge: &str, error: &NotConfigured) -> Self {
        Self {
            judge: judge.to_owned(),
            remedy: error.to_string(),
            named: error.of_a_request(),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum EnqueueError {
    #[error("session {0} is unknown: upload it first")]
    SessionNotFound(Uuid),
    /// The session hasn't ended, or its status isn't scored.
    #[error(
        "session {session_id} is {status}: {}",
        if status.is_terminal() { "only completed sessions are scored here" } else { "only sessions that have ended are scored" }
    )]
    SessionNotCompleted {
        session_id: Uuid,
        status: SessionStatus,
    },
    /// The session may exist in its source, which is unavailable.
    #[error("session {session_id} could not be fetched: {}", problem.reason)]
    SourceUnavailable {
        session_id: Uuid,
        /// Error and retry delay.
        problem: SourceProblem,
    },
    /// The session exists in its source, but can't be stored.
    #[error("session {session_id} can't be stored as TARSy has it: {reason}")]
    SourceUnusable { session_id: Uuid, reason: String },
    #[error("session {0} has an empty conversation: upload it again with its messages")]
    NothingToJudge(Uuid),
    #[error(
        "criteria_hash {0} is not stored: add the definition first (`gavel criteria add FILE`)"
    )]
    UnknownCriteria(String),
    #[error("criteria_hash {hash} is of kind {kind}: name one of kind {asked}")]
    CriteriaOfOtherKind {
        hash: String,
        kind: Kind,
        asked: Kind,
    },
    /// Validation errors, each with its JSON pointer.
    #[error("the payload can't be scored: {} errors", .0.len())]
    BadPayload(Vec<Fault>),
    #[error("model {model:?}: {remedy}")]
    UnknownModel {
        model: String,
        /// Error, with the configured models.
        remedy: String,
    },
    #[error("session {session_id} is being scored by job {}", job.job_id)]
    InProgress { session_id: Uuid, job: Box<Job> },
    #[error("scoring is disabled: set scoring.enabled (SCORING_ENABLED) to true and reload")]
    Disabled,
    #[error("judge {:?}: {}", .0.judge, .0.remedy)]
    JudgeNotConfigured(JudgeProblem),
    #[error("judge {:?}: {}", problem.judge, problem.named)]
    UnknownJudge {
        /// Index in the list.
        place: usize,
        problem: JudgeProblem,
    },
    /// The request names a judge under two of its names.
    #[error("judge {judge:?} is {other:?} by another name ({full_name}): each judge has one vote")]
    SameJudge {
        /// Index in the list.
        place: usize,
        judge: String,
        /// Earlier name of the same judge.
        other: String,
        /// Entry and model.
        full_name: String,
    },
    #[error(
        "judge {0:?} has no price, so that the budget can't be enforced: give its model a price under `prices` in llm_providers.yaml, or omit budget_usd"
    )]
    Unpriced(String),
    #[error(
        "judge {judge:?} falls back to {fallback:?}, which has no price, so that the budget can't be enforced: give it one under `prices` in llm_providers.yaml, or omit budget_usd"
    )]
    UnpricedFallback { judge: String, fallback: String },
    #[error(
        "judge {0:?} has no batch endpoint: give its entry in llm_providers.yaml a batch_price_factor if its server has one, or omit economy"
    )]
    NoBatchEndpoint(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}
