mod aggregations;
mod limits;
mod order;
mod predicates;
mod tables;

use super::shape;
use crate::{Filter, QueryShape};

fn exact(query: &str) -> QueryShape {
    let shape = shape(query);
    assert!(!shape.approximate, "{query} reads as approximate");
    shape
}

fn names(shape: &QueryShape) -> Vec<&str> {
    shape
        .tables
        .iter()
        .map(|table| table.name.as_str())
        .collect()
}

fn operators(shape: &QueryShape) -> Vec<&str> {
    (shape.filters.iter())
        .map(|filter| filter.operator.as_str())
        .collect()
}

fn filter(query: &str) -> Filter {
    let mut filters = exact(query).filters;
    assert_eq!(filters.len(), 1, "{query}");
    filters.remove(0)
}
