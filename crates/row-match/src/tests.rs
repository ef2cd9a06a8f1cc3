mod bounds;
mod cells;
mod columns;
mod rows;

use serde_json::Value;

use super::{Comparison, Options, Table, compare};

fn table(rows: &str) -> Table {
    let rows: Vec<Value> = serde_json::from_str(rows).unwrap();
    Table::from_values(&rows, None).unwrap()
}

/// Compares the rows of two JSON texts, in any order.
fn compared(expected: &str, generated: &str) -> Comparison {
    compare(&table(expected), &table(generated), &Options::default())
}

fn in_order(expected: &str, generated: &str) -> Comparison {
    let options = Options {
        ordered: true,
        ..Options::default()
    };
    compare(&table(expected), &table(generated), &options)
}
