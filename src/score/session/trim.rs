//! Makes a session's text smaller, in the order that the rules give: tool results first, then the messages in the middle.
//!
//! It works on the text that the judge is to read, since that tells its own parts by lines that no message can write
//! (`prompt` moves look-alikes in). So a prompt can be made smaller long after the session itself was let go, and twice.
//!
//! 1. Tool results are cut to one common length, the longest that fits: their heads and tails stay.
//! 2. The other messages between the first and the last are cut in the same way.
//! 3. Messages between the first and the last are left out whole, from the middle of the session outwards.
//! 4. The first and the last message are cut.
//!
//! Facts, the list of tools and the final analysis always stay whole (so does the alert, which isn't part of this text). A
//! line says at each place how much went. The same text and room give the same result; nothing here is drawn or timed.

use std::fmt::Write as _;

use super::prompt::MESSAGE;
use crate::judge::ModelFamily;

/// How a line begins that says what went.
const MARK: &str = "=== trimmed to fit the judge's context window, the agent had it:";
/// No message is cut to less than this, its mark apart: both ends still say something.
const LEAST: u64 = 64;
/// No session has more tokens or messages: bodies are bounded far below.
const LONGEST: u64 = 99_999_999;

/// A smaller text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Trimmed {
    /// The text.
    pub(super) text: String,
    /// About how many tokens of the session are not in it, over all cuts, earlier ones included.
    pub(super) gone: u64,
}

/// A text that may be made smaller: its parts, in order.
pub(super) struct Transcript<'a> {
    parts: Vec<Part<'a>>,
    family: ModelFamily,
    mark: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Facts, tools, final analysis.
    Whole,
    /// What a tool returned.
    ToolResult,
    /// Any other message in the middle.
    Middle,
    /// The first or the last message.
    End,
    /// The mark of messages that an earlier cut left out.
    LeftOut,
}

struct Part<'a> {
    kind: Kind,
    /// The line above it, with the blank line before that.
    head: &'a str,
    body: &'a str,
    /// Place in the session, from 1; for those left out, of the first and the last.
    numbers: (u64, u64),
    /// The mark of an earlier cut, as a range of the body.
    marked: Option<(usize, usize)>,
    /// What an earlier cut took.
    gone: u64,
    tokens_head: u64,
    tokens_body: u64,
}

/// How far each kind may be cut, and what is left out.
#[derive(Clone, Copy)]
struct Caps {
    tool_results: u64,
    middle: u64,
    ends: u64,
    /// Messages left out, as places from 1; `None` for none.
    out: Option<(u64, u64)>,
}

/// Ranges of messages, each wider than the one before.
struct Ranges {
    first: u64,
    last: u64,
    begin: (u64, u64),
    count: u64,
}

impl Ranges {
    fn at(&self, by: u64) -> (u64, u64) {
        let low = self.begin.0.saturating_sub(by).max(self.first);
        (low, (self.begin.1 + by).min(self.last))
    }

    fn widest(&self) -> Option<(u64, u64)> {
        self.count.checked_sub(1).map(|by| self.at(by))
    }
}

const UNCUT: Caps = Caps {
    tool_results: u64::MAX,
    middle: u64::MAX,
    ends: u64::MAX,
    out: None,
};

impl<'a> Transcript<'a> {
    /// Reads a text that `prompt` rendered, or one that was made smaller before.
    pub(super) fn of(text: &'a str, family: ModelFamily) -> Self {
        let mut parts: Vec<Part<'a>> = Vec::new();
        let (mut at, mut begun) = (0, 0);
        for line in text.split_inclusive('\n') {
            let opens = line.starts_with("===") && (!line.starts_with(MARK) || marks_out(line));
            if opens && at > 0 {
                // The blank line above a head line goes with it.
                let border = if text[..at].ends_with("\n\n") {
                    at - 1
                } else {
                    at
                };
                parts.push(Part::of(&text[begun..border], family));
                begun = border;
            }
            at += line.len();
        }
        parts.push(Part::of(&text[begun..], family));
        for place in [
            parts.iter().position(Part::is_message),
            parts.iter().rposition(Part::is_message),
        ] {
            if let Some(part) = place.and_then(|place| parts.get_mut(place))
                && part.kind == Kind::Middle
            {
                part.kind = Kind::End;
            }
        }
        // The longest mark there can be, and the two tokens that a cut may begin.
        let cut = family.tokens(&cut_mark(LONGEST));
        let out = family.tokens(&out_mark((LONGEST, LONGEST), LONGEST));
        Self {
            parts,
            family,
            mark: cut.max(out) + 2,
        }
    }

    /// The text in at most `room` tokens; else what the smallest one takes.
    pub(super) fn fit(&self, room: u64) -> Result<Trimmed, u64> {
        let longest = self.parts.iter().map(|p| p.tokens_body).max().unwrap_or(0);
        // Each stage keeps what the one before has cut.
        let mut caps = UNCUT;
        if let Some(cap) = self.largest(longest, room, |cap| Caps {
            tool_results: cap,
            ..caps
        }) {
            return Ok(self.render(Caps {
                tool_results: cap,
                ..caps
            }));
        }
        caps.tool_results = LEAST;
        if let Some(cap) = self.largest(longest, room, |cap| Caps {
            middle: cap,
            ..caps
        }) {
            return Ok(self.render(Caps {
                middle: cap,
                ..caps
            }));
        }
        caps.middle = LEAST;
        let ranges = self.ranges();
        // A wider range never makes a longer text.
        let wanted = (0..ranges.count).collect::<Vec<_>>().partition_point(|by| {
            let out = Some(ranges.at(*by));
            self.tokens(Caps { out, ..caps }) > room
        }) as u64;
        caps.out = ranges.widest();
        if wanted < ranges.count {
            let out = Some(ranges.at(wanted));
            return Ok(self.render(Caps { out, ..caps }));
        }
        match self.largest(longest, room, |cap| Caps { ends: cap, ..caps }) {
            Some(cap) => Ok(self.render(Caps { ends: cap, ..caps })),
            None => Err(self.tokens(Caps {
                ends: LEAST,
                ..caps
            })),
        }
    }

    /// What the smallest text takes.
    pub(super) fn smallest(&self) -> u64 {
        self.tokens(Caps {
            tool_results: LEAST,
            middle: LEAST,
            ends: LEAST,
            out: self.ranges().widest(),
        })
    }

    /// The largest cap under which the text fits; a smaller cap never makes a longer text.
    fn largest(&self, longest: u64, room: u64, caps: impl Fn(u64) -> Caps) -> Option<u64> {
        if self.tokens(caps(LEAST)) > room {
            return None;
        }
        let (mut fits, mut beyond) = (LEAST, longest.max(LEAST) + 1);
        while beyond - fits > 1 {
            let cap = fits + (beyond - fits) / 2;
            if self.tokens(caps(cap)) <= room {
                fits = cap;
            } else {
                beyond = cap;
            }
        }
        Some(fits)
    }

    /// Messages to leave out, ever more, from the middle outwards; never the first or the last.
    fn ranges(&self) -> Ranges {
        let first = self.parts.iter().find(|p| p.is_message());
        let last = self.parts.iter().rfind(|p| p.is_message());
        let (first, last) = match (first, last) {
            (Some(first), Some(last)) => (first.numbers.0 + 1, last.numbers.0.saturating_sub(1)),
            (None, _) | (_, None) => (1, 0),
        };
        // Those that are out already stay out.
        let out = self.parts.iter().find(|p| p.kind == Kind::LeftOut);
        let middle = first + last.saturating_sub(first) / 2;
        let begin = out.map_or((middle, middle), |p| p.numbers);
        let more = (begin.0.saturating_sub(first)).max(last.saturating_sub(begin.1));
        Ranges {
            first,
            last,
            begin,
            count: if last < first { 0 } else { more + 1 },
        }
    }

    fn tokens(&self, caps: Caps) -> u64 {
        let mut out = false;
        let parts = self.parts.iter().map(|part| {
            if part.is_out(caps.out) {
                out = true;
                return 0;
            }
            let cap = part.cap(caps).saturating_add(self.mark);
            part.tokens_head + part.tokens_body.min(cap)
        });
        let kept: u64 = parts.sum();
        kept + if out { self.mark } else { 0 }
    }

    fn render(&self, caps: Caps) -> Trimmed {
        let mut text = String::new();
        let mut gone = 0;
        let mut parts = self.parts.iter().peekable();
        // What is left out lies together: one mark for all of it.
        let (mut out, mut numbers) = (0, None::<(u64, u64)>);
        while let Some(part) = parts.next() {
            if part.is_out(caps.out) {
                let fresh = match part.kind {
                    Kind::LeftOut => 0,
                    Kind::Whole | Kind::ToolResult | Kind::Middle | Kind::End => {
                        part.tokens_head + part.tokens_body
                    }
                };
                out += fresh + part.gone;
                let (low, high) = numbers.unwrap_or(part.numbers);
                let range = (low.min(part.numbers.0), high.max(part.numbers.1));
                numbers = Some(range);
                if parts.peek().is_none_or(|next| !next.is_out(caps.out)) {
                    text.push_str(&out_mark(range, out));
                    gone += out;
                }
                continue;
            }
            gone += self.push(&mut text, part, part.cap(caps));
        }
        Trimmed { text, gone }
    }

    /// Appends a part, cut if need be; how many of its tokens are gone.
    fn push(&self, text: &mut String, part: &Part<'_>, cap: u64) -> u64 {
        text.push_str(part.head);
        let body = part.body;
        if part.tokens_body <= cap.saturating_add(self.mark) {
            text.push_str(body);
            return part.gone;
        }
        let (mut head, mut tail) = self.family.ends(body, cap / 2);
        let mut left_out = self.family.tokens(&body[head..tail]);
        if let Some((from, to)) = part.marked {
            // An earlier mark goes as a whole; it was nothing of the session's.
            left_out = left_out.saturating_sub(self.family.tokens(&body[from..to]));
            (head, tail) = (head.min(from), tail.max(to));
        }
        let gone = part.gone + left_out;
        text.push_str(&body[..head]);
        text.push_str(&cut_mark(gone));
        text.push_str(&body[tail..]);
        if !text.ends_with('\n') {
            text.push('\n');
        }
        gone
    }
}

impl<'a> Part<'a> {
    fn of(text: &'a str, family: ModelFamily) -> Self {
        let blank = usize::from(text.starts_with('\n'));
        let end = text[blank..]
            .find('\n')
            .map_or(text.len(), |at| blank + at + 1);
        let (head, body) = text.split_at(end);
        let line = &head[blank..];
        let (kind, numbers) = if line.starts_with(MARK) {
            (Kind::LeftOut, range(line))
        } else if let Some(rest) = line.strip_prefix(MESSAGE) {
            let number = number(rest);
            (kind_of(rest), (number, number))
        } else {
            (Kind::Whole, (0, 0))
        };
        let mark = || {
            let from = body.find(&format!("\n{MARK}"))? + 1;
            let length = body[from..].find('\n')? + 1;
            Some((from, from + length))
        };
        let marked = match kind {
            Kind::ToolResult | Kind::Middle | Kind::End => mark(),
            Kind::Whole | Kind::LeftOut => None,
        };
        let gone = match (kind, marked) {
            (Kind::LeftOut, _) => tokens_in_mark(line),
            (_, Some((from, to))) => tokens_in_mark(&body[from..to]),
            (_, None) => 0,
        };
        Self {
            kind,
            head,
            body,
            numbers,
            // The dots on both sides are the mark's.
            marked: marked.map(|(from, to)| {
                let dots = |at: usize, by: &str| body[at..].starts_with(by);
                let before = from.saturating_sub("…\n".len());
                let from = if body.is_char_boundary(before) && dots(before, "…\n") {
                    before
                } else {
                    from
                };
                (
                    from,
                    if dots(to, "…") {
                        to + "…".len()
                    } else {
                        to
                    },
                )
            }),
            gone,
            tokens_head: family.tokens(head),
            tokens_body: family.tokens(body),
        }
    }

    fn is_message(&self) -> bool {
        match self.kind {
            Kind::ToolResult | Kind::Middle | Kind::End => true,
            Kind::Whole | Kind::LeftOut => false,
        }
    }

    fn is_out(&self, out: Option<(u64, u64)>) -> bool {
        let Some((low, high)) = out else { return false };
        match self.kind {
            Kind::ToolResult | Kind::Middle | Kind::End | Kind::LeftOut => {
                low <= self.numbers.0 && self.numbers.1 <= high
            }
            Kind::Whole => false,
        }
    }

    fn cap(&self, caps: Caps) -> u64 {
        match self.kind {
            Kind::ToolResult => caps.tool_results,
            Kind::Middle => caps.middle,
            Kind::End => caps.ends,
            Kind::Whole | Kind::LeftOut => u64::MAX,
        }
    }
}

/// From what follows on `=== message `: `3/12 | role | tool name | time`. An assistant's message that names a tool is a
/// call of it; anybody else's, and a tool's own, is what it returned.
fn kind_of(head: &str) -> Kind {
    let mut fields = head.trim_end().split(" | ").skip(1);
    let role = fields.next().unwrap_or_default().to_ascii_lowercase();
    let names_a_tool = fields
        .next()
        .is_some_and(|field| field.starts_with("tool "));
    let is_tools = matches!(
        role.as_str(),
        "tool" | "function" | "tool_result" | "observation"
    );
    if is_tools || (names_a_tool && role != "assistant") {
        Kind::ToolResult
    } else {
        Kind::Middle
    }
}

fn cut_mark(gone: u64) -> String {
    format!("…\n{MARK} about {gone} tokens\n…")
}

fn out_mark((first, last): (u64, u64), gone: u64) -> String {
    let mut mark = String::new();
    // Writing to a String can't fail.
    let _ = writeln!(
        mark,
        "\n{MARK} messages {first} to {last}, about {gone} tokens"
    );
    mark
}

fn marks_out(line: &str) -> bool {
    line.strip_prefix(MARK)
        .is_some_and(|rest| rest.starts_with(" messages "))
}

fn tokens_in_mark(line: &str) -> u64 {
    line.rsplit("about ").next().map_or(0, number)
}

fn range(line: &str) -> (u64, u64) {
    let numbers = line
        .strip_prefix(MARK)
        .and_then(|rest| rest.strip_prefix(" messages "));
    let (first, rest) = numbers
        .and_then(|rest| rest.split_once(" to "))
        .unwrap_or(("0", "0"));
    (number(first), number(rest))
}

/// The number that a text begins with.
fn number(text: &str) -> u64 {
    let digits = text.split(|c: char| !c.is_ascii_digit()).next();
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}
