//! Pairs equal rows in any order, each row once.

use std::collections::VecDeque;

use super::HashMap;
use super::budget::Budget;
use super::groups::{Group, Sorted, equal_within, group};
use super::projection::Rows;
use super::space::Space;
use super::table::CellId;

#[derive(Debug)]
pub(super) struct Pairing {
    pub(super) expected: Vec<bool>,
    pub(super) generated: Vec<bool>,
    /// Whether the work was stopped early, so that more rows may be equal.
    pub(super) cut_short: bool,
}

impl Pairing {
    pub(super) fn none(expected: usize, generated: usize) -> Self {
        Self {
            expected: vec![false; expected],
            generated: vec![false; generated],
            cut_short: false,
        }
    }

    pub(super) fn matched(&self) -> usize {
        self.expected.iter().filter(|&&matched| matched).count()
    }

    pub(super) fn join(&mut self, expected: usize, generated: usize) {
        self.expected[expected] = true;
        self.generated[generated] = true;
    }
}

/// Pairs the first `take` expected rows with all generated ones: first rows with identical cells, by hash, then rows within the tolerance.
///
/// Equality within the tolerance isn't transitive: 1.0 equals 1.0000009, which equals 1.0000018, which isn't 1.0. For rows in such chains,
/// the number of pairs may not be optimal. Identical rows are paired first, though one of them may be the only match of a third. Of the
/// rest, with chains in several columns, the first match is used; in one column, the number of pairs is optimal. Comparing rows is limited
/// to `steps`.
pub(super) fn pair(
    space: &Space,
    (expected, generated): (&Rows, &Rows),
    take: usize,
    steps: u64,
) -> Pairing {
    let mut pairing = Pairing::none(take, generated.count());
    pair_same(expected, generated, &mut pairing);
    let left = |matched: &[bool]| -> Vec<usize> {
        let rows = matched.iter().enumerate();
        rows.filter_map(|(row, &matched)| (!matched).then_some(row))
            .collect()
    };
    let (left_expected, left_generated) = (left(&pairing.expected), left(&pairing.generated));
    if left_expected.is_empty() || left_generated.is_empty() {
        return pairing;
    }
    let groups = group(
        space,
        (expected, &left_expected),
        (generated, &left_generated),
    );
    let mut budget = Budget::new(steps);
    for group in groups {
        match Sorted::sort(space, generated, &group) {
            None => {
                for (&e, &g) in group.expected.iter().zip(&group.generated) {
                    pairing.join(e, g);
                }
            }
            Some(sorted) => {
                let rows = (expected, generated);
                pair_near(space, rows, &group, &sorted, &mut budget, &mut pairing);
            }
        }
    }
    pairing.cut_short = budget.is_exhausted();
    pairing
}

fn pair_same(expected: &Rows, generated: &Rows, pairing: &mut Pairing) {
    let mut places: HashMap<&[CellId], VecDeque<usize>> =
        HashMap::with_capacity_and_hasher(generated.count(), Default::default());
    for row in 0..generated.count() {
        places.entry(generated.get(row)).or_default().push_back(row);
    }
    for row in 0..pairing.expected.len() {
        let found = places.get_mut(expected.get(row));
        if let Some(place) = found.and_then(VecDeque::pop_front) {
            pairing.join(row, place);
        }
    }
}

/// Pairs rows of a loose group, both sides sorted by one column, each with the first free equal row.
fn pair_near(
    space: &Space,
    (expected, generated): (&Rows, &Rows),
    group: &Group,
    sorted: &Sorted,
    budget: &mut Budget,
    pairing: &mut Pairing,
) {
    let mut rows: Vec<(f64, usize)> = group
        .expected
        .iter()
        .filter_map(|&row| Some((space.number(expected.get(row)[sorted.column])?, row)))
        .collect();
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    // Union-find of free places: a used place points to a later one.
    let mut free: Vec<usize> = (0..=sorted.rows.len()).collect();
    for (value, row) in rows {
        let window = sorted.near(space, value);
        let mut place = next_free(&mut free, window.start);
        while place < window.end {
            let candidate = sorted.rows[place].1;
            let pair = (expected.get(row), generated.get(candidate));
            if equal_within(space, group, pair, budget) {
                pairing.join(row, candidate);
                free[place] = place + 1;
                break;
            }
            if budget.is_exhausted() {
                return;
            }
            place = next_free(&mut free, place + 1);
        }
    }
}

/// Returns the first free place from `place` on, with path compression.
fn next_free(free: &mut [usize], mut place: usize) -> usize {
    while free[place] != place {
        free[place] = free[free[place]];
        place = free[place];
    }
    place
}
