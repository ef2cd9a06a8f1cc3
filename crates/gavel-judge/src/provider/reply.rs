//! What the replies of all families have in common: how a body is read, what its fields mean, and what is believed of it.

use serde_json::{Value, json};

use super::call::{ProviderReply, Stop, Tokens};
use super::events::{self, Events};
use crate::JudgeError;
use crate::json as lenient;

/// Model ids that begin so are simulated, whoever serves them.
const SIMULATED_PREFIX: &str = "simulated-";
/// A model's reported name is kept up to this many characters.
const LONGEST_MODEL: usize = 255;
/// The same of a reason for a text's end.
const LONGEST_REASON: usize = 64;
/// No call uses more; a count beyond it is a server's mistake, and sums of such would overflow.
const MOST_TOKENS: i64 = 1_000_000_000;

/// Reasons for a text's end in lower case, as servers of any family word them.
const COMPLETE: &[&str] = &[
    "",
    "stop",
    "end_turn",
    "tool_use",
    "tool_calls",
    "function_call",
];
const TRUNCATED: &[&str] = &[
    "length",
    "max_tokens",
    "max_output_tokens",
    "model_length",
    "model_context_window_exceeded",
    "token_limit",
];
const REFUSED: &[&str] = &[
    "content_filter",
    "content_filtered",
    "guardrail_intervened",
    "refusal",
    "sensitive",
    "safety",
    "recitation",
    "prohibited_content",
    "blocklist",
    "spii",
    "language",
    "error_toxic",
    "data_inspection_failed",
];
const FAILED: &[&str] = &[
    "abort",
    "aborted",
    "cancelled",
    "error",
    "insufficient_system_resource",
    "network_error",
    "not_finished",
    "time_limit",
    "timeout",
];

/// Why a body of status 200 isn't a reply.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// Some gateways answer 200 and put the error inside: a body that says the same as an error's own.
    ErrorInside(Vec<u8>),
    /// The JSON ends too soon.
    BrokenOff,
    /// No JSON at all, such as the page of a proxy before a server that is down; in words that follow the judge's name.
    NoJson(&'static str),
    /// Something else, in words that follow the judge's name.
    Other(&'static str),
}

/// What a body of status 2xx says.
#[derive(Debug, PartialEq)]
pub(super) struct RawReply {
    pub(super) text: String,
    pub(super) text_in: Option<&'static str>,
    pub(super) stop: Stop,
    /// An error beside the text, as a body of its own.
    pub(super) error: Option<Vec<u8>>,
    pub(super) model: Option<String>,
    pub(super) usage: Option<Tokens>,
    /// The mark of a simulated reply.
    pub(super) simulated: bool,
}

impl RawReply {
    /// `asked`: the model that was asked, where the reply names none. `error`: what the error beside the text means.
    pub(super) fn believed(
        self,
        asked: &str,
        status: u16,
        error: Option<JudgeError>,
    ) -> ProviderReply {
        let model = self
            .model
            .map(|model| model.chars().take(LONGEST_MODEL).collect());
        let model = model.filter(|model: &String| !model.is_empty());
        let model = model.unwrap_or_else(|| asked.to_owned());
        ProviderReply {
            text: self.text,
            text_in: self.text_in,
            stop: self.stop,
            error,
            simulated: self.simulated || model.starts_with(SIMULATED_PREFIX),
            model,
            usage: self.usage,
            status,
        }
    }
}

/// Reads a body of status 200; `otherwise`: what is said of one that isn't a reply of its family. `join` makes one body of the
/// events of a stream, which some servers send though nobody asked for one.
pub(super) fn parse(
    body: &[u8],
    join: fn(Events) -> Option<Value>,
    otherwise: &'static str,
) -> Result<Value, Unreadable> {
    let body = body
        .strip_prefix(b"\xef\xbb\xbf")
        .unwrap_or(body)
        .trim_ascii();
    let value = match lenient::leading(body) {
        Ok(leading) if events::is_end(body.get(leading.length..).unwrap_or_default()) => {
            leading.value
        }
        Ok(_) | Err(_) if events::are_in(body) => {
            let events = events::read(body).ok_or(Unreadable::BrokenOff)?;
            join(events).ok_or(Unreadable::BrokenOff)?
        }
        Err(error) if error.is_cut_off && !body.is_empty() => return Err(Unreadable::BrokenOff),
        Ok(_) | Err(_) => return Err(Unreadable::NoJson(otherwise)),
    };
    match value {
        Value::Object(_) => Ok(value),
        // Google puts an error into a list.
        Value::Array(list)
            if list
                .first()
                .is_some_and(|first| given(first, "/error").is_some()) =>
        {
            Err(Unreadable::ErrorInside(body.to_vec()))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Err(Unreadable::Other(otherwise))
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

/// An error at `pointer` as a body of its own; `None` where there is none.
pub(super) fn error_at(value: &Value, pointer: &str) -> Option<Vec<u8>> {
    let error = given(value, pointer)?;
    Some(json!({ "error": error }).to_string().into_bytes())
}

/// What a reply without an answer is: an error inside, or `otherwise`. Some gateways put their words straight into the body.
pub(super) fn without_answer(reply: &Value, otherwise: &'static str) -> Unreadable {
    const WORDS: [&str; 7] = [
        "/message",
        "/msg",
        "/errorMessage",
        "/error_msg",
        "/detail",
        "/errors/0/message",
        "/base_resp/status_msg",
    ];
    let said = || WORDS.iter().find_map(|at| text_at(reply, at));
    let said = || {
        said().map(|said| {
            json!({ "error": { "message": said } })
                .to_string()
                .into_bytes()
        })
    };
    match error_at(reply, "/error").or_else(said) {
        Some(error) => Unreadable::ErrorInside(error),
        None => Unreadable::Other(otherwise),
    }
}

/// What a server's reason for a text's end means; `words`: what it says of a refusal. A server that gives no reason had said all
/// that it had to say.
pub(super) fn stop(reason: Option<&Value>, words: impl FnOnce(&str) -> String) -> Stop {
    let reason = match reason {
        None | Some(Value::Null) => return Stop::Complete,
        Some(Value::String(reason)) => reason.clone(),
        Some(other) => other.to_string(),
    };
    let reason: String = reason.chars().take(LONGEST_REASON).collect();
    // Gemini's compatible endpoint writes `content_filter: PROHIBITED_CONTENT`, its own one `IMAGE_SAFETY` too.
    let known = reason.split(':').next().unwrap_or_default();
    let known = known.trim().to_ascii_lowercase();
    let is = |reasons: &[&str]| reasons.contains(&known.trim_start_matches("image_"));
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

/// The first count of tokens among these pointers, however it is written; a part of one counts as one.
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
    match given(usage, pointer) {
        Some(_) => count(usage, &[pointer]),
        None => Some(0),
    }
}

impl Tokens {
    /// The same within bounds; `None` where no prompt is counted, since there is none without tokens.
    pub(super) fn believed(self) -> Option<Self> {
        (self.input > 0).then_some(Self {
            input: self.input.min(MOST_TOKENS),
            output: self.output.min(MOST_TOKENS),
            ..self
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_reply_without_a_model_has_that_which_was_asked_and_a_mark_or_a_name_makes_it_simulated() {
        for (model, mark, expected) in [
            (None, json!(null), ("m", false)),
            (Some(""), json!("yes"), ("m", false)),
            (Some("n"), json!(true), ("n", true)),
            (Some("simulated-x"), json!(null), ("simulated-x", true)),
        ] {
            let raw = RawReply {
                text: String::new(),
                text_in: None,
                stop: Stop::Complete,
                error: None,
                model: model.map(str::to_owned),
                usage: None,
                simulated: mark == json!(true),
            };
            let reply = raw.believed("m", 200, None);
            assert_eq!((reply.model.as_str(), reply.simulated), expected);
        }
    }
}
