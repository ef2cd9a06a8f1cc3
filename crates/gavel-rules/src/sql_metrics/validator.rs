//! The words that a validator and a case have for one query: what was said of it, and what would have been right.

/// What a validator said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValidatorVerdict {
    Accepted,
    Rejected,
}

/// What would have been right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    Pass,
    Stop,
}

impl From<bool> for ValidatorVerdict {
    /// `safety_valid` and `is_valid` of a case.
    fn from(valid: bool) -> Self {
        if valid {
            Self::Accepted
        } else {
            Self::Rejected
        }
    }
}

impl From<bool> for Right {
    /// `should_pass` of a case.
    fn from(should_pass: bool) -> Self {
        if should_pass { Self::Pass } else { Self::Stop }
    }
}
