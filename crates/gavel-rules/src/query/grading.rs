use serde_json::json;

use super::computed::Settled;
use crate::JudgeAnswer;
use crate::opinion::{JudgeOpinion, ReplyForm, grade};

pub(super) static FORM: ReplyForm<f64> = ReplyForm {
    kind: "query",
    schema_name: "query_grade",
    version: "query-reply-1",
    description: "The grade of one query.",
    reasons: (
        "reasoning",
        "What differs between the two queries, what that does to the result, and what it costs; 2 to 6 sentences.",
    ),
    verdict: (
        "score",
        || json!({ "type": "number", "description": "The grade, from 0 to 1." }),
    ),
    read: grade,
};

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Grading {
    Asked(JudgeOpinion<f64>),
    /// No judge was called.
    Settled(Settled),
}

impl Grading {
    pub(super) fn from_answer(answer: Option<&JudgeAnswer>) -> Self {
        Self::Asked(FORM.judged(answer))
    }

    pub(super) fn score(&self) -> Option<f64> {
        match self {
            Self::Asked(JudgeOpinion::Replied { verdict, .. }) => Some(*verdict),
            Self::Settled(settled) => Some(settled.score()),
            Self::Asked(JudgeOpinion::Failed(_) | JudgeOpinion::NotRun) => None,
        }
    }
}
