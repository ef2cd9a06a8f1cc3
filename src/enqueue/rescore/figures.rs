//! The arithmetic of an estimate: from a few sessions to all of them, with what it may be off by. Pure.

use crate::wire::{CostRange, TokenRange};

/// How many standard errors lie on either side: 95 of 100 times the truth is between.
const Z: f64 = 1.96;

/// A figure with its bounds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Range {
    pub(super) expected: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Range {
    pub(super) fn add(self, other: Self) -> Self {
        Self {
            expected: self.expected + other.expected,
            low: self.low + other.low,
            high: self.high + other.high,
        }
    }

    /// So many times as much.
    pub(super) fn times(self, factor: f64) -> Self {
        Self {
            expected: self.expected * factor,
            low: self.low * factor,
            high: self.high * factor,
        }
    }

    /// Bounds that are further away by these factors.
    pub(super) fn widened(self, (low, high): (f64, f64)) -> Self {
        Self {
            expected: self.expected,
            low: self.low * low,
            high: self.high * high,
        }
    }

    pub(super) fn tokens(self) -> TokenRange {
        TokenRange {
            expected: whole(self.expected),
            low: whole(self.low),
            high: whole(self.high),
        }
    }

    pub(super) fn cost(self) -> CostRange {
        CostRange {
            expected: self.expected,
            low: self.low,
            high: self.high,
        }
    }
}

/// What was seen of some of many.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Seen {
    pub(super) count: f64,
    pub(super) mean: f64,
    /// The standard deviation.
    pub(super) spread: f64,
}

impl Seen {
    pub(super) fn of(values: &[f64]) -> Self {
        let count = float(values.len() as u64);
        if values.is_empty() {
            return Self::default();
        }
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Self {
            count,
            mean,
            spread: (squares / (count - 1.0).max(1.0)).sqrt(),
        }
    }

    /// The sum over `all`, of which these are some, each of them counted `times` times. Having seen all leaves nothing open.
    pub(super) fn sum_over(self, all: f64, times: f64) -> Range {
        let unseen = (1.0 - self.count / all.max(1.0)).max(0.0);
        let error = self.spread * (unseen / self.count.max(1.0)).sqrt();
        self.range(all * times, Z * all * times * error)
    }

    /// The sum over `many` others.
    pub(super) fn sum_of_others(self, many: f64) -> Range {
        let error = self.spread * (many * many / self.count.max(1.0) + many).sqrt();
        self.range(many, Z * error)
    }

    fn range(self, many: f64, half: f64) -> Range {
        let expected = self.mean * many;
        Range {
            expected,
            low: (expected - half).max(0.0),
            high: expected + half,
        }
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counts of sessions and tokens, far below 2^53"
)]
pub(super) fn float(count: u64) -> f64 {
    count as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "never negative, and far below 2^53"
)]
fn whole(figure: f64) -> u64 {
    figure.max(0.0).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn having_seen_all_leaves_no_range() {
        let seen = Seen::of(&[100.0, 200.0, 300.0]);
        let sum = seen.sum_over(3.0, 2.0);
        assert_eq!(
            (sum.expected, sum.low, sum.high),
            (1_200.0, 1_200.0, 1_200.0)
        );
    }

    #[test]
    fn the_range_grows_with_the_spread_and_shrinks_with_what_was_seen() {
        let width = |values: &[f64]| {
            let sum = Seen::of(values).sum_over(1_000.0, 1.0);
            assert!(sum.low <= sum.expected && sum.expected <= sum.high);
            sum.high - sum.low
        };
        let (even, uneven) = (vec![100.0; 10], [vec![50.0; 5], vec![150.0; 5]].concat());
        assert_eq!(width(&even), 0.0);
        assert!(width(&uneven) > width(&[uneven.clone(), uneven.clone()].concat()));
    }

    #[test]
    fn nothing_seen_is_nothing_and_no_fault() {
        let sum = Seen::of(&[]).sum_over(0.0, 1.0);
        assert_eq!(sum, Range::default());
        assert_eq!(
            sum.tokens(),
            TokenRange {
                expected: 0,
                low: 0,
                high: 0
            }
        );
    }
}
