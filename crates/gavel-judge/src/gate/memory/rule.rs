/// Scope in which limits are enforced.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(in crate::gate) enum Rule {
    /// This process, which is the only one.
    #[default]
    Alone,
    /// This process, with its share of limits divided among `workers`.
    Part { workers: u32 },
    /// All workers together.
    Together,
}

impl Rule {
    /// Returns the number of workers that divide a limit locally.
    pub(super) fn divisor(self) -> u64 {
        match self {
            Self::Part { workers } => u64::from(workers.max(1)),
            Self::Alone | Self::Together => 1,
        }
    }
}

pub(super) fn part_of(cap: usize, rule: Rule) -> usize {
    let divisor = usize::try_from(rule.divisor()).unwrap_or(usize::MAX);
    (cap / divisor).max(1)
}
