//! Calibration: whether the stated confidence of a suite's cases matches the share of right ones. With too few cases there is a text
//! instead of a chart.

use axum::Json;
use chrono::{DateTime, Utc};

use super::super::batches::BatchView as _;
use super::super::chart::{Chart, Promise, reliability};
use super::super::page::PageError;
use super::super::state::PageState;
use super::super::user::SessionUser;
use super::super::words;
use crate::api::batches::calibration::get_batch_calibration;
use crate::api::batches::{self, BatchesQuery};
use crate::api::{Path, Query, typed};
use crate::job::Kind;
use crate::wire::{Batch, BatchCalibration, Batches, CalibrationGroup, PageQuery};

const SUITES: u32 = 20;

pub(super) struct Suite {
    pub(super) id: String,
    pub(super) text: String,
    pub(super) chosen: bool,
}

pub(super) struct CalibrationSection {
    /// Suites with a confidence, newest first.
    pub(super) suites: Vec<Suite>,
    /// `None` if there are too few cases.
    pub(super) chart: Option<Chart>,
    /// Text next to the chart or instead of it.
    pub(super) summary: String,
    pub(super) warnings: Vec<String>,
}

impl CalibrationSection {
    pub(super) async fn read(
        state: &PageState,
        user: &SessionUser,
        chosen: &str,
    ) -> Result<Self, PageError> {
        let api = state.api(user)?;
        let asked = BatchesQuery {
            kind: Some(Kind::SqlMetrics),
            ..BatchesQuery::default()
        };
        let asked = Query((asked, PageQuery::first(SUITES)));
        let Json(newest) = batches::list_batches(api.clone(), asked).await?;
        let now = state.about.clock.now();
        let mut suites = suites(newest, now);
        let id = match (chosen, suites.first()) {
            ("", None) => return Ok(Self::nothing(suites)),
            ("", Some(first)) => first.id.clone(),
            (named, _) => named.to_owned(),
        };
        let id = Path(typed("suite", id.into())?);
        let Json(answer) = get_batch_calibration(api, id).await?;
        let id = answer.batch_id.to_string();
        if !suites.iter().any(|suite| suite.id == id) {
            suites.push(Suite {
                text: "The batch of the address".to_owned(),
                id: id.clone(),
                chosen: false,
            });
        }
        for suite in &mut suites {
            suite.chosen = suite.id == id;
        }
        Ok(Self::new(suites, answer))
    }

    fn nothing(suites: Vec<Suite>) -> Self {
        Self {
            suites,
            chart: None,
            summary: "No suite of SQL metrics is stored. Upload one with a confidence and an expected query in its cases."
                .to_owned(),
            warnings: Vec::new(),
        }
    }

    fn new(suites: Vec<Suite>, answer: BatchCalibration) -> Self {
        let BatchCalibration {
            looked_at,
            simulated,
            calibration: answer,
            ..
        } = answer;
        let count = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        let cases = words::counted(count(answer.n), "case");
        let levels: Vec<Promise> = answer.groups.iter().filter_map(promise).collect();
        let Some(score) = answer.score else {
            let summary = format!(
                "{cases}, and {} without a confidence or a valid correctness. The chart needs at least 20 cases.",
                words::counted(count(answer.left_out), "item")
            );
            return Self {
                suites,
                chart: None,
                summary,
                warnings: Vec::new(),
            };
        };
        let meaning = answer.interpretation.unwrap_or_default();
        let graded = if simulated {
            ", graded by a simulated judge"
        } else {
            ""
        };
        let summary = format!(
            "Score {score:.2}: {}{}. {cases}{graded}; the dashed line marks perfect calibration.",
            meaning.get(..1).unwrap_or_default().to_lowercase(),
            meaning.get(1..).unwrap_or_default(),
        );
        let two = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |v| format!("{v:.2}"));
        Self {
            suites,
            chart: Some(reliability(
                "Calibration: confidence and correctness",
                summary,
                &levels,
            )),
            summary: format!(
                "{} of {} without a confidence or a correctness that counts. Expected calibration error {}, Brier score {}.",
                words::count_of(answer.left_out),
                words::counted(looked_at, "item"),
                two(answer.ece),
                two(answer.brier)
            ),
            warnings: answer.warnings,
        }
    }
}

/// Converts a level. `None` if it has no cases.
fn promise(group: &CalibrationGroup) -> Option<Promise> {
    Some(Promise {
        name: group.confidence.as_str().to_owned(),
        promised: group.target,
        kept: group.accuracy?,
        interval: group.interval?,
        cases: group.n,
    })
}

fn suites(newest: Batches, now: DateTime<Utc>) -> Vec<Suite> {
    let suite = |batch: Batch| Suite {
        text: format!(
            "{} · {} · {}",
            batch.title(),
            batch.done(),
            words::timestamp(batch.times.created_at, now).ago
        ),
        id: batch.batch_id.to_string(),
        chosen: false,
    };
    newest.items.into_iter().map(suite).collect()
}

#[cfg(test)]
mod tests {
    use askama::Template as _;
    use serde_json::{Value, json};

    use super::*;

    fn answer(score: Option<f64>, n: i64) -> CalibrationSection {
        let group = |confidence: &str, n: i64, target: f64, accuracy: Value| {
            let interval = accuracy.as_f64().map(|a| [a - 0.1, a + 0.1]);
            json!({"confidence": confidence, "n": n, "target": target, "accuracy": accuracy, "interval": interval})
        };
        let targets = json!({"high": 0.95, "medium": 0.75, "low": 0.45});
        let answer = json!({"batch_id": uuid::Uuid::nil(), "items": n + 3, "looked_at": n + 3, "targets": targets, "factor": 3.0, "simulated": false, "score": score,
            "interpretation": score.map(|_| "Confidence levels accurately predict correctness"),
            "warnings": ["w"], "n": n, "left_out": 3, "ece": 0.04, "brier": 0.1, "groups": [
                group("high", n, 0.95, json!(0.9)), group("medium", 0, 0.75, Value::Null)]});
        CalibrationSection::new(Vec::new(), serde_json::from_value(answer).unwrap())
    }

    #[test]
    fn levels_without_cases_are_omitted() {
        let drawn = answer(Some(0.917), 45);
        let page = drawn.chart.unwrap().render().unwrap();
        for part in [
            "Score 0.92: confidence levels accurately predict correctness. 45 cases;",
            "<td>high</td>",
            "<td>90%</td>",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(!page.contains("medium"), "{page}");
        assert!(
            drawn.summary.contains("error 0.04, Brier score 0.10"),
            "{}",
            drawn.summary
        );
        assert_eq!(drawn.warnings, ["w"]);
    }

    #[test]
    fn too_few_cases_give_text_instead_of_a_chart() {
        let few = answer(None, 19);
        assert!(few.chart.is_none());
        assert!(
            few.summary.starts_with("19 cases, and 3 items without"),
            "{}",
            few.summary
        );
    }
}
