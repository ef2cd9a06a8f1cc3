//! Pairs equal rows in order, by the longest common subsequence of both sides.

use super::HashMap;
use super::budget::Budget;
use super::groups::{Group, Sorted, equal_within, group};
use super::projection::Rows;
use super::space::Space;
use super::unordered::Pairing;

/// Groups with more generated rows than this cache their bits instead of computing them for each expected row.
const DENSE: usize = 64;

/// Sorts neighbours with equal `sorted_by` columns into the same order on both sides, then pairs as [`in_order`] does.
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

/// Pairs the first `take` expected rows with generated ones in the same order, as many as possible. A row that is missing or out of place
/// affects only itself, not later rows.
///
/// Uses one bit per generated row and step: 10,000 rows on each side take 10,000 · 157 additions. Doesn't require equality to be
/// transitive, so rows in chains of near numbers are paired optimally. Finding equal rows is limited to `steps`.
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
    // Equal rows at both ends always belong to some longest subsequence, and are most rows of a correct result.
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

/// For each expected row, the equal generated rows as bits.
struct Equals {
    start: usize,
    words: usize,
    groups: Vec<Group>,
    of: Vec<usize>,
    sorted: Vec<Option<Sorted>>,
    /// Bits of large groups in which all rows are equal.
    dense: Vec<Option<Vec<u64>>>,
    /// Number of each distinct row: expected rows ..
    same: Vec<usize>,
    /// .. and generated rows.
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
        // Without budget, only identical rows count.
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

/// Returns one line of bits per expected row. A bit is 0 if including that generated row extends the longest common subsequence by one.
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

/// Pairs of one longest common subsequence, last first.
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
