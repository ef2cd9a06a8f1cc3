//! Token access for the reader: spans of tokens, splitting within one level of brackets, values of literals.

use std::ops::Range;

use super::super::Literal;
use super::lexer::{Lexed, Token, TokenKind, lex};

pub(super) type Span = Range<usize>;

pub(super) struct Source<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    pub(super) broken: bool,
}

impl<'a> Source<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let Lexed { tokens, broken } = lex(text);
        Self {
            text,
            tokens,
            broken,
        }
    }

    pub(super) fn all_tokens(&self) -> Span {
        0..self.tokens.len()
    }

    pub(super) fn kind(&self, at: usize, span: &Span) -> Option<TokenKind> {
        (at < span.end)
            .then(|| self.tokens.get(at))
            .flatten()
            .map(|token| token.kind)
    }

    pub(super) fn word(&self, at: usize) -> &'a str {
        self.tokens
            .get(at)
            .map_or("", |token| &self.text[token.start..token.end])
    }

    pub(super) fn is_name(&self, at: usize, span: &Span, word: &str) -> bool {
        self.kind(at, span) == Some(TokenKind::Name) && self.word(at) == word
    }

    pub(super) fn is_sign(&self, at: usize, span: &Span, sign: &str) -> bool {
        matches!(
            self.kind(at, span),
            Some(TokenKind::Symbol | TokenKind::Open | TokenKind::Close)
        ) && self.word(at) == sign
    }

    pub(super) fn opens(&self, at: usize, span: &Span, bracket: &str) -> bool {
        self.kind(at, span) == Some(TokenKind::Open) && self.word(at) == bracket
    }

    pub(super) fn piped(&self, open: usize) -> bool {
        self.tokens.get(open).is_some_and(|token| token.piped)
    }

    pub(super) fn inside(&self, open: usize) -> Span {
        let end = self.tokens.get(open).map_or(open, |token| token.mate);
        open + 1..end.max(open + 1).min(self.tokens.len())
    }

    /// Index after the token, or after the group at it, within the span.
    pub(super) fn after(&self, at: usize, span: &Span) -> usize {
        let next = match self.tokens.get(at) {
            Some(token) if token.kind == TokenKind::Open => token.mate.max(at) + 1,
            _ => at + 1,
        };
        next.min(span.end)
    }

    /// Whether no space precedes the token.
    pub(super) fn adjoins(&self, at: usize) -> bool {
        match (
            at.checked_sub(1).and_then(|before| self.tokens.get(before)),
            self.tokens.get(at),
        ) {
            (Some(before), Some(token)) => before.end == token.start,
            _ => false,
        }
    }

    pub(super) fn slice(&self, span: &Span) -> &'a str {
        match (
            self.tokens.get(span.start),
            span.end
                .checked_sub(1)
                .and_then(|last| self.tokens.get(last)),
        ) {
            (Some(first), Some(last)) if first.start <= last.end => {
                &self.text[first.start..last.end]
            }
            _ => "",
        }
    }

    /// Returns the first token of the span, outside nested groups, that satisfies the test.
    pub(super) fn find(&self, span: &Span, test: impl Fn(usize) -> bool) -> Option<usize> {
        let mut at = span.start;
        while at < span.end {
            if test(at) {
                return Some(at);
            }
            at = self.after(at, span);
        }
        None
    }

    /// Splits a span at tokens of a kind, outside nested groups. Returns at least one span.
    pub(super) fn split(&self, span: &Span, kind: TokenKind) -> Vec<Span> {
        let mut parts = Vec::new();
        let mut start = span.start;
        let mut at = span.start;
        while at < span.end {
            if self.tokens[at].kind == kind {
                parts.push(start..at);
                start = at + 1;
            }
            at = self.after(at, span);
        }
        parts.push(start..span.end);
        parts
    }

    /// Unquoted name of a token; for a string, its value.
    pub(super) fn name(&self, at: usize) -> String {
        let word = self.word(at);
        match self.tokens.get(at).map(|token| token.kind) {
            Some(TokenKind::Quoted) => {
                let inner = word.trim_start_matches('[').trim_end_matches(']').trim();
                text_value(inner)
            }
            Some(TokenKind::Text) => text_value(word),
            _ => word.to_owned(),
        }
    }

    pub(super) fn literal(&self, at: usize) -> Option<Literal> {
        let word = self.word(at);
        match self.tokens.get(at)?.kind {
            TokenKind::Text => Some(Literal::Text(text_value(word))),
            TokenKind::Number => Some(Literal::number(word)),
            TokenKind::Duration => Literal::duration(word),
            TokenKind::Typed => Some(typed_value(word)),
            TokenKind::Name if word == "null" => Some(Literal::Null),
            TokenKind::Name => truth(word).map(Literal::Bool),
            TokenKind::Quoted
            | TokenKind::Open
            | TokenKind::Close
            | TokenKind::Pipe
            | TokenKind::Semicolon
            | TokenKind::Comma
            | TokenKind::Symbol => None,
        }
    }

    /// Source text of the tokens, without trailing semicolons.
    pub(super) fn token_texts(&self) -> impl Iterator<Item = &'a str> {
        let last = self
            .tokens
            .iter()
            .rposition(|token| token.kind != TokenKind::Semicolon);
        (0..last.map_or(0, |last| last + 1)).map(|at| self.word(at))
    }
}

/// Resolves the prefix, quotes and escapes of a string.
fn text_value(word: &str) -> String {
    let bare = word.trim_start_matches(['h', 'H']);
    for fence in ["```", "~~~"] {
        if let Some(inside) = bare.strip_prefix(fence) {
            return inside.strip_suffix(fence).unwrap_or(inside).to_owned();
        }
    }
    let verbatim = bare.starts_with('@');
    let bare = bare.trim_start_matches('@');
    let Some(quote) = bare.chars().next().filter(|c| matches!(c, '"' | '\'')) else {
        return bare.to_owned();
    };
    let inside = &bare[1..];
    let inside = inside.strip_suffix(quote).unwrap_or(inside);
    if verbatim {
        return inside.replace(&format!("{quote}{quote}"), &quote.to_string());
    }
    let mut value = String::with_capacity(inside.len());
    let mut chars = inside.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            value.push(c);
            continue;
        }
        match chars.next() {
            Some('n') => value.push('\n'),
            Some('r') => value.push('\r'),
            Some('t') => value.push('\t'),
            Some(other @ ('\\' | '"' | '\'')) => value.push(other),
            // Escapes such as \u0041 are unchanged, because they are only compared with each other.
            Some(other) => value.extend(['\\', other]),
            None => value.push('\\'),
        }
    }
    value
}

pub(super) fn truth(word: &str) -> Option<bool> {
    if word.eq_ignore_ascii_case("true") {
        Some(true)
    } else {
        word.eq_ignore_ascii_case("false").then_some(false)
    }
}

/// Value of `type(value)`.
fn typed_value(word: &str) -> Literal {
    let (kind, value) = word.split_once('(').unwrap_or((word, ""));
    let value = value.strip_suffix(')').unwrap_or(value).trim();
    let value = value.trim_matches(['"', '\'']).trim();
    if value == "null" {
        return Literal::Null;
    }
    let read = match kind.trim() {
        "datetime" | "date" => Literal::instant(value),
        "timespan" | "time" => Literal::duration(value),
        "bool" | "boolean" => match value {
            "1" => Some(Literal::Bool(true)),
            "0" => Some(Literal::Bool(false)),
            word => truth(word).map(Literal::Bool),
        },
        "int" | "long" | "real" | "double" | "decimal" => Some(Literal::number(value)),
        _ => Some(Literal::Other(value.to_lowercase())),
    };
    read.unwrap_or_else(|| Literal::Other(value.to_owned()))
}
