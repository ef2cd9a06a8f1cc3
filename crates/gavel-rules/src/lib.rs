//! The rules: what to ask, and what an answer is worth; a folder for each kind of work, and the nouns that judges share with them: a
//! question, its answer, an error. Pure: no IO, no async, no clock, no chance.

pub mod about;
pub mod analysis;
mod case;
pub mod criteria;
pub mod error;
mod evaluation;
mod faults;
mod fence;
mod field;
mod nearest;
mod opinion;
mod prompt;
mod prompt_text;
mod python;
pub mod question;
mod reading;
pub mod similarity;
pub mod statistics;
mod template;
pub mod tokens;
pub mod trust;
mod unasked;

pub use about::{About, Column, Component, Origin, ReadCase, STATUS, Sides};
pub use case::{field, fields, kind_of, name_of, read_case};
pub use criteria::{Criteria, CriteriaError, CriteriaHash, Trim};
pub use error::{ErrorClass, JudgeError};
pub use evaluation::{Alert, Evaluation, JudgedBy};
pub use field::{Field, FieldForm};
pub use nearest::{hint, nearest};
pub use prompt_text::PromptText;
pub use python::parse_python;
pub use question::{
    Check, Fault, JudgeAnswer, Limits, Nonce, Question, Reply, ReplySchema, Review, Shrink, Target,
    Weakness,
};
pub use reading::MAX_FIELDS;
pub use row_match::{JsonError, parse_json, readable_json, unambiguous_json};
pub use tokens::ModelFamily;
pub use unasked::score_unasked;

// The kinds: each is one folder, which describes itself.
pub mod qas;
pub mod query;
pub mod session;
pub mod sql_metrics;

/// What a kind says of itself.
pub fn about(kind: gavel_wire::Kind) -> &'static About {
    use gavel_wire::Kind;
    match kind {
        Kind::Session => &session::ABOUT,
        Kind::Query => &query::ABOUT,
        Kind::Qas => &qas::ABOUT,
        Kind::SqlMetrics => &sql_metrics::ABOUT,
    }
}

/// A subject that can't be judged as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unscorable {
    #[error("{pointer}: {message}")]
    Invalid { pointer: String, message: String },
    /// It doesn't fit into the judge's context window: the sizes, and the remedy.
    #[error("{0}")]
    TooLarge(String),
}

/// What one kind of work must say about itself.
pub trait Scorable: Send + Sync {
    /// What to ask the judge; empty when no judge is needed. `limits` holds the judge's context window, `nonce` fences evidence.
    fn questions(
        &self,
        criteria: &Criteria,
        limits: &Limits,
        nonce: &Nonce,
    ) -> Result<Vec<Question>, Unscorable>;

    /// Turns the answers, one per question and in order, into a score. An answer may be an error: the kind decides what survives.
    /// An answer that is missing was never asked for (`--no-judge`): its part is not run, and the total incomplete.
    fn score(&self, criteria: &Criteria, answers: &[JudgeAnswer]) -> Scorecard;

    /// What is left of it to score answers by, where that is less than all: what was asked stands in the questions, and a call may be
    /// out for minutes.
    fn without_evidence(&self) -> Option<Box<dyn Scorable>> {
        None
    }

    /// Whether a judge has a part in it. Without one it needs none, and no lane.
    fn needs_judge(&self) -> bool;

    /// The judge or the model that it names itself.
    fn model(&self) -> Option<&str> {
        None
    }
}

/// What the rules made of the answers.
#[derive(Debug, Clone, PartialEq)]
pub enum Scorecard {
    Session(session::SessionScore),
    Evaluated(Box<Evaluation>),
    /// No score: the judge failed, and nothing of the kind survives that.
    Unscored(JudgeError),
}
