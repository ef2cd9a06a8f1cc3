//! What a query reads, filters and aggregates: one shape for every query language, so that two queries can be compared.
//!
//! Pure: text in, [`QueryShape`] out. Nothing here runs a query or knows a schema. KQL that doesn't parse yields what could be made out, with
//! [`QueryShape::approximate`] set; SQL that doesn't is an error. Time and memory are linear in the text.

#![warn(missing_docs)]

pub mod kql;
mod literal;
pub mod sql;
#[cfg(test)]
mod text;

use serde::{Deserialize, Serialize};

pub use literal::Literal;

/// The language a query is written in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// Kusto Query Language.
    #[default]
    Kql,
    /// SQL, in the dialect that the caller names.
    Sql,
}

/// A column of a result that its rows are sorted by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SortKey {
    /// Its name.
    Name(String),
    /// Its place, from 0: an expression without a name.
    Place(usize),
}

/// The name of a table, without quotes or brackets, spelled as in the query.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TableName {
    /// What stands before the name and takes part in comparing (`["sales", "public"]` of `sales.public.users`); always empty for KQL, whose
    /// chains (`cluster('x').database('y').T`) are compared by the last name and listed in [`QueryShape::qualified`].
    pub qualifiers: Vec<String>,
    /// The name itself.
    pub name: String,
}

impl TableName {
    /// A name that nothing qualifies.
    pub fn bare(name: impl Into<String>) -> Self {
        Self {
            qualifiers: Vec::new(),
            name: name.into(),
        }
    }

    /// The name with its qualifiers, joined by points.
    pub fn dotted(&self) -> String {
        let mut text = String::new();
        for part in &self.qualifiers {
            text.push_str(part);
            text.push('.');
        }
        text.push_str(&self.name);
        text
    }

    /// The name in lower case: equal exactly for names that differ in case only.
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

/// One predicate of a filter: a leaf under `and`, `or` and `not`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    /// The operator in lower case, negated if an odd number of `not` stands over it (`==`, `!has`, `between`, `is null`); of a bare function
    /// its name (`isnotempty`); of a bare column `is true` or `is false`.
    pub operator: String,
    /// The columns that the predicate names, distinct, spelled as in the query, in order.
    pub columns: Vec<String>,
    /// The literals that the predicate names, in order.
    pub literals: Vec<Literal>,
}

/// What can be read off a query's text. Lists keep the order of the text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueryShape {
    /// The base tables, each once by [`TableName::folded`], in the first spelling met.
    pub tables: Vec<TableName>,
    /// Patterns that stand for tables (`*`, `App*`), each once.
    pub wildcards: Vec<String>,
    /// Whether every table is read because none is named (`search "x"`), other than by a pattern.
    pub all_tables: bool,
    /// Qualified references as they are written (`arg("").Resources`), each once; their tables are in `tables` too.
    pub qualified: Vec<String>,
    /// Functions called where a table may stand, that the query doesn't define itself; each once.
    pub unknown_functions: Vec<String>,
    /// Parts of an SQL text whose tables it doesn't tell, each once: calls of procedures, and texts that are made at run time or run by
    /// another server (`call p`, `openquery`).
    pub hidden: Vec<String>,
    /// The predicates of all filters, those of subqueries included.
    pub filters: Vec<Filter>,
    /// Aggregate functions in lower case (`count`, `arg_max`), and grouping columns with the tag `by:` (`by:Computer`); repeated ones stay.
    pub aggregations: Vec<String>,
    /// Whether the rows of the result come in an order that the query asks for at its top level.
    pub sorted_at_top: bool,
    /// The columns of the result that this order goes by, all of them; empty where one can't be told from the text.
    pub sort_keys: Vec<SortKey>,
    /// Whether a text in KQL didn't parse, so that the rest is what could be made out.
    pub approximate: bool,
}
