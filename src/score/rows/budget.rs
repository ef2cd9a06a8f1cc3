//! How much work may still be done, counted in steps rather than time, so that the same input gives the same answer.

/// Work that is left.
#[derive(Debug)]
pub(super) struct Budget {
    left: u64,
    exhausted: bool,
}

impl Budget {
    /// A budget of so many steps; a step is about a nanosecond's to ten nanoseconds' work.
    pub(super) fn of(steps: u64) -> Self {
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
