//! The rules: what to ask, and what an answer is worth. Pure: no IO, no async, no clock, no chance.

pub mod criteria;
pub mod session;
mod template;

use crate::judge::{Answer, JudgeError, Limits, Nonce, Question};

pub use criteria::{Criteria, CriteriaError, CriteriaHash};

/// A subject that can't be judged as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{pointer}: {message}")]
pub struct BadRequest {
    /// JSON pointer into the subject.
    pub pointer: String,
    /// What is wrong, and the remedy.
    pub message: String,
}

/// What one kind of work must say about itself.
pub trait Request: Send + Sync {
    /// What to ask the judge; empty when no judge is needed. `limits` holds the judge's context window, `nonce` fences evidence.
    fn questions(
        &self,
        criteria: &Criteria,
        limits: &Limits,
        nonce: &Nonce,
    ) -> Result<Vec<Question>, BadRequest>;

    /// Turns the answers, one per question and in order, into a score. An answer may be an error: the kind decides what survives.
    fn score(&self, criteria: &Criteria, answers: &[Answer]) -> Scorecard;
}

/// What the rules made of the answers.
#[derive(Debug, Clone, PartialEq)]
pub enum Scorecard {
    /// A session's score.
    Session(session::SessionScore),
    /// No score: the judge failed, and nothing of the kind survives that.
    Unscored(JudgeError),
}
