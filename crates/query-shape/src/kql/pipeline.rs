use super::lexer::TokenKind;
use super::operator::Operator;
use super::predicates::{Lone, Sense};
use super::reference::Referred;
use super::scope::{Meaning, Sorted};
use super::source::Span;
use super::{DEEPEST, Reader, columns};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PipelineContext {
    Statement,
    /// In a group, or in place of a single table.
    Inside,
    /// On the right of a `let`.
    Let,
    /// As an operand of `union`, `find` or `search`, which may be a pattern.
    Operand,
}

/// Settings of operators, `name=value` before the operands. Dotted names (`hint.strategy`) aren't listed.
const SETTINGS: &[&str] = &[
    "bagexpansion",
    "datascope",
    "flags",
    "isfuzzy",
    "kind",
    "with_itemindex",
    "with_source",
    "withsource",
];

/// Plugins with a table as the first argument.
const LOOKUPS: &[&str] = &["ipv4_lookup", "ipv6_lookup"];

const TABLELESS: &[&str] = &[
    "datatable",
    "externaldata",
    "external_data",
    "print",
    "range",
];

impl<'a> Reader<'a> {
    /// Reads a pipeline and returns the order of its rows.
    pub(super) fn pipeline(&mut self, span: &Span, place: PipelineContext, depth: usize) -> Sorted {
        let referred = self.pipeline_of(span, place, depth);
        if let Some(call) = referred.call {
            self.found.function(call);
        }
        referred.sorted
    }

    /// Reads a pipeline. If it is just a call of an unknown function, returns the call instead of recording it.
    pub(super) fn pipeline_of(
        &mut self,
        span: &Span,
        place: PipelineContext,
        depth: usize,
    ) -> Referred<'a> {
        let first = self.source.find(span, |at| {
            self.source.kind(at, span) == Some(TokenKind::Pipe)
        });
        let Some(pipe) = first else {
            return self.first(span, place, depth);
        };
        let referred = self.first(&(span.start..pipe), place, depth);
        if let Some(call) = referred.call {
            self.found.function(call);
        }
        let sorted = self.operators(&(pipe + 1..span.end), referred.sorted, depth);
        Referred {
            sorted,
            ..Referred::default()
        }
    }

    fn first(&mut self, span: &Span, place: PipelineContext, depth: usize) -> Referred<'a> {
        let none = Referred::default();
        if span.is_empty() {
            self.approximate = true;
            return none;
        }
        let word = self.source.word(span.start);
        let keyword = self.source.kind(span.start, span) == Some(TokenKind::Name) && span.len() > 1;
        let body = span.start + 1..span.end;
        match word {
            "union" if keyword => self.union(&body, depth),
            "find" if keyword => self.find(&body, depth),
            "search" if keyword => self.search(&body, PipelineContext::Statement, depth),
            "dynamic" if keyword => {}
            "evaluate" | "macro-expand" if keyword => self.expression(&body, depth),
            _ if keyword && TABLELESS.contains(&word) => self.expression(&body, depth),
            _ => return self.table_or_value(span, place, depth),
        }
        none
    }

    /// Reads a table that covers the span, or a value.
    fn table_or_value(
        &mut self,
        span: &Span,
        place: PipelineContext,
        depth: usize,
    ) -> Referred<'a> {
        let start = span.start;
        let pattern = place == PipelineContext::Operand && self.wildcard_end(span).is_some();
        if !pattern && (self.source.literal(start).is_some() || self.is_computed(span)) {
            self.approximate |= place == PipelineContext::Statement && depth == 0;
            self.expression(span, depth);
            return Referred::default();
        }
        let referred = self.reference(span, place, depth);
        if referred.next < span.end {
            self.approximate = true;
            self.expression(&(referred.next..span.end), depth);
        }
        referred
    }

    /// Whether the span is a computed value: an operator or an index follows its first operand, or a sign precedes it.
    fn is_computed(&self, span: &Span) -> bool {
        let mut at = span.start;
        let bracketed = self.source.kind(at, span) == Some(TokenKind::Open);
        if self.source.kind(at, span) == Some(TokenKind::Symbol)
            || (bracketed && self.source.word(at) != "(")
        {
            return true;
        }
        loop {
            at = self.source.after(at, span);
            if !bracketed && self.source.opens(at, span, "(") {
                at = self.source.after(at, span);
            }
            if !self.source.is_sign(at, span, ".") {
                break;
            }
            at += 1;
        }
        match self.source.kind(at, span) {
            Some(TokenKind::Symbol) => true,
            Some(TokenKind::Open) => self.source.word(at) == "[",
            Some(TokenKind::Name) => columns::is_keyword(self.source.word(at)),
            Some(_) | None => false,
        }
    }

    /// Reads operators between pipes and returns the final order of the rows.
    pub(super) fn operators(&mut self, span: &Span, sorted: Sorted, depth: usize) -> Sorted {
        let mut sorted = sorted;
        for part in self.source.split(span, TokenKind::Pipe) {
            let named = match self.source.kind(part.start, &part) {
                Some(TokenKind::Name) => Operator::named(self.source.word(part.start)),
                Some(_) | None => None,
            };
            match named {
                Some(operator) => {
                    self.approximate |= !self.is_complete(&part);
                    self.operator(operator, &(part.start + 1..part.end), depth);
                    sorted = operator.orders(sorted, &part);
                }
                None => {
                    self.approximate = true;
                    self.expression(&part, depth);
                }
            }
        }
        sorted
    }

    fn operator(&mut self, operator: Operator, span: &Span, depth: usize) {
        match operator {
            Operator::Filter => {
                let span = &self.without_hints(span);
                self.filter(span, Lone::Truth, depth);
            }
            Operator::Search => self.search(span, PipelineContext::Inside, depth),
            Operator::Find => self.find(span, depth),
            Operator::Join => self.join(span, depth),
            Operator::Union => self.union(span, depth),
            Operator::Summarize => {
                let span = &self.without_hints(span);
                self.summarize(span);
                self.expression(span, depth);
            }
            Operator::Series => {
                let span = &self.without_hints(span);
                self.series(span);
                self.expression(span, depth);
            }
            Operator::Count => {
                self.found.aggregations.push("count".to_owned());
                self.approximate |=
                    !(span.is_empty() || self.source.is_name(span.start, span, "as"));
            }
            Operator::As => self.named_rows(span),
            Operator::Fork => self.branches(span, depth),
            Operator::Each => self.each(span, depth),
            Operator::Graph => self.graph(span, depth),
            Operator::Evaluate => self.evaluate(span, depth),
            // The rows are the function's first argument.
            Operator::Invoke => self.arguments(span.start, span, 1, depth),
            Operator::Sort | Operator::Keeping | Operator::Making => self.expression(span, depth),
        }
    }

    fn filter(&mut self, span: &Span, lone: Lone, depth: usize) {
        self.predicate(span, Sense::Straight, lone, depth);
        self.expression(span, depth);
    }

    fn named_rows(&mut self, span: &Span) {
        let span = self.without_settings(span);
        if span.is_empty() {
            self.approximate = true;
        } else {
            self.scope
                .define(self.source.name(span.start), Meaning::default());
        }
    }

    /// Strips leading settings: `kind=inner`, `hint.strategy = shuffle`, `withsource="Name"`.
    pub(super) fn without_settings(&self, span: &Span) -> Span {
        let mut rest = self.without_hints(span);
        while self.source.kind(rest.start, &rest) == Some(TokenKind::Name)
            && SETTINGS.contains(&self.source.word(rest.start))
            && self.source.is_sign(rest.start + 1, &rest, "=")
        {
            rest.start = (rest.start + 3).min(rest.end);
            rest = self.without_hints(&rest);
        }
        rest
    }

    /// Strips leading hints: settings with a dotted name, which a column alias can't have.
    pub(super) fn without_hints(&self, span: &Span) -> Span {
        let mut start = span.start;
        loop {
            let mut at = start;
            while self.source.kind(at, span) == Some(TokenKind::Name)
                && self.source.is_sign(at + 1, span, ".")
            {
                at += 2;
            }
            let hint = at > start
                && self.source.kind(at, span) == Some(TokenKind::Name)
                && self.source.is_sign(at + 1, span, "=");
            if !hint {
                return start..span.end;
            }
            start = (at + 3).min(span.end);
        }
    }

    /// `join` and `lookup`: one table, then conditions.
    fn join(&mut self, span: &Span, depth: usize) {
        let span = self.without_settings(span);
        if span.is_empty() {
            self.approximate = true;
            return;
        }
        let referred = self.reference(&span, PipelineContext::Inside, depth);
        if let Some(call) = referred.call {
            self.found.function(call);
        }
        self.expression(&(referred.next..span.end), depth);
    }

    fn union(&mut self, span: &Span, depth: usize) {
        let span = self.without_settings(span);
        self.operands(&span, depth);
    }

    fn operands(&mut self, span: &Span, depth: usize) {
        for operand in self.source.split(span, TokenKind::Comma) {
            self.pipeline(&operand, PipelineContext::Operand, depth);
        }
    }

    /// Reads the tables of `find` and `search`: `in (T1, T2*)`, or all tables by default. Returns the rest of the span.
    fn searched(&mut self, span: &Span, place: PipelineContext, depth: usize) -> Span {
        let mut span = self.without_settings(span);
        if self.source.is_name(span.start, &span, "in")
            && self.source.opens(span.start + 1, &span, "(")
        {
            let open = span.start + 1;
            if depth >= DEEPEST {
                self.approximate = true;
            } else {
                self.operands(&self.source.inside(open), depth + 1);
            }
            span.start = self.source.after(open, &span);
            return self.without_settings(&span);
        }
        if place == PipelineContext::Statement {
            self.found.all_tables = true;
        }
        span
    }

    /// `find [in (..)] where predicate [project ..]`.
    fn find(&mut self, span: &Span, depth: usize) {
        let span = self.searched(span, PipelineContext::Statement, depth);
        let start = span.start + usize::from(self.source.is_name(span.start, &span, "where"));
        let is_end = |at: usize| {
            self.source.kind(at, &span) == Some(TokenKind::Name)
                && matches!(
                    self.source.word(at),
                    "project" | "project-smart" | "project-away"
                )
        };
        let end = self
            .source
            .find(&(start..span.end), is_end)
            .unwrap_or(span.end);
        if start < end {
            self.filter(&(start..end), Lone::Term, depth);
        }
        self.expression(&(end..span.end), depth);
    }

    /// `search [in (..)] predicate`.
    fn search(&mut self, span: &Span, place: PipelineContext, depth: usize) {
        let span = self.searched(span, place, depth);
        // A single `*` matches anything.
        if span.is_empty() || (span.len() == 1 && self.source.is_sign(span.start, &span, "*")) {
            return;
        }
        self.filter(&span, Lone::Term, depth);
    }

    /// `fork`: each group is a pipeline of operators.
    fn branches(&mut self, span: &Span, depth: usize) {
        let mut at = span.start;
        while at < span.end {
            if self.source.opens(at, span, "(") {
                self.branch(at, depth);
            }
            at = self.source.after(at, span);
        }
    }

    /// `partition`, `facet`, `mv-apply`: the last group is a pipeline of operators; expressions precede it.
    fn each(&mut self, span: &Span, depth: usize) {
        let is_group = |at: usize| {
            self.source.kind(at, span) == Some(TokenKind::Open)
                && self.source.after(at, span) == span.end
        };
        match self.source.find(span, is_group) {
            Some(open) => {
                self.expression(&(span.start..open), depth);
                self.branch(open, depth);
            }
            None => self.expression(span, depth),
        }
    }

    /// `evaluate plugin(..)`: some plugins have a table as the first argument.
    fn evaluate(&mut self, span: &Span, depth: usize) {
        let span = self.without_hints(span);
        let open = span.start + 1;
        if !LOOKUPS.contains(&self.source.word(span.start)) || !self.source.opens(open, &span, "(")
        {
            return self.expression(&span, depth);
        }
        let inside = self.source.inside(open);
        if depth >= DEEPEST || inside.is_empty() {
            self.approximate = true;
            return;
        }
        let mut arguments = self.source.split(&inside, TokenKind::Comma).into_iter();
        if let Some(table) = arguments.next() {
            self.pipeline(&table, PipelineContext::Inside, depth + 1);
        }
        for argument in arguments {
            self.expression(&argument, depth + 1);
        }
        self.expression(&(self.source.after(open, &span)..span.end), depth);
    }

    /// `make-graph From --> To with T1 on Id1, T2 on Id2`.
    fn graph(&mut self, span: &Span, depth: usize) {
        let Some(with) = self
            .source
            .find(span, |at| self.source.is_name(at, span, "with"))
        else {
            return;
        };
        for nodes in self.source.split(&(with + 1..span.end), TokenKind::Comma) {
            self.join(&nodes, depth);
        }
    }

    /// Reads a group that receives rows from outside, or contains its own table if it doesn't start with an operator.
    fn branch(&mut self, open: usize, depth: usize) {
        if depth >= DEEPEST {
            self.approximate = true;
            return;
        }
        let inside = self.source.inside(open);
        let goes_on = self.source.kind(inside.start, &inside) == Some(TokenKind::Name)
            && Operator::named(self.source.word(inside.start)).is_some();
        if goes_on {
            self.operators(&inside, None, depth + 1);
        } else {
            self.pipeline(&inside, PipelineContext::Inside, depth + 1);
        }
    }
}
