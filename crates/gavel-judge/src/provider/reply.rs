//! Common parts of the replies of all formats: reads bodies and interprets and limits their fields.

use serde_json::{Value, json};

use super::call::{ProviderReply, Stop, Tokens};
use super::error_body::ErrorBody;
use super::events;
use crate::error::ErrorClass;
use crate::json::{self as lenient, Category};

/// Limit of a model's name, in characters.
const MAX_MODEL: usize = 255;
/// Limit of the reason for a text's end, in characters.
const MAX_REASON: usize = 64;
/// Larger counts are errors of a server; their sums would overflow.
const MAX_TOKENS: i64 = 1_000_000_000;

/// Reasons for a text's end, in lower case.
const COMPLETE: &str = "stop end_turn tool_use tool_calls function_call";
const TRUNCATED: &str =
    "length max_tokens max_output_tokens model_length model_context_window_exceeded token_limit";
const REFUSED: &str = "content_filter content_filtered guardrail_intervened refusal sensitive safety recitation prohibited_content \
    blocklist spii language error_toxic data_inspection_failed";
const FAILED: &str = "abort aborted cancelled error insufficient_system_resource network_error not_finished time_limit timeout";

pub(super) const CUT_OFF: &str = "and broke off its answer in the middle of the JSON";
const DUPLICATE: &str = "with a duplicate field of different values";

/// Reason why a body of status 200 isn't a reply.
#[derive(Debug, PartialEq)]
pub(super) enum Unreadable {
    /// An error in the body, as some gateways send it.
    ErrorInside(Value),
    /// A message that follows the status.
    Failed(ErrorClass, &'static str),
}

impl Unreadable {
    /// Another call may succeed, such as after the page of a proxy.
    pub(super) fn passing(message: &'static str) -> Self {
        Self::Failed(ErrorClass::Transient, message)
    }

    /// `no_json` is the message for invalid JSON.
    pub(super) fn of(category: Category, no_json: &'static str) -> Self {
        match category {
            Category::Io | Category::Syntax => Self::passing(no_json),
            Category::Eof => Self::passing(CUT_OFF),
            // The last of two texts may be the prompt's.
            Category::Data => Self::Failed(ErrorClass::Unparsable, DUPLICATE),
        }
    }
}

/// A reply as its body has it: unredacted, with an error as a separate body. An unreported model is empty.
pub(super) type RawReply = ProviderReply<Value>;

impl RawReply {
    /// Returns a reply with the fields that the bodies of all formats have.
    pub(super) fn new(body: &Value, text: String, stop: Stop, usage: Option<Tokens>) -> Self {
        let model = text_at(body, "/model").or_else(|| text_at(body, "/modelVersion"));
        Self {
            text,
            text_in: None,
            stop,
            error: error_at(body),
            model: model.unwrap_or_default().chars().take(MAX_MODEL).collect(),
            usage,
            simulated: body["simulated"] == json!(true),
            // The endpoint sets another status.
            status: 200,
        }
    }
}

pub(super) type Read = Result<RawReply, Unreadable>;
/// Reads the JSON of a body of status 200.
pub(super) type Reader = fn(&Value) -> Read;

/// Reads a body of status 200 or a stream of events; `no_reply` is the error message for other bodies.
pub(super) fn read(body: &[u8], reader: Reader, no_reply: &'static str) -> Read {
    let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
    let body = body.trim_ascii();
    let value = match lenient::leading_object(body) {
        Ok(json) if events::is_end(body.get(json.length..).unwrap_or_default()) => json.value,
        Ok(_) | Err(_) if events::are_in(body) => events::joined(body)?,
        Err(_) if body.is_empty() => return Err(Unreadable::passing("with no body")),
        Err(error) => return Err(Unreadable::of(error.category, no_reply)),
        Ok(_) => return Err(Unreadable::passing(no_reply)),
    };
    match value.is_object() {
        true => reader(&value),
        // Google puts an error into a list.
        false => Err(without_answer(&value, no_reply)),
    }
}

/// Returns the value at a JSON pointer unless it is null.
pub(super) fn given<'a>(value: &'a Value, pointer: &str) -> Option<&'a Value> {
    value.pointer(pointer).filter(|found| !found.is_null())
}

/// Returns the text at a JSON pointer unless it is blank.
pub(super) fn text_at<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    let text = given(value, pointer)?.as_str()?;
    (!text.trim().is_empty()).then_some(text)
}

/// Returns the error in a body as a separate body, unless it is blank.
pub(super) fn error_at(value: &Value) -> Option<Value> {
    let blank = [json!(""), json!({}), json!([]), json!(false)];
    let error = given(value, "/error").filter(|error| !blank.contains(error));
    error.map(|error| json!({ "error": error }))
}

pub(super) fn is_error(value: &Value) -> bool {
    error_at(value).is_some() || ErrorBody::of(value).has_words()
}

/// Returns the error of a reply without an answer: the body if it is an error, or `otherwise`.
pub(super) fn without_answer(reply: &Value, otherwise: &'static str) -> Unreadable {
    match is_error(reply) {
        true => Unreadable::ErrorInside(reply.clone()),
        false => Unreadable::passing(otherwise),
    }
}

/// Interprets a server's reason for a text's end; `words` explains the rejection of a filter. Without a reason the text is complete.
pub(super) fn stop(reason: Option<&Value>, words: impl FnOnce(&str) -> String) -> Stop {
    let reason = reason.filter(|reason| !reason.is_null());
    let reason = reason.map(|it| it.as_str().map_or(it.to_string(), str::to_owned));
    let reason: String = reason
        .unwrap_or_default()
        .chars()
        .take(MAX_REASON)
        .collect();
    // Gemini sends `content_filter: PROHIBITED_CONTENT` and `IMAGE_SAFETY`.
    let known = reason.split(':').next().unwrap_or_default();
    let known = known.trim().to_ascii_lowercase();
    let known = known.trim_start_matches("image_");
    let is = |reasons: &str| reasons.split(' ').any(|reason| reason == known);
    match reason {
        _ if reason.is_empty() || is(COMPLETE) => Stop::Complete,
        _ if is(TRUNCATED) => Stop::Truncated,
        reason if is(REFUSED) => Stop::Refused(words(&reason)),
        reason if is(FAILED) => {
            Stop::Failed(format!("gave up before its answer was whole ({reason:?})"))
        }
        reason => Stop::Other(reason),
    }
}

/// Returns the first count of tokens at these pointers, as a number or a text; fractions are rounded up.
pub(super) fn count(usage: &Value, pointers: &[&str]) -> Option<i64> {
    pointers.iter().find_map(|pointer| {
        let value = usage.pointer(pointer)?;
        let text = || value.as_str()?.trim().parse().ok();
        let tokens = value.as_f64().or_else(text)?;
        (tokens >= 0.0).then_some(tokens.ceil().min(MAX_TOKENS as f64) as i64)
    })
}

/// Returns the count of tokens at a pointer, 0 if it is missing, `None` if it is invalid.
pub(super) fn optional_count(usage: &Value, pointer: &str) -> Option<i64> {
    given(usage, pointer).map_or(Some(0), |_| count(usage, &[pointer]))
}

impl Tokens {
    /// Returns the counts, limited. `None` without input tokens, because every prompt has some. `input` includes the cached tokens.
    pub(super) fn new(input: i64, cached: i64, cache_written: i64, output: i64) -> Option<Self> {
        (input > 0).then_some(Self {
            input: input.min(MAX_TOKENS),
            cached,
            cache_written,
            output: output.min(MAX_TOKENS),
        })
    }
}
