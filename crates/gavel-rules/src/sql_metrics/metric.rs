//! Outcome of one metric in a result: a score with details, or an error with its cause.

use std::panic::{AssertUnwindSafe, catch_unwind};

use serde_json::{Value, json};

use super::verdict::Metric;
use crate::{Alert, JudgeError};
use query_shape::sql::SqlError;

/// Maximum length of an input repeated in an error, in bytes.
const LONGEST_INPUT: usize = 2_000;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Outcome {
    Scored(f64, Value),
    Failed(Cause),
    Unjudged(JudgeError),
    NotRun,
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
            chain: error
                .status
                .map(|status| format!("HTTP status {status}"))
                .into_iter()
                .collect(),
        }
    }
}

impl Outcome {
    /// Runs a metric and converts a panic into its error, so that other metrics are unaffected.
    pub(super) fn catch_panic(metric: impl FnOnce() -> Self) -> Self {
        caught(metric).unwrap_or_else(Self::Failed)
    }

    pub(super) fn counts(&self) -> Metric {
        match self {
            Self::Scored(score, _) => Metric::Scored(*score),
            Self::Failed(_) => Metric::Failed,
            Self::Unjudged(_) | Self::NotRun => Metric::Unjudged,
        }
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
        let words = panic
            .downcast_ref::<&str>()
            .map(|words| (*words).to_owned());
        let words = words.or_else(|| panic.downcast_ref::<String>().cloned());
        Cause {
            class: "internal".to_owned(),
            message: "the metric panicked; this is a bug in gavel, and the log holds the place"
                .to_owned(),
            chain: words.into_iter().collect(),
        }
    })
}

/// Writes the time into the errors of a result that have none yet, because rules have no clock. `at`: RFC 3339.
pub fn stamp_errors(result: &mut Value, at: &str) {
    let metrics = result.get_mut("metrics").and_then(Value::as_object_mut);
    for metric in metrics.into_iter().flat_map(|metrics| metrics.values_mut()) {
        if let Some(stamp) = metric
            .pointer_mut("/error/at")
            .filter(|stamp| stamp.is_null())
        {
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
}
