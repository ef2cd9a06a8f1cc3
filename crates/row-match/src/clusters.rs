//! Groups cells that may be equal into classes: numbers in a chain of near numbers share a class. Only the classes outside of `loose`
//! guarantee that all their cells are equal.

use super::HashMap;
use super::space::Space;
use super::table::CellId;

/// Classes of the current cells. Equal cells share a class.
pub(super) struct Clusters {
    /// Class of each cell: the cell itself, except for those in `shared`.
    class: Vec<CellId>,
    shared: Vec<CellId>,
    /// Classes with unequal cells, ascending.
    loose: Vec<CellId>,
    /// Scratch space of `take`; all false between calls.
    met: Vec<bool>,
}

impl Clusters {
    /// Each cell starts in a separate class.
    pub(super) fn new(space: &Space) -> Self {
        Self {
            class: (0..).take(space.len()).collect(),
            shared: Vec::new(),
            loose: Vec::new(),
            met: vec![false; space.len()],
        }
    }

    /// Replaces the current cells, in any order, in O(n log n). Without a float, each cell is a separate class, because integers can't
    /// be near.
    pub(super) fn take(&mut self, space: &Space, cells: impl Iterator<Item = CellId> + Clone) {
        self.clear();
        if !cells.clone().any(|cell| space.is_float(cell)) {
            return;
        }
        let mut numbers: Vec<(f64, CellId)> = Vec::new();
        for cell in cells {
            if let Some(number) = space.number(cell)
                && !std::mem::replace(&mut self.met[cell as usize], true)
            {
                numbers.push((number, cell));
            }
        }
        for &(_, cell) in &numbers {
            self.met[cell as usize] = false;
        }
        numbers.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        // If numbers on both sides of a gap are near, so are those between. So chains end at neighbours that aren't near.
        for run in numbers.chunk_by(|one, next| space.near(one.0, next.0)) {
            self.divide(space, run);
        }
        self.loose.sort_unstable();
    }

    /// Replaces the current cells, in O(n), by a grid a few times wider than the tolerance. Inexact: some near numbers are in two squares,
    /// and squares contain numbers that aren't near. For cells too numerous to sort.
    pub(super) fn take_roughly(&mut self, space: &Space, cells: impl Iterator<Item = CellId>) {
        self.clear();
        let mut first = HashMap::default();
        for cell in cells {
            if let Some(number) = space.number(cell) {
                // Keeps 16 bits of mantissa: squares of 1.5e-5 of the number.
                let square = (number.to_bits() + (1 << 35)) >> 36;
                self.class[cell as usize] = *first.entry(square).or_insert(cell);
                self.shared.push(cell);
            }
        }
    }

    pub(super) fn class(&self, cell: CellId) -> CellId {
        self.class[cell as usize]
    }

    pub(super) fn loose(&self) -> &[CellId] {
        &self.loose
    }

    /// Joins near numbers in a chain, each near to the next.
    fn divide(&mut self, space: &Space, run: &[(f64, CellId)]) {
        match run {
            [] | [_] => return,
            // The usual case, one number per side: near, so equal unless both are integers.
            [one, other] => {
                if space.is_float(one.1) || space.is_float(other.1) {
                    self.join(space, run);
                }
                return;
            }
            _ => {}
        }
        let mut from = 0;
        for (at, joined) in joined(space, run).into_iter().enumerate() {
            if !joined {
                self.join(space, &run[from..=at]);
                from = at + 1;
            }
        }
    }

    fn clear(&mut self) {
        for cell in self.shared.drain(..) {
            self.class[cell as usize] = cell;
        }
        self.loose.clear();
    }

    fn join(&mut self, space: &Space, numbers: &[(f64, CellId)]) {
        let [first, .., last] = numbers else {
            return;
        };
        let class = first.1;
        for &(_, cell) in numbers {
            self.class[cell as usize] = class;
            self.shared.push(cell);
        }
        let integers = numbers.iter().filter(|(_, cell)| !space.is_float(*cell));
        if integers.count() > 1 || !space.near(first.0, last.0) {
            self.loose.push(class);
        }
    }
}

/// For each sorted number, whether some float is near to numbers on both sides of the following gap, including itself. False for the last.
fn joined(space: &Space, numbers: &[(f64, CellId)]) -> Vec<bool> {
    // Number of float ranges that start, and end, at each number.
    let mut begins = vec![0_u32; numbers.len()];
    let mut ends = vec![0_u32; numbers.len()];
    // Both ends of the range only increase from one float to the next.
    let (mut from, mut to) = (0, 0);
    for (at, &(value, cell)) in numbers.iter().enumerate() {
        if !space.is_float(cell) {
            continue;
        }
        while from < at && !space.near(numbers[from].0, value) {
            from += 1;
        }
        to = to.max(at + 1);
        while to < numbers.len() && space.near(numbers[to].0, value) {
            to += 1;
        }
        begins[from] += 1;
        ends[to - 1] += 1;
    }
    let mut open = 0;
    begins
        .into_iter()
        .zip(ends)
        .map(|(begun, ended)| {
            open += begun;
            open -= ended;
            open > 0
        })
        .collect()
}
