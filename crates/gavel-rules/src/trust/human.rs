//! What people say of an investigation, in one of three forms, and what of it can be held against a total.

use gavel_wire::{Quality, Rating, Scale};

/// What one person gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Given {
    /// A total of 0-100.
    Total(u8),
    Rating(Rating),
    Quality(Quality),
}

impl Given {
    /// The total that stands for it: a word's is the middle of its totals.
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

    /// The scale that it counts on: the finest that it says something of.
    pub fn scale(self) -> Scale {
        match self {
            Self::Total(_) | Self::Rating(_) => Scale::Ratings,
            Self::Quality(_) => Scale::Quality,
        }
    }
}
