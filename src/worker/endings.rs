//! Converts scorecards and errors to outcomes of runs and logs them.

use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::job::{Failure, FailureClass, Job};
use crate::judge::{ErrorClass, JudgeError};
use crate::score::session::{Rating, SessionScore};
use crate::score::{Alert, Evaluation, Unscorable, stamp_errors};
use crate::store::{Ending, NewEvaluation, NewSessionScore};

pub(super) fn session_id(job: &Job) -> Result<Uuid, Ending> {
    job.subject_id.ok_or_else(|| {
        failed(
            FailureClass::Internal,
            "a session job without a subject".to_owned(),
        )
    })
}

/// Returns the outcome of a scored session; `trimmed` is the number of tokens omitted from the evidence.
pub(super) fn scored_session(
    job: &Job,
    score: SessionScore,
    trimmed: u64,
) -> Result<Ending, Ending> {
    let score_id = Uuid::now_v7();
    let mut result = json!({
        "score_id": score_id,
        "total_score": score.total_score,
        "rating": Rating::from_total(score.total_score),
        "flags": score.flags,
    });
    if trimmed > 0 {
        result["trimmed_tokens"] = json!(trimmed);
    }
    Ok(Ending::Scored {
        score: Box::new(NewSessionScore {
            score_id,
            session_id: session_id(job)?,
            criteria_hash: job.criteria_hash.clone(),
            purpose: job.purpose,
            score,
            triggered_by: job.triggered_by.clone(),
        }),
        result,
    })
}

/// Returns the outcome of a case. Computed metrics are stored even if the judge's part failed.
pub(super) fn evaluated(job: &Job, mut evaluation: Evaluation, at: DateTime<Utc>) -> Ending {
    let simulated = evaluation.simulated();
    let at = at.to_rfc3339_opts(SecondsFormat::Micros, true);
    stamp_errors(&mut evaluation.result, &at);
    let components = evaluation
        .components
        .into_iter()
        .map(|(name, score)| (name.to_owned(), json!(score)))
        .collect();
    for alert in &evaluation.alerts {
        match alert {
            Alert::Warning(said) => {
                tracing::warn!(job_id = %job.job_id, kind = %job.kind, "{said}")
            }
            Alert::Error(said) => tracing::error!(job_id = %job.job_id, kind = %job.kind, "{said}"),
        }
    }
    let error = evaluation.error.as_ref();
    Ending::Evaluated {
        score: Box::new(NewEvaluation {
            score_id: Uuid::now_v7(),
            kind: job.kind,
            batch: job.batch,
            criteria_hash: job.criteria_hash.clone(),
            total: evaluation.total,
            passed: evaluation.passed,
            threshold: evaluation.threshold,
            components: Value::Object(components),
            error: error
                .map(|error| json!({ "class": error.class.as_str(), "message": error.message })),
            simulated,
        }),
        result: evaluation.result,
        failure: evaluation.error.map(|error| Failure {
            class: class_of(error.class),
            message: error.message,
        }),
    }
}

pub(super) fn too_large(message: String) -> JudgeError {
    JudgeError::new(ErrorClass::TooLarge, message)
}

pub(super) fn judge_failed(error: &JudgeError) -> Ending {
    failed(class_of(error.class), error.message.clone())
}

pub(super) fn failed(class: FailureClass, message: String) -> Ending {
    Ending::Failed(Failure { class, message })
}

pub(super) fn class_of_bad(error: &Unscorable) -> FailureClass {
    match error {
        Unscorable::Invalid { .. } => FailureClass::BadInput,
        Unscorable::TooLarge(_) => FailureClass::TooLarge,
    }
}

pub(super) fn class_of(class: ErrorClass) -> FailureClass {
    match class {
        ErrorClass::Transient => FailureClass::Transient,
        ErrorClass::Throttled => FailureClass::Throttled,
        ErrorClass::Exhausted => FailureClass::Exhausted,
        ErrorClass::Misconfigured => FailureClass::Misconfigured,
        ErrorClass::Capability => FailureClass::Capability,
        ErrorClass::TooLarge => FailureClass::TooLarge,
        ErrorClass::Truncated => FailureClass::Truncated,
        ErrorClass::Refused => FailureClass::Refused,
        ErrorClass::Rejected => FailureClass::Rejected,
        ErrorClass::Unparsable => FailureClass::Unparsable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_class_names_match_failure_classes() {
        for class in ErrorClass::ALL {
            assert_eq!(class_of(*class).as_str(), class.as_str());
        }
    }
}
