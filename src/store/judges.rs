//! `judges` (what each process's gate knows) and `brakes` (what is closed until somebody opens it). (Skeleton.)

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::{Store, StoreError};
use crate::job::WaitReason;
use crate::judge::gate::GateSnapshot;

/// What a brake stops.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BrakeTarget {
    /// Every lane. Stored as `queue`.
    Queue,
    /// One judge's lane. Stored as `judge:NAME`.
    Judge(String),
}

/// A lane, or all of them, closed until somebody opens it or `until` passes.
#[derive(Debug, Clone, PartialEq)]
pub struct Brake {
    /// What it stops.
    pub target: BrakeTarget,
    /// `paused` (an operator), `exhausted` or `misconfigured` (a worker that met it).
    pub reason: WaitReason,
    /// The operator's or the provider's words.
    pub message: String,
    /// Who set it.
    pub set_by: String,
    /// Since when.
    pub since: DateTime<Utc>,
    /// When it opens by itself, if known.
    pub until: Option<DateTime<Utc>>,
}

/// What one process's gate knows of one judge.
#[derive(Debug, Clone, PartialEq)]
pub struct JudgeRow {
    /// The judge's name.
    pub name: String,
    /// The worker that says so.
    pub worker_id: Uuid,
    /// `closed`, `open` or `half_open`.
    pub breaker: String,
    /// Why its lane is closed, if it is.
    pub closed: Option<WaitReason>,
    /// When it opens again, if known.
    pub closed_until: Option<DateTime<Utc>>,
    /// Transient failures in a row.
    pub failures_in_row: i32,
    /// Calls in flight.
    pub in_flight: i32,
    /// The last error's text.
    pub last_error: Option<String>,
    /// When this was written.
    pub updated_at: DateTime<Utc>,
}

impl Store {
    /// Sets a brake. An operator's pause is never replaced by a worker's closure; answers whether this one is set now.
    pub async fn set_brake(&self, _brake: &Brake) -> Result<bool, StoreError> {
        unimplemented!()
    }
    /// Releases a brake; answers whether there was one. Waiting jobs behind it become due now, their wait starts anew.
    pub async fn release_brake(
        &self,
        _target: &BrakeTarget,
        _now: DateTime<Utc>,
    ) -> Result<bool, StoreError> {
        unimplemented!()
    }
    /// Releases a judge's `misconfigured` brakes at a worker's start: its key may have been corrected.
    pub async fn release_misconfigured(
        &self,
        _judges: &[String],
        _now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        unimplemented!()
    }
    /// Every brake that is set and hasn't passed its `until`.
    pub async fn brakes(&self, _now: DateTime<Utc>) -> Result<Vec<Brake>, StoreError> {
        unimplemented!()
    }
    /// Writes what a process's gate knows, replacing what that worker wrote before.
    pub async fn put_judges(
        &self,
        _worker_id: Uuid,
        _snapshot: &[GateSnapshot],
        _now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        unimplemented!()
    }
    /// What live workers (heard since `heard_since`) know of judges, by name.
    pub async fn judges(&self, _heard_since: DateTime<Utc>) -> Result<Vec<JudgeRow>, StoreError> {
        unimplemented!()
    }
}
