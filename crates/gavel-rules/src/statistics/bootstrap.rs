//! Percentile bootstrap of a mean (Efron 1979): resamples the values with replacement, in equal number, and computes the mean; the middle
//! 95 % of many such means is the interval.
//!
//! For pairs, the differences are sampled. Both halves of a pair stay together, so that shared variation (a session that is easy under both
//! criteria) doesn't widen the interval.

use super::sequence::Sequence;
use super::{Interval, quantile};

/// Share of the means within the interval.
pub const LEVEL: f64 = 0.95;

const RESAMPLES: usize = 2_000;
/// Minimum number of resamples. With fewer, the ends of an interval would depend on very few means.
const FEWEST_RESAMPLES: usize = 200;
/// Maximum number of samples in total. From 50,000 values on it reduces the resamples, with no visible effect on such narrow intervals.
const MOST_SAMPLES: usize = 100_000_000;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bootstrap {
    pub interval: Interval,
    pub resamples: usize,
}

/// Returns the interval of the mean of `values`, or of their differences for pairs. Deterministic for the same values and seed. `None` for
/// fewer than two values.
pub fn bootstrap_mean(values: &[f64], seed: u64) -> Option<Bootstrap> {
    let n = values.len();
    if n < 2 {
        return None;
    }
    let mut sequence = Sequence::from_seed(seed);
    let means = (0..resamples_for(n)).map(|_| {
        let sum: f64 = (0..n).map(|_| values[sequence.below(n)]).sum();
        sum / n as f64
    });
    interval_of(means.collect())
}

fn resamples_for(n: usize) -> usize {
    (MOST_SAMPLES / n.max(1)).clamp(FEWEST_RESAMPLES, RESAMPLES)
}

fn interval_of(mut means: Vec<f64>) -> Option<Bootstrap> {
    means.sort_by(f64::total_cmp);
    let beyond = (1.0 - LEVEL) / 2.0;
    Some(Bootstrap {
        interval: Interval {
            low: quantile(&means, beyond)?,
            high: quantile(&means, 1.0 - beyond)?,
        },
        resamples: means.len(),
    })
}

#[cfg(test)]
mod tests;
