//! Lexer of KQL that also matches brackets. Accepts any text: unknown characters become symbols, and the text counts as broken.
//!
//! Makes one pass in O(n), without recursion.

use super::super::literal::unit_of_time;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenKind {
    /// A name, keyword or word operator (`where`, `mv-expand`, `!has`, `in~`), including names that start with a digit.
    Name,
    /// A name in brackets and quotes: `['My Table']`.
    Quoted,
    Text,
    Number,
    /// A number with a unit of time: `7d`.
    Duration,
    /// A typed literal: `datetime(2024-01-01)`, `int(5)`.
    Typed,
    Open,
    /// A closing bracket, even if unmatched.
    Close,
    Pipe,
    Semicolon,
    Comma,
    /// Any other sign: `==`, `..`, `*`.
    Symbol,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Token {
    pub(super) kind: TokenKind,
    pub(super) start: usize,
    pub(super) end: usize,
    /// For an opening bracket, index of the token that ends its group: the closing bracket, an outer one, or the number of tokens.
    pub(super) mate: usize,
    /// For an opening bracket, whether it directly contains a pipe.
    pub(super) piped: bool,
}

#[derive(Debug)]
pub(super) struct Lexed {
    /// Tokens in order, without comments and white space.
    pub(super) tokens: Vec<Token>,
    /// Whether the text has lexical errors: an unclosed string, an unmatched bracket, an unknown character.
    pub(super) broken: bool,
}

/// Operators with hyphens that are one token each.
const HYPHENATED: &[&str] = &[
    "execute-and-cache",
    "graph-mark-components",
    "graph-match",
    "graph-merge",
    "graph-shortest-paths",
    "graph-to-table",
    "graph-where-edges",
    "graph-where-nodes",
    "macro-expand",
    "make-graph",
    "make-series",
    "mv-apply",
    "mv-expand",
    "parse-kv",
    "parse-where",
    "partition-by",
    "project-away",
    "project-by-names",
    "project-keep",
    "project-rename",
    "project-reorder",
    "project-smart",
    "sample-distinct",
    "top-hitters",
    "top-nested",
];

/// Types of literals written `type(value)` with a raw value.
const TYPED: &[&str] = &[
    "bool", "boolean", "date", "datetime", "decimal", "double", "guid", "int", "long", "real",
    "time", "timespan", "uniqueid", "uuid",
];

/// Keywords that a bracketed name may follow without a space. After other names, brackets are an index.
const BEFORE_NAMES: &[&str] = &[
    "and", "by", "distinct", "extend", "on", "or", "project", "where",
];

/// Symbols of several characters, longest first.
const SIGNS: &[&str] = &[
    "==", "!=", "<>", "<=", ">=", "=~", "!~", "=>", "..", "<|", "--", "::",
];

/// White space in KQL, including invisible characters.
fn is_space(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\u{200B}' | '\u{FEFF}')
}

fn starts_name(c: char) -> bool {
    c.is_alphabetic() || matches!(c, '_' | '$')
}

fn in_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Length of the longest prefix with characters that satisfy `test`.
fn run(text: &str, test: impl Fn(char) -> bool) -> usize {
    text.find(|c| !test(c)).unwrap_or(text.len())
}

pub(super) fn lex(text: &str) -> Lexed {
    let mut lexer = Lexer {
        text,
        at: 0,
        lexed: Lexed {
            tokens: Vec::with_capacity(text.len() / 5),
            broken: false,
        },
        open: Vec::new(),
        waiting: [0; 3],
    };
    while let Some(next) = text[lexer.at..].chars().next() {
        lexer.step(next);
    }
    lexer.finish()
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    lexed: Lexed,
    open: Vec<usize>,
    /// Open brackets per form, so that an unmatched closing bracket needs no search.
    waiting: [usize; 3],
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn push(&mut self, kind: TokenKind, length: usize) {
        let start = self.at;
        self.at += length;
        self.lexed.tokens.push(Token {
            kind,
            start,
            end: self.at,
            mate: 0,
            piped: false,
        });
    }

    fn step(&mut self, next: char) {
        match next {
            c if is_space(c) => self.at += run(self.rest(), is_space),
            '/' if self.rest().starts_with("//") => {
                self.at += run(self.rest(), |c| c != '\n' && c != '\r')
            }
            '#' if self.starts_line() => self.at += run(self.rest(), |c| c != '\n' && c != '\r'),
            '"' | '\'' | '@' | '`' | '~' | 'h' | 'H' if self.string() => {}
            '[' if self.quoted_name() => {}
            c if c.is_ascii_digit() => self.number(),
            c if starts_name(c) => self.name(),
            '!' if self.rest()[1..].starts_with(|c: char| c.is_ascii_alphabetic()) => {
                self.negated()
            }
            '(' | '[' | '{' => self.open(next),
            ')' | ']' | '}' => self.close(next),
            '|' => {
                if let Some(&group) = self.open.last() {
                    self.lexed.tokens[group].piped = true;
                }
                self.push(TokenKind::Pipe, 1);
            }
            ';' => self.push(TokenKind::Semicolon, 1),
            ',' => self.push(TokenKind::Comma, 1),
            other => self.symbol(other),
        }
    }

    /// Whether only white space precedes on the line. There, `#` starts a directive for the client.
    fn starts_line(&self) -> bool {
        let last = self.lexed.tokens.last().map_or(0, |token| token.end);
        let between = &self.text[last..self.at];
        last == 0 || between.contains(['\n', '\r'])
    }

    fn string(&mut self) -> bool {
        let rest = self.rest();
        let hidden = usize::from(rest.starts_with(['h', 'H']));
        let bare = &rest[hidden..];
        for fence in ["```", "~~~"] {
            if let Some(inside) = bare.strip_prefix(fence) {
                let length = match inside.find(fence) {
                    Some(end) => hidden + end + 2 * fence.len(),
                    None => {
                        self.lexed.broken = true;
                        rest.len()
                    }
                };
                self.push(TokenKind::Text, length);
                return true;
            }
        }
        let verbatim = bare.starts_with('@');
        let bare = &bare[usize::from(verbatim)..];
        let Some(quote) = bare.chars().next().filter(|c| matches!(c, '"' | '\'')) else {
            return false;
        };
        let (inside, closed) = quoted_length(&bare[1..], quote, verbatim);
        let length = hidden + usize::from(verbatim) + 1 + inside;
        self.lexed.broken |= !closed;
        self.push(TokenKind::Text, length);
        true
    }

    /// Lexes `['name']` if a name may occur here. After a name or a closing bracket it would be an index.
    fn quoted_name(&mut self) -> bool {
        let after_value = self.lexed.tokens.last().is_some_and(|last| {
            let value = match last.kind {
                TokenKind::Name => !BEFORE_NAMES.contains(&&self.text[last.start..last.end]),
                TokenKind::Quoted | TokenKind::Close | TokenKind::Text | TokenKind::Typed => true,
                TokenKind::Number
                | TokenKind::Duration
                | TokenKind::Open
                | TokenKind::Pipe
                | TokenKind::Semicolon
                | TokenKind::Comma
                | TokenKind::Symbol => false,
            };
            value && last.end == self.at
        });
        if after_value {
            return false;
        }
        let rest = self.rest();
        let inside = &rest[1..];
        let lead = run(inside, is_space);
        let Some(quote) = inside[lead..]
            .chars()
            .next()
            .filter(|c| matches!(c, '"' | '\''))
        else {
            return false;
        };
        let (length, closed) = quoted_length(&inside[lead + 1..], quote, false);
        let end = lead + 1 + length;
        let trail = run(&inside[end..], is_space);
        let after = &inside[end + trail..];
        if !closed || !after.starts_with(']') {
            return false;
        }
        let length = rest.len() - after.len() + 1;
        self.push(TokenKind::Quoted, length);
        true
    }

    fn number(&mut self) {
        let rest = self.rest();
        let word = run(rest, in_name);
        let digits = run(rest, |c| c.is_ascii_digit());
        let suffix = &rest[digits..word];
        let hexadecimal = rest.starts_with("0x") || rest.starts_with("0X");
        if hexadecimal && word > 2 && rest[2..word].bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return self.push(TokenKind::Number, word);
        }
        let mut end = digits;
        let fraction = rest[digits..]
            .strip_prefix('.')
            .map_or(0, |part| run(part, |c| c.is_ascii_digit()));
        if suffix.is_empty() && fraction > 0 {
            end = digits + 1 + fraction;
        }
        let exponent = exponent_length(&rest[end..]);
        if exponent > 0 && !rest[end + exponent..].starts_with(in_name) {
            return self.push(TokenKind::Number, end + exponent);
        }
        let letters = run(&rest[end..], in_name);
        if letters == 0 {
            return self.push(TokenKind::Number, end);
        }
        let unit = &rest[end..end + letters];
        if unit.bytes().all(|byte| byte.is_ascii_lowercase()) && unit_of_time(unit).is_some() {
            return self.push(TokenKind::Duration, end + letters);
        }
        if end > digits {
            return self.push(TokenKind::Number, end);
        }
        self.push(TokenKind::Name, word);
    }

    /// Lexes a name, an operator with hyphens, or a typed literal.
    fn name(&mut self) {
        let rest = self.rest();
        let first = rest.chars().next().map_or(0, char::len_utf8);
        let mut length = first + run(&rest[first..], in_name);
        if rest[length..].starts_with('-') {
            let whole = (HYPHENATED.iter())
                .find(|name| rest.starts_with(**name) && !rest[name.len()..].starts_with(in_name));
            length = whole.map_or(length, |name| name.len());
        }
        if &rest[..length] == "in"
            && rest[length..].starts_with('~')
            && !rest[length..].starts_with("~~~")
        {
            length += 1;
        }
        if TYPED.contains(&&rest[..length]) {
            let gap = run(&rest[length..], is_space);
            if let Some(value) = rest[length + gap..].strip_prefix('(') {
                let inside = run(value, |c| !matches!(c, ')' | '(' | '\n' | '\r' | '|' | ';'));
                if value[inside..].starts_with(')') {
                    return self.push(TokenKind::Typed, length + gap + 1 + inside + 1);
                }
            }
        }
        self.push(TokenKind::Name, length);
    }

    fn negated(&mut self) {
        let rest = self.rest();
        let mut length = 1 + run(&rest[1..], in_name);
        if &rest[..length] == "!in" && rest[length..].starts_with('~') {
            length += 1;
        }
        self.push(TokenKind::Name, length);
    }

    fn open(&mut self, bracket: char) {
        self.open.push(self.lexed.tokens.len());
        self.waiting[form(bracket)] += 1;
        self.push(TokenKind::Open, 1);
    }

    /// Closes the innermost group of this form and all groups within it. An unmatched bracket becomes a token without a group.
    fn close(&mut self, bracket: char) {
        if self.waiting[form(bracket)] == 0 {
            self.lexed.broken = true;
            return self.push(TokenKind::Close, 1);
        }
        let here = self.lexed.tokens.len();
        while let Some(group) = self.open.pop() {
            self.lexed.tokens[group].mate = here;
            let opened = self.text[self.lexed.tokens[group].start..].chars().next();
            let opened = opened.map_or(0, form);
            self.waiting[opened] -= 1;
            if opened == form(bracket) {
                break;
            }
            self.lexed.broken = true;
        }
        self.push(TokenKind::Close, 1);
    }

    fn symbol(&mut self, first: char) {
        let known = SIGNS.iter().find(|sign| self.rest().starts_with(**sign));
        if known.is_none()
            && !matches!(
                first,
                '=' | '<' | '>' | '+' | '-' | '*' | '/' | '%' | '.' | ':' | '!' | '?' | '#' | '@'
            )
        {
            self.lexed.broken = true;
        }
        self.push(
            TokenKind::Symbol,
            known.map_or(first.len_utf8(), |sign| sign.len()),
        );
    }

    fn finish(mut self) -> Lexed {
        let end = self.lexed.tokens.len();
        for group in self.open {
            self.lexed.tokens[group].mate = end;
            self.lexed.broken = true;
        }
        self.lexed
    }
}

fn form(bracket: char) -> usize {
    match bracket {
        '(' | ')' => 0,
        '[' | ']' => 1,
        _ => 2,
    }
}

/// Returns the bytes from after the opening quote to after the closing one or the end of the line, and whether the string is closed.
fn quoted_length(inside: &str, quote: char, verbatim: bool) -> (usize, bool) {
    let mut chars = inside.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' if !verbatim => {
                chars.next_if(|(_, next)| !matches!(next, '\n' | '\r'));
            }
            c if c == quote => {
                if verbatim && chars.peek().is_some_and(|(_, next)| *next == quote) {
                    chars.next();
                } else {
                    return (at + 1, true);
                }
            }
            '\n' | '\r' => return (at, false),
            _ => {}
        }
    }
    (inside.len(), false)
}

/// Length of `e5`, `e-5` or `E+5` at the start of a text, or zero.
fn exponent_length(text: &str) -> usize {
    let Some(rest) = text.strip_prefix(['e', 'E']) else {
        return 0;
    };
    let signed = usize::from(rest.starts_with(['+', '-']));
    match run(&rest[signed..], |c| c.is_ascii_digit()) {
        0 => 0,
        digits => 1 + signed + digits,
    }
}
