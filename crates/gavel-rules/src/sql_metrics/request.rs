//! Scores a metric case: at most one question, and a result that combines the enabled metrics.

use serde_json::{Map, Value, json};

use super::judge::Label;
use super::metric::{Cause, Outcome, caught, verdict};
use super::safety::SafetyOutcome;
use super::tables::expected_table;
use super::validation_accuracy::validation;
use super::{MetricsCase, judge};
use crate::opinion::JudgeOpinion;
use crate::similarity;
use crate::{Alert, JudgeAnswer, Limits, Nonce, Question};
use crate::{Criteria, Evaluation, JudgedBy, Scorable, Scorecard, Unscorable};
use query_shape::{QueryShape, TableName, sql};

impl MetricsCase {
    fn known_label(&self, expected: &str) -> Option<(Label, &'static str)> {
        if sql::is_nothing(&self.generated_sql, self.dialect) {
            return Some((Label::Wrong, "No SQL was generated"));
        }
        sql::are_identical(&self.generated_sql, expected, self.dialect)
            .then_some((Label::Correct, "Queries are identical"))
    }

    fn correctness(&self, expected: &str, answer: Option<&JudgeAnswer>) -> Outcome {
        if let Some((label, why)) = self.known_label(expected) {
            return Outcome::Scored(
                label.score(),
                json!({ "label": label, "reasoning": why, "judge": null }),
            );
        }
        match judge::FORM.judged(answer) {
            JudgeOpinion::NotRun => Outcome::NotRun,
            JudgeOpinion::Failed(error) => Outcome::Unjudged(error),
            JudgeOpinion::Replied {
                verdict,
                reasons,
                by,
            } => Outcome::Scored(
                verdict.score(),
                json!({ "label": verdict, "reasoning": reasons, "judge": by }),
            ),
        }
    }

    fn safety(&self, safety_valid: bool, should_pass: bool) -> Outcome {
        let outcome = SafetyOutcome::from_flags(safety_valid, should_pass);
        let (severity, message) = match outcome.alert() {
            None => (None, None),
            Some(Alert::Warning(message)) => (Some("warning"), Some(message)),
            Some(Alert::Error(message)) => (Some("error"), Some(message)),
        };
        let details = json!({ "outcome": outcome, "severity": severity, "message": message });
        Outcome::Scored(match_score(safety_valid, should_pass), details)
    }

    fn validation(&self, is_valid: bool, should_pass: bool) -> Outcome {
        let found = validation(is_valid, should_pass, &self.errors, self.safety_valid);
        Outcome::Scored(match_score(is_valid, should_pass), json!(found))
    }
}

/// 1 if the validator was right, 0 otherwise.
fn match_score(is_valid: bool, should_pass: bool) -> f64 {
    f64::from(u8::from(is_valid == should_pass))
}

fn tables(expected: &[String], shape: &Result<QueryShape, Cause>) -> Outcome {
    let found = shape.as_ref().map_err(Cause::clone);
    let found =
        found.and_then(|shape| sql::known_tables(shape).map_err(|error| Cause::of_sql(&error)));
    let found = match found {
        Ok(found) => found,
        Err(cause) => return Outcome::Failed(cause),
    };
    let expected: Vec<TableName> = expected.iter().map(|name| expected_table(name)).collect();
    let accuracy = similarity::tables(&expected, found);
    let details = json!({ "matched": accuracy.matched, "missing": accuracy.missing, "extra": accuracy.extra });
    Outcome::Scored(accuracy.score, details)
}

impl Scorable for MetricsCase {
    fn questions(
        &self,
        criteria: &Criteria,
        limits: &Limits,
        nonce: &Nonce,
    ) -> Result<Vec<Question>, Unscorable> {
        if !self.needs_judge() {
            return Ok(Vec::new());
        }
        judge::question_of(self, criteria, (limits, nonce)).map(|question| vec![question])
    }

    fn score(&self, _: &Criteria, answers: &[JudgeAnswer]) -> Scorecard {
        // Flags don't require the text to parse, because an injected fragment needs no valid grammar.
        let reads_sql = self.expected_sql.is_some() || self.expected_tables.is_some();
        let shape = reads_sql.then(|| {
            let parsed = caught(|| sql::parse(&self.generated_sql, self.dialect));
            parsed.and_then(|read| read.map_err(|error| Cause::of_sql(&error)))
        });
        let broken = shape.as_ref().and_then(|shape| shape.as_ref().err());
        let metrics = self.metrics(shape.as_ref(), answers.first());
        let outcomes: Vec<&Outcome> = metrics.iter().map(|metric| &metric.outcome).collect();
        let verdict = verdict(&outcomes, broken);
        let components: Vec<_> = metrics
            .iter()
            .map(|metric| (metric.name, metric.outcome.score()))
            .collect();
        let missing = components.iter().filter(|(_, score)| score.is_none());
        let missing: Vec<&str> = missing.map(|(name, _)| *name).collect();
        let is_whole = missing.is_empty();
        let shown = |it: &EnabledMetric| (it.name.to_owned(), it.outcome.shown(it.name, &it.input));
        let shown: Map<String, Value> = metrics.iter().map(shown).collect();
        let mut result = json!({
            "id": self.id,
            "total": verdict.total,
            "passed": verdict.passed,
            "status": if is_whole { "complete" } else { "incomplete" },
            "parse_error": broken.map(|cause| &cause.message),
            "metrics": shown,
        });
        if !is_whole {
            result["missing"] = json!(missing);
        }
        let unread = broken.map(|_| Alert::Warning("the generated SQL can't be read".to_owned()));
        let error = metrics.iter().find_map(|metric| match &metric.outcome {
            Outcome::Unjudged(error) => Some(error.clone()),
            Outcome::Scored(..) | Outcome::Failed(_) | Outcome::NotRun => None,
        });
        Scorecard::Evaluated(Box::new(Evaluation {
            // The result's total covers the remaining metrics, as the rules require. Averages and gates must not use
            // it.
            total: verdict.total.filter(|_| is_whole),
            passed: verdict.passed.filter(|_| is_whole),
            threshold: None,
            components,
            result,
            error,
            judged_by: answers
                .first()
                .and_then(|answer| answer.as_ref().ok())
                .map(JudgedBy::from),
            alerts: unread
                .into_iter()
                .chain(metrics.iter().filter_map(|it| it.outcome.alert(it.name)))
                .collect(),
        }))
    }

    fn needs_judge(&self) -> bool {
        self.expected_sql
            .as_deref()
            .is_some_and(|expected| self.known_label(expected).is_none())
    }
}

struct EnabledMetric {
    name: &'static str,
    input: Value,
    outcome: Outcome,
}

impl EnabledMetric {
    fn run(name: &'static str, input: Value, metric: impl FnOnce() -> Outcome) -> Self {
        Self {
            name,
            input,
            outcome: Outcome::catch_panic(metric),
        }
    }
}

impl MetricsCase {
    fn metrics(
        &self,
        shape: Option<&Result<QueryShape, Cause>>,
        answer: Option<&JudgeAnswer>,
    ) -> Vec<EnabledMetric> {
        let (sql, should_pass) = (&self.generated_sql, self.should_pass);
        let correctness = self.expected_sql.as_ref().map(|expected| {
            let input = json!({ "generated_sql": sql, "expected_sql": expected });
            let metric = || self.correctness(expected, answer);
            EnabledMetric::run("query_correctness", input, metric)
        });
        let accuracy = self.expected_tables.as_ref().zip(shape);
        let accuracy = accuracy.map(|(expected, shape)| {
            let input = json!({ "generated_sql": sql, "expected_tables": expected });
            EnabledMetric::run("table_accuracy", input, || tables(expected, shape))
        });
        let safety = self.safety_valid.zip(should_pass).map(|(valid, pass)| {
            let input = json!({ "safety_valid": valid, "should_pass": pass });
            EnabledMetric::run("safety_validation", input, || self.safety(valid, pass))
        });
        let validation = self.is_valid.zip(should_pass).map(|(valid, pass)| {
            let input = json!({ "is_valid": valid, "should_pass": pass, "errors": self.errors });
            EnabledMetric::run("validation_accuracy", input, || {
                self.validation(valid, pass)
            })
        });
        let metrics = [correctness, accuracy, safety, validation];
        metrics.into_iter().flatten().collect()
    }
}
