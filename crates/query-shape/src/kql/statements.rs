//! Statements: a query's definitions, and the pipelines between its semicolons.

use super::lexer::TokenKind;
use super::pipeline::PipelineContext;
use super::scope::{Meaning, Sorted};
use super::source::Span;
use super::{DEEPEST, Reader};

/// Maximum length of a string that may be a table name, in bytes. Longer ones aren't stored, because each use would copy them.
const LONGEST_NAME: usize = 1024;

impl<'a> Reader<'a> {
    /// Reads statements and returns the order of the rows of the last statement with rows.
    pub(super) fn statements(&mut self, span: &Span, depth: usize) -> Sorted {
        let mut sorted = None;
        for statement in self.source.split(span, TokenKind::Semicolon) {
            let at = statement.start;
            if statement.is_empty() {
                continue;
            }
            match self.source.word(at) {
                "let" => self.definition(&(at + 1..statement.end), depth),
                "declare" if self.source.is_name(at + 1, &statement, "query_parameters") => {
                    self.parameters(at + 2, &statement);
                }
                "declare" | "alias" | "restrict" | "set" if statement.len() > 1 => {}
                _ => sorted = self.pipeline(&statement, PipelineContext::Statement, depth),
            }
        }
        sorted
    }

    /// `name = value` of a `let`. The name is defined after the value.
    fn definition(&mut self, span: &Span, depth: usize) {
        if span.len() < 3 || !self.source.is_sign(span.start + 1, span, "=") {
            self.approximate = true;
            return;
        }
        let name = self.source.name(span.start);
        let value = span.start + 2..span.end;
        let meaning = match self.parameters_of_function(&value) {
            Some(open) => self.function(open, &value, depth),
            None => {
                let referred = self.pipeline_of(&value, PipelineContext::Let, depth);
                let text = (value.len() == 1
                    && self.source.kind(value.start, &value) == Some(TokenKind::Text)
                    && self.source.word(value.start).len() <= LONGEST_NAME)
                    .then(|| self.source.name(value.start));
                Meaning {
                    text,
                    ..self.meaning(referred.sorted, referred.call)
                }
            }
        };
        self.scope.define(name, meaning);
    }

    /// Returns the bracket of a function's parameters if the value of a `let` is a function: `(a:int) { .. }`, `view () { .. }`.
    fn parameters_of_function(&self, value: &Span) -> Option<usize> {
        let open = value.start + usize::from(self.source.is_name(value.start, value, "view"));
        let body = self.source.after(open, value);
        (self.source.opens(open, value, "(") && self.source.opens(body, value, "{")).then_some(open)
    }

    fn function(&mut self, open: usize, value: &Span, depth: usize) -> Meaning<'a> {
        let mark = self.scope.mark();
        let tabular = self.parameters(open, value);
        let body = self.source.after(open, value);
        let mut sorted = None;
        if depth >= DEEPEST {
            self.approximate = true;
        } else {
            sorted = self.statements(&self.source.inside(body), depth + 1);
        }
        self.scope.back_to(mark);
        Meaning {
            sorted,
            tabular: tabular.into(),
            ..Meaning::default()
        }
    }

    /// Defines the parameters in a group, each `name:type = default`. Returns whether each is a table.
    fn parameters(&mut self, open: usize, span: &Span) -> Vec<bool> {
        if !self.source.opens(open, span, "(") {
            self.approximate = true;
            return Vec::new();
        }
        let inside = self.source.inside(open);
        let mut tabular = Vec::new();
        for parameter in self.source.split(&inside, TokenKind::Comma) {
            if parameter.is_empty() {
                continue;
            }
            self.scope
                .define(self.source.name(parameter.start), Meaning::default());
            tabular.push(self.source.opens(parameter.start + 2, &parameter, "("));
        }
        tabular
    }
}
