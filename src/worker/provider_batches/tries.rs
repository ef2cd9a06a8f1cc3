//! Counts failures in a row, by batch or chunk. Kept in memory: another worker that takes over starts at zero.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use parking_lot::Mutex;
use uuid::Uuid;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tried {
    pub(super) count: u32,
    pub(super) since: DateTime<Utc>,
}

#[derive(Debug, Default)]
pub(in crate::worker) struct FailureStreaks(Mutex<HashMap<Uuid, Tried>>);

impl FailureStreaks {
    pub(super) fn get(&self, id: Uuid) -> Option<Tried> {
        self.0.lock().get(&id).copied()
    }

    pub(super) fn failed(&self, id: Uuid, now: DateTime<Utc>) -> Tried {
        let mut counts = self.0.lock();
        let tried = counts.entry(id).or_insert(Tried {
            count: 0,
            since: now,
        });
        tried.count = tried.count.saturating_add(1);
        *tried
    }

    /// Resets the count after a success or once attempts end.
    pub(super) fn succeeded(&self, id: Uuid) {
        self.0.lock().remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn success_resets_failure_count() {
        let (tries, one, other) = (
            FailureStreaks::default(),
            Uuid::from_u128(1),
            Uuid::from_u128(2),
        );
        let at = |minute: u32| format!("2026-11-22T12:{minute:02}:00Z").parse().unwrap();
        let failed = |id, minute| tries.failed(id, at(minute));
        let tried = |count, minute| Tried {
            count,
            since: at(minute),
        };
        assert_eq!((failed(one, 1), failed(one, 2)), (tried(1, 1), tried(2, 1)));
        assert_eq!(failed(other, 3), tried(1, 3));
        tries.succeeded(one);
        assert_eq!(
            (tries.get(one), tries.get(other)),
            (None, Some(tried(1, 3)))
        );
        assert_eq!(failed(one, 4), tried(1, 4));
    }
}
