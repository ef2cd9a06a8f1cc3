//! Columns and literals of an expression. Scans its tokens once, including groups but not subqueries.

use std::collections::HashSet;

use super::Reader;
use super::lexer::TokenKind;
use super::predicates::is_test;
use super::source::{Span, truth};
use crate::Literal;

/// Keywords within expressions, except comparison operators.
const WORDS: &[&str] = &["and", "not", "null", "or", "regex"];

pub(super) fn is_keyword(name: &str) -> bool {
    name.starts_with('!') || is_test(name) || WORDS.contains(&name) || truth(name).is_some()
}

#[derive(Debug, Default)]
pub(super) struct ExpressionNames {
    pub(super) columns: Vec<String>,
    /// Literals in order, except indices into a value.
    pub(super) literals: Vec<Literal>,
}

impl Reader<'_> {
    /// Returns the columns and literals of an expression. A name is a column unless it is a keyword, a function, a member, or defined by
    /// the query.
    pub(super) fn named(&self, span: &Span) -> ExpressionNames {
        let mut named = ExpressionNames::default();
        let mut seen = HashSet::new();
        let mut at = span.start;
        while at < span.end {
            let next = match self.source.kind(at, span) {
                Some(TokenKind::Open) => self.past_bracket(at, span, &mut named.literals),
                Some(TokenKind::Name | TokenKind::Quoted) if self.is_column(at, span) => {
                    let name = self.source.name(at);
                    if !self.scope.knows(&name) && seen.insert(name.clone()) {
                        named.columns.push(name);
                    }
                    at + 1
                }
                Some(_) => at + 1,
                None => break,
            };
            if let Some(literal) = self.source.literal(at) {
                named.literals.push(self.signed(at, span, literal));
            }
            at = next;
        }
        named
    }

    /// Returns the next index after an opening bracket. Skips the group if it is a subquery, an index, a type or a dynamic value.
    fn past_bracket(&self, open: usize, span: &Span, literals: &mut Vec<Literal>) -> usize {
        let before = if open > span.start {
            self.source.word(open - 1)
        } else {
            ""
        };
        let indexes = self.source.word(open) == "[" && self.source.adjoins(open) && before != "(";
        if before == "dynamic" {
            let inside = self.source.inside(open);
            for at in inside.start..inside.end.min(span.end) {
                if self.source.kind(at, &inside) == Some(TokenKind::Quoted) {
                    literals.push(Literal::Text(self.source.name(at)));
                } else {
                    literals.extend(self.source.literal(at));
                }
            }
        }
        if self.source.piped(open)
            || indexes
            || matches!(before, "dynamic" | "typeof" | "toscalar" | "materialize")
        {
            return self.source.after(open, span);
        }
        open + 1
    }

    fn is_column(&self, at: usize, span: &Span) -> bool {
        let word = self.source.word(at);
        let member = at > span.start && self.source.is_sign(at - 1, span, ".");
        let called = self.source.opens(at + 1, span, "(");
        if member || (called && self.source.kind(at, span) == Some(TokenKind::Name)) {
            return false;
        }
        !(self.source.kind(at, span) == Some(TokenKind::Name)
            && (matches!(word, "$left" | "$right") || is_keyword(word)))
    }

    /// Applies a leading sign to a number or duration, unless the sign is a subtraction.
    fn signed(&self, at: usize, span: &Span, literal: Literal) -> Literal {
        let minus = at > span.start && self.source.is_sign(at - 1, span, "-");
        let subtracted = minus
            && at >= span.start + 2
            && matches!(
                self.source.kind(at - 2, span),
                Some(
                    TokenKind::Quoted
                        | TokenKind::Text
                        | TokenKind::Number
                        | TokenKind::Duration
                        | TokenKind::Typed
                        | TokenKind::Close
                )
            );
        let after_column = minus && at >= span.start + 2 && {
            let word = self.source.word(at - 2);
            self.source.kind(at - 2, span) == Some(TokenKind::Name) && !is_keyword(word)
        };
        if !minus || subtracted || after_column {
            return literal;
        }
        match literal {
            Literal::Number(text) => Literal::number(&format!("-{text}")),
            Literal::Duration(nanos) => Literal::Duration(-nanos),
            other @ (Literal::Text(_)
            | Literal::Bool(_)
            | Literal::Null
            | Literal::Instant(_)
            | Literal::Other(_)) => other,
        }
    }
}
