//! Extracts the tables, filters and aggregations of a KQL query. Tolerant: a text that doesn't parse yields its recognizable parts.
//!
//! `lexer` tokenizes the text once and matches brackets; the other modules walk the tokens: `statements` and `pipeline`, table references
//! (`reference`), predicates (`predicates`) and aggregates (`aggregates`). Uses no schema: a bare name in the position of a table is a
//! table unless the query defines it (`scope`).
//!
//! Recursion follows brackets only and is limited to `DEEPEST`. Deeper parts are skipped, and the shape is approximate.

mod aggregates;
mod columns;
mod grammar;
mod lexer;
mod operator;
mod pipeline;
mod predicates;
mod reference;
mod scope;
mod source;
mod statements;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::hash::Hash;

use super::{QueryShape, SortKey, TableName};
use lexer::TokenKind;
use scope::Scope;
use source::{Source, Span};

/// Maximum depth of brackets, to limit stack use. Real queries are far below.
const DEEPEST: usize = 64;

/// Extracts the shape of a query.
pub fn shape(query: &str) -> QueryShape {
    let source = Source::new(query);
    let mut reader = Reader {
        scope: Scope::default(),
        found: Findings::default(),
        approximate: source.broken,
        source,
    };
    let whole = reader.source.all_tokens();
    reader.approximate |= !reader.is_sound();
    let sorted = reader.statements(&whole, 0);
    let sort_keys = sorted.map_or_else(Vec::new, |(from, to)| reader.sort_keys(&(from..to)));
    QueryShape {
        hidden: Vec::new(),
        tables: reader.found.tables.list,
        wildcards: reader.found.wildcards.list,
        all_tables: reader.found.all_tables,
        qualified: reader.found.qualified.list,
        unknown_functions: reader.found.functions.list,
        filters: reader.found.filters,
        aggregations: reader.found.aggregations,
        sorted_at_top: sorted.is_some(),
        sort_keys,
        approximate: reader.approximate,
    }
}

/// Whether two queries differ only in white space, comments and trailing semicolons. Texts without a query aren't identical. O(n).
pub fn are_identical(one: &str, other: &str) -> bool {
    let (one, other) = (Source::new(one), Source::new(other));
    one.token_texts().next().is_some() && one.token_texts().eq(other.token_texts())
}

/// Whether a text has only white space, comments and semicolons.
pub fn is_nothing(text: &str) -> bool {
    Source::new(text).token_texts().next().is_none()
}

struct Reader<'a> {
    source: Source<'a>,
    scope: Scope<'a>,
    found: Findings,
    approximate: bool,
}

impl Reader<'_> {
    /// Returns the columns of a sort operator, given the tokens after its name, including columns within expressions. Empty if an
    /// expression contains no column.
    fn sort_keys(&self, span: &Span) -> Vec<SortKey> {
        let Some(by) = self
            .source
            .find(span, |at| self.source.is_name(at, span, "by"))
        else {
            return Vec::new();
        };
        let direction = |at| {
            matches!(
                self.source.word(at),
                "asc" | "desc" | "nulls" | "first" | "last"
            )
        };
        let items = self.source.split(&(by + 1..span.end), TokenKind::Comma);
        let keys = items.into_iter().map(|item| {
            let end = item.clone().rev().find(|at| !direction(*at));
            let columns = self.named(&(item.start..end? + 1)).columns;
            let columns = columns.into_iter().map(SortKey::Name);
            Some(columns.collect()).filter(|columns: &Vec<_>| !columns.is_empty())
        });
        let keys: Option<Vec<_>> = keys.collect();
        keys.unwrap_or_default().into_iter().flatten().collect()
    }
}

#[derive(Default)]
struct Findings {
    tables: Distinct<TableName, TableName>,
    wildcards: Distinct<String, String>,
    all_tables: bool,
    qualified: Distinct<String, String>,
    functions: Distinct<String, String>,
    filters: Vec<super::Filter>,
    aggregations: Vec<String>,
}

impl Findings {
    fn table(&mut self, name: String) {
        let table = TableName::bare(name);
        self.tables.add(table.folded(), table);
    }

    fn wildcard(&mut self, pattern: &str) {
        self.wildcards
            .add(pattern.to_lowercase(), pattern.to_owned());
    }

    fn qualified(&mut self, chain: &str) {
        self.qualified.add(chain.to_owned(), chain.to_owned());
    }

    fn function(&mut self, name: &str) {
        self.functions.add(name.to_owned(), name.to_owned());
    }
}

struct Distinct<K, V> {
    list: Vec<V>,
    seen: HashSet<K>,
}

impl<K, V> Default for Distinct<K, V> {
    fn default() -> Self {
        Self {
            list: Vec::new(),
            seen: HashSet::new(),
        }
    }
}

impl<K: Hash + Eq, V> Distinct<K, V> {
    fn add(&mut self, key: K, value: V) {
        if self.seen.insert(key) {
            self.list.push(value);
        }
    }
}
