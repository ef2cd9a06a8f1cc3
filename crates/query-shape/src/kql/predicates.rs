//! Predicates: the leaves of a filter under `and`, `or` and `not`.
//!
//! Operators under `not` are negated (`not(a == b)` is `a != b`), and comparisons with the literal first are reversed (`5 < a` is `a > 5`),
//! so that equivalent spellings are equal.

use super::lexer::TokenKind;
use super::source::Span;
use super::{DEEPEST, Reader};
use crate::Filter;

const COMPARISONS: &[&str] = &["==", "!=", "=~", "!~", "<", "<=", ">", ">=", "<>", "=", ":"];

const TESTS: &[&str] = &[
    "between",
    "contains",
    "contains_cs",
    "endswith",
    "endswith_cs",
    "has",
    "has_all",
    "has_any",
    "has_cs",
    "hasprefix",
    "hasprefix_cs",
    "hassuffix",
    "hassuffix_cs",
    "in",
    "in~",
    "like",
    "likecs",
    "matches",
    "notcontains",
    "notlike",
    "startswith",
    "startswith_cs",
];

pub(super) fn is_test(word: &str) -> bool {
    TESTS.contains(&word.trim_start_matches('!'))
}

pub(super) fn is_comparison(sign: &str) -> bool {
    COMPARISONS.contains(&sign)
}

const OPPOSITES: &[(&str, &str)] = &[
    ("isempty", "isnotempty"),
    ("isnull", "isnotnull"),
    ("isnull", "notnull"),
    ("isempty", "notempty"),
];

/// Parity of the `not`s around a predicate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sense {
    Straight,
    Negated,
}

impl Sense {
    fn flipped(self) -> Self {
        match self {
            Self::Straight => Self::Negated,
            Self::Negated => Self::Straight,
        }
    }
}

/// Meaning of a single value as a predicate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lone {
    /// A truth value, as in `where`.
    Truth,
    /// A term searched in all columns, as in `search`.
    Term,
}

impl Reader<'_> {
    pub(super) fn predicate(&mut self, span: &Span, sense: Sense, lone: Lone, depth: usize) {
        let mut start = span.start;
        let mut at = span.start;
        while at < span.end {
            if self.is_connective(at, span) {
                self.term(start..at, sense, lone, depth);
                start = at + 1;
            }
            at = self.source.after(at, span);
        }
        self.term(start..span.end, sense, lone, depth);
    }

    fn is_connective(&self, at: usize, span: &Span) -> bool {
        self.source.kind(at, span) == Some(TokenKind::Name)
            && matches!(self.source.word(at), "and" | "or")
    }

    fn term(&mut self, span: Span, sense: Sense, lone: Lone, depth: usize) {
        let (mut at, mut sense) = (span.start, sense);
        while self.source.is_name(at, &span, "not") && !self.source.opens(at + 1, &span, "(") {
            at += 1;
            sense = sense.flipped();
        }
        let span = at..span.end;
        if span.is_empty() {
            self.approximate = true;
            return;
        }
        let negation = self.source.is_name(at, &span, "not");
        let open = at + usize::from(negation);
        let grouped =
            self.source.opens(open, &span, "(") && self.source.after(open, &span) == span.end;
        if grouped && !self.source.piped(open) {
            if depth >= DEEPEST {
                self.approximate = true;
                return;
            }
            let sense = if negation { sense.flipped() } else { sense };
            return self.predicate(&self.source.inside(open), sense, lone, depth + 1);
        }
        self.leaf(&span, sense, lone);
    }

    fn leaf(&mut self, span: &Span, sense: Sense, lone: Lone) {
        let found = self.source.find(span, |at| self.compares(at, span));
        let named = self.named(span);
        let operator = match found {
            Some(at) => self.comparison(at, span),
            None => self.lone(span, lone),
        };
        let operator = match sense {
            Sense::Straight => operator,
            Sense::Negated => opposite(&operator),
        };
        self.found.filters.push(Filter {
            operator,
            columns: named.columns,
            literals: named.literals,
        });
    }

    fn compares(&self, at: usize, span: &Span) -> bool {
        let word = self.source.word(at);
        match self.source.kind(at, span) {
            Some(TokenKind::Symbol) => is_comparison(word),
            Some(TokenKind::Name) => at > span.start && is_test(word),
            _ => false,
        }
    }

    fn comparison(&self, at: usize, span: &Span) -> String {
        match self.source.word(at) {
            "<>" => "!=",
            "=" => "==",
            ":" => "has",
            "matches" => "matches regex",
            "!matches" => "!matches regex",
            "notcontains" => "!contains",
            "notlike" => "!like",
            "<" if self.is_reversed(at, span) => ">",
            "<=" if self.is_reversed(at, span) => ">=",
            ">" if self.is_reversed(at, span) => "<",
            ">=" if self.is_reversed(at, span) => "<=",
            other => other,
        }
        .to_owned()
    }

    /// Whether only the right side of a comparison contains columns.
    fn is_reversed(&self, at: usize, span: &Span) -> bool {
        !self.has_column(&(span.start..at)) && self.has_column(&(at + 1..span.end))
    }

    fn has_column(&self, span: &Span) -> bool {
        !self.named(span).columns.is_empty()
    }

    /// Returns the operator of a predicate without a comparison: a function's name, `has` for a term, or `is true`.
    fn lone(&self, span: &Span, lone: Lone) -> String {
        let called = self.source.kind(span.start, span) == Some(TokenKind::Name)
            && self.source.opens(span.start + 1, span, "(");
        if called {
            let name = self.source.word(span.start);
            return match name {
                "notnull" => "isnotnull",
                "notempty" => "isnotempty",
                other => other,
            }
            .to_owned();
        }
        match lone {
            Lone::Term => "has".to_owned(),
            Lone::Truth => "is true".to_owned(),
        }
    }
}

fn opposite(operator: &str) -> String {
    for (one, other) in OPPOSITES {
        if operator == *one {
            return (*other).to_owned();
        }
        if operator == *other {
            return (*one).to_owned();
        }
    }
    match operator {
        "==" => "!=".to_owned(),
        "!=" => "==".to_owned(),
        "=~" => "!~".to_owned(),
        "!~" => "=~".to_owned(),
        "<" => ">=".to_owned(),
        "<=" => ">".to_owned(),
        ">" => "<=".to_owned(),
        ">=" => "<".to_owned(),
        "is true" => "is false".to_owned(),
        "is false" => "is true".to_owned(),
        other => match other.strip_prefix('!') {
            Some(plain) => plain.to_owned(),
            None => format!("!{other}"),
        },
    }
}
