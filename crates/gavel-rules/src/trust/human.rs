//! Human reviews of an investigation, in one of three forms, and their comparison with a total.

use gavel_wire::{Quality, Rating, Scale};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Given {
    Total(u8),
    Rating(Rating),
    Quality(Quality),
}

impl Given {
    /// Returns the total of the review: for a label, the middle of its range.
    pub fn middle(self) -> u8 {
        match self {
            Self::Total(total) => total,
            Self::Rating(Rating::Failed) | Self::Quality(Quality::Inaccurate) => 22,
            Self::Rating(Rating::Weak) => 52,
            Self::Quality(Quality::PartiallyAccurate) => 60,
            Self::Rating(Rating::Adequate) => 67,
            Self::Rating(Rating::Good) => 82,
            Self::Quality(Quality::Accurate) => 88,
            Self::Rating(Rating::NearPerfect) => 95,
        }
    }

    /// Returns the finest scale supported by the review.
    pub fn scale(self) -> Scale {
        match self {
            Self::Total(_) | Self::Rating(_) => Scale::Ratings,
            Self::Quality(_) => Scale::Quality,
        }
    }
}
