//! Reads the body of an error by its structure: the same way for all servers, and for gateways that wrap another server's error.

use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value};

use super::headers::duration;
use crate::json;
use gavel_outbound::seconds;

const MAX_DEPTH: usize = 8;
/// Limit of the entries read in a list; a validator may list an error for each message of a prompt.
const MAX_ENTRIES: usize = 20;
const MAX_MESSAGE_BYTES: usize = 4_000;
/// Limit of the text matched by `*`.
const MAX_GAP_BYTES: usize = 60;
const ENDS: [&str; 5] = [". ", "! ", "? ", "; ", "\n"];
const BEFORE_DELAYS: &str =
    "try again in |try again after |retry in |retry after |replenished in |please wait ";

#[derive(Debug, Default)]
pub(super) struct ErrorBody {
    /// Messages, the outermost first.
    messages: Vec<String>,
    /// The paths of `fields` and the messages, in lower case.
    text: String,
    /// Codes, types, statuses and reasons in lower case, and facts without a code: `#quota` (Google names one), `#quota-spent` (per day, or of
    /// 0), `#beyond-limit` (the request exceeds a limit, so that waiting doesn't help), `#model` (named as the field), `#flagged-input`
    /// (OpenRouter and Zhipu name the part of the prompt that a filter rejects).
    codes: Vec<String>,
    /// Paths of request fields named by the server.
    pub(super) fields: Vec<Vec<String>>,
    delay: Option<Duration>,
    /// The upstream's headers, if a gateway repeats them.
    pub(super) headers: HeaderMap,
    /// The model's text that the server rejected.
    pub(super) failed_generation: Option<String>,
}

impl ErrorBody {
    /// Reads a body, or the text of a proxy's page.
    pub(super) fn read(body: &[u8]) -> Self {
        let page = || without_markup(&String::from_utf8_lossy(body)).into();
        Self::of(&serde_json::from_slice(body).unwrap_or_else(|_| page()))
    }

    pub(super) fn of(value: &Value) -> Self {
        let mut read = Self::default();
        read.walk(value, 0);
        let fields = read.fields.concat().join(" ");
        read.text = format!("{fields} {}", read.messages.join("\n")).to_ascii_lowercase();
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

    pub(super) fn status(&self) -> Option<u16> {
        let mut numbers = self.codes.iter().filter_map(|code| code.parse().ok());
        numbers.find(|status| (400..=599).contains(status))
    }

    /// Returns the messages, otherwise the first code.
    pub(super) fn summary(&self) -> String {
        match (self.messages.as_slice(), self.codes.first()) {
            ([], None) => "no reason given".to_owned(),
            ([], Some(code)) => code.clone(),
            (messages, _) => messages.join("; "),
        }
    }

    /// Whether it contains a code, however its words are joined (`invalid_api_key`, `InvalidApiKey`).
    pub(super) fn has_code(&self, code: &str) -> bool {
        self.codes.iter().any(|said| joined(said) == joined(code))
    }

    /// Whether it contains a message or the status of an error.
    pub(super) fn has_words(&self) -> bool {
        !self.messages.is_empty() || self.status().is_some()
    }

    /// Whether its messages contain a pattern, which must be in lower case; `*` matches a part of a sentence.
    pub(super) fn mentions(&self, pattern: &str) -> bool {
        let (first, second) = pattern.split_once('*').unwrap_or((pattern, ""));
        self.text.match_indices(first).any(|(at, first)| {
            let (_, rest) = self.text.split_at(at + first.len());
            let near = rest.floor_char_boundary(MAX_GAP_BYTES + second.len());
            let between = rest.split_at(near).0.split_once(second);
            between.is_some_and(|(between, _)| !ENDS.iter().any(|end| between.contains(end)))
        })
    }

    /// Returns the place of a name in its messages, unless it is part of a longer name.
    pub(super) fn position_of(&self, name: &str) -> Option<usize> {
        let name = name.to_ascii_lowercase();
        let in_word = |c: char| c.is_alphanumeric() || c == '_';
        self.text.match_indices(&name).map(|(at, _)| at).find(|at| {
            let (before, rest) = self.text.split_at(*at);
            let after = rest.get(name.len()..).unwrap_or_default();
            !before.ends_with(in_word) && !after.starts_with(in_word)
        })
    }

    /// Returns the delay in a field, otherwise in a message.
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
        let list = value.as_array().into_iter().flatten();
        list.take(MAX_ENTRIES)
            .for_each(|value| self.walk(value, depth + 1));
        if let Some(map) = value.as_object() {
            self.object(map, depth);
        } else if let Some(text) = value.as_str() {
            self.string(text, depth);
        }
    }

    /// Reads the fields of an error. Others may quote the prompt.
    fn object(&mut self, map: &Map<String, Value>, depth: usize) {
        const CODES: &str = "code type status reason errortype errorcode errcode errno statuscode";
        const ERRORS: &str = "message msg errormessage errormsg errmsg statusmsg title faultstring detail details description \
            errordescription actionreason error errors innererror fault metadata raw baseresp providerspecificfields violations fieldviolations choices";
        let is = |keys: &str, key: &str| keys.split(' ').any(|known| known == key);
        for (key, value) in map {
            let text = value.as_str();
            match joined(key).as_str() {
                key if is(CODES, key) => {
                    let number = value.as_number().map(|code| code.to_string());
                    // AWS puts a namespace before the code.
                    let code = text.and_then(|code| code.rsplit('#').next());
                    let code = code.map(str::to_owned).or(number);
                    code.into_iter().for_each(|code| self.mark(&code));
                }
                "param" | "parameter" | "field" | "loc" => self.field(value),
                "quotaid" => {
                    self.mark("#quota");
                    if text.is_some_and(|id| id.contains("PerDay")) {
                        self.mark("#quota-spent");
                    }
                }
                "quotavalue" if text == Some("0") || value.as_f64() == Some(0.0) => {
                    self.mark("#quota-spent");
                }
                "flaggedinput" | "contentfilter" => self.mark("#flagged-input"),
                "retrydelay" => self.delay = text.and_then(duration),
                "retryafter" => self.delay = value.as_f64().map(seconds),
                "headers" => self.headers = headers_of(value),
                "failedgeneration" => self.failed_generation = text.map(str::to_owned),
                key if is(ERRORS, key) => self.walk(value, depth + 1),
                _ => {}
            }
        }
    }

    /// Reads `"response_format.json_schema"`, `["body", "max_tokens"]` or `"generation_config.response_schema"`.
    fn field(&mut self, value: &Value) {
        const CONTAINERS: [&str; 4] = ["body", "generation_config", "generationConfig", "None"];
        let listed = value.as_array().into_iter().flatten();
        let text = value.as_str().into_iter();
        let mut path: Vec<&str> = text.flat_map(|path| path.split(['.', '['])).collect();
        path.extend(listed.filter_map(Value::as_str));
        path.retain(|name| !CONTAINERS.contains(name));
        let fields = path.iter().map(|name| (*name).to_owned()).collect();
        match path.first() {
            None | Some(&"") => {}
            Some(&"model") => self.mark("#model"),
            Some(_) => self.fields.push(fields),
        }
    }

    /// Reads a text. If it contains an upstream's error as JSON, that is read, and the text around it as messages.
    fn string(&mut self, text: &str, depth: usize) {
        let mut opens = text.match_indices(['{', '[']).take(4);
        let upstream = opens.find_map(|(at, _)| {
            let (before, rest) = text.split_at(at);
            let read = json::leading(rest.as_bytes()).ok()?;
            let is_error = Self::of(&read.value).has_words();
            is_error.then_some((before, read.value, rest.get(read.length..)?))
        });
        let (before, upstream, after) = upstream.unwrap_or((text, Value::Null, ""));
        self.message(before);
        self.walk(&upstream, depth + 1);
        self.message(after);
    }

    fn message(&mut self, text: &str) {
        // Pydantic's errors quote the input, which is the prompt.
        let text = text.split("'input':").next().unwrap_or_default();
        let text = text.trim_start_matches(['.', ' ']);
        let text = text.trim_end_matches([' ', '-', ':']).trim();
        let text = text.split_at(text.floor_char_boundary(MAX_MESSAGE_BYTES)).0;
        if !text.is_empty() && !self.messages.iter().any(|known| known == text) {
            self.messages.push(text.to_owned());
        }
    }
}

/// Returns a name in lower case and without signs between its words.
fn joined(name: &str) -> String {
    name.replace(['_', '-', ' '], "").to_ascii_lowercase()
}

/// Returns the numbers directly after a text: `30,000`, `0.5`.
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
        let text = value.as_str().map_or(value.to_string(), str::to_owned);
        let name = HeaderName::try_from(name).ok()?;
        Some((name, HeaderValue::try_from(text).ok()?))
    });
    pairs.collect()
}

fn without_markup(body: &str) -> String {
    let mut pieces = body.split('<');
    let first = pieces.next();
    let behind_tags = pieces.filter_map(|piece| Some(piece.split_once('>')?.1));
    let texts = first.into_iter().chain(behind_tags);
    let words: Vec<&str> = texts.flat_map(str::split_whitespace).collect();
    words.join(" ")
}
