//! Health of a judge that isn't stopped, from its calls.

use std::fmt;

use crate::Judge;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// No live worker has called it recently.
    Unasked,
    /// The last call of each worker succeeded.
    Answers,
    /// Number of consecutive failed calls.
    Fails(i32),
}

impl Judge {
    pub fn health(&self) -> Health {
        health(self.gates.iter().map(|gate| gate.failures_in_row))
    }
}

/// Returns the health for the number of consecutive failures of each worker.
fn health(failures_in_row: impl Iterator<Item = i32>) -> Health {
    match failures_in_row.max() {
        None => Health::Unasked,
        Some(calls) if calls > 0 => Health::Fails(calls),
        Some(_) => Health::Answers,
    }
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unasked => f.write_str("not called lately"),
            Self::Answers => f.write_str("answers"),
            Self::Fails(1) => f.write_str("its last call failed"),
            Self::Fails(calls) => write!(f, "its last {calls} calls failed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn judge_is_healthy_only_after_a_successful_call() {
        for (failures_in_row, words) in [
            (&[][..], "not called lately"),
            (&[0, 0], "answers"),
            (&[0, 1], "its last call failed"),
            (&[0, 4], "its last 4 calls failed"),
        ] {
            assert_eq!(health(failures_in_row.iter().copied()).to_string(), words);
        }
    }
}
