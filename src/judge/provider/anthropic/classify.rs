//! What the errors of messages mean, beyond their status.

use crate::judge::error::ErrorClass;
use crate::judge::provider::refusal::Said;

/// Each type of error with the status that it comes with.
const STATUSES: [(&str, u16); 10] = [
    ("invalid_request_error", 400),
    ("authentication_error", 401),
    ("billing_error", 402),
    ("permission_error", 403),
    ("not_found_error", 404),
    ("request_too_large", 413),
    ("rate_limit_error", 429),
    ("api_error", 500),
    ("timeout_error", 504),
    ("overloaded_error", 529),
];

/// The status that an error in a body of status 200 stands for: a stream or a gateway has only the type left.
pub(super) fn status_of(said: &Said) -> Option<u16> {
    STATUSES
        .into_iter()
        .find(|(kind, _)| said.is(kind))
        .map(|(_, status)| status)
        .or_else(|| said.status())
}

/// Whether a 429 says that waiting won't help.
pub(super) fn used_up(said: &Said) -> bool {
    said.is("billing_error")
        || said.mentions(&[
            "credit balance",
            "spend limit",
            "spending limit",
            "usage limits",
            "per day",
        ])
}

/// The class of a 400 or 422 that is known by its words.
pub(super) fn bad_request(said: &Said) -> Option<ErrorClass> {
    let too_large = said.is("request_too_large")
        || said.mentions(&[
            "prompt is too long",
            "exceed context limit",
            "context window",
            "context length",
        ]);
    if too_large {
        return Some(ErrorClass::TooLarge);
    }
    if said.mentions(&["content filtering policy"]) {
        return Some(ErrorClass::Refused);
    }
    used_up(said).then_some(ErrorClass::Exhausted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::provider::dialect_of;
    use crate::judge::provider::refusal::{Verdict, classify};
    use crate::judge::provider::shape::{Cap, Field, Rung, Sent, Shape};
    use crate::judge::providers::EntryType;

    fn of(status: u16, kind: &str, message: &str, rung: Rung) -> Verdict {
        let body = serde_json::json!({
            "type": "error", "error": { "type": kind, "message": message }, "request_id": "req_1",
        });
        let sent = Shape {
            rung,
            cap: Cap::MaxTokens,
            temperature: Sent::Yes,
            seed: Sent::No,
        };
        let said = Said::read(&body.to_string());
        classify(dialect_of(EntryType::Anthropic), status, &said, sent)
    }

    #[test]
    fn each_type_in_a_200_counts_as_its_status() {
        let table = [
            ("authentication_error", ErrorClass::Misconfigured),
            ("billing_error", ErrorClass::Exhausted),
            ("request_too_large", ErrorClass::TooLarge),
            ("rate_limit_error", ErrorClass::Throttled),
            ("overloaded_error", ErrorClass::Transient),
            ("novel_error", ErrorClass::Rejected),
        ];
        for (kind, class) in table {
            let verdict = of(200, kind, "no", Rung::JsonSchema);
            assert_eq!(verdict, Verdict::Class(class), "{kind}");
        }
    }

    #[test]
    fn a_bad_request_is_told_apart_by_its_words() {
        use Verdict::{Capability, Class};
        let table = [
            (
                "prompt is too long: 208310 tokens > 200000 maximum",
                Class(ErrorClass::TooLarge),
            ),
            (
                "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
                Class(ErrorClass::TooLarge),
            ),
            (
                "Your credit balance is too low to access the Anthropic API.",
                Class(ErrorClass::Exhausted),
            ),
            (
                "You have reached your specified API usage limits. You will regain access on 2026-12-01.",
                Class(ErrorClass::Exhausted),
            ),
            (
                "Output blocked by content filtering policy",
                Class(ErrorClass::Refused),
            ),
            (
                "`temperature` is deprecated for this model.",
                Capability(Field::Temperature),
            ),
            (
                "output_config.format: Extra inputs are not permitted",
                Capability(Field::Format),
            ),
            (
                "max_tokens: 64000 > 8192, which is the maximum allowed number of output tokens",
                Capability(Field::MaxTokens),
            ),
            (
                "tool_choice: not what was sent",
                Class(ErrorClass::Rejected),
            ),
            (
                "messages: roles must alternate",
                Class(ErrorClass::Rejected),
            ),
        ];
        for (message, verdict) in table {
            let read = of(400, "invalid_request_error", message, Rung::JsonSchema);
            assert_eq!(read, verdict, "{message}");
        }
        let forced = "Thinking may not be enabled when tool_choice forces tool use.";
        let read = of(400, "invalid_request_error", forced, Rung::Tool);
        assert_eq!(read, Capability(Field::Format));
    }
}
