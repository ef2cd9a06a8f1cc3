//! How much work may still be done, counted in steps rather than time, so that the same input gives the same answer.

/// The steps that one comparison may take, by what they are for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Steps {
    /// For choosing among columns with the same values; one per row looked at and column tried.
    pub(super) columns: u64,
    /// For telling apart rows in chains of near numbers; one per cell looked at.
    pub(super) rows: u64,
}

impl Steps {
    /// What every comparison gets.
    pub(super) const ALL: Self = Self {
        columns: 4_000_000,
        rows: 20_000_000,
    };
}

/// Work that is left.
#[derive(Debug)]
pub(super) struct Budget {
    left: u64,
    exhausted: bool,
}

impl Budget {
    /// A budget of so many steps; a step is about a nanosecond's to ten nanoseconds' work.
    pub(super) fn new(steps: u64) -> Self {
        Self {
            left: steps,
            exhausted: false,
        }
    }

    /// Takes steps out; false, and nothing taken, if there aren't as many left.
    pub(super) fn spend(&mut self, steps: usize) -> bool {
        match self.left.checked_sub(steps as u64) {
            Some(left) => {
                self.left = left;
                true
            }
            None => {
                self.exhausted = true;
                false
            }
        }
    }

    /// Whether something was refused.
    pub(super) fn is_exhausted(&self) -> bool {
        self.exhausted
    }
}
