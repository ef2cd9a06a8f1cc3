//! Tells a reply's objects, prose and thoughts apart, in one pass over the text.
//!
//! A closing tag of thoughts makes everything before it thoughts, because servers often put the opening one into the prompt.
//! Tags within an object's strings are text of the object.

use serde_json::Value;

use crate::json;

/// So many times its length may be read in vain: prose full of braces must not cost the square of its length.
const MOST_WORK: usize = 8;
/// The longest tag, in bytes.
const LONGEST_TAG: usize = 100;

pub(super) struct Scanned<'a> {
    /// Objects outside the thoughts, none inside another.
    pub(super) objects: Vec<Value>,
    /// The text around the objects, without thoughts and tags: before the first, between them, behind the last.
    around: Vec<Vec<&'a str>>,
    /// What is wrong with the longest text that begins like an object and isn't JSON.
    pub(super) broken: Option<String>,
    /// Whether thoughts were opened and never closed.
    pub(super) is_thinking: bool,
    /// Whether there may be more objects than were tried.
    pub(super) has_more: bool,
}

impl<'a> Scanned<'a> {
    fn nothing() -> Self {
        Self {
            objects: Vec::new(),
            around: vec![Vec::new()],
            broken: None,
            is_thinking: false,
            has_more: false,
        }
    }

    fn push_prose(&mut self, text: &'a str) {
        if let Some(last) = self.around.last_mut() {
            last.push(text);
        }
    }

    pub(super) fn prose(&self) -> String {
        let parts: Vec<String> = self.around.iter().map(|part| part.concat()).collect();
        parts.join(" ")
    }

    /// Whether there is no text outside thoughts and tags.
    pub(super) fn is_blank(&self) -> bool {
        self.objects.is_empty() && self.prose().trim().is_empty()
    }

    /// Whether there are words beside the objects.
    pub(super) fn has_prose(&self) -> bool {
        self.prose().contains(char::is_alphanumeric)
    }

    /// Whether the object begins a line, or ends the reply: one within a sentence is quoted.
    pub(super) fn stands_apart(&self) -> bool {
        let blank = |text: &str| !text.contains(char::is_alphanumeric);
        let before = self.around.first().map(|part| part.concat());
        let behind = self.around.last().map(|part| part.concat());
        let last_line = before.as_deref().and_then(|text| text.rsplit('\n').next());
        last_line.is_none_or(|line| line.trim().is_empty()) || behind.as_deref().is_none_or(blank)
    }
}

/// What a text holds.
pub(super) fn scan(text: &str) -> Scanned<'_> {
    let mut scanned = Scanned::nothing();
    let (mut longest, mut work_left) = (0, text.len().saturating_mul(MOST_WORK));
    let mut broken = None;
    let mut rest = final_channel(text);
    let mut at = text.len() - rest.len();
    while let Some(next) = rest.find(['{', '<', '[', '`', '◁']) {
        let (before, here) = rest.split_at(next);
        at += next;
        let mut length = here.chars().next().map_or(1, char::len_utf8);
        let mark = Mark::read(here);
        if !scanned.is_thinking {
            scanned.push_prose(before);
        }
        match mark {
            Some((Mark::Closes, tag)) => {
                // A broken draft is no fault of the answer.
                (scanned, length) = (Scanned::nothing(), tag);
                (broken, longest) = (None, 0);
            }
            _ if scanned.is_thinking => {}
            Some((Mark::Opens, tag)) => (scanned.is_thinking, length) = (true, tag),
            Some((Mark::Markup, tag)) => length = tag,
            None if here.starts_with('{') && work_left > 0 => {
                match json::leading(here.as_bytes()) {
                    Ok(leading) => {
                        length = leading.length;
                        scanned.objects.push(leading.value);
                        scanned.around.push(Vec::new());
                    }
                    Err(error) => {
                        let read = offset(here, &error);
                        work_left = work_left.saturating_sub(read);
                        if begins_like_an_object(here) && read > longest {
                            longest = read;
                            broken = Some((at, error));
                        }
                        scanned.push_prose("{");
                    }
                }
            }
            None => {
                scanned.has_more |= here.starts_with('{');
                scanned.push_prose(here.get(..length).unwrap_or_default());
            }
        }
        at += length;
        rest = here.get(length..).unwrap_or_default();
    }
    if !scanned.is_thinking {
        scanned.push_prose(rest);
    }
    scanned.broken = broken.map(|(at, error)| fault(text, at, &error));
    scanned
}

/// The answer of gpt-oss where its special tokens are lost, so that the names of its channels run into the text.
fn final_channel(text: &str) -> &str {
    match text.trim_start().starts_with("analysis") {
        true => text.rsplit("assistantfinal").next().unwrap_or(text),
        false => text,
    }
}

/// What a tag or a fence is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    /// Thoughts begin.
    Opens,
    /// Thoughts end.
    Closes,
    /// Nothing of the text: a fence with its language, a tag around the answer, a special token.
    Markup,
}

impl Mark {
    /// The mark that a text begins with, and its length.
    fn read(text: &str) -> Option<(Self, usize)> {
        if let Some(fenced) = text.strip_prefix("```") {
            let language = fenced.find(|c: char| !c.is_ascii_alphanumeric());
            return Some((Self::Markup, 3 + language.unwrap_or(fenced.len())));
        }
        let text = text.get(..text.floor_char_boundary(LONGEST_TAG))?;
        // gpt-oss: `<|channel|>analysis<|message|>` and `<|channel|>final<|message|>`.
        if let Some(channel) = text.strip_prefix("<|channel|>") {
            let (name, rest) = channel.split_once("<|message|>")?;
            let is_final = name.trim_start().starts_with("final");
            let mark = if is_final { Self::Closes } else { Self::Opens };
            return Some((mark, text.len() - rest.len()));
        }
        let (open, close) = match text.chars().next()? {
            '<' => ('<', '>'),
            '[' => ('[', ']'),
            '◁' => ('◁', '▷'),
            _ => return None,
        };
        let inner = text.strip_prefix(open)?;
        let end = inner.find(close)?;
        let name = inner.get(..end)?.to_lowercase();
        let plain = |c: char| c.is_alphabetic() || "/|_-:|▁".contains(c);
        if name.is_empty() || !name.chars().all(|c| plain(c) || c == '｜') {
            return None;
        }
        let length = open.len_utf8() + end + close.len_utf8();
        let mark = Self::named(&name);
        // `[note]` is text; a mark in brackets is one of thoughts.
        (open != '[' || mark != Self::Markup).then_some((mark, length))
    }

    /// What a tag of this name in lower case is: `think`, `/thinking`, `|end_of_thought|`, `seed:think`, `channel|` ..
    fn named(name: &str) -> Self {
        const THOUGHTS: [&str; 5] = ["think", "thought", "reason", "reflection", "inner_"];
        let bare = name.trim_matches(['|', '｜']);
        let is_closing =
            bare.starts_with('/') || bare.starts_with("end") || bare.ends_with("_suffix");
        // Gemma writes `<|channel>thought` .. `<channel|>`.
        let is_channel = bare == "channel";
        if !is_channel && !THOUGHTS.iter().any(|word| bare.contains(word)) {
            return Self::Markup;
        }
        match is_closing || is_channel && name.starts_with("channel") {
            true => Self::Closes,
            false => Self::Opens,
        }
    }
}

/// `{"` and `{ "`, which prose in braces doesn't begin with.
fn begins_like_an_object(text: &str) -> bool {
    let inner = text.get(1..).unwrap_or_default().trim_start();
    inner.starts_with('"')
}

/// How far a text was read before the error, in bytes.
fn offset(text: &str, error: &json::NotJson) -> usize {
    let lines = text
        .split_inclusive('\n')
        .take(error.line.saturating_sub(1));
    lines.map(str::len).sum::<usize>() + error.column
}

/// An error in the object at `at`, with its place in the whole text.
fn fault(text: &str, at: usize, error: &json::NotJson) -> String {
    let place = |at: usize| {
        let read = text.get(..text.floor_char_boundary(at)).unwrap_or_default();
        let line = read.matches('\n').count() + 1;
        let column = read.rsplit('\n').next().unwrap_or_default().chars().count();
        (line, column)
    };
    if error.is_cut_off {
        let (line, column) = place(at + 1);
        return format!(
            "the reply is not JSON: the object that begins at line {line}, column {column} never ends"
        );
    }
    let (line, column) = place(at + offset(text.get(at..).unwrap_or_default(), error));
    format!(
        "the reply is not JSON: {} at line {line}, column {column}",
        error.reason
    )
}

/// The numbers of a text, but for those that are part of a word, and for a scale's end (`72/100`, `72 out of 100`).
pub(super) fn numbers(text: &str) -> Vec<f64> {
    let mut found = Vec::new();
    let mut before = "";
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let at = text.len() - rest.len() + start;
        before = text.get(..at).unwrap_or(before);
        let digits = text.get(at..).unwrap_or_default();
        let end = digits.find(|c: char| !c.is_ascii_digit() && c != '.');
        let (number, after) = digits.split_at(end.unwrap_or(digits.len()));
        let in_word = before.ends_with(|c: char| c.is_alphabetic() || c == '_')
            || after.starts_with(|c: char| c.is_alphabetic() || c == '_');
        let of_scale = before.trim_end().ends_with('/') || before.trim_end().ends_with("out of");
        if let (false, false, Ok(number)) =
            (in_word, of_scale, number.trim_end_matches('.').parse())
        {
            found.push(number);
        }
        rest = after;
    }
    found
}
