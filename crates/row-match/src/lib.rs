//! Compares two results of queries: which of the expected rows are there, and which rows nobody expected. Pure, bounded, and
//! the same for every caller; never decides what a share of matched rows is worth, nor whether order matters.
//!
//! A result becomes a [`Table`], in which cells that mean the same are the same. [`compare`] then finds out which generated
//! column stands for which expected one, and pairs equal rows, each once.

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

/// Maps of cells and rows, which are hostile text: seeded at random as the standard ones are, at a third of their cost.
type HashMap<K, V> = std::collections::HashMap<K, V, foldhash::fast::RandomState>;

use budget::Steps;
use columns::Mapping;
use names::share;
use space::Space;
use unordered::Pairing;

pub use json::{JsonError, parse_json, readable_json, unambiguous_json};
pub use names::{SchemaMatch, schema_match};
pub use table::{MAX_COLUMNS, MAX_ROWS, Table, TableError};

/// How many missing and extra rows a comparison names.
pub const SHOWN_ROWS: usize = 5;

/// Whether text that differs in the case of letters only is the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Case {
    /// It is.
    #[default]
    Ignored,
    /// It isn't.
    Heeded,
}

/// How rows are compared.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Options {
    /// Whether rows must come in the expected order. Then the longest common subsequence counts: a row that is missing or out
    /// of place costs itself, not those after it.
    pub ordered: bool,
    /// Where rows are ordered, the expected columns that they are sorted by: neighbours that are equal in all of them may change
    /// places. None: no rows may.
    pub sorted_by: Vec<usize>,
    /// Decimals after which numbers may also be rounded, halves away from zero, to be equal; above 15 is taken as 15.
    pub decimals: Option<u8>,
    /// How many expected rows count for [`Comparison::score`], from the first; all generated rows are looked through for
    /// them. `None`: all.
    pub cap_expected: Option<NonZeroUsize>,
}

/// What two results have in common. Shares are between 0 and 1; both empty 1, one side empty 0.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// `matched / compared`.
    pub score: f64,
    /// How many of the compared expected rows were found.
    pub matched: usize,
    /// How many expected rows were compared: all, or as many as the cap allows.
    pub compared: usize,
    /// How many pairs of equal rows there are without a cap.
    pub matched_in_all: usize,
    /// Rows of the expected table.
    pub expected_rows: usize,
    /// Rows of the generated table.
    pub generated_rows: usize,
    /// `matched_in_all / expected_rows`.
    pub recall: f64,
    /// `matched_in_all / generated_rows`: what a duplicated or an extra row costs.
    pub precision: f64,
    /// The harmonic mean of recall and precision.
    pub f1: f64,
    /// For each expected column, the generated column that stands for it. If one stands alone, no row matches.
    pub columns: Vec<Option<usize>>,
    /// Places of the first [`SHOWN_ROWS`] expected rows that weren't found, of all.
    pub missing: Vec<usize>,
    /// Places of the first [`SHOWN_ROWS`] generated rows that nobody expected.
    pub extra: Vec<usize>,
    /// Whether a search was cut short: more rows may match than were found. Only results far from usual come to that, such
    /// as thousands of rows of numbers that are all nearly equal.
    pub cut_short: bool,
}

/// Compares a generated result with the expected one.
///
/// Two cells are equal if they are the same once normalised, or if they are numbers, not both integers, that differ by
/// at most 1e-9 or a millionth of the larger one. NULL equals NULL and nothing else. Columns go by name, else by values;
/// extra columns are free. Rows are paired one to one: those that are the same cell by cell first, then those within
/// the tolerance.
///
/// Time and memory are bounded by [`MAX_ROWS`] and [`MAX_COLUMNS`]: searches that could take longer have budgets of steps.
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
            // If all of the first rows were found among all, they are found alone.
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
        missing: alone(&all.expected),
        extra: alone(&all.generated),
        cut_short: mapping.cut_short
            || all.cut_short
            || capped.is_some_and(|capped| capped.cut_short),
    }
}

/// The first places without a partner.
fn alone(matched: &[bool]) -> Vec<usize> {
    let places = matched.iter().enumerate();
    let alone = places.filter_map(|(place, matched)| (!matched).then_some(place));
    alone.take(SHOWN_ROWS).collect()
}
