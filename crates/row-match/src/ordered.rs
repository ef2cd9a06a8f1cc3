//! Pairs equal rows in order: the longest common subsequence of both sides. Never pairs two rows crosswise.

use super::HashMap;
use super::budget::Budget;
use super::groups::{Group, Sorted, equal_within, group};
use super::projection::Rows;
use super::space::Space;
use super::unordered::Pairing;

/// Groups with more generated rows than this keep their bits rather than build them for each expected row.
const DENSE: usize = 64;

/// Pairs rows as [`in_order`] does, once neighbours that are equal in the columns `sorted_by` are in one order on both sides.
pub(super) fn pair(
    space: &Space,
    (expected, generated): (&Rows, &Rows),
    sorted_by: &[usize],
    take: usize,
    steps: u64,
) -> Pairing {
    if sorted_by.is_empty() {
        return in_order(space, (expected, generated), take, steps);
    }
    let (all_expected, all_generated): (Vec<usize>, Vec<usize>) =
        ((0..take).collect(), (0..generated.count()).collect());
    // Rows that may be equal are in one group.
    let mut ranks = (vec![0; take], vec![usize::MAX; generated.count()]);
    let groups = group(
        space,
        (expected, &all_expected),
        (generated, &all_generated),
    );
    for (rank, group) in groups.iter().enumerate() {
        group.expected.iter().for_each(|&row| ranks.0[row] = rank);
        group.generated.iter().for_each(|&row| ranks.1[row] = rank);
    }
    let arranged = |rows: &Rows, mut order: Vec<usize>, ranks: &[usize]| {
        let tied = |&one: &usize, &next: &usize| {
            let mut by = sorted_by.iter();
            by.all(|&column| space.equal(rows.get(one)[column], rows.get(next)[column]))
        };
        for run in order.chunk_by_mut(tied) {
            run.sort_by_key(|&row| ranks[row]);
        }
        (rows.arranged(&order), order)
    };
    let (expected, expected_order) = arranged(expected, all_expected, &ranks.0);
    let (generated, generated_order) = arranged(generated, all_generated, &ranks.1);
    let found = in_order(space, (&expected, &generated), take, steps);
    let mut pairing = Pairing {
        cut_short: found.cut_short,
        ..Pairing::none(take, generated.count())
    };
    for (at, row) in expected_order.into_iter().enumerate() {
        pairing.expected[row] = found.expected[at];
    }
    for (at, row) in generated_order.into_iter().enumerate() {
        pairing.generated[row] = found.generated[at];
    }
    pairing
}

/// Pairs the first `take` expected rows with generated ones so that both follow the same order, as many as there can be. A row
/// that is missing or out of place costs itself, not those after it.
///
/// One bit per generated row and step, so 10,000 rows against as many take 10,000 · 157 additions. Equality needn't carry
/// over for this, so rows in chains of near numbers are paired as well as can be. Finding which are equal takes `steps` at most.
fn in_order(
    space: &Space,
    (expected, generated): (&Rows, &Rows),
    take: usize,
    steps: u64,
) -> Pairing {
    let mut pairing = Pairing::none(take, generated.count());
    let same = |e: usize, g: usize| {
        let mut cells = expected.get(e).iter().zip(generated.get(g));
        cells.all(|(&one, &other)| space.equal(one, other))
    };
    // Equal ends are always part of some longest sequence, and most of a right answer.
    let (mut start, mut e_end, mut g_end) = (0, take, generated.count());
    while start < e_end.min(g_end) && same(start, start) {
        pairing.join(start, start);
        start += 1;
    }
    while start < e_end.min(g_end) && same(e_end - 1, g_end - 1) {
        (e_end, g_end) = (e_end - 1, g_end - 1);
        pairing.join(e_end, g_end);
    }
    if start == e_end || start == g_end {
        return pairing;
    }
    let e_rows: Vec<usize> = (start..e_end).collect();
    let g_rows: Vec<usize> = (start..g_end).collect();
    let groups = group(space, (expected, &e_rows), (generated, &g_rows));
    let mut equals = Equals::new(
        start,
        (expected, e_rows.len()),
        (generated, g_rows.len()),
        groups,
        Budget::new(steps),
    );
    let lines = trace(&mut equals, space, expected, generated);
    for (e, g) in backtrack(&lines, g_rows.len()) {
        pairing.join(start + e, start + g);
    }
    pairing.cut_short = equals.budget.is_exhausted();
    pairing
}

/// For each expected row in turn, the generated rows equal to it, as bits.
struct Equals {
    /// The first row on both sides.
    start: usize,
    words: usize,
    groups: Vec<Group>,
    /// The group of each expected row.
    of: Vec<usize>,
    /// Each loose group's generated rows, sorted.
    sorted: Vec<Option<Sorted>>,
    /// The bits of large groups in which all rows are equal.
    dense: Vec<Option<Vec<u64>>>,
    /// A number for each distinct row: of the expected ones ..
    same: Vec<usize>,
    /// .. and of the generated ones.
    numbered: Vec<usize>,
    budget: Budget,
}

impl Equals {
    fn new(
        start: usize,
        (expected, expected_count): (&Rows, usize),
        (generated, generated_count): (&Rows, usize),
        groups: Vec<Group>,
        budget: Budget,
    ) -> Self {
        let words = generated_count.div_ceil(64);
        let mut of = vec![0; expected_count];
        for (at, group) in groups.iter().enumerate() {
            for &row in &group.expected {
                of[row - start] = at;
            }
        }
        let dense = groups
            .iter()
            .map(|group| {
                let keep = group.loose.is_empty() && group.generated.len() > DENSE;
                keep.then(|| {
                    let mut bits = vec![0; words];
                    set(&mut bits, start, group.generated.iter().copied());
                    bits
                })
            })
            .collect();
        let mut known = HashMap::default();
        let mut numbers = |rows: &Rows| -> Vec<usize> {
            (0..rows.count())
                .map(|row| {
                    let next = known.len();
                    *known.entry(rows.get(row).to_vec()).or_insert(next)
                })
                .collect()
        };
        let (same, numbered) = (numbers(expected), numbers(generated));
        Self {
            start,
            words,
            of,
            sorted: groups.iter().map(|_| None).collect(),
            groups,
            dense,
            same,
            numbered,
            budget,
        }
    }

    /// Fills `bits` with the generated rows equal to the expected row at `at`, counted from the first.
    fn fill(
        &mut self,
        at: usize,
        space: &Space,
        (expected, generated): (&Rows, &Rows),
        bits: &mut [u64],
    ) {
        let of = self.of[at];
        let group = &self.groups[of];
        if let Some(dense) = &self.dense[of] {
            bits.copy_from_slice(dense);
            return;
        }
        bits.fill(0);
        if group.loose.is_empty() {
            set(bits, self.start, group.generated.iter().copied());
            return;
        }
        if self.sorted[of].is_none() {
            self.sorted[of] = Sorted::sort(space, generated, group);
        }
        let Some(sorted) = &self.sorted[of] else {
            return;
        };
        let row = expected.get(self.start + at);
        let Some(value) = space.number(row[sorted.column]) else {
            return;
        };
        let near = &sorted.rows[sorted.near(space, value)];
        let same = self.same[self.start + at];
        let near = near.iter().map(|&(_, candidate)| candidate);
        // Out of budget, only the very same row still counts.
        let equal = near.filter(|&candidate| {
            self.numbered[candidate] == same
                || equal_within(
                    space,
                    group,
                    (row, generated.get(candidate)),
                    &mut self.budget,
                )
        });
        set(bits, self.start, equal);
    }
}

fn set(bits: &mut [u64], start: usize, rows: impl Iterator<Item = usize>) {
    for row in rows {
        let bit = row - start;
        bits[bit / 64] |= 1 << (bit % 64);
    }
}

/// One line of bits per expected row: a bit is 0 where one generated row more makes the longest common subsequence one longer.
fn trace(equals: &mut Equals, space: &Space, expected: &Rows, generated: &Rows) -> Vec<Vec<u64>> {
    let words = equals.words;
    let mut bits = vec![0; words];
    let mut line = vec![u64::MAX; words];
    let mut lines = Vec::with_capacity(equals.of.len());
    for at in 0..equals.of.len() {
        equals.fill(at, space, (expected, generated), &mut bits);
        let mut carry = false;
        for (value, &equal) in line.iter_mut().zip(&bits) {
            let hit = *value & equal;
            let (sum, first) = value.overflowing_add(hit);
            let (sum, second) = sum.overflowing_add(u64::from(carry));
            carry = first || second;
            *value = sum | (*value - hit);
        }
        lines.push(line.clone());
    }
    lines
}

/// The pairs of one longest common subsequence, last first.
fn backtrack(lines: &[Vec<u64>], generated: usize) -> Vec<(usize, usize)> {
    let longer = |line: usize, bit: usize| lines[line][bit / 64] >> (bit % 64) & 1 == 0;
    let mut pairs = Vec::new();
    let (mut e, mut g) = (lines.len(), generated);
    while e > 0 && g > 0 {
        if !longer(e - 1, g - 1) {
            g -= 1;
        } else if e > 1 && longer(e - 2, g - 1) {
            e -= 1;
        } else {
            (e, g) = (e - 1, g - 1);
            pairs.push((e, g));
        }
    }
    pairs
}
