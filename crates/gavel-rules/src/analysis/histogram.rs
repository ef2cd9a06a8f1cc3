//! Histogram of totals, 0-100, with the statistics derived from it.

use gavel_wire::{Bucket, Rating};

const TOTALS: usize = 101;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    counts: [u64; TOTALS],
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            counts: [0; TOTALS],
        }
    }
}

impl Histogram {
    /// Adds `scores` with this total. Totals above 100 count as 100.
    pub fn add(&mut self, total: u8, scores: u64) {
        if let Some(count) = self.counts.get_mut(usize::from(total.min(100))) {
            *count = count.saturating_add(scores);
        }
    }

    pub fn scores(&self) -> u64 {
        self.counts.iter().sum()
    }

    pub fn mean(&self) -> Option<f64> {
        let scores = self.scores();
        let sum: u64 = self.pairs().map(|(total, count)| total * count).sum();
        (scores > 0).then(|| sum as f64 / scores as f64)
    }

    /// Sample standard deviation; `None` for fewer than two scores.
    pub fn sd(&self) -> Option<f64> {
        let mean = self.mean()?;
        let scores = self.scores();
        let squares: f64 = self
            .pairs()
            .map(|(total, count)| (total as f64 - mean).powi(2) * count as f64)
            .sum();
        (scores > 1).then(|| (squares / (scores - 1) as f64).sqrt())
    }

    /// Returns the total below which `share` (0-1) of the scores are, interpolated between two totals; `None` without
    /// scores.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let last = self.scores().checked_sub(1)?;
        let rank = last as f64 * share.clamp(0.0, 1.0);
        let (below, above) = (self.at(rank.floor())?, self.at(rank.ceil())?);
        Some(below + (above - below) * rank.fract())
    }

    pub fn median(&self) -> Option<f64> {
        self.quantile(0.5)
    }

    pub fn min(&self) -> Option<u8> {
        self.totals().find(|total| self.count(*total) > 0)
    }

    pub fn max(&self) -> Option<u8> {
        self.totals().rev().find(|total| self.count(*total) > 0)
    }

    /// Returns buckets of `width` totals from 0 on, including empty ones. 100 is counted in the last.
    pub fn buckets(&self, width: u8) -> Vec<Bucket> {
        let width = width.clamp(1, 100);
        (0..100)
            .step_by(usize::from(width))
            .map(|from: u8| {
                let end = from.saturating_add(width);
                let to = if end >= 100 { 100 } else { end - 1 };
                Bucket {
                    from,
                    to,
                    scores: (from..=to).map(|total| self.count(total)).sum(),
                }
            })
            .collect()
    }

    pub fn rated(&self, rating: Rating) -> u64 {
        let of_rating = self
            .totals()
            .filter(|total| Rating::from_total(*total) == rating);
        of_rating.map(|total| self.count(total)).sum()
    }

    fn at(&self, place: f64) -> Option<f64> {
        let mut before = 0;
        for (total, count) in self.pairs() {
            before += count;
            if place < before as f64 {
                return Some(total as f64);
            }
        }
        None
    }

    fn totals(&self) -> impl DoubleEndedIterator<Item = u8> + use<> {
        0..=100
    }

    fn count(&self, total: u8) -> u64 {
        self.counts.get(usize::from(total)).copied().unwrap_or(0)
    }

    fn pairs(&self) -> impl Iterator<Item = (u64, u64)> {
        (0..).zip(self.counts)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(totals: &[u8]) -> Histogram {
        let mut histogram = Histogram::default();
        for total in totals {
            histogram.add(*total, 1);
        }
        histogram
    }

    #[test]
    fn statistics_match_the_raw_scores() {
        let four = of(&[40, 10, 30, 20]);
        assert_eq!(four.scores(), 4);
        assert_eq!((four.mean(), four.median()), (Some(25.0), Some(25.0)));
        assert_eq!(
            (four.quantile(0.25), four.quantile(0.75)),
            (Some(17.5), Some(32.5))
        );
        assert_eq!((four.min(), four.max()), (Some(10), Some(40)));
        let sd = four.sd().unwrap();
        assert!((sd - 12.909_944_487).abs() < 1e-9, "{sd}");
        let mut many = Histogram::default();
        many.add(70, 1_000_000);
        assert_eq!((many.median(), many.sd()), (Some(70.0), Some(0.0)));
    }

    #[test]
    fn empty_histogram_has_no_statistics() {
        let none = Histogram::default();
        assert_eq!((none.mean(), none.median(), none.sd()), (None, None, None));
        assert_eq!((none.min(), none.max()), (None, None));
        assert_eq!((of(&[0]).median(), of(&[0]).sd()), (Some(0.0), None));
    }

    #[test]
    fn buckets_and_ratings_count_each_score_once() {
        let histogram = of(&[0, 9, 10, 44, 45, 89, 90, 99, 100]);
        let tens = histogram.buckets(10);
        assert_eq!(tens.len(), 10);
        assert_eq!((tens[0].from, tens[0].to, tens[0].scores), (0, 9, 2));
        assert_eq!((tens[9].from, tens[9].to, tens[9].scores), (90, 100, 3));
        let fives = histogram.buckets(5);
        assert_eq!((fives.len(), fives[19].from, fives[19].to), (20, 95, 100));
        for buckets in [tens, fives] {
            assert_eq!(buckets.iter().map(|bucket| bucket.scores).sum::<u64>(), 9);
        }
        assert_eq!(histogram.rated(Rating::Failed), 4);
        assert_eq!(histogram.rated(Rating::NearPerfect), 3);
    }

    proptest! {
        #[test]
        fn quantile_matches_sorted_list(mut totals in prop::collection::vec(0..=100_u8, 1..60), share in 0.0..=1.0_f64) {
            let found = of(&totals).quantile(share).unwrap();
            totals.sort_unstable();
            let rank = (totals.len() - 1) as f64 * share;
            let (low, high) = (totals[rank.floor() as usize], totals[rank.ceil() as usize]);
            let expected = f64::from(low) + (f64::from(high) - f64::from(low)) * rank.fract();
            prop_assert!((found - expected).abs() < 1e-9, "{} {}", found, expected);
        }
    }
}
