//! Which cells may be equal: numbers in chains of near numbers share a class. Never decides that two cells are equal
//! unless every two of the class are.

use super::HashMap;
use super::space::Space;
use super::table::CellId;

/// The classes of the cells given last. Two of them that are equal have one class.
pub(super) struct Clusters {
    /// The class of every cell there is: itself, but for those below.
    class: Vec<CellId>,
    /// Cells that share a class.
    shared: Vec<CellId>,
    /// Classes in which some two cells differ, ascending.
    loose: Vec<CellId>,
    /// Cells met while they are taken; all false in between.
    met: Vec<bool>,
}

impl Clusters {
    /// Every cell stands alone.
    pub(super) fn new(space: &Space) -> Self {
        Self {
            class: (0..).take(space.len()).collect(),
            shared: Vec::new(),
            loose: Vec::new(),
            met: vec![false; space.len()],
        }
    }

    /// Takes the given cells, in any order, in place of those before, in `n log n`. Without a float among them nothing is
    /// near, and every cell stands alone.
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
        // What is near on both sides of a gap is near to what is between: where neighbours aren't near, nothing is.
        for run in numbers.chunk_by(|one, next| space.near(one.0, next.0)) {
            self.divide(space, run);
        }
        self.loose.sort_unstable();
    }

    /// Takes the given cells in place of those before, in `n`, by a grid a few times as wide as the tolerance: a few near numbers
    /// fall on two sides of a line, and many on one side aren't near. For more cells than can be sorted.
    pub(super) fn take_roughly(&mut self, space: &Space, cells: impl Iterator<Item = CellId>) {
        self.clear();
        let mut first = HashMap::default();
        for cell in cells {
            if let Some(number) = space.number(cell) {
                // 16 bits of mantissa are left: squares of 1.5e-5 of the number.
                let square = (number.to_bits() + (1 << 35)) >> 36;
                self.class[cell as usize] = *first.entry(square).or_insert(cell);
                self.shared.push(cell);
            }
        }
    }

    /// The class of a cell.
    pub(super) fn class(&self, cell: CellId) -> CellId {
        self.class[cell as usize]
    }

    /// The classes in which some two cells differ, ascending.
    pub(super) fn loose(&self) -> &[CellId] {
        &self.loose
    }

    /// Joins what is near among numbers of which each is near to the next.
    fn divide(&mut self, space: &Space, run: &[(f64, CellId)]) {
        match run {
            [] | [_] => return,
            // The usual case, a number and the other side's: near, so equal unless both are integers.
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

/// For each of the sorted numbers, whether some float is near to numbers on both sides of the gap that follows it, itself
/// included. False for the last.
fn joined(space: &Space, numbers: &[(f64, CellId)]) -> Vec<bool> {
    // How many floats' reach begins, and ends, at each number.
    let mut begins = vec![0_u32; numbers.len()];
    let mut ends = vec![0_u32; numbers.len()];
    // Both ends of a float's reach only ever move up from one float to the next.
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
