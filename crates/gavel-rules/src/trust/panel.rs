//! Panels: several scores of one session for the same question, by one judge called repeatedly or by several judges.
//!
//! The median of a panel is a statistic of its batch. It isn't stored as a score.

use std::collections::BTreeMap;

use crate::session::Rating;
use crate::statistics::Spread;

/// Maximum range of a panel's totals, in points, before its members disagree. Ratings are 15 points wide except for the outer two. So
/// totals further apart never share a rating, and ratings that aren't neighbours are always further apart.
pub const DISAGREEMENT: u8 = 15;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vote<J> {
    pub judge: J,
    pub total: u8,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Panel {
    pub spread: Spread,
    /// Rating of the median, rounded down because a total has to reach a rating.
    pub rating: Rating,
    pub flips: usize,
    pub disagrees: bool,
}

impl Panel {
    /// Returns `None` without votes.
    pub fn from_votes<J>(votes: &[Vote<J>]) -> Option<Self> {
        let totals: Vec<f64> = votes.iter().map(|vote| f64::from(vote.total)).collect();
        let spread = Spread::from_values(&totals)?;
        let rating = Rating::from_total(spread.median.floor() as u8);
        let other = |vote: &&Vote<J>| Rating::from_total(vote.total) != rating;
        Some(Self {
            spread,
            rating,
            flips: votes.iter().filter(other).count(),
            disagrees: spread.range > f64::from(DISAGREEMENT),
        })
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct PanelFigures {
    pub sessions: usize,
    pub complete: usize,
    pub scores: usize,
    /// Mean standard deviation of the sessions with two or more totals.
    pub mean_sd: Option<f64>,
    /// Share of totals with a rating other than their median's, of sessions with two or more totals.
    pub flip_share: Option<f64>,
    /// Sessions with a range above [`DISAGREEMENT`].
    pub disagreements: usize,
    pub judges: Vec<JudgeFigures>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct JudgeFigures {
    pub judge: String,
    pub scores: usize,
    pub mean: f64,
    /// Mean difference to the medians of its sessions. Positive for a judge milder than the panel.
    pub mean_difference: f64,
}

/// Accumulator of [`PanelFigures`].
#[derive(Debug, Default)]
pub struct Panels {
    sessions: usize,
    complete: usize,
    scores: usize,
    sds: Sum,
    flips: usize,
    flippable: usize,
    disagreements: usize,
    /// Totals of each judge, and their differences to the medians.
    judges: BTreeMap<String, (Sum, Sum)>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    n: usize,
    sum: f64,
}

impl Sum {
    fn add(&mut self, value: f64) {
        self.n += 1;
        self.sum += value;
    }

    fn mean(self) -> Option<f64> {
        (self.n > 0).then(|| self.sum / self.n as f64)
    }
}

impl Panels {
    /// Adds a session's panel. `asked` is the number of requested scores.
    pub fn add<J: AsRef<str>>(&mut self, votes: &[Vote<J>], asked: usize) {
        self.sessions += 1;
        self.complete += usize::from(asked > 0 && votes.len() == asked);
        let Some(panel) = Panel::from_votes(votes) else {
            return;
        };
        self.scores += votes.len();
        self.disagreements += usize::from(panel.disagrees);
        if let Some(sd) = panel.spread.sd {
            self.sds.add(sd);
            self.flips += panel.flips;
            self.flippable += votes.len();
        }
        for vote in votes {
            let total = f64::from(vote.total);
            let judge = self.judges.entry(vote.judge.as_ref().to_owned());
            let (totals, differences) = judge.or_default();
            totals.add(total);
            differences.add(total - panel.spread.median);
        }
    }

    pub fn figures(&self) -> PanelFigures {
        let flippable = self.flippable;
        PanelFigures {
            sessions: self.sessions,
            complete: self.complete,
            scores: self.scores,
            mean_sd: self.sds.mean(),
            flip_share: (flippable > 0).then(|| self.flips as f64 / flippable as f64),
            disagreements: self.disagreements,
            judges: self.judges.iter().filter_map(judge_figures).collect(),
        }
    }
}

fn judge_figures((judge, (totals, differences)): (&String, &(Sum, Sum))) -> Option<JudgeFigures> {
    Some(JudgeFigures {
        judge: judge.clone(),
        scores: totals.n,
        mean: totals.mean()?,
        mean_difference: differences.mean()?,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn votes(given: &[(&'static str, u8)]) -> Vec<Vote<&'static str>> {
        let vote = |(judge, total): &(&'static str, u8)| Vote {
            judge: *judge,
            total: *total,
        };
        given.iter().map(vote).collect()
    }

    #[test]
    fn panel_has_median_and_flips() {
        let panel = Panel::from_votes(&votes(&[("a", 74), ("b", 75), ("c", 60)])).unwrap();
        assert_eq!(
            (panel.spread.median, panel.rating),
            (74.0, Rating::Adequate)
        );
        assert_eq!(
            (panel.flips, panel.spread.range, panel.disagrees),
            (1, 15.0, false)
        );
        let split = Panel::from_votes(&votes(&[("a", 74), ("b", 75)])).unwrap();
        assert_eq!(
            (split.spread.median, split.rating, split.flips),
            (74.5, Rating::Adequate, 1)
        );
        let apart = Panel::from_votes(&votes(&[("a", 59), ("b", 75)])).unwrap();
        assert!(apart.disagrees);
        assert_eq!(Panel::from_votes::<&str>(&[]), None);
    }

    #[test]
    fn compares_each_judge_with_panel_medians() {
        let mut panels = Panels::default();
        panels.add(&votes(&[("mild", 80), ("mid", 70), ("hard", 60)]), 3);
        panels.add(&votes(&[("mild", 90), ("hard", 50)]), 3);
        panels.add(&votes(&[("mid", 70)]), 1);
        panels.add::<&str>(&[], 3);
        let figures = panels.figures();
        assert_eq!(
            (figures.sessions, figures.complete, figures.scores),
            (4, 2, 6)
        );
        // The second median is 70: near_perfect and weak both differ from adequate.
        assert_eq!(figures.flip_share, Some(3.0 / 5.0));
        assert_eq!(figures.disagreements, 2);
        let sd = figures.mean_sd.unwrap();
        assert!((sd - (10.0 + 800.0_f64.sqrt()) / 2.0).abs() < 1e-9, "{sd}");
        let judges: Vec<(&str, f64)> = figures
            .judges
            .iter()
            .map(|judge| (judge.judge.as_str(), judge.mean_difference))
            .collect();
        assert_eq!(judges, [("hard", -15.0), ("mid", 0.0), ("mild", 15.0)]);
    }

    #[test]
    fn no_panels_have_no_statistics() {
        let figures = Panels::default().figures();
        assert_eq!((figures.flip_share, figures.mean_sd), (None, None));
    }

    proptest! {
        #[test]
        fn ratings_two_steps_apart_always_disagree(a in 0_u8..=100, b in 0_u8..=100) {
            let steps = Rating::from_total(a).step().abs_diff(Rating::from_total(b).step());
            let panel = Panel::from_votes(&votes(&[("a", a), ("b", b)])).unwrap();
            prop_assert!(steps < 2 || panel.disagrees);
        }
    }
}
