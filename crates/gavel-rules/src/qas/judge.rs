//! What the judge is asked about a case, and what it answers: an explanation, then a score from 0 to 1.

use serde_json::{Value, json};

use super::answer;
use super::case::QasCase;
use crate::criteria::{ACTUAL_ANSWER, EXPECTED_ANSWER, EXPECTED_QUERY, GENERATED_QUERY, QUESTION};
use crate::opinion::{ReplyForm, grade};
use crate::prompt::{Evidence, question};
use crate::{Criteria, Unscorable};
use crate::{Limits, Nonce, Question};

pub(super) static QUERIES: ReplyForm<f64> = form("qas_semantic");
static ANSWERS: ReplyForm<f64> = form("qas_answer");

const fn form(schema_name: &'static str) -> ReplyForm<f64> {
    ReplyForm {
        kind: "qas",
        schema_name,
        version: "qas-reply-1",
        description: "The comparison of one case.",
        reasons: (
            "explanation",
            "What is the same, what differs, and what each difference costs; two to six sentences.",
        ),
        verdict: (
            "score",
            || json!({ "type": "number", "description": "From 0 to 1, with at most two decimals." }),
        ),
        read: grade,
    }
}

/// Asks whether the two queries of a case mean the same.
pub(super) fn about_queries(
    case: &QasCase,
    criteria: &Criteria,
    asked: (&Limits, &Nonce),
) -> Result<Question, Unscorable> {
    let expected = case.expected_sql.as_deref().unwrap_or_default();
    let generated = case.generated_sql.as_deref().unwrap_or_default();
    let evidence = [
        Evidence::new(QUESTION, "question", &case.question),
        Evidence::new(EXPECTED_QUERY, "expected-sql", expected),
        Evidence::new(GENERATED_QUERY, "generated-sql", generated),
    ];
    question(&QUERIES, criteria, &criteria.prompt, &evidence, asked)
}

/// Asks whether the two answers of a case say the same.
pub(super) fn about_answers(
    case: &QasCase,
    criteria: &Criteria,
    asked: (&Limits, &Nonce),
) -> Result<Question, Unscorable> {
    let Some(prompt) = &criteria.answer_prompt else {
        return Err(Unscorable::Invalid {
            pointer: "/answer_prompt".to_owned(),
            message: "is missing in the criteria, and the answer has to be judged; use criteria of kind qas".to_owned(),
        });
    };
    let text = |value: &Option<Value>| value.as_ref().map(answer::text).unwrap_or_default();
    let (expected, actual) = (text(&case.expected), text(&case.actual));
    let evidence = [
        Evidence::new(QUESTION, "question", &case.question),
        Evidence::new(EXPECTED_ANSWER, "expected-answer", &expected),
        Evidence::new(ACTUAL_ANSWER, "actual-answer", &actual),
    ];
    question(&ANSWERS, criteria, prompt, &evidence, asked)
}
