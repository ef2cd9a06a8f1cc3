//! Separates a reply's objects, prose and thinking in one pass over the text.
//!
//! All text before a closing tag is thinking, because servers often put the opening tag into the prompt. A closing tag at the end of the reply
//! without an opening one is ignored. Tags in an object's strings belong to the object.

use serde_json::Value;

use crate::json;

/// Limit of the bytes read without result, as a multiple of the text's length, so that many braces don't take quadratic time.
const MAX_WORK: usize = 8;
const MAX_TAG_BYTES: usize = 100;
const NO_JSON: &str = "the reply is not JSON; expected one JSON object and nothing else";
const EMPTY: &str = "the reply is empty; expected one JSON object";
const UNCLOSED: &str =
    "the reply holds nothing but thoughts, which never end; expected one JSON object behind them";
const SEVERAL: &str = "the reply holds more than one JSON object that could be the answer; expected one and nothing else";

/// Tags of thinking, in lower case. Gemma writes `<|channel>thought` .. `<channel|>`.
const OPENS: &str = "<think> <thinking> <thought> <thoughts> <reasoning> <reflection> <seed:think> <mm:think> [think] ◁think▷ \
    <|start_thinking|> <|begin_of_thought|> <|inner_prefix|> <|channel>";
const CLOSES: &str = "</think> </thinking> </thought> </thoughts> </reasoning> </reflection> </seed:think> </mm:think> [/think] \
    ◁/think▷ <|end_thinking|> <|end_of_thought|> <|inner_suffix|> <channel|>";

#[derive(Default)]
pub(super) struct Scanned {
    /// The last object outside thinking and other objects.
    object: Option<Value>,
    /// Whether there are, or may be, objects that differ from it.
    has_others: bool,
    /// Whether there is text outside objects, thinking, tags and fences.
    has_text: bool,
    /// Whether that text contains letters or digits.
    pub(super) has_words: bool,
    /// Whether letters or digits are before the last object on its line, or after it.
    pub(super) may_be_quoted: bool,
    line_has_words: bool,
    /// Error in the longest invalid object.
    pub(super) broken: Option<String>,
    /// Whether thinking was opened and not closed.
    is_thinking: bool,
    /// Start of the longest invalid object, the place of the error, and the error.
    longest: Option<(usize, usize, json::NotJson)>,
}

impl Scanned {
    pub(super) fn one(&self) -> Result<&Value, String> {
        let why = match &self.object {
            Some(object) if !self.has_others => return Ok(object),
            Some(_) => SEVERAL,
            None if self.is_thinking => UNCLOSED,
            None if self.has_text => NO_JSON,
            None => EMPTY,
        };
        Err(self.broken.clone().unwrap_or_else(|| why.to_owned()))
    }

    fn push_prose(&mut self, text: &str) {
        self.has_text |= !text.trim().is_empty();
        let has_words = text.contains(char::is_alphanumeric);
        self.has_words |= has_words;
        self.may_be_quoted |= has_words && self.object.is_some();
        let line = text.rsplit('\n').next().unwrap_or_default();
        let is_same_line = line.len() == text.len();
        self.line_has_words =
            line.contains(char::is_alphanumeric) || is_same_line && self.line_has_words;
    }

    fn push_object(&mut self, object: Value) {
        self.has_others |= self.object.as_ref().is_some_and(|known| *known != object);
        self.object = Some(object);
        self.may_be_quoted = self.line_has_words;
    }
}

pub(super) fn scan(text: &str) -> Scanned {
    // Some gateways encode the reply twice.
    let decoded = serde_json::from_str::<String>(text);
    let text = decoded.as_deref().unwrap_or(text);
    let mut scanned = Scanned::default();
    // The text before a closing tag without an opening one: the answer if the rest is empty.
    let mut before_stray = None;
    let mut work_left = text.len().saturating_mul(MAX_WORK);
    // The answer of gpt-oss if its special tokens are missing, so that the names of its channels are part of the text.
    let has_channels = text.trim_start().starts_with("analysis");
    let answer = text.rsplit("assistantfinal").next();
    let mut rest = answer.filter(|_| has_channels).unwrap_or(text);
    while let Some(next) = rest.find(['{', '<', '[', '`', '~', '◁']) {
        let (before, here) = rest.split_at(next);
        let mut length = here.chars().next().map_or(1, char::len_utf8);
        if !scanned.is_thinking {
            scanned.push_prose(before);
        }
        match Mark::read(here) {
            Some((Mark::ThoughtsClose, tag)) => {
                // Errors in a draft are ignored.
                let closed = std::mem::take(&mut scanned);
                before_stray = (!closed.is_thinking).then_some(closed);
                length = tag;
            }
            _ if scanned.is_thinking => {}
            Some((Mark::ThoughtsOpen, tag)) => (scanned.is_thinking, length) = (true, tag),
            Some((Mark::Markup, tag)) => length = tag,
            None if here.starts_with('{') && work_left > 0 => {
                match json::leading_object(here.as_bytes()) {
                    Ok(leading) => {
                        length = leading.length;
                        scanned.push_object(leading.value);
                    }
                    Err(error) => {
                        let read = offset(here, &error);
                        work_left = work_left.saturating_sub(read);
                        let at = text.len() - here.len();
                        let longest = scanned.longest.as_ref();
                        let longest = longest.map_or(0, |(begin, end, _)| end - begin);
                        // `{"` and `{ "`, because prose in braces doesn't start like that.
                        let is_meant = here.split_at(1).1.trim_start().starts_with('"');
                        if is_meant && read > longest {
                            scanned.longest = Some((at, at + read, error));
                        }
                        scanned.push_prose("{");
                    }
                }
            }
            None => {
                scanned.has_others |= here.starts_with('{');
                scanned.push_prose(here.split_at(length).0);
            }
        }
        rest = here.split_at(length).1;
    }
    if !scanned.is_thinking {
        scanned.push_prose(rest);
    }
    let is_blank = scanned.object.is_none() && !scanned.has_text && !scanned.is_thinking;
    if let (true, Some(closed)) = (is_blank, before_stray) {
        scanned = closed;
    }
    let longest = scanned.longest.take();
    scanned.broken = longest.map(|(begin, end, error)| fault(text, begin, end, &error));
    scanned
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    ThoughtsOpen,
    ThoughtsClose,
    /// A fence with its language, a tag around the answer, or a special token.
    Markup,
}

impl Mark {
    /// Returns the mark at the start of a text and its length.
    fn read(text: &str) -> Option<(Self, usize)> {
        if let Some(fenced) = text.strip_prefix("```").or(text.strip_prefix("~~~")) {
            let language = fenced.find(|c: char| !c.is_ascii_alphanumeric());
            return Some((Self::Markup, 3 + language.unwrap_or(fenced.len())));
        }
        let text = text.split_at(text.floor_char_boundary(MAX_TAG_BYTES)).0;
        // gpt-oss: `<|channel|>analysis<|message|>` and `<|channel|>final<|message|>`.
        if let Some(channel) = text.strip_prefix("<|channel|>") {
            let (name, rest) = channel.split_once("<|message|>")?;
            let mark = match name.trim_start().starts_with("final") {
                true => Self::ThoughtsClose,
                false => Self::ThoughtsOpen,
            };
            return Some((mark, text.len() - rest.len()));
        }
        let lower = text.to_ascii_lowercase();
        for (tags, mark) in [(OPENS, Self::ThoughtsOpen), (CLOSES, Self::ThoughtsClose)] {
            if let Some(tag) = tags.split(' ').find(|tag| lower.starts_with(tag)) {
                return Some((mark, tag.len()));
            }
        }
        let name = text.strip_prefix('<')?.split_once('>')?.0;
        let plain = |c: char| c.is_alphabetic() || "/|｜_-:▁".contains(c);
        let is_tag = !name.is_empty() && name.chars().all(plain);
        is_tag.then_some((Self::Markup, name.len() + 2))
    }
}

/// Returns the number of bytes read before the error.
fn offset(text: &str, error: &json::NotJson) -> usize {
    let lines_before = error.line.saturating_sub(1);
    let lines = text.split_inclusive('\n').take(lines_before);
    lines.map(str::len).sum::<usize>() + error.column
}

/// Returns the error at `end` in the object that starts at `begin`, with its place in the reply.
fn fault(text: &str, begin: usize, end: usize, error: &json::NotJson) -> String {
    let is_cut_off = error.category == json::Category::Eof;
    let at = if is_cut_off { begin + 1 } else { end };
    let read = text.split_at(text.floor_char_boundary(at)).0;
    let line = read.matches('\n').count() + 1;
    let column = read.rsplit('\n').next().unwrap_or_default().chars().count();
    let (what, place) = match is_cut_off {
        true => ("the object that begins", "never ends"),
        false => (error.reason.as_str(), ""),
    };
    let fault = format!("the reply is not JSON: {what} at line {line}, column {column} {place}");
    fault.trim_end().to_owned()
}
