//! What identifies a job, what it is about, and what it used.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::{Timestamp, Uuid};

use crate::text_enum;

/// Identifies one job: a UUID of version 7, so that ids sort by the time they were made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobId(pub Uuid);

impl JobId {
    /// Makes a new id from the machine's clock.
    pub fn new() -> Self {
        Self(Uuid::now_v7())
    }

    /// Makes a new id of a time, such as the clock's that processes share: ids sort by it, to the microsecond.
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
    /// What is scored. Each kind is a folder of `gavel-rules`.
    pub enum Kind {
        /// An agent's investigation of an alert, 0-100 by a strict judge.
        Session = "session",
        /// A generated query against an expected one: four components of a quarter each.
        Query = "query",
        /// An SQL or docking agent's answer: semantic, execution and datatype.
        Qas = "qas",
        /// Generated SQL: correctness, tables, safety, validation.
        SqlMetrics = "sql_metrics",
    }
}

impl Kind {
    /// What a suite without items and a batch that names none are of.
    pub const UNNAMED: Self = Self::Query;

    /// Whether its subject is the payload, and no stored session.
    pub fn is_case(self) -> bool {
        self != Self::Session
    }

    /// Those whose subject is the payload, then those of stored sessions: the order of a list to choose from.
    pub fn to_choose() -> Vec<Self> {
        let mut kinds = Self::ALL.to_vec();
        kinds.sort_by_key(|kind| !kind.is_case());
        kinds
    }
}

text_enum! {
    /// Who waits: a person or a gate (`interactive`), or nobody in particular (`bulk`).
    pub enum Priority {
        /// Goes first; one slot in ten is kept for it.
        Interactive = "interactive",
        /// Goes in what is left, but every tenth claim takes one.
        Bulk = "bulk",
    }
}

text_enum! {
    /// Why the work is judged; only `score` makes a current score.
    pub enum Purpose {
        /// The subject's score.
        Score = "score",
        /// A look at what other criteria would say.
        Preview = "preview",
        /// The same question again: how steady a judge is.
        Repeat = "repeat",
        /// One of several judges asked the same: their median belongs to the batch.
        Jury = "jury",
    }
}

/// Tokens and money that judge calls used, retries and repairs included.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Usage {
    /// Prompt tokens, cached ones included.
    pub tokens_in: i64,
    /// Tokens of the reply, hidden reasoning included.
    pub tokens_out: i64,
    /// USD; null where any call's model has no price: unknown is never 0.
    pub cost_usd: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_sort_by_the_time_that_they_are_made_of() {
        let first: DateTime<Utc> = "2026-03-02T10:00:00.123456Z".parse().unwrap();
        let times = [0, 1, 500, 900, 1_000, 3_600_000_000].map(chrono::TimeDelta::microseconds);
        let ids = times.map(|later| JobId::at(first + later));
        assert!(ids.is_sorted(), "{ids:?}");
        assert_ne!(JobId::at(first), JobId::at(first));
        assert_eq!(ids[0].0.get_version_num(), 7);
    }
}
