//! Similarity of two queries by their tables, filters and aggregations: 0.4 tables + 0.3 filters + 0.3 aggregations.
//!
//! Compares two [`QueryShape`]s of one language, ignoring case. Doesn't parse or execute queries.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use serde::Serialize;

use query_shape::{QueryShape, TableName};

const TABLES: f64 = 0.4;
const FILTERS: f64 = 0.3;
const AGGREGATIONS: f64 = 0.3;

const SHOWN: usize = 50;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Similarity {
    pub score: f64,
    /// Jaccard index of the tables. Patterns (`App*`) count as tables, as does `*` for a query that reads all tables.
    pub tables: Overlap,
    /// F1 of the operators of predicates.
    pub filters: Overlap,
    /// F1 of aggregate functions and grouping columns.
    pub aggregations: Overlap,
    /// Jaccard index of the columns in filters; not part of the score.
    pub filter_columns: Overlap,
    /// Jaccard index of the literals in filters, with normalized durations and dates; not part of the score.
    pub filter_literals: Overlap,
    /// Whether one of the queries, in KQL, didn't parse, so that this covers only its recognized parts.
    pub approximate: bool,
}

/// Result of one comparison. Lists are in query order, in lower case, and limited to 50 entries.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Overlap {
    /// Between 0 and 1; 1 if both sides are empty, 0 if only one is.
    pub score: f64,
    pub matched: Vec<String>,
    pub missing: Vec<String>,
    pub extra: Vec<String>,
}

pub fn similarity(expected: &QueryShape, generated: &QueryShape) -> Similarity {
    let tables = tables(&read(expected), &read(generated));
    let filters = multiset_f1(&operators(expected), &operators(generated));
    let aggregations = multiset_f1(
        &lower(&expected.aggregations),
        &lower(&generated.aggregations),
    );
    Similarity {
        score: TABLES * tables.score + FILTERS * filters.score + AGGREGATIONS * aggregations.score,
        tables,
        filters,
        aggregations,
        filter_columns: jaccard(&columns(expected), &columns(generated)),
        filter_literals: jaccard(&literals(expected), &literals(generated)),
        approximate: expected.approximate || generated.approximate,
    }
}

/// Jaccard index of two sets of tables. Two qualified names match if all parts are equal. Otherwise the last parts must be equal
/// (`public.users` matches `users`). Each name matches at most one of the other side.
pub fn tables(expected: &[TableName], generated: &[TableName]) -> Overlap {
    let expected = distinct(expected.iter().map(TableName::folded));
    let generated = distinct(generated.iter().map(TableName::folded));
    let whole: HashSet<&TableName> = expected.iter().collect();
    let both: HashSet<&TableName> = generated
        .iter()
        .filter(|name| whole.contains(name))
        .collect();
    // Remaining names match by the last part if exactly one of the two is qualified.
    let mut partners: HashMap<(&str, bool), Vec<&TableName>> = HashMap::new();
    for table in generated.iter().rev().filter(|table| !both.contains(table)) {
        let key = (table.name.as_str(), table.qualifiers.is_empty());
        partners.entry(key).or_default().push(table);
    }
    let mut paired: HashSet<&TableName> = both.clone();
    let (mut matched, mut missing) = (Vec::new(), Vec::new());
    for table in &expected {
        let key = (table.name.as_str(), !table.qualifiers.is_empty());
        if both.contains(table) {
            matched.push(table.dotted());
        } else if let Some(partner) = partners.get_mut(&key).and_then(Vec::pop) {
            paired.insert(partner);
            matched.push(table.dotted());
        } else {
            missing.push(table.dotted());
        }
    }
    let extra = generated.iter().filter(|table| !paired.contains(table));
    let extra: Vec<String> = extra.map(TableName::dotted).collect();
    let union = matched.len() + missing.len() + extra.len();
    Overlap::new(ratio(matched.len(), union), matched, missing, extra)
}

pub fn jaccard(expected: &[String], generated: &[String]) -> Overlap {
    let expected = distinct(expected.iter().cloned());
    let generated = distinct(generated.iter().cloned());
    let (matched, missing, extra) = difference(&expected, &generated);
    let union = matched.len() + missing.len() + extra.len();
    Overlap::new(ratio(matched.len(), union), matched, missing, extra)
}

/// F1 of two lists as multisets: twice the number of shared entries, divided by the number of all entries.
pub fn multiset_f1(expected: &[String], generated: &[String]) -> Overlap {
    let (matched, missing, extra) = difference(expected, generated);
    let score = ratio(2 * matched.len(), expected.len() + generated.len());
    Overlap::new(score, matched, missing, extra)
}

impl Overlap {
    fn new(score: f64, matched: Vec<String>, missing: Vec<String>, extra: Vec<String>) -> Self {
        let shown = |mut list: Vec<String>| {
            list.truncate(SHOWN);
            list
        };
        Self {
            score,
            matched: shown(matched),
            missing: shown(missing),
            extra: shown(extra),
        }
    }
}

fn ratio(part: usize, whole: usize) -> f64 {
    if whole == 0 {
        return 1.0;
    }
    part as f64 / whole as f64
}

fn difference(
    expected: &[String],
    generated: &[String],
) -> (Vec<String>, Vec<String>, Vec<String>) {
    let mut left: HashMap<&str, usize> = HashMap::new();
    for entry in generated {
        *left.entry(entry).or_default() += 1;
    }
    let (mut matched, mut missing) = (Vec::new(), Vec::new());
    for entry in expected {
        match left.get_mut(entry.as_str()) {
            Some(count) if *count > 0 => {
                *count -= 1;
                matched.push(entry.clone());
            }
            Some(_) | None => missing.push(entry.clone()),
        }
    }
    let mut extra = Vec::new();
    for entry in generated.iter().rev() {
        if let Some(count) = left.get_mut(entry.as_str()).filter(|count| **count > 0) {
            *count -= 1;
            extra.push(entry.clone());
        }
    }
    extra.reverse();
    (matched, missing, extra)
}

fn distinct<T: Clone + Eq + Hash>(entries: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = HashSet::new();
    entries.filter(|entry| seen.insert(entry.clone())).collect()
}

fn read(shape: &QueryShape) -> Vec<TableName> {
    let mut tables = shape.tables.clone();
    tables.extend(shape.wildcards.iter().map(TableName::bare));
    if shape.all_tables {
        tables.push(TableName::bare("*"));
    }
    tables
}

fn lower(entries: &[String]) -> Vec<String> {
    entries.iter().map(|entry| entry.to_lowercase()).collect()
}

fn operators(shape: &QueryShape) -> Vec<String> {
    let filters = shape.filters.iter();
    filters.map(|it| it.operator.to_lowercase()).collect()
}

fn columns(shape: &QueryShape) -> Vec<String> {
    let columns = shape.filters.iter().flat_map(|filter| &filter.columns);
    columns.map(|column| column.to_lowercase()).collect()
}

fn literals(shape: &QueryShape) -> Vec<String> {
    let literals = shape.filters.iter().flat_map(|filter| &filter.literals);
    literals.map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests;
