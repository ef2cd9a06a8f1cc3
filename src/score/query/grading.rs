//! The judge's part: what is asked back, how a reply is checked, and what became of it.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::judge::{Answer, Check, Fault, JudgeError};
use crate::score::JudgedBy;
use crate::score::opinion::{Opinion, unusable};

/// Rises whenever the meaning of the schema or of the checks changes; a part of the template's hash.
pub(super) const VERSION: &str = "query-reply-1";

/// What became of the judge's part.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Grading {
    /// The judge graded.
    Graded {
        /// 0-1.
        score: f64,
        /// Why.
        reasoning: String,
        /// Who.
        by: JudgedBy,
    },
    /// Nobody was asked: the queries are the same.
    Identical,
    /// The judge was asked and failed.
    Failed(JudgeError),
    /// Nobody was asked, by the caller's choice.
    NotRun,
}

impl Grading {
    /// What an answer comes to; `None`: nobody was asked.
    pub(super) fn of(answer: Option<&Answer>) -> Self {
        match answer {
            None => Self::NotRun,
            Some(Err(error)) => Self::Failed(error.clone()),
            Some(Ok(reply)) => match read(&reply.value) {
                Ok((score, reasoning)) => Self::Graded {
                    score,
                    reasoning,
                    by: JudgedBy::from(reply),
                },
                Err(faults) => Self::Failed(unusable(reply, &faults)),
            },
        }
    }

    /// 0-1; `None` where there is no grade.
    pub(super) fn score(&self) -> Option<f64> {
        match self {
            Self::Graded { score, .. } => Some(*score),
            Self::Identical => Some(1.0),
            Self::Failed(_) | Self::NotRun => None,
        }
    }
}

/// What is asked back: the reasons first, so that the judge argues before it counts. Strict providers refuse bounds as
/// keywords; they stand in words and are checked by [`check`].
pub(super) fn schema() -> Value {
    json!({
        "type": "object",
        "description": "The grade of one query.",
        "required": ["reasoning", "score"],
        "additionalProperties": false,
        "properties": {
            "reasoning": {
                "type": "string",
                "description": "What differs between the two queries, what that does to the result, and what it costs; 2 to 6 sentences.",
            },
            "score": { "type": "number", "description": "The grade, from 0 to 1." },
        },
    })
}

/// What the schema doesn't say.
pub(super) fn check() -> Check {
    Arc::new(|value| read(value).map(drop))
}

/// The grade and its reasons, or what is wrong with the reply in words for the model.
fn read(value: &Value) -> Result<(f64, String), Vec<Fault>> {
    let mut opinion = Opinion::of(value)?;
    let (reasoning, score) = (opinion.reasons("reasoning"), opinion.grade("score"));
    opinion.finish(score.zip(reasoning))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_a_grade_between_0_and_1_with_its_reasons() {
        for score in [json!(0), json!(1), json!(0.95)] {
            let reply = json!({"reasoning": " The same. ", "score": score, "more": true});
            let (read, reasoning) = read(&reply).unwrap();
            assert_eq!(Some(read), score.as_f64());
            assert_eq!(reasoning, "The same.");
        }
    }

    #[test]
    fn a_reply_without_reasons_or_grade_is_told_both() {
        let faults = check()(&json!({"reasoning": 7})).unwrap_err();
        let places: Vec<&str> = faults.iter().map(|fault| fault.pointer.as_str()).collect();
        assert_eq!(places, ["/reasoning", "/score"]);
    }

    #[test]
    fn the_reasons_are_asked_for_before_the_grade_and_nothing_else_is() {
        let schema = schema();
        let names: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
        assert_eq!(names, ["reasoning", "score"]);
        assert_eq!(schema["required"], json!(names));
        assert_eq!(schema["additionalProperties"], json!(false));
    }
}
