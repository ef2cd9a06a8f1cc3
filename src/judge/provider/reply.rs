//! What the replies of all families have in common: how a body is read, and what is believed of it.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::refusal::Said;
use crate::judge::providers::JudgeSpec;

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
    /// Something else, in words that follow the judge's name.
    Other(&'static str),
}

/// Reads a body of status 200; `otherwise`: what is said of one that isn't a reply of its family.
pub(super) fn parse<T: DeserializeOwned>(
    body: &[u8],
    otherwise: &'static str,
) -> Result<T, Unreadable> {
    match serde_json::from_slice(body) {
        Ok(reply) => Ok(reply),
        Err(error) if error.is_eof() && !body.is_empty() => Err(Unreadable::BrokenOff),
        Err(_) if Said::is_wrapped_error(body) => Err(Unreadable::ErrorInside),
        Err(_) => Err(Unreadable::Other(otherwise)),
    }
}

/// What a reply without an answer is: an error inside, or `otherwise`.
pub(super) fn without_answer(error: Option<&Value>, otherwise: &'static str) -> Unreadable {
    match error {
        Some(error) if !error.is_null() => Unreadable::ErrorInside,
        Some(_) | None => Unreadable::Other(otherwise),
    }
}

/// The model as reported, else as asked.
pub(super) fn model(reported: Option<&str>, spec: &JudgeSpec) -> String {
    reported
        .map(|model| model.chars().take(LONGEST_MODEL).collect::<String>())
        .filter(|model| !model.is_empty())
        .unwrap_or_else(|| spec.model().to_owned())
}

/// Whether a reply is marked as simulated: by its entry, by the name of its model, or by itself.
pub(super) fn simulated(spec: &JudgeSpec, model: &str, mark: Option<&Value>) -> bool {
    spec.simulated() || model.starts_with(SIMULATED_PREFIX) || mark == Some(&Value::Bool(true))
}

/// A count of tokens as far as it can be believed; 0 where there is none.
pub(super) fn count(reported: Option<i64>) -> i64 {
    reported.unwrap_or(0).clamp(0, MOST_TOKENS)
}

/// A sum of such counts.
pub(super) fn sum(counts: &[Option<i64>]) -> i64 {
    counts
        .iter()
        .map(|reported| count(*reported))
        .sum::<i64>()
        .min(MOST_TOKENS)
}
