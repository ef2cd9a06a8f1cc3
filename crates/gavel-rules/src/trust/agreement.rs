//! Agreement between human reviewers and the judge, raw and beyond chance.

use super::Given;
use crate::statistics::{Confusion, Weights};
use gavel_wire::{Kappa, Quality, Rating, Scale, WordTable};

/// Number of times that reviewers gave this rating to items with this total.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RatedTotal {
    pub given: Given,
    /// Gavel's total, 0-100.
    pub ours: u8,
    pub n: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Compared {
    pub scale: Scale,
    pub n: u64,
    pub raw: Option<f64>,
    /// Kappa with quadratic weights; `None` if undefined.
    pub kappa_quadratic: Option<Kappa>,
    /// Confusion matrix: rows are reviewers' labels, columns Gavel's.
    pub confusion: WordTable,
    /// Mean absolute difference in points between reviewers' totals and Gavel's; `None` without totals of reviewers.
    pub mean_absolute_difference: Option<f64>,
    /// Mean of Gavel's total minus the reviewer's, in points. Positive and negative differences cancel out.
    pub mean_difference: Option<f64>,
}

/// Compares reviews with Gavel's totals on each scale in use: the five ratings (totals are converted to ratings), and the three quality
/// labels.
pub fn agreement(judged: &[RatedTotal]) -> Vec<Compared> {
    let mut ratings: Confusion<5> = Confusion::default();
    let mut quality: Confusion<3> = Confusion::default();
    let (mut totals, mut absolute, mut signed) = (0_u64, 0.0, 0.0);
    for RatedTotal { given, ours, n } in judged {
        match given {
            Given::Total(total) => {
                let difference = f64::from(*ours) - f64::from(*total);
                totals += n;
                absolute += difference.abs() * *n as f64;
                signed += difference * *n as f64;
                ratings.add(
                    Rating::from_total(*total).step(),
                    Rating::from_total(*ours).step(),
                    *n,
                );
            }
            Given::Rating(word) => ratings.add(word.step(), Rating::from_total(*ours).step(), *n),
            Given::Quality(word) => quality.add(word.step(), Quality::from_total(*ours).step(), *n),
        }
    }
    let per_total = |sum: f64| (totals > 0).then(|| sum / totals as f64);
    let on_ratings = Compared {
        mean_absolute_difference: per_total(absolute),
        mean_difference: per_total(signed),
        ..on_scale(
            Scale::Ratings,
            &ratings,
            Rating::ALL.iter().map(|word| word.as_str()),
        )
    };
    let on_quality = on_scale(
        Scale::Quality,
        &quality,
        Quality::ALL.iter().map(|word| word.as_str()),
    );
    let both = [on_ratings, on_quality];
    both.into_iter().filter(|found| found.n > 0).collect()
}

fn on_scale<const K: usize>(
    scale: Scale,
    confusion: &Confusion<K>,
    labels: impl Iterator<Item = &'static str>,
) -> Compared {
    Compared {
        scale,
        n: confusion.n(),
        raw: confusion.raw_agreement(),
        kappa_quadratic: confusion.kappa(Weights::Quadratic),
        confusion: WordTable {
            labels: labels.map(str::to_owned).collect(),
            table: confusion.rows().map(|row| row.to_vec()).to_vec(),
        },
        mean_absolute_difference: None,
        mean_difference: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(given: Given, ours: u8, n: u64) -> RatedTotal {
        RatedTotal { given, ours, n }
    }

    #[test]
    fn reviews_are_compared_on_their_own_scale() {
        let found = agreement(&[
            judged(Given::Total(80), 70, 2),
            judged(Given::Total(50), 55, 1),
            judged(Given::Rating(Rating::Good), 76, 1),
            judged(Given::Quality(Quality::Accurate), 74, 3),
            judged(Given::Quality(Quality::Inaccurate), 44, 5),
        ]);
        let [ratings, quality] = found.as_slice() else {
            panic!("both scales were used: {found:?}");
        };
        assert_eq!(
            (ratings.scale, ratings.n, ratings.raw),
            (Scale::Ratings, 4, Some(0.5))
        );
        assert_eq!(ratings.confusion.labels[3], "good");
        assert_eq!(
            (
                ratings.confusion.table[3][2],
                ratings.confusion.table[3][3],
                ratings.confusion.table[1][1]
            ),
            (2, 1, 1)
        );
        assert_eq!(ratings.mean_absolute_difference, Some(25.0 / 3.0));
        assert_eq!(ratings.mean_difference, Some(-5.0));
        assert_eq!(
            (quality.scale, quality.n, quality.raw),
            (Scale::Quality, 8, Some(0.625))
        );
        assert_eq!(
            (quality.confusion.table[2][1], quality.confusion.table[0][0]),
            (3, 5)
        );
        assert_eq!(quality.mean_absolute_difference, None);
        assert!(quality.kappa_quadratic.is_some());
    }

    #[test]
    fn unused_scale_is_omitted() {
        assert!(agreement(&[]).is_empty());
        let found = agreement(&[judged(Given::Quality(Quality::Accurate), 90, 4)]);
        assert_eq!((found.len(), found[0].scale), (1, Scale::Quality));
        assert_eq!((found[0].raw, found[0].kappa_quadratic), (Some(1.0), None));
    }
}
