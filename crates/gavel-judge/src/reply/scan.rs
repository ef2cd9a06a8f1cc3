//! Tells a reply's objects, prose and thoughts apart, in one pass over the text.
//!
//! A closing tag of thoughts makes everything before it thoughts, because servers often put the opening one into the prompt.
//! One that was never opened and ends the reply closes nothing. Tags within an object's strings are text of the object.

use serde_json::Value;

use crate::json;

/// So many times its length may be read in vain: prose full of braces must not cost the square of its length.
const MOST_WORK: usize = 8;
/// The longest tag, in bytes.
const LONGEST_TAG: usize = 100;

/// The tags of thoughts, in lower case.
const THOUGHTS: [(&str, &str); 14] = [
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<thoughts>", "</thoughts>"),
    ("<reasoning>", "</reasoning>"),
    ("<reflection>", "</reflection>"),
    ("<seed:think>", "</seed:think>"),
    ("<mm:think>", "</mm:think>"),
    ("[think]", "[/think]"),
    ("◁think▷", "◁/think▷"),
    ("<|start_thinking|>", "<|end_thinking|>"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("<|inner_prefix|>", "<|inner_suffix|>"),
    // Gemma writes `<|channel>thought` .. `<channel|>`.
    ("<|channel>", "<channel|>"),
];

#[derive(Default)]
pub(super) struct Scanned {
    /// Objects outside the thoughts, none inside another.
    pub(super) objects: Vec<Value>,
    /// Whether there is any text beside objects, thoughts, tags and fences.
    has_text: bool,
    /// Whether there are words among it.
    pub(super) has_words: bool,
    /// Whether words are on the line before the last object, or behind it: then it may be quoted.
    pub(super) may_be_quoted: bool,
    /// Whether there are words on the current line.
    line_has_words: bool,
    /// What is wrong with the longest text that begins like an object and isn't JSON.
    pub(super) broken: Option<String>,
    /// Whether thoughts were opened and never closed.
    pub(super) is_thinking: bool,
    /// Whether there may be more objects than were tried.
    pub(super) has_more: bool,
    /// Where the longest such text begins, how far it was read, and why no further.
    longest: Option<(usize, usize, json::NotJson)>,
}

impl Scanned {
    fn push_prose(&mut self, text: &str) {
        self.has_text |= !text.trim().is_empty();
        let has_words = text.contains(char::is_alphanumeric);
        self.has_words |= has_words;
        self.may_be_quoted |= has_words && !self.objects.is_empty();
        let line = text.rsplit('\n').next().unwrap_or_default();
        let is_same_line = line.len() == text.len();
        self.line_has_words =
            line.contains(char::is_alphanumeric) || is_same_line && self.line_has_words;
    }

    /// Whether there is no text outside thoughts and tags.
    pub(super) fn is_blank(&self) -> bool {
        self.objects.is_empty() && !self.has_text
    }
}

/// Returns the parts of a text.
pub(super) fn scan(text: &str) -> Scanned {
    let mut scanned = Scanned::default();
    // The text before a closing tag that closes nothing: the answer, if nothing stands behind.
    let mut before_stray = None;
    let mut work_left = text.len().saturating_mul(MOST_WORK);
    let mut rest = final_channel(text);
    let mut at = text.len() - rest.len();
    while let Some(next) = rest.find(['{', '<', '[', '`', '◁']) {
        let (before, here) = rest.split_at(next);
        at += next;
        let mut length = here.chars().next().map_or(1, char::len_utf8);
        if !scanned.is_thinking {
            scanned.push_prose(before);
        }
        match Mark::read(here) {
            Some((Mark::Closes, tag)) => {
                // A broken draft is no fault of the answer.
                let closed = std::mem::take(&mut scanned);
                before_stray = (!closed.is_thinking).then_some(closed);
                length = tag;
            }
            _ if scanned.is_thinking => {}
            Some((Mark::Opens, tag)) => (scanned.is_thinking, length) = (true, tag),
            Some((Mark::Markup, tag)) => length = tag,
            None if here.starts_with('{') && work_left > 0 => {
                match json::leading(here.as_bytes()) {
                    Ok(leading) => {
                        length = leading.length;
                        scanned.objects.push(leading.value);
                        scanned.may_be_quoted = scanned.line_has_words;
                    }
                    Err(error) => {
                        let read = offset(here, &error);
                        work_left = work_left.saturating_sub(read);
                        let longest = scanned.longest.as_ref().map_or(0, |(_, read, _)| *read);
                        if begins_like_an_object(here) && read > longest {
                            scanned.longest = Some((at, read, error));
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
    if let (true, Some(closed)) = (scanned.is_blank() && !scanned.is_thinking, before_stray) {
        scanned = closed;
    }
    let longest = scanned.longest.take();
    scanned.broken = longest.map(|(at, _, error)| fault(text, at, &error));
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
        let begins = |tag: &str| {
            let start = text.get(..tag.len());
            start.is_some_and(|start| start.eq_ignore_ascii_case(tag))
        };
        for (opens, closes) in THOUGHTS {
            if begins(opens) {
                return Some((Self::Opens, opens.len()));
            }
            if begins(closes) {
                return Some((Self::Closes, closes.len()));
            }
        }
        let name = text.strip_prefix('<')?.split_once('>')?.0;
        let plain = |c: char| c.is_alphabetic() || "/|｜_-:▁".contains(c);
        let is_tag = !name.is_empty() && name.chars().all(plain);
        is_tag.then_some((Self::Markup, name.len() + 2))
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
