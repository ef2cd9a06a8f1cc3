//! What the replies of all families have in common: how a body is read, and what is believed of it.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::call::{ProviderReply, Stop, Tokens};
use super::error_body::ErrorBody;

/// Model ids that begin so are simulated, whoever serves them.
const SIMULATED_PREFIX: &str = "simulated-";
/// A model's reported name is kept up to this many characters.
const LONGEST_MODEL: usize = 255;
/// No call uses more; a count beyond it is a server's mistake, and sums of such would overflow.
const MOST_TOKENS: i64 = 1_000_000_000;

/// Why a body of status 200 isn't a reply.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// Some gateways answer 200 and put the error inside.
    ErrorInside,
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
    pub(super) stop: Stop,
    pub(super) model: Option<String>,
    pub(super) usage: Option<Tokens>,
    /// The mark of a simulated reply.
    pub(super) simulated: Option<Value>,
}

impl RawReply {
    /// `asked`: the model that was asked, where the reply names none.
    pub(super) fn believed(self, asked: &str, status: u16) -> ProviderReply {
        let model = self
            .model
            .map(|model| model.chars().take(LONGEST_MODEL).collect());
        let model = model.filter(|model: &String| !model.is_empty());
        let model = model.unwrap_or_else(|| asked.to_owned());
        let marked = self.simulated == Some(Value::Bool(true));
        ProviderReply {
            text: self.text,
            stop: self.stop,
            simulated: marked || model.starts_with(SIMULATED_PREFIX),
            model,
            usage: self.usage,
            status,
        }
    }
}

/// Reads a body of status 200; `otherwise`: what is said of one that isn't a reply of its family.
pub(super) fn parse<T: DeserializeOwned>(
    body: &[u8],
    otherwise: &'static str,
) -> Result<T, Unreadable> {
    match serde_json::from_slice(body) {
        Ok(reply) => Ok(reply),
        Err(error) if error.is_eof() && !body.is_empty() => Err(Unreadable::BrokenOff),
        Err(_) if ErrorBody::is_wrapped_error(body) => Err(Unreadable::ErrorInside),
        Err(error) if error.is_data() => Err(Unreadable::Other(otherwise)),
        Err(_) => Err(Unreadable::NoJson(otherwise)),
    }
}

/// What a reply without an answer is: an error inside, or `otherwise`.
pub(super) fn without_answer(error: Option<&Value>, otherwise: &'static str) -> Unreadable {
    match error {
        Some(error) if !error.is_null() => Unreadable::ErrorInside,
        Some(_) | None => Unreadable::Other(otherwise),
    }
}

/// A count of tokens as far as it can be believed; 0 where there is none.
pub(super) fn count(reported: Option<i64>) -> i64 {
    reported.unwrap_or(0).clamp(0, MOST_TOKENS)
}

pub(super) fn sum(counts: &[Option<i64>]) -> i64 {
    counts
        .iter()
        .map(|reported| count(*reported))
        .sum::<i64>()
        .min(MOST_TOKENS)
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
                stop: Stop::Complete,
                model: model.map(str::to_owned),
                usage: None,
                simulated: Some(mark),
            };
            let reply = raw.believed("m", 200);
            assert_eq!((reply.model.as_str(), reply.simulated), expected);
        }
    }
}
