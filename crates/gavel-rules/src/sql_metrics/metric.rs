//! Outcome of one metric in a result: a score with details, or an error with its cause. Verdict of all metrics.

use std::panic::{AssertUnwindSafe, catch_unwind};

use serde_json::{Value, json};

use crate::statistics::mean;
use crate::{Alert, JudgeError};
use query_shape::sql::SqlError;

/// Maximum length of an input repeated in an error, in bytes.
const LONGEST_INPUT: usize = 2_000;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Outcome {
    /// Score from 0 to 1, and details.
    Scored(f64, Value),
    /// The metric failed: displayed as 0.0, but excluded from the mean.
    Failed(Cause),
    /// The judge failed, so that the score is missing.
    Unjudged(JudgeError),
    /// No judge was called, so that the score is missing.
    NotRun,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Verdict {
    /// Mean of the scores; `None` without a score, or if one is missing.
    pub(super) total: Option<f64>,
    /// Whether every metric is 1.0; `None` if that depends on a missing score, or if no metric is enabled.
    pub(super) passed: Option<bool>,
}

/// Combines the metrics of a case. `broken` is the error of a generated query that doesn't parse although a metric needs it to.
pub(super) fn verdict(metrics: &[&Outcome], broken: Option<&Cause>) -> Verdict {
    let mut scores = Vec::with_capacity(metrics.len());
    let mut fails = broken.is_some();
    let mut is_unjudged = false;
    for metric in metrics {
        match metric {
            Outcome::Scored(score, _) => {
                // Written so that NaN also fails.
                fails |= !matches!(score.partial_cmp(&1.0), Some(order) if order.is_ge());
                scores.push(*score);
            }
            Outcome::Failed(_) => fails = true,
            Outcome::Unjudged(_) | Outcome::NotRun => is_unjudged = true,
        }
    }
    Verdict {
        total: mean(&scores).filter(|_| !is_unjudged),
        passed: if fails {
            Some(false)
        } else {
            (!is_unjudged && !metrics.is_empty()).then_some(true)
        },
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cause {
    class: String,
    pub(super) message: String,
    chain: Vec<String>,
}

impl Cause {
    pub(super) fn of_sql(error: &SqlError) -> Self {
        Self {
            class: error.class().to_owned(),
            message: error.to_string(),
            chain: match error {
                SqlError::Syntax { message, .. } => vec![message.clone()],
                SqlError::TooLong { .. }
                | SqlError::TooDeep
                | SqlError::Empty
                | SqlError::Hidden { .. } => Vec::new(),
            },
        }
    }

    fn of_judge(error: &JudgeError) -> Self {
        Self {
            class: error.class_name().to_owned(),
            message: error.message.clone(),
            chain: Vec::from_iter(error.status.map(|status| format!("HTTP status {status}"))),
        }
    }
}

impl Outcome {
    /// Runs a metric and converts a panic into its error, so that other metrics are unaffected.
    pub(super) fn catch_panic(metric: impl FnOnce() -> Self) -> Self {
        caught(metric).unwrap_or_else(Self::Failed)
    }

    pub(super) fn alert(&self, name: &str) -> Option<Alert> {
        let failed = |class: &str| Some(Alert::Warning(format!("{name} has no score: {class}")));
        match self {
            Self::Scored(_, details) => {
                let said = format!("{name}: {}", details["message"].as_str()?);
                Some(match details["severity"] == "error" {
                    true => Alert::Error(said),
                    false => Alert::Warning(said),
                })
            }
            Self::Failed(cause) => failed(&cause.class),
            Self::Unjudged(error) => failed(error.class_name()),
            Self::NotRun => None,
        }
    }

    /// Returns its score; `None` for an error, which is displayed as 0.0.
    pub(super) fn score(&self) -> Option<f64> {
        match self {
            Self::Scored(score, _) => Some(*score),
            Self::Failed(_) | Self::Unjudged(_) | Self::NotRun => None,
        }
    }

    /// Formats it as `{score, error, details}` with the metric's `input`. An error's `at` is null until [`stamp_errors`].
    pub(super) fn shown(&self, name: &str, input: &Value) -> Value {
        let failed = |cause: Cause| {
            json!({ "score": 0.0, "details": null, "error": {
                "metric": name, "message": cause.message, "class": cause.class, "at": null,
                "input": cut(input), "chain": cause.chain, "backtrace": null,
            }})
        };
        match self {
            Self::Scored(score, details) => {
                json!({ "score": score, "error": null, "details": details })
            }
            Self::Failed(cause) => failed(cause.clone()),
            Self::Unjudged(error) => failed(Cause::of_judge(error)),
            Self::NotRun => {
                json!({ "score": null, "error": null, "details": { "message": "not_run: no judge was asked" } })
            }
        }
    }
}

/// Runs a step and converts a panic into a cause.
pub(super) fn caught<T>(step: impl FnOnce() -> T) -> Result<T, Cause> {
    catch_unwind(AssertUnwindSafe(step)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Cause {
            class: "internal".to_owned(),
            message: "the metric panicked; this is a bug in gavel, and the log holds the place"
                .to_owned(),
            chain: text.map(str::to_owned).into_iter().collect(),
        }
    })
}

/// Writes the time into the errors of a result that have none yet, because rules have no clock. `at`: RFC 3339.
pub fn stamp_errors(result: &mut Value, at: &str) {
    let metrics = result.get_mut("metrics").and_then(Value::as_object_mut);
    let metrics = metrics.into_iter().flat_map(|metrics| metrics.values_mut());
    for stamp in metrics.filter_map(|metric| metric.pointer_mut("/error/at")) {
        if stamp.is_null() {
            *stamp = json!(at);
        }
    }
}

fn cut(input: &Value) -> Value {
    match input {
        Value::String(text) if text.len() > LONGEST_INPUT => {
            let kept = &text[..text.floor_char_boundary(LONGEST_INPUT)];
            json!(format!("{kept}… ({} bytes in all)", text.len()))
        }
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| (name.clone(), cut(value)))
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            input.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panic_becomes_error_of_its_metric() {
        let input = json!({ "sql": "x".repeat(3_000) });
        let outcome = Outcome::catch_panic(|| panic!("on purpose"));
        let mut result = json!({ "metrics": { "m": outcome.shown("m", &input), "n": { "score": 1.0, "error": null } } });
        stamp_errors(&mut result, "2026-01-01T00:00:00Z");
        let error = &result["metrics"]["m"]["error"];
        assert_eq!(
            (&error["class"], &error["chain"]),
            (&json!("internal"), &json!(["on purpose"]))
        );
        assert_eq!(error["at"], "2026-01-01T00:00:00Z");
        assert!(
            error["input"]["sql"]
                .as_str()
                .unwrap()
                .ends_with("… (3000 bytes in all)")
        );
        assert_eq!(
            result["metrics"]["n"],
            json!({ "score": 1.0, "error": null })
        );
        stamp_errors(&mut result, "2027-01-01T00:00:00Z");
        assert_eq!(
            result["metrics"]["m"]["error"]["at"], "2026-01-01T00:00:00Z",
            "stamped once"
        );
    }

    #[test]
    fn case_passes_only_if_every_metric_is_1() {
        let scored = |score| Outcome::Scored(score, Value::Null);
        let judge = JudgeError::new(crate::ErrorClass::Transient, "timeout");
        let cause = Cause::of_judge(&judge);
        let (failed, unjudged) = (Outcome::Failed(cause.clone()), Outcome::Unjudged(judge));
        let (one, half, nan) = (scored(1.0), scored(0.5), scored(f64::NAN));
        let (parses, broken) = (None, Some(&cause));
        for (metrics, generated, total, passed) in [
            (&[&one, &one][..], parses, Some(1.0), Some(true)),
            (&[&one, &half], parses, Some(0.75), Some(false)),
            (&[&one], broken, Some(1.0), Some(false)),
            (&[&one, &failed], parses, Some(1.0), Some(false)),
            (&[&unjudged, &one], parses, None, None),
            (&[&unjudged, &half], parses, None, Some(false)),
            (&[&unjudged, &one], broken, None, Some(false)),
            (&[&unjudged, &failed], parses, None, Some(false)),
            (&[&failed], parses, None, Some(false)),
            (&[&nan], broken, None, Some(false)),
            (&[], parses, None, None),
            (&[], broken, None, Some(false)),
        ] {
            let verdict = verdict(metrics, generated);
            let found = verdict.total.filter(|total| !total.is_nan());
            assert_eq!(
                (found, verdict.passed),
                (total, passed),
                "{metrics:?} {generated:?}"
            );
        }
    }
}
