//! Compares two query results: finds the expected rows that are missing, and the unexpected ones. Pure, with bounded time and memory.
//! Callers decide the weight of the result and whether order matters.
//!
//! A result becomes a [`Table`] of normalized cells. [`compare`] maps generated columns to expected ones, and pairs equal rows one to one.

#![warn(missing_docs)]

mod assign;
mod budget;
mod cell;
mod clusters;
mod columns;
mod date;
mod groups;
mod json;
mod names;
mod nested;
mod ordered;
mod projection;
mod search;
mod space;
mod table;
#[cfg(test)]
mod tests;
mod unordered;
mod weights;

use std::num::NonZeroUsize;

/// Map of cells or rows. Keys are untrusted, so the hash is randomly seeded like the standard one, at a third of its cost.
type HashMap<K, V> = std::collections::HashMap<K, V, foldhash::fast::RandomState>;

use budget::Steps;
use columns::Mapping;
use names::share;
use space::Space;
use unordered::Pairing;

pub use cell::number_in_text;
pub use json::{JsonError, parse_json, readable_json, unambiguous_json};
pub use names::{SchemaMatch, schema_match};
pub use table::{MAX_COLUMNS, MAX_ROWS, Table, TableError};

/// Maximum missing and extra rows listed by a comparison.
pub const SHOWN_ROWS: usize = 5;

/// Case sensitivity of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Case {
    /// Case-insensitive.
    #[default]
    Ignored,
    /// Case-sensitive.
    Heeded,
}

/// Options of a comparison.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Options {
    /// Whether rows must be in the expected order. Then the longest common subsequence counts: a row that is missing or out of place
    /// affects only itself, not later rows.
    pub ordered: bool,
    /// For ordered rows, indices of the expected sort columns. Neighbours with equal values in all of them may be swapped. Empty: no rows
    /// may be swapped.
    pub sorted_by: Vec<usize>,
    /// Numbers are also equal if equal after rounding to this many decimals, halves away from zero. Maximum 15; larger values count as 15.
    pub decimals: Option<u8>,
    /// Number of expected rows, from the first, that count for [`Comparison::score`]. They may match any generated row. `None`: all.
    pub cap_expected: Option<NonZeroUsize>,
}

/// Result of a comparison. Shares are between 0 and 1: 1 if both sides are empty, 0 if only one is.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// `matched / compared`.
    pub score: f64,
    /// Number of compared expected rows found.
    pub matched: usize,
    /// Number of expected rows compared: all, or the cap.
    pub compared: usize,
    /// Number of pairs of equal rows without a cap.
    pub matched_in_all: usize,
    /// Number of rows of the expected table.
    pub expected_rows: usize,
    /// Number of rows of the generated table.
    pub generated_rows: usize,
    /// `matched_in_all / expected_rows`.
    pub recall: f64,
    /// `matched_in_all / generated_rows`, reduced by duplicate and extra rows.
    pub precision: f64,
    /// Harmonic mean of recall and precision.
    pub f1: f64,
    /// Generated column for each expected one. If one is `None`, no row matches.
    pub columns: Vec<Option<usize>>,
    /// Indices of the first [`SHOWN_ROWS`] expected rows not found, of all rows.
    pub missing: Vec<usize>,
    /// Indices of the first [`SHOWN_ROWS`] generated rows that weren't expected.
    pub extra: Vec<usize>,
    /// Whether a search was stopped early, so that more rows may match. Happens only for unusual results, such as thousands of rows of
    /// nearly equal numbers.
    pub cut_short: bool,
}

/// Compares a generated result with the expected one.
///
/// Cells are equal if their normalized values are, or if they are numbers, not both integers, that differ by at most 1e-9 or a millionth of
/// the larger one. NULL equals only NULL. Columns are mapped by name, else by values; extra columns are ignored. Rows are paired one to
/// one, first those with identical cells, then those within the tolerance.
///
/// Time and memory are bounded by [`MAX_ROWS`] and [`MAX_COLUMNS`]. Potentially longer searches have a budget of steps.
#[must_use]
pub fn compare(expected: &Table, generated: &Table, options: &Options) -> Comparison {
    compare_within(expected, generated, options, Steps::ALL)
}

fn compare_within(
    expected: &Table,
    generated: &Table,
    options: &Options,
    steps: Steps,
) -> Comparison {
    let space = Space::new(expected, generated, options.decimals);
    let mapping = columns::map(&space, expected, generated, steps.columns);
    let cap = options.cap_expected.map_or(usize::MAX, NonZeroUsize::get);
    let compared = expected.rows().min(cap);
    let (all, capped) = match columns::side_by_side(&space, (expected, generated), &mapping) {
        Some((one, other)) => {
            let rows = (&one, &other);
            let pair = |take| {
                if options.ordered {
                    ordered::pair(&space, rows, &options.sorted_by, take, steps.rows)
                } else {
                    unordered::pair(&space, rows, take, steps.rows)
                }
            };
            let all = pair(expected.rows());
            // If the first rows were all found among all rows, they are also found without the others.
            let found = all.expected[..compared].iter().all(|&matched| matched);
            let capped = (!found && compared < expected.rows()).then(|| pair(compared));
            (all, capped)
        }
        None => (Pairing::none(expected.rows(), generated.rows()), None),
    };
    report(mapping, &all, capped.as_ref(), compared)
}

fn report(
    mapping: Mapping,
    all: &Pairing,
    capped: Option<&Pairing>,
    compared: usize,
) -> Comparison {
    let matched_in_all = all.matched();
    let first = &all.expected[..compared];
    let matched = capped.map_or_else(
        || first.iter().filter(|&&matched| matched).count(),
        Pairing::matched,
    );
    let (expected_rows, generated_rows) = (all.expected.len(), all.generated.len());
    let both = expected_rows + generated_rows;
    let of_rows = |part, whole| {
        if whole == 0 && both > 0 {
            0.0
        } else {
            share(part, whole)
        }
    };
    Comparison {
        score: of_rows(matched, compared),
        matched,
        compared,
        matched_in_all,
        expected_rows,
        generated_rows,
        recall: of_rows(matched_in_all, expected_rows),
        precision: of_rows(matched_in_all, generated_rows),
        f1: share(2 * matched_in_all, both),
        columns: mapping.columns,
        missing: unmatched(&all.expected),
        extra: unmatched(&all.generated),
        cut_short: mapping.cut_short
            || all.cut_short
            || capped.is_some_and(|capped| capped.cut_short),
    }
}

fn unmatched(matched: &[bool]) -> Vec<usize> {
    let places = matched.iter().enumerate();
    let alone = places.filter_map(|(place, matched)| (!matched).then_some(place));
    alone.take(SHOWN_ROWS).collect()
}
