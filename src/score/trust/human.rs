//! What people say of an investigation, in one of three forms, and what of it can be held against a total.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::job::UnknownText;
use crate::score::session::Rating;

/// A reviewer's word in TARSy, worst first.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Quality {
    /// As totals of 0-44.
    Inaccurate,
    /// As totals of 45-74.
    PartiallyAccurate,
    /// As totals of 75-100.
    Accurate,
}

impl Quality {
    /// Every word, worst first.
    pub const ALL: [Self; 3] = [Self::Inaccurate, Self::PartiallyAccurate, Self::Accurate];

    /// Its place among the words, from 0 for the worst.
    pub fn step(self) -> usize {
        match self {
            Self::Inaccurate => 0,
            Self::PartiallyAccurate => 1,
            Self::Accurate => 2,
        }
    }

    /// The word for a total of 0-100: `failed` is inaccurate, `weak` and `adequate` are partially accurate, the rest is accurate.
    pub fn of(total: u8) -> Self {
        match Rating::of(total) {
            Rating::Failed => Self::Inaccurate,
            Rating::Weak | Rating::Adequate => Self::PartiallyAccurate,
            Rating::Good | Rating::NearPerfect => Self::Accurate,
        }
    }

    /// The name used on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Inaccurate => "inaccurate",
            Self::PartiallyAccurate => "partially_accurate",
            Self::Accurate => "accurate",
        }
    }
}

impl fmt::Display for Quality {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Quality {
    type Err = UnknownText;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|word| word.as_str() == text);
        found.ok_or_else(|| UnknownText {
            text: text.to_owned(),
            known: Self::ALL.map(Self::as_str).join(", "),
        })
    }
}

/// What one person gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Given {
    /// A total of 0-100.
    Total(u8),
    /// One of the five words of a total.
    Rating(Rating),
    /// One of the three words of a reviewer.
    Quality(Quality),
}

/// The words that something is held against the judge in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// The five words of a total.
    Ratings,
    /// The three words of a reviewer.
    Quality,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_total_collapses_to_three_words_at_45_and_75() {
        for (total, word) in [
            (0, Quality::Inaccurate),
            (44, Quality::Inaccurate),
            (45, Quality::PartiallyAccurate),
            (74, Quality::PartiallyAccurate),
            (75, Quality::Accurate),
            (100, Quality::Accurate),
        ] {
            assert_eq!(Quality::of(total), word, "{total}");
        }
    }

    #[test]
    fn a_word_reads_back_and_another_is_refused_with_those_there_are() {
        for word in Quality::ALL {
            assert_eq!(word.as_str().parse(), Ok(word));
        }
        let refused = "right".parse::<Quality>().unwrap_err().to_string();
        assert!(refused.contains("partially_accurate"), "{refused}");
    }
}
