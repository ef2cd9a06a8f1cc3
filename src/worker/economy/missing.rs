//! Parts that their provider says it doesn't know: how often in a row. Kept by the worker that looks after them; another one counts anew.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use uuid::Uuid;

/// How often in a row each part wasn't known to its provider.
#[derive(Debug, Default)]
pub(in crate::worker) struct Missing(Mutex<HashMap<Uuid, u32>>);

impl Missing {
    /// A part wasn't known once more; answers how often in a row that makes.
    pub(super) fn again(&self, tag: Uuid) -> u32 {
        let mut counts = self.counts();
        let count = counts.entry(tag).or_default();
        *count = count.saturating_add(1);
        *count
    }

    /// A part is known, or nobody asks for it any more.
    pub(super) fn found(&self, tag: Uuid) {
        self.counts().remove(&tag);
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<Uuid, u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_looks_in_a_row_count() {
        let (missing, part, other) = (Missing::default(), Uuid::from_u128(1), Uuid::from_u128(2));
        assert_eq!((missing.again(part), missing.again(part)), (1, 2));
        assert_eq!(missing.again(other), 1);
        missing.found(part);
        assert_eq!((missing.again(part), missing.again(other)), (1, 2));
    }
}
