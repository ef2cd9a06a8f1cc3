//! What a server said in an error's body, and what tells its meaning. One form for all families.

use std::time::Duration;

use serde_json::Value;

use super::headers::duration;

/// What a server said in an error's body; servers differ in where they put it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) message: String,
    /// `code`, `type`, `status` and the reasons of its details, whichever there are.
    codes: Vec<String>,
    pub(super) param: Option<String>,
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
