//! Gate thresholds as set by flags and stored in `run.json`. A resumed run uses the stored ones.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::report::Simulated;

/// Thresholds of a run. Without the first three, every scored item must pass. Unset ones are omitted.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Gates {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_pass_rate: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_mean: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_errors: Option<u64>,
    /// Path as given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline: Option<PathBuf>,
    /// 0-1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_regression: Option<f64>,
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
