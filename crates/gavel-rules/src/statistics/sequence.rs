//! Random numbers by SplitMix64, which gives the same sequence for a seed on every platform. Not for secrets.

pub(super) struct Sequence(u64);

impl Sequence {
    pub(super) fn from_seed(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns the next index below `n`. The bias is at most n / 2^64, which is negligible.
    pub(super) fn below(&mut self, n: usize) -> usize {
        let wide = u128::from(self.next()) * (n as u128);
        // The upper half is below n, so it fits into usize.
        (wide >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_matches_published_values() {
        // First numbers of SplitMix64 from the seed 1234567.
        let mut numbers = Sequence::from_seed(1_234_567);
        let first: Vec<u64> = (0..3).map(|_| numbers.next()).collect();
        assert_eq!(
            first,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
    }

    #[test]
    fn below_returns_every_index_in_range() {
        let mut numbers = Sequence::from_seed(7);
        let mut seen = [0_u32; 5];
        for _ in 0..5_000 {
            seen[numbers.below(5)] += 1;
        }
        assert!(seen.iter().all(|n| (850..1_150).contains(n)), "{seen:?}");
    }
}
