//! The operators of a pipeline, by what they mean for tables, predicates, aggregates and order.

use super::scope::Sorted;
use super::source::Span;

/// What an operator does, as far as it counts here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    /// `where`, `filter`: a predicate.
    Filter,
    /// `search`: a predicate, after tables to search in.
    Search,
    /// `find`: tables and a predicate.
    Find,
    /// `join`, `lookup`: a table.
    Join,
    /// `union`: tables.
    Union,
    /// `summarize`: aggregates.
    Summarize,
    /// `make-series`: aggregates along an axis.
    Series,
    /// `count`: one aggregate.
    Count,
    /// `sort`, `order`, `top`: puts rows in order.
    Sort,
    /// `as`: names the rows.
    As,
    /// `fork`: several pipelines of operators.
    Fork,
    /// `facet`, `partition`, `mv-apply`: one pipeline of operators, the last group.
    Each,
    /// `make-graph`: tables of nodes.
    Graph,
    /// `evaluate`: calls a plugin on the rows.
    Evaluate,
    /// `invoke`: calls a function on the rows.
    Invoke,
    /// Passes rows on in their order.
    Keeping,
    /// Makes other rows, in no order to rely on.
    Making,
}

impl Operator {
    /// The operator of a name, if KQL has it.
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

    /// What the rows are in order by behind the operator in this span, given what they are in order by before it.
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
