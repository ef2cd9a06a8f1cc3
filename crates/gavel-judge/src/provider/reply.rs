//! What the replies of all families have in common: how a body is read, what its fields mean, and what is believed of it.

use serde_json::{Value, json};

use super::call::{Stop, Tokens};
use super::events;
use crate::error::ErrorClass;
use crate::json as lenient;

/// A model's reported name is kept up to this many characters.
const LONGEST_MODEL: usize = 255;
/// The same of a reason for a text's end.
const LONGEST_REASON: usize = 64;
/// No call uses more; a count beyond it is a server's mistake, and sums of such would overflow.
const MOST_TOKENS: i64 = 1_000_000_000;

/// Reasons for a text's end in lower case, as servers of any family word them.
const COMPLETE: &str = "stop end_turn tool_use tool_calls function_call";
const TRUNCATED: &str =
    "length max_tokens max_output_tokens model_length model_context_window_exceeded token_limit";
const REFUSED: &str = "content_filter content_filtered guardrail_intervened refusal sensitive safety recitation prohibited_content \
    blocklist spii language error_toxic data_inspection_failed";
const FAILED: &str = "abort aborted cancelled error insufficient_system_resource network_error not_finished time_limit timeout";

/// Why a body of status 200 isn't a reply.
#[derive(Debug, PartialEq)]
pub(super) enum Unreadable {
    /// Some gateways answer 200 and put the error inside: a body that says the same as an error's own.
    ErrorInside(Value),
    /// Something else, in words that follow the judge's name. It passes where the JSON ends too soon or there is none, such as
    /// in the page of a proxy before a server that is down.
    Failed(ErrorClass, &'static str),
}

/// What a body of status 2xx says.
#[derive(Debug, PartialEq)]
pub(super) struct RawReply {
    pub(super) text: String,
    pub(super) text_in: Option<&'static str>,
    pub(super) stop: Stop,
    /// An error beside the text, as a body of its own.
    pub(super) error: Option<Value>,
    pub(super) model: Option<String>,
    pub(super) usage: Option<Tokens>,
    /// The mark of a simulated reply.
    pub(super) simulated: bool,
}

impl RawReply {
    /// A reply of this text and end, with what bodies of all families say alike.
    pub(super) fn new(body: &Value, text: String, stop: Stop, usage: Option<Tokens>) -> Self {
        let model = text_at(body, "/model").or_else(|| text_at(body, "/modelVersion"));
        Self {
            text,
            text_in: None,
            stop,
            error: error_at(body),
            model: model.map(|model| model.chars().take(LONGEST_MODEL).collect()),
            usage,
            simulated: body["simulated"] == json!(true),
        }
    }
}

pub(super) type Read = Result<RawReply, Unreadable>;
/// How a kind of provider reads the JSON of a body of status 200.
pub(super) type Reader = fn(&Value) -> Read;

/// Reads a body of status 200, or the one body that the events of a stream make; `no_reply`: what is said of another body.
pub(super) fn read(body: &[u8], reader: Reader, no_reply: &'static str) -> Read {
    const BROKEN_OFF: Unreadable = Unreadable::Failed(
        ErrorClass::Transient,
        "broke off its answer in the middle of the JSON",
    );
    let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
    let body = body.trim_ascii();
    let value = match lenient::leading(body) {
        Ok(leading) if events::is_end(body.get(leading.length..).unwrap_or_default()) => {
            leading.value
        }
        Ok(_) | Err(_) if events::are_in(body) => events::joined(body).ok_or(BROKEN_OFF)?,
        Err(error) if error.is_cut_off && !body.is_empty() => return Err(BROKEN_OFF),
        Ok(_) | Err(_) => {
            return Err(Unreadable::Failed(ErrorClass::Transient, no_reply));
        }
    };
    match value {
        Value::Object(_) => reader(&value),
        // Google puts an error into a list.
        Value::Array(_) if given(&value, "/0/error").is_some() => {
            Err(Unreadable::ErrorInside(value))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Err(Unreadable::Failed(ErrorClass::Rejected, no_reply))
        }
    }
}

/// What stands at a JSON pointer; null is as good as nothing.
pub(super) fn given<'a>(value: &'a Value, pointer: &str) -> Option<&'a Value> {
    value.pointer(pointer).filter(|found| !found.is_null())
}

/// The text at a JSON pointer, unless it is blank.
pub(super) fn text_at<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    let text = given(value, pointer)?.as_str()?;
    (!text.trim().is_empty()).then_some(text)
}

/// The error beside other fields as a body of its own; `None` where there is none.
pub(super) fn error_at(value: &Value) -> Option<Value> {
    given(value, "/error").map(|error| json!({ "error": error }))
}

/// What a reply without an answer is: an error inside, or `otherwise`. Some gateways put their words straight into the body.
pub(super) fn without_answer(reply: &Value, otherwise: &'static str) -> Unreadable {
    const WORDS: &str =
        "/message /msg /errorMessage /error_msg /detail /errors/0/message /base_resp/status_msg";
    let said = || WORDS.split(' ').find_map(|at| text_at(reply, at));
    let error =
        error_at(reply).or_else(|| said().map(|said| json!({ "error": { "message": said } })));
    error.map_or(
        Unreadable::Failed(ErrorClass::Rejected, otherwise),
        Unreadable::ErrorInside,
    )
}

/// What a server's reason for a text's end means; `words`: what it says of a refusal. A server that gives no reason had said all
/// that it had to say.
pub(super) fn stop(reason: Option<&Value>, words: impl FnOnce(&str) -> String) -> Stop {
    let reason = match reason {
        None | Some(Value::Null) => return Stop::Complete,
        Some(Value::String(reason)) if reason.is_empty() => return Stop::Complete,
        Some(Value::String(reason)) => reason.clone(),
        Some(other) => other.to_string(),
    };
    let reason: String = reason.chars().take(LONGEST_REASON).collect();
    // Gemini's compatible endpoint writes `content_filter: PROHIBITED_CONTENT`, its own one `IMAGE_SAFETY` too.
    let known = reason.split(':').next().unwrap_or_default();
    let known = known.trim().to_ascii_lowercase();
    let known = known.trim_start_matches("image_");
    let is = |reasons: &str| reasons.split(' ').any(|reason| reason == known);
    if is(COMPLETE) {
        Stop::Complete
    } else if is(TRUNCATED) {
        Stop::Truncated
    } else if is(REFUSED) {
        Stop::Refused(words(&reason))
    } else if is(FAILED) {
        Stop::Failed(format!("gave up before its answer was whole ({reason:?})"))
    } else {
        Stop::Other(reason)
    }
}

/// The first count of tokens under these names, however it is written; a part of one counts as one.
pub(super) fn count(usage: &Value, pointers: &[&str]) -> Option<i64> {
    pointers.iter().find_map(|pointer| {
        let tokens = match usage.pointer(pointer)? {
            Value::Number(number) => number.as_f64()?,
            Value::String(text) => text.trim().parse().ok()?,
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return None,
        };
        (tokens >= 0.0).then_some(tokens.ceil().min(MOST_TOKENS as f64) as i64)
    })
}

/// The count of tokens at a pointer, 0 where nothing is there; `None` where it can't be read.
pub(super) fn optional_count(usage: &Value, pointer: &str) -> Option<i64> {
    given(usage, pointer).map_or(Some(0), |_| count(usage, &[pointer]))
}

impl Tokens {
    /// Counts within bounds; `None` where no prompt is counted, since there is none without tokens. What the cache took part in is a
    /// part of `input`.
    pub(super) fn believed(
        input: i64,
        cached: i64,
        cache_written: i64,
        output: i64,
    ) -> Option<Self> {
        (input > 0).then_some(Self {
            input: input.min(MOST_TOKENS),
            cached,
            cache_written,
            output: output.min(MOST_TOKENS),
        })
    }
}
