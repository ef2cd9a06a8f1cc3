//! The percentile bootstrap of a mean (Efron 1979): draw as many values as there are, with replacement, take the mean, and
//! so on; the middle 95 % of these means is the interval.
//!
//! Of pairs, what is sampled are the differences: both halves of a pair stay together, so that what they have in common
//! (an easy session is easy under both criteria) doesn't widen the interval.

use super::sequence::Sequence;
use super::{Interval, mean, quantile};

/// The share of the means that lies within the interval.
pub const LEVEL: f64 = 0.95;

/// Resamples, unless the values are many.
const RESAMPLES: usize = 2_000;
/// Fewest resamples: below, the ends of an interval would rest on a handful of means.
const FEWEST_RESAMPLES: usize = 200;
/// Values sampled in all: of 50,000 and more there are fewer resamples, which an interval that narrow doesn't show.
const MOST_SAMPLES: usize = 100_000_000;

/// An interval, and how it was found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bootstrap {
    pub interval: Interval,
    pub resamples: usize,
}

/// The interval of the mean of `values`: differences, if they come in pairs. The same values and seed give the same interval.
/// `None` for fewer than two values.
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

/// [`bootstrap_mean`] with given resamples, each a list of places in `values`. `None` for none, an empty one, or a place
/// that isn't there.
pub fn bootstrap_mean_of(values: &[f64], resamples: &[Vec<usize>]) -> Option<Bootstrap> {
    let mean_of = |places: &Vec<usize>| {
        let sampled: Option<Vec<f64>> = places.iter().map(|at| values.get(*at).copied()).collect();
        mean(&sampled?)
    };
    interval_of(resamples.iter().map(mean_of).collect::<Option<_>>()?)
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
