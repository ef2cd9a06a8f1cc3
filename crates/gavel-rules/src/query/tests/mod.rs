mod examples;
mod payloads;
mod right_answers;
mod scores;

use serde_json::{Value, json};

use super::*;
use crate::{ErrorClass, JudgeError, ModelFamily, Reply};

fn criteria() -> Criteria {
    Criteria::from_value(&json!({
        "kind": "query",
        "scoring": {"llm_provider": "judge"},
        "judge_prompt": "Grade. {{QUESTION}} {{EXPECTED_QUERY}} {{GENERATED_QUERY}} {{OUTPUT_SCHEMA}}",
    }))
    .unwrap()
}

fn case(payload: Value) -> QueryCase {
    QueryCase::read(&payload).unwrap_or_else(|faults| panic!("{faults:?}"))
}

fn limits(context_window: u32) -> Limits {
    Limits {
        context_window,
        max_output_tokens: 1_000,
        family: ModelFamily::from_name("gpt-4o-mini"),
    }
}

fn asked(case: &QueryCase) -> Vec<Question> {
    let nonce = Nonce("7f".repeat(16));
    case.questions(&criteria(), &limits(128_000), &nonce)
        .unwrap()
}

fn grade(score: f64) -> JudgeAnswer {
    Ok(Reply {
        value: json!({"reasoning": "The bound differs.", "score": score}),
        provider: "judge".to_owned(),
        model: "judge-1".to_owned(),
        simulated: false,
        repaired: false,
        cached: false,
        by_fallback: false,
        weaknesses: Vec::new(),
        odd_finish: false,
        trimmed_tokens: 0,
    })
}

fn failure() -> JudgeAnswer {
    Err(JudgeError {
        class: ErrorClass::Transient,
        message: "judge answered 500 four times".to_owned(),
        status: Some(500),
        retry_after: None,
        raw_reply: None,
        unasked: None,
    })
}

fn evaluated(case: &QueryCase, answers: &[JudgeAnswer]) -> Evaluation {
    match case.score(&criteria(), answers) {
        Scorecard::Evaluated(evaluation) => *evaluation,
        other @ (Scorecard::Session(_) | Scorecard::Unscored(_)) => panic!("{other:?}"),
    }
}

fn scored(payload: Value, graded: f64) -> Evaluation {
    evaluated(&case(payload), &[grade(graded)])
}

fn score_of(evaluation: &Evaluation, component: &str) -> f64 {
    let found = evaluation
        .components
        .iter()
        .find(|(name, _)| *name == component);
    found.and_then(|(_, score)| *score).unwrap()
}

#[track_caller]
fn assert_near(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-12, "{found} for {expected}");
}
