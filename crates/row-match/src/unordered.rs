//! Pairs equal rows, whatever their order, each row once. Never pairs a row by halves.

use std::collections::VecDeque;

use super::HashMap;
use super::budget::Budget;
use super::groups::{Group, Sorted, equal_within, group};
use super::projection::Rows;
use super::space::Space;
use super::table::CellId;

/// Which rows found a partner.
#[derive(Debug)]
pub(super) struct Pairing {
    /// Per expected row.
    pub(super) expected: Vec<bool>,
    /// Per generated row.
    pub(super) generated: Vec<bool>,
    /// Whether the work was cut short: more rows may be equal.
    pub(super) cut_short: bool,
}

impl Pairing {
    /// No row of so many has a partner yet.
    pub(super) fn none(expected: usize, generated: usize) -> Self {
        Self {
            expected: vec![false; expected],
            generated: vec![false; generated],
            cut_short: false,
        }
    }

    /// How many pairs there are.
    pub(super) fn matched(&self) -> usize {
        self.expected.iter().filter(|&&matched| matched).count()
    }

    pub(super) fn join(&mut self, expected: usize, generated: usize) {
        self.expected[expected] = true;
        self.generated[generated] = true;
    }
}

/// Pairs the first `take` expected rows with all generated ones: first those that are the same cell by cell, by hash, then
/// those that are equal within the tolerance.
///
/// Within the tolerance, equality doesn't carry over: 1.0 equals 1.0000009, which equals 1.0000018, which isn't 1.0. Of rows
/// that form such chains fewer pairs may be found than there can be: those that are the same are paired first, though one of
/// them may be the only fit of a third; and of the rest, where the chains are in several columns, the first fit counts. In one
/// column, the rest gives as many pairs as it can. Telling rows apart takes `steps` at most.
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

/// Pairs rows with the same cells, the earlier ones first.
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

/// Pairs rows of a loose group, both sides in the order of one column, each with the first that is equal and free.
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
    // The next place that is free, at or after each: a place that is taken points on.
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

/// The first free place from `place` on, shortening the way for those who come later.
fn next_free(free: &mut [usize], mut place: usize) -> usize {
    while free[place] != place {
        free[place] = free[free[place]];
        place = free[place];
    }
    place
}
