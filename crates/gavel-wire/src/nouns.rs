//! Job id, kind, priority, purpose and usage.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::{Timestamp, Uuid};

use crate::text_enum;

/// Id of a job: a version 7 UUID, so that ids sort by creation time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobId(pub Uuid);

impl From<Uuid> for JobId {
    fn from(id: Uuid) -> Self {
        Self(id)
    }
}

impl JobId {
    /// Creates an id from the machine's clock.
    pub fn new() -> Self {
        Self(Uuid::now_v7())
    }

    /// Creates an id for `time`, such as the shared clock. Ids sort by time with microsecond precision.
    pub fn at(time: DateTime<Utc>) -> Self {
        const MICROS_BITS: u8 = 10; // of a millisecond
        let seconds = u64::try_from(time.timestamp()).unwrap_or_default();
        let micros = u128::from(time.timestamp_subsec_micros() % 1000);
        let nanos = time.timestamp_subsec_nanos();
        let time = Timestamp::from_unix_time(seconds, nanos, micros, MICROS_BITS);
        Self(Uuid::new_v7(time))
    }
}

impl Default for JobId {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for JobId {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

text_enum! {
    /// Kind of a subject. Each kind has a folder in `gavel-rules`.
    pub enum Kind {
        /// An agent's investigation of an alert, scored 0-100 by a strict judge.
        Session = "session",
        /// A generated query against an expected one, in four equally weighted parts.
        Query = "query",
        /// An SQL or docking agent's answer: semantic, execution and datatype.
        Qas = "qas",
        /// Generated SQL: correctness, tables, safety, validation.
        SqlMetrics = "sql_metrics",
    }
}

impl Kind {
    /// Default kind of an empty suite and of a batch without a kind.
    pub const UNNAMED: Self = Self::Query;

    /// Returns whether the subject is the payload instead of a stored session.
    pub fn is_case(self) -> bool {
        self != Self::Session
    }

    /// Returns all kinds for a selection list: payload kinds first, then stored sessions.
    pub fn to_choose() -> Vec<Self> {
        let mut kinds = Self::ALL.to_vec();
        kinds.sort_by_key(|kind| !kind.is_case());
        kinds
    }
}

text_enum! {
    /// Priority: `interactive` for users and gates, `bulk` for background work.
    pub enum Priority {
        /// Runs first. One slot in ten is reserved for it.
        Interactive = "interactive",
        /// Uses the remaining slots. Every tenth claim takes a bulk job.
        Bulk = "bulk",
    }
}

text_enum! {
    /// Purpose of a run. Only `score` sets a current score.
    pub enum Purpose {
        Score = "score",
        /// A trial of other criteria.
        Preview = "preview",
        /// A repetition to measure judge consistency.
        Repeat = "repeat",
        /// One of several judges. The batch reports their median.
        Jury = "jury",
    }
}

/// Tokens and cost of judge calls, including retries and repairs.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Usage {
    /// Prompt tokens, including cached ones.
    pub tokens_in: i64,
    /// Completion tokens, including hidden reasoning.
    pub tokens_out: i64,
    /// USD. Null, not 0, if a call's model has no price.
    pub cost_usd: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_sort_by_creation_time() {
        let first: DateTime<Utc> = "2026-03-02T10:00:00.123456Z".parse().unwrap();
        let times = [0, 1, 500, 900, 1_000, 3_600_000_000].map(chrono::TimeDelta::microseconds);
        let ids = times.map(|later| JobId::at(first + later));
        assert!(ids.is_sorted(), "{ids:?}");
        assert_ne!(JobId::at(first), JobId::at(first));
        assert_eq!(ids[0].0.get_version_num(), 7);
    }
}
