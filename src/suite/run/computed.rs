//! Scores without a judge: computes the metrics that need none. Needs no service, database or network.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use chrono::SecondsFormat;

use super::{CaseToScore, Scorer, Stopped};
use crate::clock::Clock;
use crate::report::{Item, ItemError, Outcome};
use crate::score::{
    Alert, Criteria, Fault, Scorable, Scorecard, read_case, score_unasked, stamp_errors,
};

#[derive(Clone)]
pub struct Computed {
    criteria: Arc<Criteria>,
    clock: Arc<dyn Clock>,
    error: ItemError,
    /// `false` (`--no-judge`): the judge's part is marked as not run. `true` (no judge is configured): as failed.
    is_judge_wanted: bool,
}

impl Computed {
    /// Returns a scorer without a judge. Items with a judge's part get `error`.
    pub fn new(criteria: Arc<Criteria>, clock: Arc<dyn Clock>, error: ItemError) -> Self {
        Self {
            criteria,
            clock,
            error,
            is_judge_wanted: false,
        }
    }

    /// Returns a scorer for a requested but unconfigured judge. `error` is set in the item and in its result.
    pub fn because(&self, error: ItemError) -> Self {
        Self {
            error,
            is_judge_wanted: true,
            ..self.clone()
        }
    }

    fn scored(&self, scorable: &dyn Scorable) -> Scorecard {
        match self.is_judge_wanted {
            false => scorable.score(&self.criteria, &[]),
            true => {
                let (class, message) = (&self.error.class, &self.error.message);
                score_unasked(scorable, &self.criteria, (class, message))
            }
        }
    }

    fn stamped(&self, mut result: Value) -> Value {
        let now = self.clock.now();
        let now = now.to_rfc3339_opts(SecondsFormat::Micros, true);
        stamp_errors(&mut result, &now);
        result
    }

    fn item(&self, case: CaseToScore) -> Item {
        let read = read_case(case.kind, &case.payload);
        let needs_judge = read.as_ref().is_ok_and(|case| case.needs_judge());
        let scored = read.map(|read| self.scored(&*read));
        match scored {
            Ok(Scorecard::Evaluated(evaluation)) => {
                for alert in &evaluation.alerts {
                    let (item_no, kind) = (case.item_no, case.kind);
                    match alert {
                        Alert::Warning(said) => tracing::warn!(item_no, %kind, "{said}"),
                        Alert::Error(said) => tracing::error!(item_no, %kind, "{said}"),
                    }
                }
                let outcome = Outcome::from_total(evaluation.total);
                let lacks_judge = needs_judge && outcome != Outcome::Scored;
                Item {
                    total: evaluation.total,
                    passed: evaluation.passed,
                    outcome,
                    error: lacks_judge.then(|| self.error.clone()),
                    result: Some(self.stamped(evaluation.result))
                        .filter(|result| *result != Value::Null),
                    ..case.unscored()
                }
            }
            Ok(Scorecard::Unscored(_) | Scorecard::Session(_)) => Item {
                error: Some(self.error.clone()),
                ..case.unscored()
            },
            Err(faults) => case.failed("bad_input", Fault::in_words(&faults)),
        }
    }
}

#[async_trait(?Send)]
impl Scorer for Computed {
    async fn score(&self, case: CaseToScore) -> Result<Item, Stopped> {
        // Comparing two large results can need seconds.
        let this = self.clone();
        tokio::task::spawn_blocking(move || this.item(case))
            .await
            .map_err(|error| Stopped::Down(format!("scoring a case broke off: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::clock::SystemClock;
    use crate::job::Kind;

    fn item(kind: Kind, payload: Value, is_judge_wanted: bool) -> Item {
        let definition = json!({
            "kind": "query", "scoring": {"llm_provider": "judge"},
            "judge_prompt": "Grade. {{QUESTION}} {{EXPECTED_QUERY}} {{GENERATED_QUERY}} {{OUTPUT_SCHEMA}}",
        });
        let criteria = Arc::new(Criteria::from_value(&definition).unwrap());
        let error = |class: &str| ItemError {
            class: class.to_owned(),
            message: "because".to_owned(),
        };
        let computed = Computed::new(criteria, Arc::new(SystemClock), error("not_run"));
        let computed = match is_judge_wanted {
            false => computed,
            true => computed.because(error("wait_expired")),
        };
        computed.item(CaseToScore {
            item_no: 0,
            kind,
            id: None,
            payload,
            attempt: 0,
        })
    }
    /// Case with a judge's part.
    struct Doubtful {
        kind: Kind,
        payload: Value,
        /// Pointer to the reason in its result.
        told_at: &'static str,
        /// Field and value that make another part missing.
        miss: (&'static str, Value),
    }

    fn doubtful() -> [Doubtful; 3] {
        let sql = json!({"generated_sql": "select a from t", "expected_sql": "select b from t"});
        let mut question = sql.clone();
        question["question"] = json!("How many?");
        question["expected_answer_type"] = json!("number");
        [
            Doubtful {
                kind: Kind::Query,
                payload: json!({"generated_kql": "T | where a == 1", "expected_kql": "T | where a == 2"}),
                told_at: "/components/llm_grading/error/class",
                miss: ("generated_error", json!("no such table")),
            },
            Doubtful {
                kind: Kind::Qas,
                payload: question,
                told_at: "/breakdown/semantic_explanation",
                miss: ("success", json!(false)),
            },
            Doubtful {
                kind: Kind::SqlMetrics,
                payload: sql,
                told_at: "/metrics/query_correctness/error/class",
                miss: ("expected_tables", json!(["u"])),
            },
        ]
    }

    #[test]
    fn missing_judge_error_is_in_item_and_result() {
        for case in doubtful() {
            let item = item(case.kind, case.payload, true);
            assert_eq!(item.error.unwrap().class, "wait_expired", "{}", case.kind);
            let result = item.result.unwrap();
            let text = result.to_string();
            assert!(
                !text.contains("not_run") && !text.contains("transient"),
                "{text}"
            );
            let told = result.pointer(case.told_at);
            let told = told.and_then(Value::as_str).unwrap();
            assert!(told.contains("wait_expired"), "{told}");
        }
    }

    #[test]
    fn unrequested_judge_is_not_run() {
        for case in doubtful() {
            let item = item(case.kind, case.payload, false);
            assert_eq!(item.error.unwrap().class, "not_run", "{}", case.kind);
            let text = item.result.unwrap().to_string();
            assert!(text.contains("not_run"), "{text}");
        }
    }

    #[test]
    fn missing_part_prevents_score() {
        for mut case in doubtful() {
            let (field, value) = case.miss;
            case.payload[field] = value;
            for is_judge_wanted in [false, true] {
                let item = item(case.kind, case.payload.clone(), is_judge_wanted);
                assert_eq!(
                    (item.outcome, item.total, item.passed),
                    (Outcome::Incomplete, None, None),
                    "{} {is_judge_wanted}",
                    case.kind
                );
            }
        }
        let unread = json!({"generated_sql": "SELEC", "expected_tables": ["a"]});
        let item = item(Kind::SqlMetrics, unread, false);
        assert_eq!((item.outcome, item.error), (Outcome::Incomplete, None));
    }

    #[test]
    fn metric_errors_have_time_without_judge() {
        let payload = json!({"generated_sql": "SELEC", "expected_tables": []});
        let result = item(Kind::SqlMetrics, payload, false).result.unwrap();
        let at = result["metrics"]["table_accuracy"]["error"]["at"]
            .as_str()
            .unwrap();
        assert!(chrono::DateTime::parse_from_rfc3339(at).is_ok(), "{at}");
    }
}
