//! The meaning of errors: one table for all servers and families, by structure first.
//!
//! A row applies to its statuses (none: to all), where the body holds one of its codes or words (if the row has any). The first row
//! that applies decides. Words count up to status 500, because behind others a proxy speaks.

use super::error_body::ErrorBody;
use super::shape::{Field, FieldNames, Shape};
use crate::error::ErrorClass;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    Class(ErrorClass),
    /// The server doesn't accept this field of the request.
    Field(Field),
    /// Either this request is refused or every request; the error doesn't tell which.
    Unclear,
}

enum Verdict {
    Class(ErrorClass),
    /// A field that was sent, if the error names one.
    NamedField,
    /// As in [`Meaning::Unclear`].
    Unclear,
}

/// A verdict; its statuses; its codes between blanks, those with a `#` as [`ErrorBody`] tells them; its words between bars, each a
/// pattern of [`ErrorBody::mentions`].
struct Row(Verdict, &'static [u16], &'static str, &'static str);

/// The statuses of a request that the server finds fault with. 200: an error inside a good answer.
const BAD_REQUEST: &[u16] = &[200, 400, 422];

const MEANINGS: &[Row] = {
    use ErrorClass::{
        Exhausted, Misconfigured, Refused, Throttled, TooLarge, Transient, Truncated, Unparsable,
    };
    use Verdict::{Class, NamedField, Unclear};
    &[
        // A reasoning model that spent the whole cap before its first word: no field is at fault, though one is named.
        Row(
            Class(Truncated),
            &[],
            "",
            "max completion tokens reached|model output limit was reached",
        ),
        // The model wrote something that isn't JSON, and the server noticed: another turn.
        Row(Class(Unparsable), &[], "json_validate_failed", ""),
        Row(
            Class(TooLarge),
            &[413, 429],
            "#beyond-limit",
            "request too large",
        ),
        Row(
            Class(TooLarge),
            &[],
            "\
        context_length_exceeded exceed_context_size_error model_max_prompt_tokens_exceeded \
        request_too_large string_above_max_length tokens_limit_reached",
            "\
        contextwindowexceeded|context length|context limit|context size|context window|\
        current length is*while limit is|exceeded model token limit|\
        exceeds the maximum allowed length|exceeds the maximum number of tokens|expected maxlength|\
        input is too long|input token count|input tokens exceed|inputs` must have less than|\
        inputs` tokens + `max_new_tokens` must be|longer than the maximum model length|\
        maximum context of|maximum input length|maximum prompt length|payload size exceeds|prompt is too long|\
        prompt*is too long to fit|prompt token count|range of input length|reduce the length of the|\
        request body too large|too many input tokens",
        ),
        Row(
            Class(Refused),
            &[],
            "\
        content_filter content_policy_violation data_inspection_failed invalid_prompt \
        responsibleaipolicyviolation #flagged-input",
            "\
        content exists risk|content filter|content management policy|content policy|\
        contentpolicyviolation|considered high risk|flagged as potentially violating|\
        input was flagged|safety system|usage guidelines|usage policies|usage policy|guardrail",
        ),
        Row(
            Class(Exhausted),
            &[],
            "\
        1113 arrearage billing_error billing_hard_limit_reached billing_not_active budget_exceeded \
        exceeded_current_quota_error insufficient_quota insufficient_user_quota \
        pre_consume_token_quota_failed token_quota_reached",
            "",
        ),
        // An account's fault, as vendors word it with 400. A prompt is refused with this status, too, and its words are repeated.
        Row(
            Class(Exhausted),
            &[400],
            "",
            "\
        credit balance is too low|insufficient balance|insufficient credits|reached your specified api usage limits",
        ),
        Row(
            Class(Exhausted),
            &[402, 403, 429],
            "#quota-spent",
            "\
        any credits|available credits|budget has been exceeded|check your billing|credit balance|credits are depleted|\
        credits left|insufficient balance|insufficient credits|key limit exceeded|out of call volume quota|out of credits|\
        requires more credits|spend limit|spending limit|余额不足",
        ),
        // A firewall's 403 may name a period that the prompt speaks of.
        Row(
            Class(Exhausted),
            &[402, 429],
            "",
            "\
        (rpd)|(tpd)|daily limit|monthly|/ month|per day|per-day|perday|per month|usage limits",
        ),
        Row(
            Class(Throttled),
            &[],
            "\
        engine_overloaded_error rate_limit_error rate_limit_exceeded rate_limit_reached_error \
        ratelimitexceeded resource_exhausted throttlingexception #quota",
            "",
        ),
        Row(
            Class(Throttled),
            &[200, 403],
            "",
            "rate limit exceeded|rate limit reached|too many requests",
        ),
        // Google says this of limits per minute, too, with a code that the row above knows.
        Row(
            Class(Exhausted),
            &[403, 429],
            "",
            "exceeded your current quota",
        ),
        Row(
            Class(Misconfigured),
            &[],
            "\
        account_deactivated api_key_invalid auth_error authentication_error invalid_api_key invalid_model \
        key_model_access_denied model_decommissioned model_deprecated model_not_available model_not_found \
        model_not_supported no_db_connection organization_restricted unsupported_country_region_territory",
            "",
        ),
        Row(Class(Misconfigured), &[200, 400, 404, 422], "#model", ""),
        // Of the key, the account or the model, or else of a file, a tool or a part of the prompt.
        Row(
            Unclear,
            BAD_REQUEST,
            "\
        failed_precondition not_found_error notfounderror permission_error resource_not_found_error",
            "\
        api key expired|api key not valid|failed to load model|incorrect api key|invalid model name|\
        invalid model:|model identifier is invalid|model not exist|model*does not exist|\
        model*has been decommissioned|model*has been deprecated|model*has been retired|\
        model*not found|no connected db.|no models loaded|not a valid model|on-demand throughput",
        ),
        Row(
            Class(Transient),
            &[],
            "\
        internal_server_error modelnotreadyexception overloaded_error server_error \
        serviceunavailableexception timeout_error unavailable_error",
            "",
        ),
        Row(
            Class(Transient),
            &[200, 400, 404],
            "",
            "model has crashed|model is unloaded|model unloaded|overloaded|temporarily unavailable|\
        upstream connect error|upstream error",
        ),
        // Anthropic's word for a fault of its own; Ollama's for any error.
        Row(Class(Transient), &[200], "api_error", ""),
        Row(NamedField, BAD_REQUEST, "", ""),
        Row(Class(Misconfigured), &[401], "", ""),
        Row(Class(Exhausted), &[402], "", ""),
        Row(Unclear, &[403, 404, 405, 407, 410], "", ""),
        Row(Class(TooLarge), &[413], "", ""),
        // 498: Groq has no room for the flex tier.
        Row(Class(Throttled), &[429, 498], "", ""),
        Row(
            Class(Transient),
            &[408, 409, 424, 425, 500, 502, 503, 504],
            "",
            "",
        ),
    ]
};

impl Row {
    fn applies(&self, status: u16, body: &ErrorBody) -> bool {
        let Self(_, statuses, codes, words) = self;
        let has_code = || codes.split_whitespace().any(|code| body.has_code(code));
        let words = || words.split('|').filter(|words| !words.is_empty());
        let has_words = || status <= 500 && words().any(|words| body.mentions(words));
        let any = codes.is_empty() && words().next().is_none();
        (statuses.is_empty() || statuses.contains(&status)) && (any || has_code() || has_words())
    }
}

/// Returns the meaning of an error that a request of shape `sent` met.
pub(super) fn meaning(names: FieldNames, status: u16, body: &ErrorBody, sent: Shape) -> Meaning {
    let status = match status {
        // A gateway's good answer with an error inside may name the upstream's status.
        200..=299 => body.status().unwrap_or(200),
        status => status,
    };
    // A proxy says that the server behind it is down.
    let status = if (520..=599).contains(&status) {
        503
    } else {
        status
    };
    let decided = MEANINGS.iter().find_map(|row| match row.0 {
        _ if !row.applies(status, body) => None,
        Verdict::Class(class) => Some(Meaning::Class(class)),
        Verdict::NamedField => named_field(names, body, sent).map(Meaning::Field),
        Verdict::Unclear => Some(Meaning::Unclear),
    });
    decided.unwrap_or(Meaning::Class(ErrorClass::Rejected))
}

/// The field that the server names, if it was sent: by structure, else the first in its words.
fn named_field(names: FieldNames, body: &ErrorBody, sent: Shape) -> Option<Field> {
    const TOO_HIGH: [&str; 5] = [
        "too large",
        "too high",
        "at most",
        "less than or equal",
        "above maximum",
    ];
    // A cap that is known and too high keeps its name, because a new name would be remembered and help nobody.
    let too_high = TOO_HIGH.iter().any(|words| body.mentions(words));
    let ours = Field::ALL.into_iter().filter(|field| match field {
        Field::MaxCompletionTokens | Field::MaxTokens => sent.has(*field) && !too_high,
        Field::Temperature | Field::Format | Field::Seed => sent.has(*field),
    });
    let names = |field| names(field, sent).iter();
    if body.fields().is_empty() {
        let places = ours.filter_map(|field| {
            let place = names(field).filter_map(|name| body.position_of(name)).min();
            place.map(|place| (place, field))
        });
        return places
            .min_by_key(|(place, _)| *place)
            .map(|(_, field)| field);
    }
    // A part of a message is no field of ours, whatever its name.
    let paths = body.fields().iter();
    let in_path =
        |path: &Vec<String>, field| names(field).any(|name| path.iter().any(|at| at == name));
    let of_request = |path: &&Vec<String>| path.first().is_some_and(|first| first != "messages");
    let mut ours = ours;
    ours.find(|field| {
        paths
            .clone()
            .filter(of_request)
            .any(|path| in_path(path, *field))
    })
}

#[cfg(test)]
mod tests;
