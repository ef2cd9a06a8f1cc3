#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValidatorVerdict {
    Accepted,
    Rejected,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpectedVerdict {
    Pass,
    Stop,
}

impl From<bool> for ValidatorVerdict {
    /// Converts `safety_valid` or `is_valid`.
    fn from(valid: bool) -> Self {
        if valid {
            Self::Accepted
        } else {
            Self::Rejected
        }
    }
}

impl From<bool> for ExpectedVerdict {
    /// Converts `should_pass`.
    fn from(should_pass: bool) -> Self {
        if should_pass { Self::Pass } else { Self::Stop }
    }
}
