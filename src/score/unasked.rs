//! A case whose judge could not be asked: scored as far as that goes, and the reason stands where the judge's part would.

use serde_json::Value;

use super::{Criteria, Request, Scorecard};
use crate::judge::{Answer, ErrorClass, JudgeError};

/// The most questions that a kind asks of a case.
const QUESTIONS: usize = 2;
/// What stands for the class of an error that no judge gave, until [`classify`].
const STAND_IN: ErrorClass = ErrorClass::Transient;

/// Scores a case by what can be computed; `(class, message)` is why no judge could be asked, such as `wait_expired`.
pub fn score_unasked(
    request: &dyn Request,
    criteria: &Criteria,
    (class, message): (&str, &str),
) -> Scorecard {
    let error = || JudgeError {
        class: STAND_IN,
        message: message.to_owned(),
        status: None,
        retry_after: None,
        raw_reply: None,
    };
    let answers: Vec<Answer> = (0..QUESTIONS).map(|_| Err(error())).collect();
    let mut card = request.score(criteria, &answers);
    if let Scorecard::Evaluated(evaluation) = &mut card {
        classify(&mut evaluation.result, (class, message));
    }
    card
}

/// Gives an error its own class, wherever it stands in a result.
fn classify(result: &mut Value, (class, message): (&str, &str)) {
    match result {
        Value::Object(members) => {
            let is_it = members.get("message").and_then(Value::as_str) == Some(message);
            if let Some(stands) = members.get_mut("class").filter(|_| is_it) {
                *stands = Value::String(class.to_owned());
            }
            for member in members.values_mut() {
                classify(member, (class, message));
            }
        }
        Value::Array(entries) => {
            for entry in entries {
                classify(entry, (class, message));
            }
        }
        Value::String(text) => {
            let said = |class: &str| format!("({class}): {message}");
            if let Some(before) = text.strip_suffix(&said(STAND_IN.as_str())) {
                *text = format!("{before}{}", said(class));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
