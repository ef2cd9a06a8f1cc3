//! Who decides whether a call may leave, and what one worker's part of a figure is.

/// Who decides whether a call may leave.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(in crate::gate) enum Rule {
    /// This process, which is the only one.
    #[default]
    Alone,
    /// This process, by its part of what so many workers may do together.
    Part { workers: u32 },
    /// All workers together.
    Together,
}

impl Rule {
    /// Among how many a figure is divided.
    pub(super) fn divisor(self) -> u64 {
        match self {
            Self::Part { workers } => u64::from(workers.max(1)),
            Self::Alone | Self::Together => 1,
        }
    }
}

/// A figure that holds for all workers, or one worker's part of it; at least one.
pub(super) fn part_of(cap: usize, rule: Rule) -> usize {
    let divisor = usize::try_from(rule.divisor()).unwrap_or(usize::MAX);
    (cap / divisor).max(1)
}
