//! What a run is, as `run.json` keeps it. Reads and writes no file.

use std::collections::BTreeSet;
use std::path::PathBuf;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::job::Kind;
use crate::report::Judging;
use crate::suite::run::gate;

/// What a run is: kept in `run.json`, so that it goes on as it began.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunHeader {
    /// The run's id: part of the key of each of its requests.
    pub run_id: Uuid,
    /// The program's version.
    pub gavel: String,
    /// When it began.
    pub started_at: DateTime<Utc>,
    /// The suite.
    pub suite: SuiteRef,
    /// The kind of its items.
    pub kind: Kind,
    /// How it is run.
    pub options: RunOptions,
    /// The items that are run, by place; `None`: all up to the limit.
    pub only: Option<BTreeSet<u64>>,
    /// What it is held to, also when it goes on.
    #[serde(default)]
    pub gates: gate::Asked,
}

impl RunHeader {
    /// How many items the run has in the end.
    pub fn asked(&self) -> u64 {
        match &self.only {
            Some(only) => only.len() as u64,
            None => self.suite.items,
        }
    }

    /// Whether it asks a judge.
    pub fn judging(&self) -> Judging {
        match self.options.no_judge {
            true => Judging::NotRun,
            false => Judging::Asked,
        }
    }
}

/// Which suite a run is of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuiteRef {
    /// Its file, as it was given.
    pub path: PathBuf,
    /// SHA-256 of the file, 64 hex digits.
    pub sha256: String,
    /// How many items it has, up to the limit.
    pub items: u64,
}

/// What changes the results of a run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RunOptions {
    /// Only the first of the items.
    pub limit: Option<u64>,
    /// A file that answers the questions.
    pub agent_results: Option<PathBuf>,
    /// A command that does.
    pub agent_command: Option<String>,
    /// Criteria other than the current ones.
    pub criteria_hash: Option<String>,
    /// Cached replies are passed over.
    #[serde(default)]
    pub force: bool,
    /// Nothing but what can be computed.
    #[serde(default)]
    pub no_judge: bool,
    /// Judged by a simulated judge in the command's process.
    #[serde(default)]
    pub simulate: bool,
}
