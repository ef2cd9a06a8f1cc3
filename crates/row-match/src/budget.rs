//! Limits of work, counted in steps instead of time, so that results are deterministic.

#[derive(Debug, Clone, Copy)]
pub(super) struct Steps {
    /// For choosing among columns with the same values: one per row visited and column tried.
    pub(super) columns: u64,
    /// For comparing rows in chains of near numbers: one per cell visited.
    pub(super) rows: u64,
}

impl Steps {
    pub(super) const ALL: Self = Self {
        columns: 4_000_000,
        rows: 20_000_000,
    };
}

#[derive(Debug)]
pub(super) struct Budget {
    left: u64,
    exhausted: bool,
}

impl Budget {
    /// A step lasts about 1 to 10 nanoseconds.
    pub(super) fn new(steps: u64) -> Self {
        Self {
            left: steps,
            exhausted: false,
        }
    }

    /// Uses steps. Returns false, without using any, if too few remain.
    pub(super) fn use_steps(&mut self, steps: usize) -> bool {
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

    pub(super) fn is_exhausted(&self) -> bool {
        self.exhausted
    }
}
