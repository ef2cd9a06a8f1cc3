//! Deterministic sample: the ids with the smallest hashes.

use std::collections::BTreeSet;

use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::wire::Sample;

/// Builds a sample. Memory is bounded by its size.
pub(super) struct Sampler {
    size: usize,
    seed: u64,
    kept: BTreeSet<(u128, Uuid)>,
}

impl Sampler {
    pub(super) fn new(sample: Sample) -> Self {
        Self {
            size: usize::try_from(sample.size).unwrap_or(usize::MAX),
            seed: sample.seed,
            kept: BTreeSet::new(),
        }
    }

    /// Adds an id if its hash is among the smallest so far.
    pub(super) fn offer(&mut self, id: Uuid) {
        self.kept.insert((self.ticket(id), id));
        if self.kept.len() > self.size {
            self.kept.pop_last();
        }
    }

    pub(super) fn into_ids(self) -> Vec<Uuid> {
        self.kept.into_iter().map(|(_, id)| id).collect()
    }

    fn ticket(&self, id: Uuid) -> u128 {
        let digest = Sha256::new()
            .chain_update(self.seed.to_be_bytes())
            .chain_update(id.as_bytes())
            .finalize();
        let first = digest.iter().take(16);
        first.fold(0, |ticket, byte| ticket << 8 | u128::from(*byte))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sampled(ids: &[Uuid], size: u64, seed: u64) -> Vec<Uuid> {
        let mut sampler = Sampler::new(Sample { size, seed });
        for id in ids {
            sampler.offer(*id);
        }
        sampler.into_ids()
    }

    proptest! {
        #[test]
        fn sample_is_independent_of_order(ids in prop::collection::hash_set(any::<u128>(), 0..60), size in 1_u64..20, seed: u64) {
            let forth: Vec<Uuid> = ids.iter().copied().map(Uuid::from_u128).collect();
            let back: Vec<Uuid> = forth.iter().rev().copied().collect();
            let sample = sampled(&forth, size, seed);
            prop_assert_eq!(&sample, &sampled(&back, size, seed));
            prop_assert_eq!(sample.len(), forth.len().min(usize::try_from(size).unwrap()));
        }
    }

    #[test]
    fn seeds_differ_and_larger_sample_contains_smaller() {
        let ids: Vec<Uuid> = (0..1_000).map(Uuid::from_u128).collect();
        let (one, other) = (sampled(&ids, 20, 1), sampled(&ids, 20, 2));
        assert_ne!(one, other);
        assert_eq!(sampled(&ids, 50, 1)[..20], one);
    }
}
