//! Trims a session's text in the order that the rules require.
//!
//! Works on the prompt's text and finds its parts by lines that no message can contain (`prompt` indents look-alikes). So a
//! prompt can be trimmed long after the session was dropped, and more than once.
//!
//! 1. Tool results are cut to a common length, the longest that fits, keeping heads and tails.
//! 2. Other messages between the first and the last are cut in the same way.
//! 3. Messages between the first and the last are dropped, from the middle of the session outwards.
//! 4. The first and the last message are cut.
//! 5. The final analysis is cut.
//!
//! Facts and the list of tools aren't trimmed, nor is the alert, which isn't part of this text. A line at each cut reports the trimmed
//! tokens. Deterministic.

mod mark;
mod part;

use crate::ModelFamily;
use part::{Part, PartKind};

/// Minimum tokens of a cut message without its mark, so that both ends remain readable.
const LEAST: u64 = 64;
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Trimmed {
    pub(super) text: String,
    /// Estimated tokens trimmed now.
    pub(super) gone: u64,
}

pub(super) struct Transcript<'a> {
    parts: Vec<Part<'a>>,
    family: ModelFamily,
    mark: u64,
}

#[derive(Clone, Copy)]
struct Caps {
    tool_results: u64,
    middle: u64,
    ends: u64,
    analysis: u64,
    /// Range of dropped messages, numbered from 1.
    out: Option<(u64, u64)>,
}

struct Ranges {
    first: u64,
    last: u64,
    middle: u64,
    count: u64,
}

impl Ranges {
    fn at(&self, by: u64) -> (u64, u64) {
        let low = self.middle.saturating_sub(by).max(self.first);
        (low, (self.middle + by).min(self.last))
    }

    fn widest(&self) -> Option<(u64, u64)> {
        self.count.checked_sub(1).map(|by| self.at(by))
    }
}

const UNCUT: Caps = Caps {
    tool_results: u64::MAX,
    middle: u64::MAX,
    ends: u64::MAX,
    analysis: u64::MAX,
    out: None,
};

impl<'a> Transcript<'a> {
    pub(super) fn parse(text: &'a str, family: ModelFamily) -> Self {
        let mut parts: Vec<Part<'a>> = Vec::new();
        let (mut at, mut begun) = (0, 0);
        for line in text.split_inclusive('\n') {
            if line.starts_with("===") && !mark::is_mark(line) && at > 0 {
                // The blank line above a head line belongs to it.
                let border = if text[..at].ends_with("\n\n") {
                    at - 1
                } else {
                    at
                };
                parts.push(Part::parse(&text[begun..border], family));
                begun = border;
            }
            at += line.len();
        }
        parts.push(Part::parse(&text[begun..], family));
        for place in [
            parts.iter().position(Part::is_message),
            parts.iter().rposition(Part::is_message),
        ] {
            if let Some(part) = place.and_then(|place| parts.get_mut(place))
                && part.kind == PartKind::Middle
            {
                part.kind = PartKind::End;
            }
        }
        Self {
            parts,
            family,
            // Includes the newline added after a body without one.
            mark: mark::most_tokens(family) + 1,
        }
    }

    /// Returns the text within `room` tokens, or the minimum possible size as the error.
    pub(super) fn fit(&self, room: u64) -> Result<Trimmed, u64> {
        let longest = self.parts.iter().map(|p| p.tokens_body).max().unwrap_or(0);
        // Each stage keeps the cuts of the previous ones.
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
        // A wider range can't increase the size.
        let wanted = (0..ranges.count).collect::<Vec<_>>().partition_point(|by| {
            let out = Some(ranges.at(*by));
            self.tokens(Caps { out, ..caps }) > room
        }) as u64;
        caps.out = ranges.widest();
        if wanted < ranges.count {
            let out = Some(ranges.at(wanted));
            return Ok(self.render(Caps { out, ..caps }));
        }
        if let Some(cap) = self.largest(longest, room, |cap| Caps { ends: cap, ..caps }) {
            return Ok(self.render(Caps { ends: cap, ..caps }));
        }
        caps.ends = LEAST;
        let analysis = |cap| Caps {
            analysis: cap,
            ..caps
        };
        match self.largest(longest, room, analysis) {
            Some(cap) => Ok(self.render(analysis(cap))),
            None => Err(self.tokens(analysis(LEAST))),
        }
    }

    pub(super) fn smallest(&self) -> u64 {
        self.tokens(Caps {
            tool_results: LEAST,
            middle: LEAST,
            ends: LEAST,
            analysis: LEAST,
            out: self.ranges().widest(),
        })
    }

    /// Returns the largest cap that makes the text fit. A smaller cap can't increase the size.
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

    /// Returns growing ranges of messages to drop, from the middle outwards, without the first and the last.
    fn ranges(&self) -> Ranges {
        let first = self.parts.iter().find(|p| p.is_message());
        let last = self.parts.iter().rfind(|p| p.is_message());
        let (first, last) = match (first, last) {
            (Some(first), Some(last)) => (first.number + 1, last.number.saturating_sub(1)),
            (None, _) | (_, None) => (1, 0),
        };
        let middle = first + last.saturating_sub(first) / 2;
        let more = (middle.saturating_sub(first)).max(last.saturating_sub(middle));
        Ranges {
            first,
            last,
            middle,
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
        // Dropped messages are contiguous and get one mark.
        let (mut out, mut numbers) = (0, None::<(u64, u64)>);
        while let Some(part) = parts.next() {
            if part.is_out(caps.out) {
                out += part.tokens_head + part.tokens_body;
                let (low, _) = *numbers.get_or_insert((part.number, part.number));
                let range = (low, part.number);
                if parts.peek().is_none_or(|next| !next.is_out(caps.out)) {
                    text.push_str(&mark::of_messages(range, out));
                    gone += out;
                }
                continue;
            }
            gone += self.push(&mut text, part, part.cap(caps));
        }
        Trimmed { text, gone }
    }

    /// Appends a part, cut if necessary. Returns the number of tokens trimmed.
    fn push(&self, text: &mut String, part: &Part<'_>, cap: u64) -> u64 {
        text.push_str(part.head);
        let body = part.body;
        if part.tokens_body <= cap.saturating_add(self.mark) {
            text.push_str(body);
            return 0;
        }
        let (head, tail) = self.family.ends(body, cap / 2);
        let gone = self.family.tokens(&body[head..tail]);
        text.push_str(&body[..head]);
        text.push_str(&mark::of_tokens(gone));
        text.push_str(&body[tail..]);
        if !text.ends_with('\n') {
            text.push('\n');
        }
        gone
    }
}
