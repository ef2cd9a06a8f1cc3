//! Compares the scores of the same sessions under two versions of the criteria.

use crate::session::Rating;
use crate::statistics::{Bootstrap, Confusion, bootstrap_mean, kendall_tau_b, mean};

/// Number of sessions with these two totals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PairCount {
    /// Total under the first version, 0-100.
    pub a: u8,
    pub b: u8,
    pub n: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct VersionComparison {
    pub n: u64,
    pub mean_a: Option<f64>,
    pub mean_b: Option<f64>,
    /// `mean_b - mean_a`.
    pub difference: Option<f64>,
    /// 95 % interval of the difference; `None` for fewer than two sessions.
    pub bootstrap: Option<Bootstrap>,
    /// Rank correlation; `None` if undefined.
    pub kendall_tau_b: Option<f64>,
    /// Sessions by rating under the first version (rows) and the second (columns), worst first.
    pub ratings: Confusion<5>,
    pub changed: Option<f64>,
}

/// Compares pairs of totals. The result doesn't depend on the order of the pairs, and is deterministic for a seed.
pub fn compare(pairs: &[PairCount], seed: u64) -> VersionComparison {
    let mut pairs = pairs.to_vec();
    pairs.sort_unstable();
    let mut ratings = Confusion::default();
    let mut totals: Vec<(f64, f64)> = Vec::new();
    for PairCount { a, b, n } in pairs {
        ratings.add(
            Rating::from_total(a).step(),
            Rating::from_total(b).step(),
            n,
        );
        let count = usize::try_from(n).unwrap_or(usize::MAX);
        totals.extend(std::iter::repeat_n((f64::from(a), f64::from(b)), count));
    }
    let side = |of: fn(&(f64, f64)) -> f64| mean(&totals.iter().map(of).collect::<Vec<_>>());
    let differences: Vec<f64> = totals.iter().map(|(a, b)| b - a).collect();
    VersionComparison {
        n: ratings.n(),
        mean_a: side(|pair| pair.0),
        mean_b: side(|pair| pair.1),
        difference: mean(&differences),
        bootstrap: bootstrap_mean(&differences, seed),
        kendall_tau_b: kendall_tau_b(&totals),
        ratings,
        changed: ratings.raw_agreement().map(|same| 1.0 - same),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(a: u8, b: u8, n: u64) -> PairCount {
        PairCount { a, b, n }
    }

    #[test]
    fn reports_means_ranks_and_ratings() {
        let pairs = [pair(80, 60, 2), pair(90, 70, 1), pair(40, 44, 1)];
        let found = compare(&pairs, 1);
        assert_eq!(
            (found.n, found.mean_a, found.mean_b),
            (4, Some(72.5), Some(58.5))
        );
        assert_eq!(found.difference, Some(-14.0));
        assert_eq!(found.kendall_tau_b, Some(1.0));
        // Two from good to adequate, one from near_perfect to adequate, one unchanged at failed.
        let rows = found.ratings.rows();
        assert_eq!((rows[3][2], rows[4][2], rows[0][0]), (2, 1, 1));
        assert_eq!(found.changed, Some(0.75));
        let interval = found.bootstrap.unwrap().interval;
        assert!(
            interval.low >= -20.0 && interval.low < -14.0,
            "{interval:?}"
        );
        assert!(
            interval.high <= 4.0 && interval.high > -14.0,
            "{interval:?}"
        );
    }

    #[test]
    fn result_depends_on_seed_but_not_on_order() {
        let pairs: Vec<PairCount> = (0..60)
            .map(|n| pair(n, n.wrapping_mul(7) % 101, 1))
            .collect();
        let mut turned = pairs.clone();
        turned.reverse();
        assert_eq!(compare(&pairs, 1), compare(&turned, 1));
        assert_ne!(compare(&pairs, 1).bootstrap, compare(&pairs, 2).bootstrap);
    }

    #[test]
    fn no_pairs_have_no_statistics() {
        let found = compare(&[], 1);
        assert_eq!((found.n, found.difference, found.changed), (0, None, None));
        assert_eq!((found.bootstrap, found.kendall_tau_b), (None, None));
        let one = compare(&[pair(50, 60, 1)], 1);
        assert_eq!((one.difference, one.bootstrap), (Some(10.0), None));
    }
}
