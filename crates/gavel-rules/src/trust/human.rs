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
    /// The scale that it counts on: the finest that it says something of.
    pub fn scale(self) -> Scale {
        match self {
            Self::Total(_) | Self::Rating(_) => Scale::Ratings,
            Self::Quality(_) => Scale::Quality,
        }
    }
}
