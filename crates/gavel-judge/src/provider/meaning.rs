//! The meaning of errors: one table for all servers and families, by structure first.
//!
//! A row applies to its statuses (none: to all), where the body holds one of its patterns (if the row has any). The first row
//! that applies decides. Words count up to status 500, because behind others a proxy speaks.

use super::error_body::ErrorBody;
use super::format::WireFormat;
use super::shape::{Field, Shape};
use crate::error::ErrorClass;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    Class(ErrorClass),
    /// The server doesn't accept this field of the request.
    Field(Field),
    /// Either this request is refused or every request; the error doesn't tell which.
    Unclear,
}

/// A meaning, or none where it is the field that the error names; its statuses; its patterns between bars: a code behind `=`, a fact of
/// [`ErrorBody`] with its `#`, or words as [`ErrorBody::mentions`] takes them.
struct Row(Option<Meaning>, &'static [u16], &'static str);

/// A row of a class.
const fn on(class: ErrorClass, statuses: &'static [u16], patterns: &'static str) -> Row {
    Row(Some(Meaning::Class(class)), statuses, patterns)
}

/// The statuses of a request that the server finds fault with. 200: an error inside a good answer.
const BAD_REQUEST: &[u16] = &[200, 400, 422];

const MEANINGS: &[Row] = {
    use ErrorClass::{
        Exhausted, Misconfigured, Refused, Throttled, TooLarge, Transient, Truncated, Unparsable,
    };
    &[
        // A reasoning model that spent the whole cap before its first word: no field is at fault, though one is named.
        on(
            Truncated,
            &[],
            "max completion tokens reached|model output limit was reached",
        ),
        // The model wrote something that isn't JSON, and the server noticed: another turn.
        on(Unparsable, &[], "=json_validate_failed"),
        on(TooLarge, &[413, 429], "#beyond-limit|request too large"),
        on(
            TooLarge,
            &[],
            "=context_length_exceeded|=exceed_context_size_error|=model_max_prompt_tokens_exceeded|=request_too_large|\
             =string_above_max_length|=tokens_limit_reached|contextwindowexceeded|context length|context limit|context size|\
             context window|current length is*while limit is|exceeded model token limit|exceeds the maximum allowed length|\
             exceeds the maximum number of tokens|expected maxlength|input is too long|input token count|input tokens exceed|\
             inputs` must have less than|inputs` tokens + `max_new_tokens` must be|longer than the maximum model length|\
             maximum context of|maximum input length|maximum prompt length|payload size exceeds|prompt is too long|\
             prompt*is too long to fit|prompt token count|range of input length|reduce the length of the|request body too large|\
             too many input tokens",
        ),
        on(
            Refused,
            &[],
            "=content_filter|=content_policy_violation|=data_inspection_failed|=invalid_prompt|=responsibleaipolicyviolation|\
             #flagged-input|content exists risk|content filter|content management policy|content policy|contentpolicyviolation|\
             considered high risk|flagged as potentially violating|input was flagged|safety system|usage guidelines|usage policies|\
             usage policy|guardrail",
        ),
        on(
            Exhausted,
            &[],
            "=1113|=arrearage|=billing_error|=billing_hard_limit_reached|=billing_not_active|=budget_exceeded|\
             =exceeded_current_quota_error|=insufficient_quota|=insufficient_user_quota|=pre_consume_token_quota_failed|\
             =token_quota_reached",
        ),
        // An account's fault, as vendors word it with 400. A prompt is refused with this status, too, and its words are repeated.
        on(
            Exhausted,
            &[400],
            "credit balance is too low|insufficient balance|insufficient credits|reached your specified api usage limits",
        ),
        on(
            Exhausted,
            &[402, 403, 429],
            "#quota-spent|any credits|available credits|budget has been exceeded|check your billing|credit balance|\
             credits are depleted|credits left|insufficient balance|insufficient credits|key limit exceeded|\
             out of call volume quota|out of credits|requires more credits|spend limit|spending limit|余额不足",
        ),
        // A firewall's 403 may name a period that the prompt speaks of.
        on(
            Exhausted,
            &[402, 429],
            "(rpd)|(tpd)|daily limit|monthly|/ month|per day|per-day|perday|per month|usage limits",
        ),
        on(
            Throttled,
            &[],
            "=engine_overloaded_error|=rate_limit_error|=rate_limit_exceeded|=rate_limit_reached_error|=ratelimitexceeded|\
             =resource_exhausted|=throttlingexception|#quota",
        ),
        on(
            Throttled,
            &[200, 403],
            "rate limit exceeded|rate limit reached|too many requests",
        ),
        // Google says this of limits per minute, too, with a code that the row above knows.
        on(Exhausted, &[403, 429], "exceeded your current quota"),
        on(
            Misconfigured,
            &[],
            "=account_deactivated|=api_key_invalid|=auth_error|=authentication_error|=invalid_api_key|=invalid_model|\
             =key_model_access_denied|=model_decommissioned|=model_deprecated|=model_not_available|=model_not_found|\
             =model_not_supported|=no_db_connection|=organization_restricted|=unsupported_country_region_territory",
        ),
        on(Misconfigured, &[200, 400, 404, 422], "#model"),
        // Of the key, the account or the model, or else of a file, a tool or a part of the prompt.
        Row(
            Some(Meaning::Unclear),
            BAD_REQUEST,
            "=failed_precondition|=not_found_error|=notfounderror|=permission_error|=resource_not_found_error|api key expired|\
             api key not valid|failed to load model|incorrect api key|invalid model name|invalid model:|\
             model identifier is invalid|model not exist|model*does not exist|model*has been decommissioned|\
             model*has been deprecated|model*has been retired|model*not found|no connected db.|no models loaded|not a valid model|\
             on-demand throughput",
        ),
        on(
            Transient,
            &[],
            "=internal_server_error|=modelnotreadyexception|=overloaded_error|=server_error|=serviceunavailableexception|\
             =timeout_error|=unavailable_error",
        ),
        on(
            Transient,
            &[200, 400, 404],
            "model has crashed|model is unloaded|model unloaded|overloaded|temporarily unavailable|upstream connect error|\
             upstream error",
        ),
        // Anthropic's word for a fault of its own; Ollama's for any error.
        on(Transient, &[200], "=api_error"),
        Row(None, BAD_REQUEST, ""),
        on(Misconfigured, &[401], ""),
        on(Exhausted, &[402], ""),
        Row(Some(Meaning::Unclear), &[403, 404, 405, 407, 410], ""),
        on(TooLarge, &[413], ""),
        // 498: Groq has no room for the flex tier.
        on(Throttled, &[429, 498], ""),
        on(Transient, &[408, 409, 424, 425, 500, 502, 503, 504], ""),
    ]
};

impl Row {
    fn applies(&self, status: u16, body: &ErrorBody) -> bool {
        let Self(_, statuses, patterns) = self;
        let holds = |pattern: &str| match pattern.strip_prefix('=') {
            Some(code) => body.has_code(code),
            None if pattern.starts_with('#') => body.has_code(pattern),
            None => status <= 500 && body.mentions(pattern),
        };
        (statuses.is_empty() || statuses.contains(&status))
            && (patterns.is_empty() || patterns.split('|').any(holds))
    }
}

/// Returns the meaning of an error that a request of shape `sent` met.
pub(super) fn meaning(format: &WireFormat, status: u16, body: &ErrorBody, sent: Shape) -> Meaning {
    let status = match status {
        // A gateway's good answer with an error inside may name the upstream's status.
        200..=299 => body.status().unwrap_or(200),
        status => status,
    };
    let status = match status {
        // A proxy says that the server behind it is down.
        520..=599 => 503,
        status => status,
    };
    let mut rows = MEANINGS.iter().filter(|row| row.applies(status, body));
    let named = || named_field(format, body, sent).map(Meaning::Field);
    let decided = rows.find_map(|Row(meaning, ..)| meaning.or_else(named));
    decided.unwrap_or(Meaning::Class(ErrorClass::Rejected))
}

/// The field that the server names, if it was sent: by structure, else the first in its words.
fn named_field(format: &WireFormat, body: &ErrorBody, sent: Shape) -> Option<Field> {
    const TOO_HIGH: &str = "too large|too high|at most|less than or equal|above maximum";
    // A cap that is known and too high keeps its name, because a new name would be remembered and help nobody.
    let too_high = TOO_HIGH.split('|').any(|words| body.mentions(words));
    let mut ours = Field::ALL.into_iter().filter(|field| match field {
        Field::MaxCompletionTokens => sent.has(*field) && !too_high,
        Field::Temperature | Field::Format | Field::Seed => sent.has(*field),
    });
    let names = |field| {
        let names = (format.names)(field, sent.rung).split('|');
        names.filter(|name| !name.is_empty())
    };
    if body.fields.is_empty() {
        let places = ours.filter_map(|field| {
            let place = names(field).filter_map(|name| body.position_of(name)).min();
            Some((place?, field))
        });
        let first = places.min_by_key(|(place, _)| *place);
        return first.map(|(_, field)| field);
    }
    ours.find(|field| {
        let mut paths = body.fields.iter();
        paths.any(|path| {
            // A part of a message is no field of ours, whatever its name.
            let in_message = path.first().is_some_and(|first| first == "messages");
            !in_message && names(*field).any(|name| path.iter().any(|at| at == name))
        })
    })
}

#[cfg(test)]
mod tests;
