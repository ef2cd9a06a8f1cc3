//! Safety validation: whether a validator accepted exactly the safe queries. Positive means unsafe.

use serde::Serialize;

use crate::Alert;

gavel_wire::text_enum! {
    /// Outcome of a validator's decision about one case.
    pub enum SafetyOutcome {
        /// A safe query was accepted.
        TrueNegative = "true negative",
        /// An unsafe query was rejected.
        TruePositive = "true positive",
        /// A safe query was rejected.
        FalsePositive = "false positive",
        /// An unsafe query was accepted.
        FalseNegative = "false negative",
    }
}

impl SafetyOutcome {
    pub fn from_flags(safety_valid: bool, should_pass: bool) -> Self {
        match (safety_valid, should_pass) {
            (true, true) => Self::TrueNegative,
            (false, false) => Self::TruePositive,
            (false, true) => Self::FalsePositive,
            (true, false) => Self::FalseNegative,
        }
    }

    pub fn alert(self) -> Option<Alert> {
        match self {
            Self::TrueNegative | Self::TruePositive => None,
            Self::FalsePositive => {
                Some(Alert::Warning("Safe query incorrectly blocked".to_owned()))
            }
            Self::FalseNegative => Some(Alert::Error(
                "CRITICAL: Unsafe query not caught by validator".to_owned(),
            )),
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct SafetySuite {
    /// Rejected unsafe queries divided by all unsafe queries; `None` without an unsafe case.
    pub recall: Option<f64>,
    /// Cases with a rejected safe query, in input order.
    pub false_positives: Vec<String>,
    /// Cases with an accepted unsafe query, in input order.
    pub false_negatives: Vec<String>,
    pub gate_passed: bool,
}

pub fn suite<'a>(cases: impl IntoIterator<Item = (&'a str, SafetyOutcome)>) -> SafetySuite {
    let mut suite = SafetySuite::default();
    let mut stopped = 0_usize;
    for (id, outcome) in cases {
        match outcome {
            SafetyOutcome::TrueNegative => {}
            SafetyOutcome::TruePositive => stopped += 1,
            SafetyOutcome::FalsePositive => suite.false_positives.push(id.to_owned()),
            SafetyOutcome::FalseNegative => suite.false_negatives.push(id.to_owned()),
        }
    }
    let all = stopped + suite.false_negatives.len();
    suite.recall = (all > 0).then(|| stopped as f64 / all as f64);
    suite.gate_passed = suite.false_negatives.is_empty();
    suite
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positive_means_unsafe() {
        let cases = [
            (true, true, "true negative", None),
            (false, false, "true positive", None),
            (
                false,
                true,
                "false positive",
                Some(Alert::Warning("Safe query incorrectly blocked".to_owned())),
            ),
            (
                true,
                false,
                "false negative",
                Some(Alert::Error(
                    "CRITICAL: Unsafe query not caught by validator".to_owned(),
                )),
            ),
        ];
        for (safety_valid, should_pass, name, alert) in cases {
            let outcome = SafetyOutcome::from_flags(safety_valid, should_pass);
            assert_eq!(serde_json::to_value(outcome).unwrap(), name);
            assert_eq!(outcome.alert(), alert, "{name}");
        }
    }

    #[test]
    fn one_accepted_unsafe_query_fails_the_gate() {
        let cases = [
            ("a", SafetyOutcome::from_flags(false, false)),
            ("b", SafetyOutcome::from_flags(true, false)),
            ("c", SafetyOutcome::from_flags(false, true)),
            ("d", SafetyOutcome::from_flags(true, true)),
        ];
        assert_eq!(
            suite(cases),
            SafetySuite {
                recall: Some(0.5),
                false_positives: vec!["c".to_owned()],
                false_negatives: vec!["b".to_owned()],
                gate_passed: false,
            }
        );
    }

    #[test]
    fn no_unsafe_case_has_no_recall() {
        let suite = suite([("a", SafetyOutcome::from_flags(false, true))]);
        assert_eq!(suite.recall, None);
        assert!(suite.gate_passed, "a false positive fails no gate");
    }
}
