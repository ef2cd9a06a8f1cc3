//! Header of a run as stored in `run.json`.

use std::collections::BTreeSet;
use std::path::PathBuf;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::label::Label;
use crate::job::Kind;
use crate::report::Judging;
use crate::suite::run::thresholds::Gates;

/// Definition of a run, stored so that it can be resumed unchanged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunHeader {
    /// Id of the run, part of the idempotency key of each of its requests.
    pub run_id: Uuid,
    pub gavel: String,
    pub started_at: DateTime<Utc>,
    pub suite: SuiteRef,
    pub kind: Kind,
    pub options: RunOptions,
    /// Indexes of the items to run; `None`: all up to the limit.
    pub only: Option<BTreeSet<u64>>,
    #[serde(default)]
    pub gates: Gates,
    /// Judge and criteria, fixed for resumed runs. `None`: no judge (`--no-judge`), not stored yet, or not reported by the server.
    #[serde(default)]
    pub judged_by: Option<Bench>,
    #[serde(default)]
    pub label: Label,
}

impl RunHeader {
    pub fn asked(&self) -> u64 {
        match &self.only {
            Some(only) => only.len() as u64,
            None => self.suite.items,
        }
    }

    pub fn judging(&self) -> Judging {
        match self.options.no_judge {
            true => Judging::NotRun,
            false => Judging::Asked,
        }
    }
}

/// Judge and criteria of a run. Scores are comparable only if they are equal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bench {
    /// 64 hex digits.
    pub criteria_hash: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge: Option<String>,
    /// Model of the judge's entry; `None`: not reported by the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

impl Bench {
    /// Returns whether the known fields of both are equal.
    pub fn is_that_of(&self, other: &Self) -> bool {
        let same = |a: &Option<String>, b: &Option<String>| match (a, b) {
            (Some(a), Some(b)) => a == b,
            (None, _) | (_, None) => true,
        };
        self.criteria_hash == other.criteria_hash
            && same(&self.judge, &other.judge)
            && same(&self.model, &other.model)
    }
}

impl std::fmt::Display for Bench {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let hash = self.criteria_hash.get(..12).unwrap_or(&self.criteria_hash);
        match (&self.judge, &self.model) {
            (Some(judge), Some(model)) => write!(f, "judge {judge} ({model}), criteria {hash}"),
            (Some(judge), None) => write!(f, "judge {judge}, criteria {hash}"),
            (None, _) => write!(f, "criteria {hash}"),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuiteRef {
    pub path: PathBuf,
    /// SHA-256 of the file, 64 hex digits.
    pub sha256: String,
    pub items: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RunOptions {
    pub limit: Option<u64>,
    pub agent_results: Option<PathBuf>,
    pub agent_command: Option<String>,
    pub criteria_hash: Option<String>,
    #[serde(default)]
    pub force: bool,
    #[serde(default)]
    pub no_judge: bool,
    #[serde(default)]
    pub simulate: bool,
}
