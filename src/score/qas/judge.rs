//! What the judge is asked about a case, and what it answers: an explanation, then a score from 0 to 1.

use std::sync::Arc;

use serde_json::{Value, json};

use super::answer;
use super::case::QasCase;
use crate::judge::{Fault, Limits, Nonce, Question};
use crate::score::criteria::{
    ACTUAL_ANSWER, EXPECTED_ANSWER, EXPECTED_QUERY, GENERATED_QUERY, QUESTION,
};
use crate::score::faults::kind;
use crate::score::prompt::{Form, Part, question};
use crate::score::{BadRequest, Criteria};

/// Rises whenever the schema's meaning changes; it is part of the template hash, and of no criteria hash.
const VERSION: &str = "qas-reply-1";
/// The longest explanation, in bytes.
const LONGEST: usize = 16 * 1024;

/// What the judge thinks.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Opinion {
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

/// Reads a reply, or says what is wrong with it. Unknown keys are ignored.
pub(super) fn read(value: &Value) -> Result<Opinion, Vec<Fault>> {
    let Value::Object(reply) = value else {
        return Err(vec![fault(
            "",
            format!("the reply must be one JSON object, not {}", kind(value)),
        )]);
    };
    let mut faults = Vec::new();
    let explanation = reply
        .get("explanation")
        .and_then(Value::as_str)
        .map(str::trim);
    let explanation = explanation.filter(|text| !text.is_empty());
    if explanation.is_none() {
        faults.push(fault(
            "/explanation",
            "is missing or empty; text is expected".to_owned(),
        ));
    }
    let score = reply.get("score").and_then(Value::as_f64);
    let score = score.filter(|score| (0.0..=1.0).contains(score));
    if score.is_none() {
        let found = reply
            .get("score")
            .map_or_else(|| "missing".to_owned(), Value::to_string);
        let found: String = found.chars().take(40).collect();
        faults.push(fault(
            "/score",
            format!("is {found}; a number from 0 to 1 is expected"),
        ));
    }
    match (explanation, score) {
        (Some(explanation), Some(score)) => Ok(Opinion {
            score,
            explanation: explanation[..explanation.floor_char_boundary(LONGEST)].to_owned(),
        }),
        (Some(_) | None, Some(_) | None) => Err(faults),
    }
}

fn fault(pointer: &str, message: String) -> Fault {
    Fault {
        pointer: pointer.to_owned(),
        message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_has_an_explanation_and_a_score_from_0_to_1() {
        let good = read(&json!({ "explanation": " same ", "score": 1, "more": 2 })).unwrap();
        assert_eq!((good.score, good.explanation.as_str()), (1.0, "same"));
        let cases = [
            (
                json!({ "explanation": "x", "score": 1.01 }),
                "/score is 1.01; a number from 0 to 1 is expected",
            ),
            (
                json!({ "explanation": "x" }),
                "/score is missing; a number from 0 to 1 is expected",
            ),
            (
                json!({ "explanation": "", "score": 0 }),
                "/explanation is missing or empty; text is expected",
            ),
            (json!([]), " the reply must be one JSON object, not a list"),
        ];
        for (reply, told) in cases {
            let faults = read(&reply).unwrap_err();
            assert_eq!(format!("{} {}", faults[0].pointer, faults[0].message), told);
        }
    }
}
