//! Gemini, by generateContent.
//!
//! Nothing is assumed of a server beyond the wire format, and unknown fields are ignored. The model stands in the path.

mod reply;
mod request;

use serde_json::Value;

use super::family::Family;
use super::format::WireFormat;
use super::said::{Said, Signal};
use super::shape::{Cap, Field, Rung, Shape};
use crate::error::ErrorClass;

pub(super) static FORMAT: WireFormat = WireFormat {
    family: Family {
        name: "gemini",
        path: "/v1beta/models/{model}:generateContent",
        auth_header: "x-goog-api-key",
        auth_prefix: "",
        headers: &[],
        ladder: &[Rung::JsonSchema, Rung::JsonObject, Rung::Prompt],
        cap: Cap::MaxTokens,
    },
    body: request::body,
    read: reply::read,
    names,
    statuses: &[],
    used_up,
    bad_requests: &[
        (
            Signal::words(&[
                "exceeds the maximum number of tokens",
                "input token count",
                "context window",
                "context length",
            ]),
            ErrorClass::TooLarge,
        ),
        (
            Signal {
                // The second: where the account, its place or its billing don't allow the call.
                codes: &["API_KEY_INVALID", "FAILED_PRECONDITION"],
                words: &["api key not valid", "api key expired"],
            },
            ErrorClass::Misconfigured,
        ),
    ],
    rate_headers: None,
    batches: None,
};

/// A quota per day, or one of nothing.
///
/// "You exceeded your current quota" says nothing: it comes with limits per minute too.
fn used_up(said: &Said) -> bool {
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
    let value = violation.get("quotaValue");
    value.is_some_and(|value| value == "0" || value.as_f64() == Some(0.0))
}

/// Errors name fields in either spelling.
fn names(field: Field, sent: Shape) -> &'static [&'static str] {
    match field {
        Field::Temperature => &["temperature"],
        Field::MaxTokens => &["maxOutputTokens", "max_output_tokens"],
        Field::Format => match sent.rung {
            Rung::JsonSchema => &[
                "responseJsonSchema",
                "response_json_schema",
                "responseSchema",
                "response_schema",
                "responseMimeType",
                "response_mime_type",
                "schema",
            ],
            Rung::JsonObject => &["responseMimeType", "response_mime_type", "JSON mode"],
            Rung::Tool | Rung::Prompt => &[],
        },
        Field::MaxCompletionTokens | Field::Seed => &[],
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::provider::refusal::{Classified, classify};
    use crate::provider::shape::Sent;

    fn said(code: u16, status: &str, message: &str, details: &Value) -> Said {
        let error = json!({ "error": {
            "code": code, "message": message, "status": status, "details": details,
        }});
        Said::read(&json!([error]).to_string())
    }

    fn of(code: u16, status: &str, message: &str, details: &Value) -> Classified {
        let sent = Shape {
            rung: Rung::JsonSchema,
            cap: Cap::MaxTokens,
            temperature: Sent::Yes,
            seed: Sent::No,
        };
        let said = said(code, status, message, details);
        classify(&FORMAT, code, &said, sent)
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
            assert_eq!(verdict, Classified::Class(class), "{message} {details}");
        }
    }

    #[test]
    fn the_delay_is_read_from_its_detail() {
        let read = |details: &Value| said(429, "RESOURCE_EXHAUSTED", "", details).retry_delay();
        assert_eq!(
            read(&quota("x", "1")),
            Some(std::time::Duration::from_millis(17_500))
        );
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
        use Classified::{Capability, Class};
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
