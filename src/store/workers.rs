//! `workers`: who is alive, by the database's clock. (Skeleton.)

use std::time::Duration;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::{Store, StoreError};
use crate::job::text_enum;

text_enum! {
    /// What a worker does.
    pub enum WorkerState {
        /// Takes work.
        Running = "running",
        /// Finishes what it has.
        Draining = "draining",
        /// Left in good order.
        Stopped = "stopped",
    }
}

/// One worker.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkerRow {
    /// Unique per start.
    pub worker_id: Uuid,
    /// Host and process, for people.
    pub name: String,
    /// The binary's version.
    pub version: String,
    /// When it started.
    pub started_at: DateTime<Utc>,
    /// When it was last heard.
    pub heartbeat_at: DateTime<Utc>,
    /// Jobs in hand.
    pub in_hand: i32,
    /// What it does.
    pub state: WorkerState,
    /// Whether it was heard within the time that the caller named, and hasn't stopped.
    pub alive: bool,
}

impl Store {
    /// Registers a start.
    pub async fn register_worker(
        &self,
        _worker_id: Uuid,
        _name: &str,
        _version: &str,
    ) -> Result<(), StoreError> {
        unimplemented!()
    }
    /// Says that a worker lives (registers it again if its row is gone).
    pub async fn heartbeat(
        &self,
        _worker_id: Uuid,
        _name: &str,
        _version: &str,
        _in_hand: i32,
        _state: WorkerState,
    ) -> Result<(), StoreError> {
        unimplemented!()
    }
    /// Lists workers heard in the last 24 h, newest first; at most 1,000.
    pub async fn workers(&self, _stale_after: Duration) -> Result<Vec<WorkerRow>, StoreError> {
        unimplemented!()
    }
    /// Embedded set-ups only, where a lock on the data folder proves that no other process lives: marks all as stopped.
    pub async fn forget_workers(&self) -> Result<(), StoreError> {
        unimplemented!()
    }
}
