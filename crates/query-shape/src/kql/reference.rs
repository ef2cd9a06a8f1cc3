//! Table references: names, wildcards, chains such as `cluster('x').database('y').T`, calls, and groups.

use super::lexer::TokenKind;
use super::pipeline::PipelineContext;
use super::scope::{Meaning, Sorted};
use super::source::Span;
use super::{DEEPEST, Reader};

/// Functions for the location of a table, followed by a dot and the rest of the chain.
const HEADS: &[&str] = &[
    "adx",
    "app",
    "arg",
    "cluster",
    "database",
    "resource",
    "workspace",
];

/// Functions with a table name as argument.
const BY_NAME: &[&str] = &["external_table", "materialized_view", "table"];

/// Functions with a pipeline as argument.
const AROUND: &[&str] = &["materialize", "toscalar", "view"];

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Referred<'a> {
    pub(super) next: usize,
    pub(super) sorted: Sorted,
    /// Name of a called function that the query doesn't define.
    pub(super) call: Option<&'a str>,
}

impl<'a> Reader<'a> {
    /// Records the table at the start of a span, if any. Calls of unknown functions are returned instead of recorded.
    pub(super) fn reference(
        &mut self,
        span: &Span,
        place: PipelineContext,
        depth: usize,
    ) -> Referred<'a> {
        let at = span.start;
        let plain = Referred {
            next: self.source.after(at, span),
            ..Referred::default()
        };
        match self.source.kind(at, span) {
            Some(TokenKind::Open) if self.source.word(at) == "(" => Referred {
                sorted: self.group(at, depth),
                ..plain
            },
            Some(TokenKind::Open) => {
                self.enter(at, depth);
                plain
            }
            Some(TokenKind::Name | TokenKind::Number | TokenKind::Symbol)
                if place == PipelineContext::Operand && self.wildcard_end(span).is_some() =>
            {
                Referred {
                    next: self.wildcard(span),
                    ..plain
                }
            }
            Some(TokenKind::Name) if self.source.opens(at + 1, span, "(") => self.call(span, depth),
            Some(TokenKind::Name | TokenKind::Quoted) => self.name(span),
            Some(_) | None => plain,
        }
    }

    /// Reads a name, with optional qualifiers: `T`, `['My T']`, `db.T`.
    fn name(&mut self, span: &Span) -> Referred<'a> {
        let mut at = span.start;
        while self.source.is_sign(at + 1, span, ".")
            && matches!(
                self.source.kind(at + 2, span),
                Some(TokenKind::Name | TokenKind::Quoted)
            )
        {
            at += 2;
        }
        let name = self.source.name(at);
        let mut referred = Referred {
            next: at + 1,
            ..Referred::default()
        };
        // A member of a value isn't a table, but one of a database is.
        let head = self.scope.get(&self.source.name(span.start));
        let is_place =
            |meaning: &Meaning<'_>| meaning.call.is_some_and(|call| HEADS.contains(&call));
        if at > span.start && head.is_some_and(|meaning| !is_place(meaning)) {
            return referred;
        }
        match self.scope.get(&name).filter(|_| at == span.start) {
            Some(meaning) => {
                referred.sorted = meaning.sorted;
                if let Some(call) = meaning.call {
                    self.found.function(call);
                }
            }
            None => {
                if at > span.start {
                    self.found
                        .qualified(self.source.slice(&(span.start..at + 1)));
                }
                self.found.table(name);
            }
        }
        referred
    }

    /// Returns the end of a pattern at the start of the span: names and at least one `*`, without spaces.
    pub(super) fn wildcard_end(&self, span: &Span) -> Option<usize> {
        let mut at = span.start;
        let mut star = false;
        while at < span.end && (at == span.start || self.source.adjoins(at)) {
            let is_star = self.source.is_sign(at, span, "*");
            if !is_star
                && !matches!(
                    self.source.kind(at, span),
                    Some(TokenKind::Name | TokenKind::Number)
                )
            {
                break;
            }
            star |= is_star;
            at += 1;
        }
        star.then_some(at)
    }

    /// Records the pattern at the start of the span and returns the index after it.
    fn wildcard(&mut self, span: &Span) -> usize {
        let end = self.wildcard_end(span).unwrap_or(span.start);
        self.found.wildcard(self.source.slice(&(span.start..end)));
        end
    }

    fn call(&mut self, span: &Span, depth: usize) -> Referred<'a> {
        let at = span.start;
        let name = self.source.word(at);
        let next = self.source.after(at + 1, span);
        let plain = Referred {
            next,
            ..Referred::default()
        };
        if AROUND.contains(&name) || self.source.piped(at + 1) {
            return Referred {
                sorted: self.group(at + 1, depth),
                ..plain
            };
        }
        if BY_NAME.contains(&name) {
            self.table_by_name(at + 1);
            return plain;
        }
        if HEADS.contains(&name) && self.source.is_sign(next, span, ".") {
            return self.chain(span, depth);
        }
        self.arguments(at, span, 0, depth);
        match self.scope.get(name) {
            Some(meaning) => Referred {
                sorted: meaning.sorted,
                ..plain
            },
            None => Referred {
                call: Some(name),
                ..plain
            },
        }
    }

    /// `cluster('x').database('y').T`: the last name is the table or pattern.
    fn chain(&mut self, span: &Span, depth: usize) -> Referred<'a> {
        let mut at = span.start;
        let mut referred = Referred::default();
        loop {
            let last = at..span.end;
            let name = self.source.word(at);
            let called = self.source.opens(at + 1, span, "(");
            let next = self.source.after(if called { at + 1 } else { at }, span);
            let continues = self.source.is_sign(next, span, ".") && next + 1 < span.end;
            if continues && (called || self.source.kind(at, span) == Some(TokenKind::Name)) {
                at = next + 1;
                continue;
            }
            referred.next = next;
            if self.wildcard_end(&last).is_some() {
                referred.next = self.wildcard(&last);
            } else if called && BY_NAME.contains(&name) {
                self.table_by_name(at + 1);
            } else if called {
                self.arguments(at, span, 0, depth);
                referred.call = (!HEADS.contains(&name)).then_some(name);
            } else {
                self.found.table(self.source.name(at));
            }
            self.found
                .qualified(self.source.slice(&(span.start..referred.next)));
            return referred;
        }
    }

    /// `table('T')`: the argument is a string, or a name defined as one.
    fn table_by_name(&mut self, open: usize) {
        let inside = self.source.inside(open);
        match self.source.kind(inside.start, &inside) {
            Some(TokenKind::Text) => self.found.table(self.source.name(inside.start)),
            Some(TokenKind::Name) => {
                let named = self.scope.get(self.source.word(inside.start));
                match named.and_then(|meaning| meaning.text.clone()) {
                    Some(text) => self.found.table(text),
                    // A parameter or a computed name, so that the table is unknown.
                    None => self.approximate |= named.is_none(),
                }
            }
            Some(_) | None => self.approximate = true,
        }
    }

    /// Reads the arguments of the call at an index. Functions defined by the query may have table arguments, given by bare names. The first
    /// `given` parameters are filled otherwise.
    pub(super) fn arguments(&mut self, at: usize, span: &Span, given: usize, depth: usize) {
        if !self.source.opens(at + 1, span, "(") {
            return;
        }
        let tabular = self
            .scope
            .get(self.source.word(at))
            .map(|meaning| meaning.tabular.clone());
        let tabular = tabular.unwrap_or_default();
        if depth >= DEEPEST {
            self.approximate = true;
            return;
        }
        let inside = self.source.inside(at + 1);
        for (index, argument) in self
            .source
            .split(&inside, TokenKind::Comma)
            .into_iter()
            .enumerate()
        {
            if tabular.get(index + given).copied().unwrap_or(false) {
                self.pipeline(&argument, PipelineContext::Inside, depth + 1);
            } else {
                self.expression(&argument, depth + 1);
            }
        }
    }

    pub(super) fn group(&mut self, open: usize, depth: usize) -> Sorted {
        if depth >= DEEPEST {
            self.approximate = true;
            return None;
        }
        let inside = self.source.inside(open);
        if inside.is_empty() {
            return None;
        }
        self.pipeline(&inside, PipelineContext::Inside, depth + 1)
    }

    /// Reads a group within an expression: a subquery if it contains a pipe, otherwise an expression.
    fn enter(&mut self, open: usize, depth: usize) {
        if depth >= DEEPEST {
            self.approximate = true;
        } else if self.source.piped(open) {
            self.group(open, depth);
        } else {
            self.expression(&self.source.inside(open), depth + 1);
        }
    }

    /// Records tables inside an expression: subqueries, tables by name, chains, table arguments of the query's functions.
    pub(super) fn expression(&mut self, span: &Span, depth: usize) {
        let mut at = span.start;
        while at < span.end {
            let next = self.source.after(at, span);
            let called = self.source.kind(at, span) == Some(TokenKind::Name)
                && self.source.opens(at + 1, span, "(");
            if !called {
                if self.source.kind(at, span) == Some(TokenKind::Open) {
                    self.enter(at, depth);
                }
                at = next;
                continue;
            }
            let name = self.source.word(at);
            let behind = self.source.after(at + 1, span);
            let chained = HEADS.contains(&name) && self.source.is_sign(behind, span, ".");
            at = if name == "dynamic" {
                behind
            } else if self.source.piped(at + 1) {
                self.enter(at + 1, depth);
                behind
            } else if chained || AROUND.contains(&name) || BY_NAME.contains(&name) {
                self.reference(&(at..span.end), PipelineContext::Inside, depth)
                    .next
                    .max(behind)
            } else {
                self.arguments(at, span, 0, depth);
                behind
            };
        }
    }

    pub(super) fn meaning(&self, sorted: Sorted, call: Option<&'a str>) -> Meaning<'a> {
        Meaning {
            sorted,
            call,
            ..Meaning::default()
        }
    }
}
