//! What a refusal means: from status and error body to a class. One table for all families.

use std::time::Duration;

use serde_json::Value;

use super::format::WireFormat;
use super::headers::duration;
use super::shape::{Field, Shape};
use crate::judge::error::ErrorClass;

/// What a server said in an error's body; servers differ in where they put it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Said {
    message: String,
    /// `code`, `type`, `status` and the reasons of its details, whichever there are.
    codes: Vec<String>,
    param: Option<String>,
    /// What Google's errors hold besides their message.
    details: Vec<Value>,
}

/// What tells a meaning: one of these codes, or one of these words, in lower case, in the message.
pub(super) struct Signal {
    pub(super) codes: &'static [&'static str],
    pub(super) words: &'static [&'static str],
}

impl Signal {
    pub(super) const fn codes(codes: &'static [&'static str]) -> Self {
        Self { codes, words: &[] }
    }

    pub(super) const fn words(words: &'static [&'static str]) -> Self {
        Self { codes: &[], words }
    }

    pub(super) fn is_in(&self, said: &Said) -> bool {
        self.codes.iter().any(|code| said.is(code)) || said.mentions(self.words)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// A class, and what follows from it.
    Class(ErrorClass),
    /// This field isn't wanted.
    Capability(Field),
}

impl Said {
    /// Reads `{"error": {..}}`, `[{"error": {..}}]`, `{"error": ".."}`, `{"detail": ..}`, and bodies that are flat or no JSON.
    pub(super) fn read(body: &str) -> Self {
        let Ok(value) = serde_json::from_str::<Value>(body) else {
            return Self {
                message: without_markup(body),
                ..Self::default()
            };
        };
        let value = value.get(0).unwrap_or(&value);
        let error = match value.get("error") {
            Some(error) if !error.is_null() => error,
            _ => value,
        };
        let message = match error {
            Value::String(message) => message.clone(),
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::Array(_)
            | Value::Object(_) => ["message", "detail", "error_description"]
                .into_iter()
                .find_map(|key| error.get(key).or_else(|| value.get(key)))
                .map_or_else(String::new, words_of),
        };
        let param = error.get("param").and_then(Value::as_str);
        let details = error.get("details").and_then(Value::as_array);
        let details = details.cloned().unwrap_or_default();
        let codes = ["code", "type", "status"].into_iter();
        let codes = codes.filter_map(|key| error.get(key));
        let reasons = details.iter().filter_map(|detail| detail.get("reason"));
        Self {
            message,
            codes: codes.chain(reasons).map(words_of).collect(),
            param: param.map(str::to_owned),
            details,
        }
    }

    /// Whether a body is an error in a list.
    pub(super) fn is_wrapped_error(body: &[u8]) -> bool {
        serde_json::from_slice::<Value>(body)
            .is_ok_and(|value| value.pointer("/0/error").is_some_and(Value::is_object))
    }

    pub(super) fn status(&self) -> Option<u16> {
        self.codes
            .iter()
            .find_map(|code| code.parse().ok())
            .filter(|status| (400..=599).contains(status))
    }

    /// The details of a type, `google.rpc.RetryInfo` for example.
    pub(super) fn details(&self, kind: &str) -> impl Iterator<Item = &Value> {
        self.details.iter().filter(move |detail| {
            let named = detail.get("@type").and_then(Value::as_str);
            named.is_some_and(|named| named.rsplit('/').next() == Some(kind))
        })
    }

    /// The wait that Google's RetryInfo asks for, "17s".
    pub(super) fn retry_delay(&self) -> Option<Duration> {
        self.details("google.rpc.RetryInfo")
            .find_map(|info| duration(info.get("retryDelay")?.as_str()?))
    }

    /// The server's words, for people.
    pub(super) fn words(&self) -> String {
        let message = self.message.trim();
        match (message, self.codes.first()) {
            ("", None) => "no reason given".to_owned(),
            ("", Some(code)) => code.clone(),
            (message, _) => message.to_owned(),
        }
    }

    /// Whether the message names a limit of nothing: `limit: 0`.
    pub(super) fn limit_is_zero(&self) -> bool {
        self.message.match_indices("limit: 0").any(|(at, found)| {
            let after = self.message.get(at + found.len()..);
            let next = after.and_then(|after| after.chars().next());
            !next.is_some_and(|next| next.is_ascii_digit() || next == '.')
        })
    }

    pub(super) fn is(&self, code: &str) -> bool {
        self.codes.iter().any(|said| said == code)
    }

    /// Whether the message holds one of these, which are in lower case.
    pub(super) fn mentions(&self, words: &[&str]) -> bool {
        let message = self.message.to_ascii_lowercase();
        words.iter().any(|word| message.contains(word))
    }
}

/// What a refusal of a request of shape `sent` means.
pub(super) fn classify(format: &WireFormat, status: u16, said: &Said, sent: Shape) -> Verdict {
    let class = match status {
        // A gateway's 200 with an error inside: its code may stand for the status that it got.
        200..=299 => match format.inner_status(said) {
            Some(inner) if inner >= 400 => return classify(format, inner, said, sent),
            Some(_) | None => ErrorClass::Rejected,
        },
        401 | 403 | 404 => ErrorClass::Misconfigured,
        402 => ErrorClass::Exhausted,
        408 | 409 | 425 | 500 | 502 | 503 | 504 | 529 => ErrorClass::Transient,
        413 => ErrorClass::TooLarge,
        429 if (format.used_up)(said) => ErrorClass::Exhausted,
        429 => ErrorClass::Throttled,
        400 | 422 => {
            let mut known = format.bad_requests.iter();
            match known.find(|(signal, _)| signal.is_in(said)) {
                Some((_, class)) => *class,
                None => match refused_field(format, said, sent) {
                    Some(field) => return Verdict::Capability(field),
                    None => ErrorClass::Rejected,
                },
            }
        }
        _ => ErrorClass::Rejected,
    };
    Verdict::Class(class)
}

/// The field that the server names, if we sent it: by `param`, else the first that its message names.
fn refused_field(format: &WireFormat, said: &Said, sent: Shape) -> Option<Field> {
    // A cap that is known and too high keeps its name: renaming it would be remembered, and help nobody.
    let too_high = said.mentions(&["too large", "too high", "at most", "less than or equal"]);
    let ours = Field::ALL.into_iter().filter(|field| match field {
        Field::MaxCompletionTokens | Field::MaxTokens => sent.has(*field) && !too_high,
        Field::Temperature | Field::Format | Field::Seed => sent.has(*field),
    });
    if let Some(param) = &said.param {
        let param = param.split(['.', '[']).next().unwrap_or_default();
        return ours
            .into_iter()
            .find(|field| (format.names)(*field, sent).contains(&param));
    }
    ours.filter_map(|field| {
        (format.names)(field, sent)
            .iter()
            .filter_map(|name| whole_word(&said.message, name))
            .min()
            .map(|at| (at, field))
    })
    .min_by_key(|(at, _)| *at)
    .map(|(_, field)| field)
}

fn whole_word(message: &str, name: &str) -> Option<usize> {
    let part_of_word = |c: char| c.is_alphanumeric() || c == '_';
    message.match_indices(name).map(|(at, _)| at).find(|at| {
        let before = message.get(..*at).and_then(|text| text.chars().next_back());
        let after = message
            .get(at + name.len()..)
            .and_then(|text| text.chars().next());
        !before.is_some_and(part_of_word) && !after.is_some_and(part_of_word)
    })
}

fn words_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        // Validators list faults and echo the input, which is the prompt: only their words are taken.
        Value::Array(list) => list.iter().map(words_of).collect::<Vec<_>>().join("; "),
        Value::Object(map) => ["msg", "message"]
            .into_iter()
            .find_map(|key| map.get(key).and_then(Value::as_str))
            .unwrap_or_default()
            .to_owned(),
    }
}

/// A proxy's error page, read without its tags.
fn without_markup(body: &str) -> String {
    let mut text = String::new();
    let mut in_tag = false;
    for c in body.chars().take(4_000) {
        match c {
            '<' => in_tag = true,
            '>' => {
                in_tag = false;
                text.push(' ');
            }
            c if !in_tag => text.push(c),
            _ => {}
        }
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
