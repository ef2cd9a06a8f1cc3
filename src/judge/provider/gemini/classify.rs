//! What the errors of generateContent mean, beyond their status.

use std::time::Duration;

use serde_json::Value;

use crate::judge::error::ErrorClass;
use crate::judge::provider::headers::duration;
use crate::judge::provider::refusal::Said;

/// The wait that a RetryInfo asks for, "17s".
pub(super) fn retry_delay(said: &Said) -> Option<Duration> {
    said.details("google.rpc.RetryInfo")
        .find_map(|info| duration(info.get("retryDelay")?.as_str()?))
}

/// Whether a 429 says that waiting won't help: a quota per day, or one of nothing.
///
/// "You exceeded your current quota" says nothing: it comes with limits per minute too.
pub(super) fn used_up(said: &Said) -> bool {
    let violated = said
        .details("google.rpc.QuotaFailure")
        .filter_map(|failure| failure.get("violations")?.as_array())
        .flatten()
        .any(|violation| per_day(violation) || of_nothing(violation));
    violated
        || said.mentions(&["per day", "perday", "credits are depleted"])
        || said.limit_is_zero()
}

fn per_day(violation: &Value) -> bool {
    let quota = violation.get("quotaId").and_then(Value::as_str);
    quota.is_some_and(|quota| quota.contains("PerDay"))
}

fn of_nothing(violation: &Value) -> bool {
    match violation.get("quotaValue") {
        Some(Value::String(value)) => value == "0",
        Some(Value::Number(value)) => value.as_f64() == Some(0.0),
        Some(Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_)) | None => false,
    }
}

/// The class of a 400 or 422 that is known by its words.
pub(super) fn bad_request(said: &Said) -> Option<ErrorClass> {
    let too_large = said.mentions(&[
        "exceeds the maximum number of tokens",
        "input token count",
        "context window",
        "context length",
    ]);
    if too_large {
        return Some(ErrorClass::TooLarge);
    }
    let key = said
        .details("google.rpc.ErrorInfo")
        .any(|info| info.get("reason").and_then(Value::as_str) == Some("API_KEY_INVALID"));
    // Where the account, its place or its billing don't allow the call.
    let account = said.is("FAILED_PRECONDITION");
    (key || account || said.mentions(&["api key not valid", "api key expired"]))
        .then_some(ErrorClass::Misconfigured)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::judge::provider::dialect_of;
    use crate::judge::provider::refusal::{Verdict, classify};
    use crate::judge::provider::shape::{Cap, Field, Rung, Sent, Shape};
    use crate::judge::providers::EntryType;

    fn said(code: u16, status: &str, message: &str, details: &Value) -> Said {
        let error = json!({ "error": {
            "code": code, "message": message, "status": status, "details": details,
        }});
        Said::read(&json!([error]).to_string())
    }

    fn of(code: u16, status: &str, message: &str, details: &Value) -> Verdict {
        let sent = Shape {
            rung: Rung::JsonSchema,
            cap: Cap::MaxTokens,
            temperature: Sent::Yes,
            seed: Sent::No,
        };
        let said = said(code, status, message, details);
        classify(dialect_of(EntryType::Gemini), code, &said, sent)
    }

    fn quota(id: &str, value: &str) -> Value {
        json!([
            {
                "@type": "type.googleapis.com/google.rpc.QuotaFailure",
                "violations": [{ "quotaMetric": "m", "quotaId": id, "quotaValue": value }],
            },
            { "@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "17.5s" },
        ])
    }

    #[test]
    fn a_quota_per_day_or_of_nothing_is_exhausted_and_one_per_minute_throttles() {
        const MESSAGE: &str =
            "You exceeded your current quota, please check your plan and billing details.";
        let minute = "GenerateRequestsPerMinutePerProjectPerModel-FreeTier";
        let day = "GenerateRequestsPerDayPerProjectPerModel-FreeTier";
        let zero = "Quota exceeded for metric: x, limit: 0, model: gemini-2.5-pro";
        let some = "Quota exceeded for metric: x, limit: 10, model: gemini-2.5-pro";
        let table = [
            (MESSAGE, quota(minute, "10"), ErrorClass::Throttled),
            (MESSAGE, quota(day, "50"), ErrorClass::Exhausted),
            (MESSAGE, quota(minute, "0"), ErrorClass::Exhausted),
            (zero, json!([]), ErrorClass::Exhausted),
            (some, json!([]), ErrorClass::Throttled),
            ("Resource exhausted", json!(null), ErrorClass::Throttled),
        ];
        for (message, details, class) in table {
            let verdict = of(429, "RESOURCE_EXHAUSTED", message, &details);
            assert_eq!(verdict, Verdict::Class(class), "{message} {details}");
        }
    }

    #[test]
    fn the_delay_is_read_from_its_detail() {
        let read = |details: &Value| retry_delay(&said(429, "RESOURCE_EXHAUSTED", "", details));
        assert_eq!(read(&quota("x", "1")), Some(Duration::from_millis(17_500)));
        for odd in [
            json!([{ "@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": 17 }]),
            json!([{ "@type": "type.googleapis.com/google.rpc.Help", "retryDelay": "17s" }]),
            json!("soon"),
        ] {
            assert_eq!(read(&odd), None, "{odd}");
        }
    }

    #[test]
    fn a_bad_request_is_told_apart_by_its_words() {
        use Verdict::{Capability, Class};
        let table = [
            (
                "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
                Class(ErrorClass::TooLarge),
            ),
            (
                "API key not valid. Please pass a valid API key.",
                Class(ErrorClass::Misconfigured),
            ),
            (
                "Invalid JSON payload received. Unknown name \"responseJsonSchema\" at 'generation_config': Cannot find field.",
                Capability(Field::Format),
            ),
            (
                "The specified schema produces a constraint that has too many states for serving.",
                Capability(Field::Format),
            ),
            (
                "temperature is not supported by this model",
                Capability(Field::Temperature),
            ),
            (
                "Please use a valid role: user, model.",
                Class(ErrorClass::Rejected),
            ),
        ];
        for (message, verdict) in table {
            let read = of(400, "INVALID_ARGUMENT", message, &json!([]));
            assert_eq!(read, verdict, "{message}");
        }
        let place = "User location is not supported for the API use.";
        let read = of(400, "FAILED_PRECONDITION", place, &json!([]));
        assert_eq!(read, Class(ErrorClass::Misconfigured));
    }
}
