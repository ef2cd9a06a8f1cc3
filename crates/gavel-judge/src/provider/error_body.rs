//! The body of an error, read by its structure: one form for all servers, and for gateways that wrap another server's error.
//! It decides nothing.

use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value};

use super::headers::duration;
use crate::json;
use gavel_outbound::seconds;

/// Errors inside errors are followed this deep.
const MAX_DEPTH: usize = 8;
/// Entries of a list that are read; a validator may list an error for each message of a prompt.
const MAX_ENTRIES: usize = 20;
const MAX_MESSAGE_BYTES: usize = 4_000;
/// What a `*` in a pattern stands for is no longer.
const MAX_GAP_BYTES: usize = 60;
/// What ends a sentence.
const ENDS: [&str; 5] = [". ", "! ", "? ", "; ", "\n"];
/// What stands before a delay.
const BEFORE_DELAYS: &str =
    "try again in |try again after |retry in |retry after |replenished in |please wait ";

/// What an error's body holds.
#[derive(Debug, Default)]
pub(super) struct ErrorBody {
    /// Texts for people, the outermost first.
    messages: Vec<String>,
    /// All of `messages`, in lower case.
    text: String,
    /// Codes, types, statuses and reasons, in lower case. Also facts without a code: `#quota` (Google names one), `#quota-spent`
    /// (one per day, or of 0), `#beyond-limit` (the request alone is larger than a limit, so that no wait helps), `#model` (the
    /// field is named), `#flagged-input` (OpenRouter repeats the part of the prompt that a filter objects to).
    codes: Vec<String>,
    /// Paths of request fields that the server names.
    pub(super) fields: Vec<Vec<String>>,
    /// The delay that the server asks for in a field.
    delay: Option<Duration>,
    /// The headers of an upstream's answer, where a gateway repeats them.
    pub(super) headers: HeaderMap,
    /// The text of the model that the server found fault with.
    pub(super) failed_generation: Option<String>,
}

impl ErrorBody {
    /// Reads a body, or the text of a proxy's page.
    pub(super) fn read(body: &[u8]) -> Self {
        serde_json::from_slice(body).map_or_else(
            |_| Self::of(&without_markup(&String::from_utf8_lossy(body)).into()),
            |value| Self::of(&value),
        )
    }

    pub(super) fn of(value: &Value) -> Self {
        let mut read = Self::default();
        read.walk(value, 0);
        read.text = read.messages.join("\n").to_ascii_lowercase();
        if numbers_after(&read.text, "limit: ").any(|limit| limit == 0.0) {
            read.mark("#quota-spent");
        }
        let first = |word| numbers_after(&read.text, word).next();
        let both = first("limit ").zip(first("requested "));
        if both.is_some_and(|(limit, requested)| requested > limit) {
            read.mark("#beyond-limit");
        }
        read
    }

    /// The HTTP status that it names.
    pub(super) fn status(&self) -> Option<u16> {
        let mut numbers = self.codes.iter().filter_map(|code| code.parse().ok());
        numbers.find(|status| (400..=599).contains(status))
    }

    /// The server's words, for people.
    pub(super) fn words(&self) -> String {
        match (self.messages.as_slice(), self.codes.first()) {
            ([], None) => "no reason given".to_owned(),
            ([], Some(code)) => code.clone(),
            (messages, _) => messages.join("; "),
        }
    }

    /// Whether it holds this code, which is in lower case.
    pub(super) fn has_code(&self, code: &str) -> bool {
        self.codes.iter().any(|said| said == code)
    }

    /// Whether its words hold this, which is in lower case; a `*` stands for a few words of the same sentence.
    pub(super) fn mentions(&self, pattern: &str) -> bool {
        let (first, second) = pattern.split_once('*').unwrap_or((pattern, ""));
        self.text.match_indices(first).any(|(at, first)| {
            let (_, rest) = self.text.split_at(at + first.len());
            let near = rest.floor_char_boundary(MAX_GAP_BYTES + second.len());
            let between = rest.split_at(near).0.split_once(second);
            between.is_some_and(|(between, _)| !ENDS.iter().any(|end| between.contains(end)))
        })
    }

    /// Where in its words a name first stands as a whole word.
    pub(super) fn position_of(&self, name: &str) -> Option<usize> {
        let name = name.to_ascii_lowercase();
        let in_word = |c: char| c.is_alphanumeric() || c == '_';
        self.text.match_indices(&name).map(|(at, _)| at).find(|at| {
            let (before, rest) = self.text.split_at(*at);
            let after = rest.get(name.len()..).unwrap_or_default();
            !before.ends_with(in_word) && !after.starts_with(in_word)
        })
    }

    /// The delay that it asks for: in a field, else in words.
    pub(super) fn delay(&self) -> Option<Duration> {
        let named = |before| self.text.split(before).skip(1).find_map(duration);
        let mut places = BEFORE_DELAYS.split('|');
        self.delay.or_else(|| places.find_map(named))
    }

    fn mark(&mut self, code: &str) {
        self.codes.push(code.trim().to_ascii_lowercase());
    }

    fn walk(&mut self, value: &Value, depth: usize) {
        if depth > MAX_DEPTH {
            return;
        }
        match value {
            Value::Object(map) => self.object(map, depth),
            Value::Array(list) => {
                for value in list.iter().take(MAX_ENTRIES) {
                    self.walk(value, depth + 1);
                }
            }
            Value::String(text) => self.string(text, depth),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Reads the keys that hold an error. Others may echo the prompt.
    fn object(&mut self, map: &Map<String, Value>, depth: usize) {
        const ERRORS: &str = "message msg detail details description error_description error errors innererror inner_error metadata raw \
            provider_specific_fields violations fieldViolations choices";
        for (key, value) in map {
            let text = value.as_str();
            match key.as_str() {
                "code" | "type" | "status" | "reason" | "error_type" | "error_code" | "__type" => {
                    match value {
                        // AWS puts a namespace before it.
                        Value::String(code) => self.mark(code.rsplit('#').next().unwrap_or(code)),
                        Value::Number(code) => self.mark(&code.to_string()),
                        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {}
                    }
                }
                "param" | "parameter" | "field" | "loc" => self.field(value),
                "quotaId" => {
                    self.mark("#quota");
                    if text.is_some_and(|id| id.contains("PerDay")) {
                        self.mark("#quota-spent");
                    }
                }
                "quotaValue" if text == Some("0") || value.as_f64() == Some(0.0) => {
                    self.mark("#quota-spent");
                }
                "flagged_input" => self.mark("#flagged-input"),
                "retryDelay" => self.delay = text.and_then(duration),
                "retry_after" => self.delay = value.as_f64().map(seconds),
                "headers" => self.headers = headers_of(value),
                "failed_generation" => self.failed_generation = text.map(str::to_owned),
                key if ERRORS.split(' ').any(|known| known == key) => self.walk(value, depth + 1),
                _ => {}
            }
        }
    }

    /// `"response_format.json_schema"`, `["body", "max_tokens"]`, `"generation_config.response_schema"`.
    fn field(&mut self, value: &Value) {
        const CONTAINERS: [&str; 4] = ["body", "generation_config", "generationConfig", "None"];
        let mut path: Vec<&str> = match value {
            Value::String(path) => path.split(['.', '[']).collect(),
            Value::Array(path) => path.iter().filter_map(Value::as_str).collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => Vec::new(),
        };
        path.retain(|name| !CONTAINERS.contains(name));
        match path.first() {
            None | Some(&"") => {}
            Some(&"model") => self.mark("#model"),
            Some(_) => self
                .fields
                .push(path.into_iter().map(str::to_owned).collect()),
        }
    }

    /// A text, which may hold an upstream's error as JSON: then that is read, and what stands around it is the text.
    fn string(&mut self, text: &str, depth: usize) {
        let mut opens = text.match_indices(['{', '[']).take(4);
        let upstream = opens.find_map(|(at, _)| {
            let (before, rest) = text.split_at(at);
            let read = json::leading(rest.as_bytes()).ok()?;
            is_error(&read.value).then_some((before, read.value, rest.get(read.length..)?))
        });
        match upstream {
            None => self.message(text),
            Some((before, upstream, after)) => {
                self.message(before);
                self.walk(&upstream, depth + 1);
                self.message(after);
            }
        }
    }

    fn message(&mut self, text: &str) {
        // A validator's list in Python's words echoes the input, which is the prompt.
        let text = text.split("'input':").next().unwrap_or_default();
        let text = text.trim_start_matches(['.', ' ']);
        let text = text.trim_end_matches([' ', '-', ':']).trim();
        let text = text.split_at(text.floor_char_boundary(MAX_MESSAGE_BYTES)).0;
        if !text.is_empty() && !self.messages.iter().any(|known| known == text) {
            self.messages.push(text.to_owned());
        }
    }
}

/// Whether a JSON value is worded as an error.
fn is_error(value: &Value) -> bool {
    let first = value.get(0).unwrap_or(value);
    let mut keys = ["error", "errors", "message", "msg", "detail"].into_iter();
    keys.any(|key| first.get(key).is_some())
}

/// The numbers that stand right behind a word: `30,000`, `0.5`.
fn numbers_after(text: &str, word: &str) -> impl Iterator<Item = f64> {
    text.split(word).skip(1).filter_map(|after| {
        let end = after.find(|c: char| !c.is_ascii_digit() && c != ',' && c != '.');
        let number = after.split_at(end.unwrap_or(after.len())).0;
        let number = number.trim_end_matches([',', '.']).replace(',', "");
        number.parse().ok()
    })
}

fn headers_of(value: &Value) -> HeaderMap {
    let pairs = value.as_object().into_iter().flatten();
    let pairs = pairs.filter_map(|(name, value)| {
        let text = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        let name = HeaderName::try_from(name).ok()?;
        Some((name, HeaderValue::try_from(text).ok()?))
    });
    pairs.collect()
}

/// A proxy's error page, read without its tags.
fn without_markup(body: &str) -> String {
    let mut pieces = body.split('<');
    let first = pieces.next();
    let behind_tags = pieces.filter_map(|piece| Some(piece.split_once('>')?.1));
    let texts = first.into_iter().chain(behind_tags);
    let words: Vec<&str> = texts.flat_map(str::split_whitespace).collect();
    words.join(" ")
}
