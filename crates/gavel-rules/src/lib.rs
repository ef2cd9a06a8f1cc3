//! Scoring rules: questions for the judge, and scores from its answers. One folder per kind, plus the types shared with judges (question,
//! answer, error). Pure: no I/O, async, clock or randomness.

pub mod about;
pub mod analysis;
mod case;
pub mod config_file;
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
pub use config_file::FileError;
pub use criteria::{Criteria, CriteriaHash, Trim};
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
pub use sql_metrics::stamp_errors;
pub use tokens::ModelFamily;
pub use unasked::score_unasked;

pub mod qas;
pub mod query;
pub mod session;
pub mod sql_metrics;

pub fn about(kind: gavel_wire::Kind) -> &'static About {
    use gavel_wire::Kind;
    match kind {
        Kind::Session => &session::ABOUT,
        Kind::Query => &query::ABOUT,
        Kind::Qas => &qas::ABOUT,
        Kind::SqlMetrics => &sql_metrics::ABOUT,
    }
}

/// Reason why a stored subject can't be judged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unscorable {
    #[error("{pointer}: {message}")]
    Invalid { pointer: String, message: String },
    /// Exceeds the judge's context window. The message contains the sizes and a fix.
    #[error("{0}")]
    TooLarge(String),
}

/// Interface of a kind of work.
pub trait Scorable: Send + Sync {
    /// Returns the questions for the judge; empty if no judge is needed. `limits` has the judge's context window, `nonce` fences evidence.
    fn questions(
        &self,
        criteria: &Criteria,
        limits: &Limits,
        nonce: &Nonce,
    ) -> Result<Vec<Question>, Unscorable>;

    /// Converts the answers, one per question and in order, into a score. An answer may be an error, which the kind may survive. A missing
    /// answer means that the judge wasn't called (`--no-judge`): its component is not run, and the total incomplete.
    fn score(&self, criteria: &Criteria, answers: &[JudgeAnswer]) -> Scorecard;

    /// Returns a smaller copy sufficient to score answers, if possible. Frees memory during calls, which may take minutes, because the
    /// questions already contain the evidence.
    fn without_evidence(&self) -> Option<Box<dyn Scorable>> {
        None
    }

    /// Whether it can need a judge. Otherwise its job needs no lane.
    fn needs_judge(&self) -> bool;

    /// Judge or model chosen by the subject itself.
    fn model(&self) -> Option<&str> {
        None
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Scorecard {
    Session(session::SessionScore),
    Evaluated(Box<Evaluation>),
    /// No score, because the judge failed and the kind can't score without it.
    Unscored(JudgeError),
}
