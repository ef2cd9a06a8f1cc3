//! Analytics of current scores: totals, trends, missing tools. If real judges scored any session, simulated scores are
//! excluded. If there are only simulated scores, the response is marked.

pub(crate) mod costs;
pub(crate) mod distribution;
pub(crate) mod exports;
pub(crate) mod groups;
pub(crate) mod latency;
pub(crate) mod names;
pub(crate) mod score_tools;
pub(crate) mod trend;

use std::collections::BTreeSet;

use crate::api::ApiState;
use crate::api::criteria::named::whole;
use crate::api::http::problem::ApiError;
use crate::store::{MadeBy, ScoreFilter, TotalCount};
use crate::wire::ScoreSelection;
use crate::wire::words::counted;

/// Below this number of scores, statistics aren't reliable.
const FEW: u64 = 20;

/// Returns the filter, with the full hash of the criteria. `unnamed` are the default criteria; `None`: any.
pub(crate) async fn filter(
    state: &ApiState,
    selection: ScoreSelection,
    unnamed: Option<&str>,
) -> Result<ScoreFilter, ApiError> {
    let criteria = selection.criteria.or(unnamed.map(str::to_owned));
    Ok(ScoreFilter {
        criteria_hash: match criteria.filter(|text| text != "any") {
            Some(text) => Some(whole(state, "/criteria", text).await?),
            None => None,
        },
        from: selection.from,
        to: selection.to,
    })
}

/// Included scores.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Counted {
    /// Real scores, else simulated ones.
    made_by: MadeBy,
    scores: u64,
    /// Number of excluded simulated scores.
    left_out: u64,
    criteria: usize,
}

impl Counted {
    fn from_totals(totals: &[TotalCount]) -> Self {
        let sum = |made_by: MadeBy| -> u64 {
            let of = totals.iter().filter(|count| count.made_by == made_by);
            of.map(|count| count.scores).sum()
        };
        let (real, simulated) = (sum(MadeBy::Judge), sum(MadeBy::Simulated));
        let (made_by, scores, left_out) = match (real, simulated) {
            (0, 1..) => (MadeBy::Simulated, simulated, 0),
            (real, simulated) => (MadeBy::Judge, real, simulated),
        };
        let counted = totals.iter().filter(|count| count.made_by == made_by);
        let criteria: BTreeSet<&str> = counted.map(|count| count.criteria_hash.as_str()).collect();
        Self {
            made_by,
            scores,
            left_out,
            criteria: criteria.len(),
        }
    }

    fn is_simulated(&self) -> bool {
        self.made_by == MadeBy::Simulated
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.scores < FEW {
            warnings.push(format!(
                "{}: fewer than {FEW} give no reliable result",
                counted(self.scores, "score")
            ));
        }
        if self.is_simulated() {
            warnings.push("all scores are from a simulated judge".to_owned());
        }
        if self.left_out > 0 {
            warnings.push(format!(
                "excluded: {} of a simulated judge",
                counted(self.left_out, "score")
            ));
        }
        warnings
    }

    /// Returns a warning if the scores have several criteria.
    fn mixed_criteria_warning(&self) -> Option<String> {
        (self.criteria > 1).then(|| {
            format!(
                "scores of {} criteria are mixed; name one to compare like with like",
                self.criteria
            )
        })
    }
}

/// Returns `part` / `whole`. `None` if `whole` is 0.
#[expect(
    clippy::cast_precision_loss,
    reason = "counts of sessions are far below 2^52"
)]
fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(made_by: MadeBy, criteria: &str, scores: u64) -> TotalCount {
        TotalCount {
            criteria_hash: criteria.to_owned(),
            day: None,
            made_by,
            total: 70,
            scores,
        }
    }

    #[test]
    fn simulated_scores_count_only_without_real_ones() {
        let simulated = || count(MadeBy::Simulated, "b", 30);
        let mixed = Counted::from_totals(&[count(MadeBy::Judge, "a", 25), simulated()]);
        assert_eq!(
            (mixed.scores, mixed.left_out, mixed.is_simulated()),
            (25, 30, false)
        );
        assert_eq!((mixed.warnings().len(), mixed.criteria), (1, 1));
        let only = Counted::from_totals(&[simulated()]);
        assert_eq!(
            (only.scores, only.left_out, only.is_simulated()),
            (30, 0, true)
        );
        assert!(only.warnings()[0].contains("simulated"), "{only:?}");
        let none = Counted::from_totals(&[]);
        assert_eq!((none.scores, none.is_simulated()), (0, false));
        assert!(none.warnings()[0].starts_with("0 scores"), "{none:?}");
    }

    #[test]
    fn warns_of_several_criteria() {
        let both = [count(MadeBy::Judge, "a", 25), count(MadeBy::Judge, "b", 25)];
        let said = Counted::from_totals(&both)
            .mixed_criteria_warning()
            .unwrap();
        assert!(said.contains("2 criteria"), "{said}");
        assert_eq!(
            Counted::from_totals(&both[..1]).mixed_criteria_warning(),
            None
        );
    }
}
