//! Checks the basic grammar of KQL: operators need operands. Accepts everything that it can't classify.

use super::lexer::TokenKind;
use super::operator::Operator;
use super::source::Span;
use super::{Reader, predicates};

/// Keywords between the operands of an operator: `summarize x by y`, `join T on x`. In place of an operand they are names.
const SEPARATORS: &[&str] = &[
    "as", "by", "default", "from", "granny", "limit", "nulls", "of", "on", "step", "to", "with",
];

/// Further separators in `find in (T) where x project y`.
const PARTS_OF_FIND: &[&str] = &["project", "project-away", "project-smart", "where"];

/// Operators and statements with a special grammar that allows adjacent operands.
const LOOSE: &[&str] = &[
    "alias",
    "declare",
    "execute-and-cache",
    "graph-match",
    "graph-shortest-paths",
    "macro-expand",
    "make-graph",
    "parse",
    "parse-where",
    "restrict",
    "scan",
    "set",
    "top-nested",
];

/// Keywords that start a statement or a pipeline but aren't operators.
const HEADS: &[&str] = &["let", "range"];

/// Sources with a list of columns, which may have a trailing comma.
const SCHEMED: &[&str] = &["datatable", "externaldata", "external_data"];

/// Operators that need no operands.
const ALONE: &[&str] = &[
    "consume",
    "count",
    "getschema",
    "project",
    "serialize",
    "summarize",
];

/// Operators with a required keyword and operands after it.
const REQUIRED: &[(&str, &str)] = &[
    ("lookup", "on"),
    ("make-series", "on"),
    ("order", "by"),
    ("parse", "with"),
    ("parse-kv", "as"),
    ("parse-where", "with"),
    ("reduce", "by"),
    ("sample-distinct", "of"),
    ("sort", "by"),
    ("summarize", "by"),
    ("top", "by"),
    ("top-hitters", "of"),
];

/// Previous token on the same level of brackets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Last {
    Start,
    /// Name of an operator, with its settings.
    Head,
    /// A name, a literal or a group.
    Operand,
    /// A string. Adjacent strings are concatenated.
    Text,
    /// `*`: all columns, part of a pattern, or multiplication.
    Star,
    /// Binary operator.
    Operator,
    /// Needs an operand after it.
    Sign,
    Separator,
    Comma,
    Other,
}

impl Last {
    fn is_operand(self) -> bool {
        matches!(self, Self::Operand | Self::Text)
    }

    fn is_open(self) -> bool {
        matches!(
            self,
            Self::Operator | Self::Sign | Self::Separator | Self::Comma
        )
    }
}

#[derive(Clone, Copy)]
struct Level<'a> {
    last: Last,
    within: &'a str,
    /// Whether it is a bracketed list, which may have a trailing comma.
    listed: bool,
}

impl Level<'_> {
    fn is_loose(self) -> bool {
        LOOSE.contains(&self.within)
    }

    fn may_end(self) -> bool {
        self.is_loose() || !self.last.is_open() || (self.listed && self.last == Last::Comma)
    }
}

impl<'a> Reader<'a> {
    /// Returns false if a parser would reject the text. O(n).
    pub(super) fn is_sound(&self) -> bool {
        let whole = self.source.all_tokens();
        let start = Level {
            last: Last::Start,
            within: "",
            listed: false,
        };
        let (mut level, mut around) = (start, Vec::new());
        let mut at = whole.start;
        while let Some(kind) = self.source.kind(at, &whole) {
            let word = self.source.word(at);
            let ends = matches!(
                kind,
                TokenKind::Close | TokenKind::Pipe | TokenKind::Semicolon
            );
            if ends && !level.may_end() {
                return false;
            }
            let is_head = !level.last.is_operand() && level.last != Last::Head;
            match kind {
                TokenKind::Open => {
                    around.push(level);
                    level.last = Last::Start;
                    level.listed =
                        word == "[" || (at > 0 && SCHEMED.contains(&self.source.word(at - 1)));
                }
                TokenKind::Close => {
                    level = around.pop().unwrap_or(level);
                    level.last = Last::Operand;
                }
                TokenKind::Semicolon => {
                    level = Level {
                        listed: level.listed,
                        ..start
                    }
                }
                TokenKind::Pipe => {
                    at = self.skip_head(at + 1, &whole, &mut level);
                    let is_alone = ALONE.contains(&level.within) || level.is_loose();
                    if !is_alone && self.is_end(at, &whole) {
                        return false;
                    }
                    continue;
                }
                TokenKind::Name if is_head && self.starts_operator(at, &whole) => {
                    at = self.skip_head(at, &whole, &mut level);
                    continue;
                }
                TokenKind::Name
                | TokenKind::Quoted
                | TokenKind::Text
                | TokenKind::Number
                | TokenKind::Duration
                | TokenKind::Typed
                | TokenKind::Comma
                | TokenKind::Symbol => {
                    let next = self.next(at, kind, &whole, level);
                    // `datatable(..) ["x"]` is lexed as a name but is a list.
                    let is_list = kind == TokenKind::Quoted && level.last == Last::Operand;
                    let is_right = (is_list || follows(level.last, next, word))
                        && (next != Last::Operator || self.is_tested(at, &whole));
                    if !level.is_loose() && !is_right {
                        return false;
                    }
                    level.last = next;
                }
            }
            at += 1;
        }
        level.may_end()
    }

    /// Whether an operator has its required keyword, given its tokens including its name.
    pub(super) fn is_complete(&self, span: &Span) -> bool {
        let word = self.source.word(span.start);
        let rest = span.start + 1..span.end;
        if word == "project-rename" {
            let mut items = self.source.split(&rest, TokenKind::Comma).into_iter();
            let is_new = |at: usize| self.source.is_sign(at, &rest, "=");
            return items.all(|item| self.source.find(&item, is_new).is_some());
        }
        let required = REQUIRED.iter().find(|(operator, _)| *operator == word);
        required.is_none_or(|(_, required)| {
            let is_it = |at: usize| self.source.is_name(at, &rest, required);
            // Other operators need something before the keyword: `top by a` has no count.
            let may_begin = ["order", "reduce", "sort", "summarize"].contains(&word);
            // The keyword is optional only in `summarize`.
            (self.source.find(&rest, is_it)).map_or(word == "summarize", |at| {
                at + 1 < rest.end && (may_begin || at > rest.start)
            })
        })
    }

    /// Whether the operand of a membership or range test is valid: `in 1` and `between (1, 2)` aren't.
    fn is_tested(&self, test: usize, span: &Span) -> bool {
        let kind = self.source.kind(test + 1, span);
        match self.source.word(test).trim_start_matches('!') {
            "between" => {
                let inside = self.source.inside(test + 1);
                kind == Some(TokenKind::Open)
                    && (self.source.find(&inside, |at| self.source.word(at) == "..")).is_some()
            }
            "in" | "in~" => !matches!(
                kind,
                Some(TokenKind::Text | TokenKind::Number | TokenKind::Duration | TokenKind::Typed)
            ),
            _ => true,
        }
    }

    fn is_end(&self, at: usize, span: &Span) -> bool {
        let kind = self.source.kind(at, span);
        matches!(
            kind,
            None | Some(TokenKind::Pipe | TokenKind::Semicolon | TokenKind::Close)
        )
    }

    /// Whether an unbracketed value starts at a token.
    fn has_operand(&self, at: usize, span: &Span) -> bool {
        match self.source.kind(at, span) {
            Some(TokenKind::Name) => !is_operator(self.source.word(at)),
            Some(
                TokenKind::Quoted
                | TokenKind::Text
                | TokenKind::Number
                | TokenKind::Duration
                | TokenKind::Typed,
            ) => true,
            _ => false,
        }
    }

    /// Whether a name starts a statement or an operator, because an operand follows directly.
    fn starts_operator(&self, at: usize, span: &Span) -> bool {
        let word = self.source.word(at);
        let is_known =
            Operator::named(word).is_some() || HEADS.contains(&word) || LOOSE.contains(&word);
        is_known && (self.has_operand(at + 1, span) || self.names_tables(word, at + 1, span))
    }

    /// Skips the name of an operator and its settings.
    fn skip_head(&self, at: usize, span: &Span, level: &mut Level<'a>) -> usize {
        level.last = Last::Head;
        level.within = self.source.word(at);
        let rest = (at + 1).min(span.end)..span.end;
        let rest = match level.within {
            "where" | "filter" | "extend" | "project" | "summarize" | "let" => {
                self.without_hints(&rest)
            }
            _ => self.without_settings(&rest),
        };
        match self.names_tables(level.within, rest.start, &rest) {
            true => self.source.after(rest.start + 1, &rest),
            false => rest.start,
        }
    }

    /// Whether this is the table list of `find in (T)` or `search in (T)`.
    fn names_tables(&self, word: &str, at: usize, span: &Span) -> bool {
        matches!(word, "find" | "search")
            && self.source.is_name(at, span, "in")
            && self.source.opens(at + 1, span, "(")
    }

    /// Classifies a token for its successor.
    fn next(&self, at: usize, kind: TokenKind, span: &Span, level: Level<'_>) -> Last {
        let word = self.source.word(at);
        match kind {
            TokenKind::Text => Last::Text,
            TokenKind::Comma => Last::Comma,
            TokenKind::Symbol if word == "*" => Last::Star,
            TokenKind::Symbol if predicates::is_comparison(word) && word != ":" => Last::Operator,
            TokenKind::Symbol if matches!(word, "+" | "-" | "/" | "%" | "." | "..") => Last::Sign,
            TokenKind::Symbol => Last::Other,
            TokenKind::Name if is_operator(word) => Last::Operator,
            TokenKind::Name if word.starts_with('!') => Last::Other,
            TokenKind::Name if self.separates(at, span, level) => Last::Separator,
            TokenKind::Name
            | TokenKind::Quoted
            | TokenKind::Number
            | TokenKind::Duration
            | TokenKind::Typed
            | TokenKind::Open
            | TokenKind::Close
            | TokenKind::Pipe
            | TokenKind::Semicolon => Last::Operand,
        }
    }

    fn separates(&self, at: usize, span: &Span, level: Level<'_>) -> bool {
        let word = self.source.word(at);
        // `render timechart title="x"`, `fork a = (..) b = (..)`.
        if matches!(level.within, "render" | "fork") && self.source.is_sign(at + 1, span, "=") {
            return true;
        }
        let is_known =
            SEPARATORS.contains(&word) || (level.within == "find" && PARTS_OF_FIND.contains(&word));
        let is_first = matches!(level.last, Last::Start | Last::Head)
            && (self.has_operand(at + 1, span) || self.source.opens(at + 1, span, "("));
        is_known && (is_first || level.last.is_operand() || level.last == Last::Star)
    }
}

fn is_operator(word: &str) -> bool {
    matches!(word, "and" | "or" | "regex") || predicates::is_test(word)
}

fn follows(last: Last, next: Last, word: &str) -> bool {
    let is_first = matches!(last, Last::Start | Last::Head);
    match next {
        Last::Operand => !last.is_operand() || matches!(word, "asc" | "desc"),
        Last::Text => last != Last::Operand,
        Last::Operator if word == "regex" => last == Last::Operator,
        Last::Operator if word == "=" && last == Last::Separator => true,
        Last::Operator | Last::Comma => !is_first && !last.is_open(),
        // Symbols that aren't operators here.
        Last::Other => !word.starts_with(['!', '#', '@']),
        Last::Start | Last::Head | Last::Star | Last::Sign | Last::Separator => true,
    }
}
