//! Whether the database's disk is full, as its own refusals of the last seconds say. Never looks at a disk.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::error::is_storage_full;

/// How long a refusal counts. While results wait for room, the recorder tries every 5 s at least.
const COUNTS: Duration = Duration::from_secs(6);

/// When a write was last refused for want of space.
#[derive(Clone, Default)]
pub(in crate::store) struct Disk(Arc<Mutex<Option<Instant>>>);

impl Disk {
    /// Notes how a statement ended.
    pub(in crate::store) fn heard<T>(&self, result: &sqlx::Result<T>) {
        if let Err(error) = result
            && is_storage_full(error)
        {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        }
    }

    /// Whether a write was refused within the last seconds.
    pub(in crate::store) fn is_full(&self) -> bool {
        let refused = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        refused.is_some_and(|at| at.elapsed() < COUNTS)
    }
}
