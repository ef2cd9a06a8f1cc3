//! Counts the values shared by each unmapped expected column and its allowed generated columns, regardless of rows.

use super::clusters::Clusters;
use super::space::Space;
use super::table::{CellId, Table};

/// Maximum steps to count common values. Beyond it, a sample of the values is counted, the same in every column.
const STEPS: usize = 60_000_000;
/// Columns with at most this many distinct values aren't sampled.
const SMALL: usize = 64;
/// Above this number of cells, near numbers are grouped approximately.
const MAX_SORTED: usize = 1_000_000;

/// Columns to map by values, with the number of values shared.
pub(super) struct Weights {
    /// Generated columns, as indices into their table.
    pub(super) generated: Vec<usize>,
    /// Classes of the expected columns' cells, per column and row.
    pub(super) expected_cells: Vec<Vec<CellId>>,
    pub(super) generated_cells: Vec<Vec<CellId>>,
    /// Size of the largest common multiset, per expected column in the given order and generated column; 0 if the pair isn't allowed.
    pub(super) shared: Vec<Vec<usize>>,
    /// Number of distinct values per expected column.
    pub(super) distinct: Vec<usize>,
    /// Whether values were sampled, or near numbers grouped approximately.
    pub(super) cut_short: bool,
}

/// Distinct values of a column with their counts, ascending.
type Histogram = Vec<(CellId, usize)>;

impl Weights {
    /// Counts for the expected columns `open`, with one list of allowed generated columns each.
    pub(super) fn count(
        space: &Space,
        (expected, open): (&Table, &[usize]),
        (generated, allowed): (&Table, &[Vec<usize>]),
    ) -> Self {
        let mut places: Vec<usize> = allowed.concat();
        places.sort_unstable();
        places.dedup();
        let mut expected_cells: Vec<Vec<CellId>> = open
            .iter()
            .map(|&column| expected.columns()[column].cells.clone())
            .collect();
        let mut generated_cells: Vec<Vec<CellId>> = places
            .iter()
            .map(|&place| {
                let cells = generated.columns()[place].cells.iter();
                cells.map(|&id| space.of_generated(id)).collect()
            })
            .collect();
        let exact = take_together(space, &mut expected_cells, &mut generated_cells);
        let mut expected_counts: Vec<Histogram> =
            expected_cells.iter().map(|c| histogram(c)).collect();
        let mut generated_counts: Vec<Histogram> =
            generated_cells.iter().map(|c| histogram(c)).collect();
        let distinct = expected_counts.iter().map(Vec::len).collect();
        let sampled = thin_out(&mut expected_counts, &mut generated_counts);
        let shared = expected_counts
            .iter()
            .zip(allowed)
            .map(|(one, allowed)| {
                let counts = generated_counts.iter().zip(&places);
                counts
                    .map(|(other, place)| {
                        if allowed.contains(place) {
                            common(one, other)
                        } else {
                            0
                        }
                    })
                    .collect()
            })
            .collect();
        Self {
            generated: places,
            expected_cells,
            generated_cells,
            shared,
            distinct,
            cut_short: sampled || !exact,
        }
    }
}

/// Replaces numbers in a chain of near numbers by one value. Returns false if this was approximate, because of too many cells.
fn take_together(
    space: &Space,
    expected: &mut [Vec<CellId>],
    generated: &mut [Vec<CellId>],
) -> bool {
    let cells = expected.iter().chain(generated.iter()).flatten().copied();
    if !cells.clone().any(|cell| space.is_float(cell)) {
        return true;
    }
    let exact = cells.clone().count() <= MAX_SORTED;
    let mut clusters = Clusters::new(space);
    if exact {
        clusters.take(space, cells);
    } else {
        clusters.take_roughly(space, cells);
    }
    for column in expected.iter_mut().chain(generated) {
        for cell in column {
            *cell = clusters.class(*cell);
        }
    }
    exact
}

fn histogram(cells: &[CellId]) -> Histogram {
    let mut sorted = cells.to_vec();
    sorted.sort_unstable();
    sorted
        .chunk_by(|a, b| a == b)
        .map(|run| (run[0], run.len()))
        .collect()
}

/// Samples the values of large columns if all pairs of columns would take too many steps. Returns whether it did.
fn thin_out(expected: &mut [Histogram], generated: &mut [Histogram]) -> bool {
    let values = |side: &[Histogram]| side.iter().map(Vec::len).sum::<usize>();
    let steps = values(expected) * generated.len() + values(generated) * expected.len();
    let one_in = (steps / STEPS + 1) as u64;
    if one_in == 1 {
        return false;
    }
    // Fibonacci hashing scatters neighbouring numbers.
    let kept = |cell: CellId| {
        (u64::from(cell).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32).is_multiple_of(one_in)
    };
    for column in expected.iter_mut().chain(generated) {
        if column.len() > SMALL {
            column.retain(|&(cell, _)| kept(cell));
        }
    }
    true
}

fn common(one: &Histogram, other: &Histogram) -> usize {
    let (mut a, mut b, mut size) = (0, 0, 0);
    while let (Some(&(left, count)), Some(&(right, counted))) = (one.get(a), other.get(b)) {
        if left == right {
            size += count.min(counted);
        }
        a += usize::from(left <= right);
        b += usize::from(right <= left);
    }
    size
}
