//! The meaning of errors: one table for all servers and formats. The first matching row decides.

use super::error_body::ErrorBody;
use super::format::WireFormat;
use super::shape::{FIELDS, Field, Shape, names};
use crate::error::ErrorClass;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    Class(ErrorClass),
    Field(Field),
    /// The server rejects this request or all requests.
    Unclear,
    /// The output cap is too high: as configured, or as raised for this request.
    Cap,
}

/// A meaning (`None`: the field named by the error), its statuses (empty: all) and its patterns, separated by `|` (empty: none needed). A pattern is `=` and a code, a `#` fact of [`ErrorBody`], or text for [`ErrorBody::mentions`]. Text counts up to status
/// 500, because other statuses come from proxies.
struct Row(Option<Meaning>, &'static [u16], &'static str);

const fn on(class: ErrorClass, statuses: &'static [u16], patterns: &'static str) -> Row {
    Row(Some(Meaning::Class(class)), statuses, patterns)
}

/// Statuses of an invalid request. 200: the error is in the body.
const BAD_REQUEST: &[u16] = &[200, 400, 422];

const CUT_OFF: &str = "max completion tokens reached|model output limit was reached";
const TOO_LONG: &str = "=context_length_exceeded|=exceed_context_size_error|=model_max_prompt_tokens_exceeded|=request_too_large|\
    =string_above_max_length|=tokens_limit_reached|contextwindowexceeded|context length|context limit|context size|context window|\
    current length is*while limit is|exceeded model token limit|exceeds the maximum allowed length|exceeds the maximum number of tokens|\
    expected maxlength|input is too long|input token count|input tokens exceed|inputs` must have less than|\
    inputs` tokens + `max_new_tokens` must be|longer than the maximum model length|maximum context of|maximum input length|\
    maximum prompt length|payload size exceeds|prompt is too long|prompt*is too long to fit|prompt token count|range of input length|\
    reduce the length of the|request body too large|tokens must be at least 1, got|too many input tokens";
const FILTERED: &str = "=1301|=content_filter|=content_policy_violation|=data_inspection_failed|=invalid_prompt|=responsibleaipolicyviolation|\
    #flagged-input|content exists risk|content filter|content management policy|content policy|contentpolicyviolation|considered high risk|\
    flagged as potentially violating|input was flagged|blocked due to security configurations|safety system|usage guidelines|usage policies|usage policy|guardrail";
const QUOTAS_SPENT: &str = "=1113|=arrearage|=billing_error|=billing_hard_limit_reached|=billing_not_active|=budget_exceeded|\
    =exceeded_current_quota_error|=insufficient_quota|=insufficient_user_quota|=pre_consume_token_quota_failed|=token_quota_reached";
const ACCOUNTS_EMPTY: &str = "credit balance is too low|insufficient balance|insufficient credits|reached your specified api usage limits|too many tokens per day";
const BUDGETS_SPENT: &str = "#quota-spent|any credits|available credits|budget has been exceeded|check your billing|credit balance|\
    credits are depleted|credits left|insufficient balance|insufficient credits|key limit exceeded|out of call volume quota|out of credits|\
    requires more credits|spend limit|spending limit|余额不足";
const PERIODS: &str = "(rpd)|(tpd)|daily free allocation|daily limit|monthly|/ month|per day|per-day|perday|per month|usage limits";
const RATE_LIMITS: &str = "=engine_overloaded_error|=rate_limit_error|=rate_limit_exceeded|=rate_limit_reached_error|\
    =resource_exhausted|=throttlingexception|#quota|too many requests, please wait|too many tokens, please wait";
const RATE_WORDS: &str = "rate limit exceeded|rate limit reached|too many requests";
const WRONG_SETUP: &str = "=account_deactivated|=api_key_invalid|=auth_error|=authentication_error|=invalid_api_key|=invalid_model|\
    =key_model_access_denied|=model_decommissioned|=model_deprecated|=model_not_available|=model_not_found|=model_not_supported|\
    =no_db_connection|=organization_restricted|=unsupported_country_region_territory";
const NOT_FOUND: &str = "=failed_precondition|=not_found_error|=permission_error|=resource_not_found_error|api key expired|\
    api key not valid|failed to load model|incorrect api key|invalid model name|invalid model:|model identifier is invalid|model not exist|\
    model*does not exist|model*has been decommissioned|model*has been deprecated|model*has been retired|model*not found|no connected db.|\
    no models loaded|no such model|not a valid model|on-demand throughput";
const SERVER_ERRORS: &str = "=internal_server_error|=modelnotreadyexception|=overloaded_error|=server_error|=serviceunavailableexception|\
    =timeout_error|=unavailable_error";
const OVERLOADED: &str = "model has crashed|model is unloaded|model unloaded|overloaded|temporarily unavailable|upstream connect error|\
    upstream error";
/// Errors of servers in successful responses. `api_error` is a server error in Anthropic's API, and any error in Ollama's.
const FAILURES: &str = "=api_error|bad gateway|gateway timeout|internal error|internal server error|service unavailable|try again later";
/// After the cap's name. A server that knows the name accepts a lower cap, so it isn't renamed.
const CAP_TOO_HIGH: &str = "_tokens*above maximum|_tokens*at most|_tokens*less than or equal|_tokens*maximum allowed|_tokens*must have stream|\
    _tokens*should be [1,|_tokens*too high|_tokens*too large|_tokens*valid range|maxoutputtokens*supported range";

const MEANINGS: &[Row] = {
    use ErrorClass::{
        Exhausted, Misconfigured, Refused, Throttled, TooLarge, Transient, Truncated, Unparsable,
    };
    &[
        // A reasoning model used all output tokens before its answer. The error names a field, but changing it doesn't help.
        on(Truncated, &[], CUT_OFF),
        // The server noticed that the model's text isn't JSON.
        on(Unparsable, &[], "=json_validate_failed"),
        on(TooLarge, &[413, 429], "#beyond-limit|request too large"),
        on(TooLarge, &[], TOO_LONG),
        on(Refused, &[], FILTERED),
        // Portkey and WSO2: a guardrail.
        on(Refused, &[446], ""),
        on(Exhausted, &[], QUOTAS_SPENT),
        // Only messages that can't quote a prompt, because prompts are rejected with 400 as well.
        on(Exhausted, &[400], ACCOUNTS_EMPTY),
        on(Exhausted, &[200, 402, 403, 412, 429], BUDGETS_SPENT),
        // Not 403, because a firewall may quote a period from the prompt.
        on(Exhausted, &[402, 429], PERIODS),
        on(Throttled, &[], RATE_LIMITS),
        on(Throttled, &[200, 403], RATE_WORDS),
        // Google also sends this for limits per minute, with a code of RATE_LIMITS.
        on(Exhausted, &[200, 403, 429], "exceeded your current quota"),
        on(Misconfigured, &[], WRONG_SETUP),
        on(Misconfigured, &[200, 400, 404, 422], "#model"),
        // About the key, the account or the model, or about a file, a tool or a part of the prompt.
        Row(Some(Meaning::Unclear), BAD_REQUEST, NOT_FOUND),
        on(Transient, &[], SERVER_ERRORS),
        on(Transient, &[200, 400, 404], OVERLOADED),
        on(Transient, &[200], FAILURES),
        Row(Some(Meaning::Cap), BAD_REQUEST, CAP_TOO_HIGH),
        Row(None, BAD_REQUEST, ""),
        // An error in a successful response: of the key, the account, the address or the request.
        Row(Some(Meaning::Unclear), &[200], ""),
        on(Misconfigured, &[401], ""),
        on(Exhausted, &[402], ""),
        Row(Some(Meaning::Unclear), &[403, 404, 405, 407, 410], ""),
        on(TooLarge, &[413], ""),
        // 498: Groq's flex tier is full.
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

pub(super) fn meaning(format: &WireFormat, status: u16, body: &ErrorBody, sent: &Shape) -> Meaning {
    // The body of a gateway's successful response may contain the upstream's status.
    let failed = Some(status).filter(|status| *status >= 300);
    let status = failed.or(body.status()).unwrap_or(200);
    // A proxy reports that its upstream is unavailable.
    let status = if status < 520 { status } else { 503 };
    let mut rows = MEANINGS.iter().filter(|row| row.applies(status, body));
    let named = || named_field(format, body, sent).map(Meaning::Field);
    let decided = rows.find_map(|Row(meaning, ..)| meaning.or_else(named));
    decided.unwrap_or(Meaning::Class(ErrorClass::Rejected))
}

/// Returns the field named by the server if it was sent: from a JSON field, otherwise the first in its message.
fn named_field(format: &WireFormat, body: &ErrorBody, sent: &Shape) -> Option<Field> {
    let ours = FIELDS.into_iter().filter(|field| sent.has(field));
    // Parts of messages may have the same names.
    let paths = body.fields.iter().filter(|path| path[0] != "messages");
    let named: Vec<&String> = paths.flatten().collect();
    let places = ours.filter_map(|field| {
        let mut names = names(field, format.ladder, sent.rung).split('|');
        let place = match body.fields.is_empty() {
            true => names.filter_map(|name| body.position_of(name)).min()?,
            false => names
                .position(|name| named.iter().any(|at| *at == name))
                .map(|_| 0)?,
        };
        Some((place, field))
    });
    let first = places.min_by_key(|(place, _)| *place);
    first.map(|(_, field)| field)
}

#[cfg(test)]
mod tests;
