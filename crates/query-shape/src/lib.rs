//! Extracts the tables, filters and aggregations of a query into one form for all query languages, so that queries can be compared.
//!
//! Pure: converts text to [`QueryShape`], without executing queries or knowing a schema. KQL that doesn't parse yields its recognizable
//! parts, with [`QueryShape::approximate`] set; SQL that doesn't parse is an error. Time and memory are O(n) in the text.

#![warn(missing_docs)]

pub mod kql;
mod literal;
pub mod sql;
#[cfg(test)]
mod text;

use serde::{Deserialize, Serialize};

pub use literal::Literal;

/// Language of a query.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// Kusto Query Language.
    #[default]
    Kql,
    /// SQL, in the dialect given by the caller.
    Sql,
}

/// Result column that rows are sorted by. It has a name, an index, or both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SortKey {
    /// Name that the query gives it.
    pub name: Option<String>,
    /// Index from 0, unless a wildcard may precede it.
    pub place: Option<usize>,
}

impl SortKey {
    fn named(name: impl Into<String>) -> Self {
        Self {
            name: Some(name.into()),
            place: None,
        }
    }
}

/// Table name, without quotes or brackets, in the query's spelling.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TableName {
    /// Qualifiers to compare (`["sales", "public"]` for `sales.public.users`). Always empty for KQL, where only the last name of a chain
    /// (`cluster('x').database('y').T`) is compared and the chain is listed in [`QueryShape::qualified`].
    pub qualifiers: Vec<String>,
    /// Unqualified name.
    pub name: String,
}

impl TableName {
    /// Creates an unqualified name.
    pub fn bare(name: impl Into<String>) -> Self {
        Self {
            qualifiers: Vec::new(),
            name: name.into(),
        }
    }

    /// Name with its qualifiers, joined by dots.
    pub fn dotted(&self) -> String {
        let mut text = String::new();
        for part in &self.qualifiers {
            text.push_str(part);
            text.push('.');
        }
        text.push_str(&self.name);
        text
    }

    /// Name in lower case, for case-insensitive comparison.
    pub fn folded(&self) -> Self {
        Self {
            qualifiers: self
                .qualifiers
                .iter()
                .map(|part| part.to_lowercase())
                .collect(),
            name: self.name.to_lowercase(),
        }
    }
}

/// Predicate of a filter: a leaf under `and`, `or` and `not`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    /// Operator in lower case, negated under an odd number of `not`s (`==`, `!has`, `between`, `is null`). For a single function its name
    /// (`isnotempty`), for a single column `is true` or `is false`.
    pub operator: String,
    /// Distinct columns in order, in the query's spelling.
    pub columns: Vec<String>,
    /// Literals, in order.
    pub literals: Vec<Literal>,
}

/// Shape of a query. Lists are in text order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueryShape {
    /// Base tables, distinct by [`TableName::folded`], in their first spelling.
    pub tables: Vec<TableName>,
    /// Distinct table patterns (`*`, `App*`).
    pub wildcards: Vec<String>,
    /// Whether all tables are read because the query specifies none (`search "x"`), not even by a pattern.
    pub all_tables: bool,
    /// Distinct qualified references in source form (`arg("").Resources`). Their tables are also in `tables`.
    pub qualified: Vec<String>,
    /// Distinct functions in table position that the query doesn't define.
    pub unknown_functions: Vec<String>,
    /// Distinct parts of an SQL text with unknown tables: procedure calls, and texts built at run time or executed by another server (`call
    /// p`, `openquery`).
    pub hidden: Vec<String>,
    /// Predicates of all filters, including subqueries.
    pub filters: Vec<Filter>,
    /// Aggregate functions in lower case (`count`, `arg_max`), and grouping columns with the prefix `by:` (`by:Computer`). May contain
    /// duplicates.
    pub aggregations: Vec<String>,
    /// Whether the query sorts its result at the top level.
    pub sorted_at_top: bool,
    /// All result columns of this order; empty if one can't be derived from the text.
    pub sort_keys: Vec<SortKey>,
    /// Whether a KQL text didn't parse, so that the other fields cover only its recognizable parts.
    pub approximate: bool,
}
