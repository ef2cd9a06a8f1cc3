//! Gates as flags name them and as `run.json` keeps them: a run that goes on is held to what it began with.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::report::Simulated;

/// What is asked of a run; without any of the first three: every scored item passed. What nobody asked for is left out.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Gates {
    /// `--min-pass-rate`, 0-1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_pass_rate: Option<f64>,
    /// `--min-mean`, 0-1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_mean: Option<f64>,
    /// `--max-errors`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_errors: Option<u64>,
    /// `--baseline`, as it was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline: Option<PathBuf>,
    /// `--max-regression`, 0-1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_regression: Option<f64>,
    /// `--allow-simulated`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub allow_simulated: bool,
}

impl Gates {
    pub(super) fn most_errors(&self) -> u64 {
        self.max_errors.unwrap_or(0)
    }

    pub fn simulated(&self) -> Simulated {
        match self.allow_simulated {
            true => Simulated::Allowed,
            false => Simulated::Refused,
        }
    }
}
