//! Operators of a pipeline, classified by their effect on tables, predicates, aggregates and order.

use super::scope::Sorted;
use super::source::Span;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Filter,
    /// `search`: a predicate, after tables to search in.
    Search,
    Find,
    Join,
    Union,
    Summarize,
    Series,
    Count,
    Sort,
    As,
    /// `fork`: several pipelines of operators.
    Fork,
    /// `facet`, `partition`, `mv-apply`: one pipeline of operators, in the last group.
    Each,
    /// `make-graph`: tables of nodes.
    Graph,
    Evaluate,
    Invoke,
    /// Preserves the order of rows.
    Keeping,
    /// Creates other rows, without a guaranteed order.
    Making,
}

impl Operator {
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "where" | "filter" => Self::Filter,
            "search" => Self::Search,
            "find" => Self::Find,
            "join" | "lookup" => Self::Join,
            "union" => Self::Union,
            "summarize" => Self::Summarize,
            "make-series" => Self::Series,
            "count" => Self::Count,
            "sort" | "order" | "top" => Self::Sort,
            "as" => Self::As,
            "fork" => Self::Fork,
            "facet" | "partition" | "partition-by" | "mv-apply" => Self::Each,
            "make-graph" => Self::Graph,
            "evaluate" => Self::Evaluate,
            "invoke" => Self::Invoke,
            "assert-schema" | "consume" | "execute-and-cache" | "extend" | "limit"
            | "mv-expand" | "mvexpand" | "parse" | "parse-kv" | "parse-where" | "project"
            | "project-away" | "project-by-names" | "project-keep" | "project-rename"
            | "project-reorder" | "render" | "scan" | "serialize" | "take" => Self::Keeping,
            "distinct"
            | "getschema"
            | "graph-mark-components"
            | "graph-match"
            | "graph-merge"
            | "graph-shortest-paths"
            | "graph-to-table"
            | "graph-where-edges"
            | "graph-where-nodes"
            | "macro-expand"
            | "print"
            | "reduce"
            | "sample"
            | "sample-distinct"
            | "top-hitters"
            | "top-nested" => Self::Making,
            _ => return None,
        })
    }

    /// Returns the order of the rows after the operator in this span, given the order before it.
    pub(super) fn orders(self, before: Sorted, span: &Span) -> Sorted {
        match self {
            Self::Sort => Some((span.start + 1, span.end)),
            Self::Filter | Self::Search | Self::As | Self::Keeping => before,
            Self::Find
            | Self::Join
            | Self::Union
            | Self::Summarize
            | Self::Series
            | Self::Count
            | Self::Fork
            | Self::Each
            | Self::Graph
            | Self::Evaluate
            | Self::Invoke
            | Self::Making => None,
        }
    }
}
