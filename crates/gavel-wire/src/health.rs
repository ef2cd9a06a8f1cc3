//! What calls say of a judge that nobody has stopped: that it answers, that it fails, or nothing, since it wasn't asked.

use std::fmt;

use crate::Judge;

/// How a judge does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// No live worker has asked it lately.
    Unasked,
    /// The last call of each worker was answered.
    Answers,
    /// So many calls in a row failed.
    Fails(i32),
}

impl Judge {
    /// What its calls say.
    pub fn health(&self) -> Health {
        health(self.gates.iter().map(|gate| gate.failures_in_row))
    }
}

/// How a judge does whose workers count so many failures in a row, one number a worker.
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
            Self::Unasked => f.write_str("not asked lately"),
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
    fn a_judge_answers_only_if_it_was_asked_and_did() {
        for (failures_in_row, words) in [
            (&[][..], "not asked lately"),
            (&[0, 0], "answers"),
            (&[0, 1], "its last call failed"),
            (&[0, 4], "its last 4 calls failed"),
        ] {
            assert_eq!(health(failures_in_row.iter().copied()).to_string(), words);
        }
    }
}
