//! What the judge is asked about a case, and what it answers: an explanation, then a score from 0 to 1.

use std::sync::Arc;

use serde_json::{Value, json};

use super::answer;
use super::case::QasCase;
use crate::judge::{Fault, Limits, Nonce, Question};
use crate::score::criteria::{
    ACTUAL_ANSWER, EXPECTED_ANSWER, EXPECTED_QUERY, GENERATED_QUERY, QUESTION,
};
use crate::score::opinion::Opinion;
use crate::score::prompt::{Form, Part, question};
use crate::score::{BadRequest, Criteria};

/// Rises whenever the schema's meaning changes; it is part of the template hash, and of no criteria hash.
const VERSION: &str = "qas-reply-1";

/// What the judge thinks.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Verdict {
    /// From 0 to 1.
    pub(super) score: f64,
    /// Why.
    pub(super) explanation: String,
}

/// Asks whether the two queries of a case mean the same.
pub(super) fn about_queries(
    case: &QasCase,
    criteria: &Criteria,
    asked: (&Limits, &Nonce),
) -> Result<Question, BadRequest> {
    let parts = [
        part(QUESTION, "question", &case.question),
        part(
            EXPECTED_QUERY,
            "expected-sql",
            case.expected_sql.as_deref().unwrap_or_default(),
        ),
        part(
            GENERATED_QUERY,
            "generated-sql",
            case.generated_sql.as_deref().unwrap_or_default(),
        ),
    ];
    question(
        form("qas_semantic"),
        criteria,
        &criteria.prompt,
        &parts,
        asked,
    )
}

/// Asks whether the two answers of a case say the same.
pub(super) fn about_answers(
    case: &QasCase,
    criteria: &Criteria,
    asked: (&Limits, &Nonce),
) -> Result<Question, BadRequest> {
    let Some(prompt) = &criteria.answer_prompt else {
        return Err(BadRequest::Invalid {
            pointer: "/answer_prompt".to_owned(),
            message: "is missing in the criteria, and the answer has to be judged; use criteria of kind qas".to_owned(),
        });
    };
    let text = |value: &Option<Value>| value.as_ref().map(answer::text).unwrap_or_default();
    let (expected, actual) = (text(&case.expected), text(&case.actual));
    let parts = [
        part(QUESTION, "question", &case.question),
        part(EXPECTED_ANSWER, "expected-answer", &expected),
        part(ACTUAL_ANSWER, "actual-answer", &actual),
    ];
    question(form("qas_answer"), criteria, prompt, &parts, asked)
}

fn part<'a>(placeholder: &'static str, name: &'static str, text: &'a str) -> Part<'a> {
    Part {
        placeholder,
        name,
        text,
    }
}

fn form(schema_name: &'static str) -> Form {
    Form {
        kind: "qas",
        schema_name,
        version: VERSION,
        schema,
        check: Arc::new(|value| read(value).map(drop)),
    }
}

/// Closed, every property required, the explanation first: the judge argues before it counts.
fn schema() -> Value {
    json!({
        "type": "object",
        "description": "The comparison of one case.",
        "required": ["explanation", "score"],
        "additionalProperties": false,
        "properties": {
            "explanation": {
                "type": "string",
                "description": "What is the same, what differs, and what each difference costs; two to six sentences.",
            },
            "score": { "type": "number", "description": "From 0 to 1, with at most two decimals." },
        },
    })
}

/// Reads a reply, or says what is wrong with it.
pub(super) fn read(value: &Value) -> Result<Verdict, Vec<Fault>> {
    let mut opinion = Opinion::of(value)?;
    let (explanation, score) = (opinion.reasons("explanation"), opinion.grade("score"));
    opinion.finish(
        explanation
            .zip(score)
            .map(|(explanation, score)| Verdict { score, explanation }),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_has_an_explanation_and_a_score_from_0_to_1() {
        let good = read(&json!({ "explanation": " same ", "score": 1, "more": 2 })).unwrap();
        assert_eq!((good.score, good.explanation.as_str()), (1.0, "same"));
        let faults = read(&json!({ "explanation": "" })).unwrap_err();
        let places: Vec<&str> = faults.iter().map(|fault| fault.pointer.as_str()).collect();
        assert_eq!(places, ["/explanation", "/score"]);
    }
}
