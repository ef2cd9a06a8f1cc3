//! Scores cases when the judge is unavailable: computed components only, and the reason in place of the judge's component.

use super::{Criteria, Scorable, Scorecard};
use crate::{ErrorClass, JudgeAnswer, JudgeError};

const QUESTIONS: usize = 2;

/// Scores a case without a judge. `(class, message)` is the reason, such as `wait_expired`.
pub fn score_unasked(
    scorable: &dyn Scorable,
    criteria: &Criteria,
    (class, message): (&str, &str),
) -> Scorecard {
    let error = || JudgeError {
        unasked: Some(class.to_owned()),
        ..JudgeError::new(ErrorClass::Transient, message)
    };
    let answers: Vec<JudgeAnswer> = (0..QUESTIONS).map(|_| Err(error())).collect();
    scorable.score(criteria, &answers)
}
