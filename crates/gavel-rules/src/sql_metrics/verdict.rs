#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Metric {
    /// Score from 0 to 1.
    Scored(f64),
    /// The metric failed: displayed as 0.0, but excluded from the mean.
    Failed,
    /// The judge failed, so that the score is missing.
    Unjudged,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Verdict {
    /// Mean of the scores; `None` without a score, or if the judge failed.
    pub total: Option<f64>,
    /// Whether every metric is 1.0; `None` if that depends on a judge that failed, or if no metric is enabled.
    pub passed: Option<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generated {
    /// Parses, or no metric needs it to.
    Parses,
    Broken,
}

pub fn verdict(metrics: &[Metric], generated: Generated) -> Verdict {
    let mut scores = Vec::with_capacity(metrics.len());
    let mut fails = generated == Generated::Broken;
    let mut is_unjudged = false;
    for metric in metrics {
        match metric {
            Metric::Scored(score) => {
                // Written so that NaN also fails.
                fails |= !matches!(score.partial_cmp(&1.0), Some(order) if order.is_ge());
                scores.push(*score);
            }
            Metric::Failed => fails = true,
            Metric::Unjudged => is_unjudged = true,
        }
    }
    let mean = || scores.iter().sum::<f64>() / scores.len() as f64;
    Verdict {
        total: (!scores.is_empty() && !is_unjudged).then(mean),
        passed: if fails {
            Some(false)
        } else if is_unjudged || metrics.is_empty() {
            None
        } else {
            Some(true)
        },
    }
}

#[cfg(test)]
mod tests {
    use super::Generated::{Broken, Parses};
    use super::Metric::{Failed, Scored, Unjudged};
    use super::*;

    /// Metrics, generated query, expected total, expected pass.
    type Case = (&'static [Metric], Generated, Option<f64>, Option<bool>);

    #[test]
    fn case_passes_only_if_every_metric_is_1() {
        let cases: &[Case] = &[
            (&[Scored(1.0), Scored(1.0)], Parses, Some(1.0), Some(true)),
            (&[Scored(1.0), Scored(0.5)], Parses, Some(0.75), Some(false)),
            (&[Scored(1.0)], Broken, Some(1.0), Some(false)),
            (&[Scored(1.0), Failed], Parses, Some(1.0), Some(false)),
            (&[Unjudged, Scored(1.0)], Parses, None, None),
            (&[Unjudged, Scored(0.5)], Parses, None, Some(false)),
            (&[Unjudged, Scored(1.0)], Broken, None, Some(false)),
            (&[Unjudged, Failed], Parses, None, Some(false)),
            (&[Failed], Parses, None, Some(false)),
            (&[Scored(f64::NAN)], Broken, None, Some(false)),
            (&[], Parses, None, None),
            (&[], Broken, None, Some(false)),
        ];
        for (metrics, generated, total, passed) in cases {
            let verdict = verdict(metrics, *generated);
            let found = verdict.total.filter(|total| !total.is_nan());
            assert_eq!(
                (found, verdict.passed),
                (*total, *passed),
                "{metrics:?} {generated:?}"
            );
        }
    }
}
